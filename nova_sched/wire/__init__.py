"""Nova's dictionaries on one side, the model on the other: pure functions, no clock, no I/O.

``inbound`` turns what arrives into one frozen request, ``outbound`` turns outcomes into message bodies.
"""

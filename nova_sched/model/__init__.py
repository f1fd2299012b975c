"""Frozen values that every room of the house speaks in. No NumPy, no oslo, no I/O."""

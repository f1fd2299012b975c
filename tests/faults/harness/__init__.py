"""A private cloud that is broken on purpose, a history of what was seen of it, and a checker that knows only these."""

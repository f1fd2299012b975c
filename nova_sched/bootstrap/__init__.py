"""Composition root: the only place that knows all rooms and puts them together."""

"""Filters and weighers: the extension points, their registry, and how they are run over a table."""

"""Filters and weighers written for Nova, run unedited: the objects they read, and the modules they import."""

"""The read-only page: one self-contained document, no assets from elsewhere."""

from __future__ import annotations

from importlib import resources

PAGE: bytes = resources.files(__package__).joinpath("page.html").read_bytes()

"""Which values of a message are secret, and texts without them.

Patterns over texts cannot know where a password with quotes and line breaks in it ends; the message itself does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

SECRET_WORDS = (
    "pass",
    "token",
    "secret",
    "user_data",
    "injected_files",
    "service_catalog",
    "personality",
    "connection_info",
    "credential",
    "private",
)
"""A value is secret when its key, in lower case, contains one of these; everything below it as well."""

MASK = "***"
SHORTEST = 4
"""Shorter texts are no secrets worth the name, and replacing them would eat words."""


def is_secret(key: object) -> bool:
    """Whether a key's value must not be shown."""
    name = str(key).lower()
    return any(word in name for word in SECRET_WORDS)


def secrets_in(*values: Any) -> set[str]:
    """Every text under a secret key, however deep, of these values (nothing of their other parts)."""
    found: set[str] = set()
    for value in values:
        found.update(_hidden(value, False))
    return found


def without(text: str, secrets: set[str]) -> str:
    """The text with each secret masked, also as Python or JSON would have quoted it."""
    for secret in sorted(secrets, key=len, reverse=True):
        forms = {
            secret,
            repr(secret)[1:-1],
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
        }
        forms |= {ascii(secret)[1:-1], repr(repr(secret)[1:-1])[1:-1]}
        for form in sorted(forms, key=len, reverse=True):
            text = text.replace(form, MASK)
    return text


def _hidden(value: Any, secret: bool) -> Iterator[str]:
    if isinstance(value, str):
        if secret and len(value) >= SHORTEST:
            yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _hidden(item, secret or is_secret(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _hidden(item, secret)

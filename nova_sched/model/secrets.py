"""Which values of a message are secret, and texts without them.

Patterns over texts cannot know where a password with quotes and line breaks in it ends; the message itself does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
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

SHOWN_CONTEXT = frozenset(
    {
        "domain",
        "domain_id",
        "domain_name",
        "global_request_id",
        "instance_lock_checked",
        "is_admin",
        "is_admin_project",
        "project",
        "project_domain",
        "project_domain_id",
        "project_domain_name",
        "project_id",
        "project_name",
        "quota_class",
        "read_deleted",
        "read_only",
        "remote_address",
        "request_id",
        "resource_uuid",
        "roles",
        "show_deleted",
        "system_scope",
        "tenant",
        "timestamp",
        "user",
        "user_domain",
        "user_domain_id",
        "user_domain_name",
        "user_id",
        "user_identity",
        "user_name",
    }
)
"""Keys of a context that others than its compute host may see: those of Juno and of today's oslo.context, no tokens."""

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


def secrets_of_context(context: Mapping[str, Any]) -> set[str]:
    """Every text of a flat context (keys with or without ``_context_``) that is not meant to be shown."""
    found: set[str] = set()
    for key, value in context.items():
        found.update(_hidden(value, str(key).removeprefix("_context_") not in SHOWN_CONTEXT))
    return found


def without(text: str, secrets: Set[str]) -> str:
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

"""Values as people read them; formats for machines get them as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any


def when(seconds: float | None) -> str | None:
    """UTC time of seconds since the epoch, e.g. ``2026-12-01T12:00:00Z``."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rows(found: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[tuple[Any, ...]]:
    """The values of these keys of each mapping."""
    return [tuple(one.get(key) for key in keys) for one in found]


def number(value: float | None) -> float | int | None:
    """Whole numbers without a fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() else value

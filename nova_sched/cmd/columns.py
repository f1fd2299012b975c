"""Values as people read them; formats for machines get them as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cliff.columns import FormattableColumn


def when(seconds: float | None) -> str | None:
    """UTC time of seconds since the epoch, e.g. ``2026-12-01T12:00:00Z``."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Nested(FormattableColumn[Any]):
    """A list or mapping: a line per part for people, as it is for machines."""

    def human_readable(self) -> str:
        """Text, a list with a line per mapping in it."""
        return _spelt(self._value)


class Fault(FormattableColumn[Mapping[str, Any]]):
    """A fault: what it says for people, with its code and time for machines."""

    def human_readable(self) -> str:
        """The sentence."""
        return str(self._value["message"])


def presentable(value: Any) -> Any:
    """The value, wrapped where people want it otherwise than machines."""
    return Nested(value) if isinstance(value, Mapping | list | tuple) else value


def rows(found: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[tuple[Any, ...]]:
    """The values of these keys of each mapping."""
    return [tuple(one.get(key) for key in keys) for one in found]


def number(value: float | None) -> float | int | None:
    """Whole numbers without a fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _spelt(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_spelt(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        apart = "\n" if any(isinstance(part, Mapping) for part in value) else ", "
        return apart.join(_spelt(part) for part in value)
    return str(number(value))

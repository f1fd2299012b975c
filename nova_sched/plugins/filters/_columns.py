"""Reading the JSON texts of host rows. A text that is broken costs its host only: the functions answer, never raise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import orjson

_CACHED_TEXTS = 1 << 15
_EMPTY: Mapping[str, Any] = MappingProxyType({})


def parse(text: Any) -> Any:
    """The value of a JSON text; None when it is NULL, empty or broken."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        return None


@lru_cache(maxsize=_CACHED_TEXTS)
def stats(text: str | None) -> Mapping[str, Any] | None:
    """The ``stats`` column: NULL and the empty text are empty, not broken; None when it is no JSON object."""
    if not text:
        return _EMPTY
    found = parse(text)
    return MappingProxyType(found) if isinstance(found, dict) else None


@lru_cache(maxsize=_CACHED_TEXTS)
def metrics(text: str | None) -> Mapping[str, float]:
    """Values of the ``metrics`` column by name; an entry that lacks a field or whose value is no number is not there."""
    entries = parse(text)
    if not isinstance(entries, list):
        return _EMPTY
    return MappingProxyType({entry["name"]: float(entry["value"]) for entry in entries if _is_metric(entry)})


def _is_metric(entry: Any) -> bool:
    if not isinstance(entry, dict) or not {"name", "value", "timestamp", "source"} <= entry.keys():
        return False
    name, value = entry["name"], entry["value"]
    return bool(name) and isinstance(name, str) and isinstance(value, (int, float)) and math.isfinite(value)


@lru_cache(maxsize=_CACHED_TEXTS)
def supported_instances(text: str | None) -> tuple[tuple[str, ...], ...]:
    """Triples (architecture, hypervisor type, vm mode) of the column; entries of another shape are left out."""
    entries = parse(text)
    if not isinstance(entries, list):
        return ()
    return tuple(tuple(str(part) for part in entry) for entry in entries if isinstance(entry, list))

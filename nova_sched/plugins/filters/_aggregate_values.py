"""What a host's aggregates say about one key of their metadata.

Numbers (ratios, maxima, multipliers): each aggregate's value is parsed, what does not parse is dropped, the numeric
minimum counts. Texts (zones, tenants, types, properties): comma lists, trimmed; the empty text is one empty value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from nova_sched.hosts.schema import Aggregate
from nova_sched.hosts.view import Column, HostView


def ratio(text: str) -> float:
    """A finite number. Raises ValueError for anything else, also for Python's own notations (``1_000``, ``nan``)."""
    value = float(_plain(text))
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a finite number")
    return value


def whole_number(text: str) -> float:
    """A whole number, such as a maximum per host. Raises ValueError for anything else (``4.5``)."""
    return float(int(_plain(text)))


def _plain(text: str) -> str:
    if "_" in text:
        raise ValueError(f"{text!r} is not a number")
    return text


def minimum(aggregates: Iterable[Aggregate], key: str, parse: Callable[[str], float]) -> float:
    """Smallest parsable value that these aggregates set for ``key``; NaN when there is none."""
    found = math.nan
    for aggregate in aggregates:
        text = aggregate.metadata.get(key)
        if text is None:
            continue
        try:
            value = parse(str(text))
        except ValueError:
            continue
        found = value if math.isnan(found) else min(found, value)
    return found


def minimum_or(view: HostView, key: str, parse: Callable[[str], float], default: float | Column) -> Column:
    """Per row :func:`minimum` of its host's aggregates, ``default`` where they set none."""
    if key not in view.aggregate_keys:
        return np.broadcast_to(np.asarray(default, dtype=np.float64), (len(view),))
    own: Column = view.aggregates.map(lambda aggregates: minimum(aggregates, key, parse), np.float64)
    return np.where(np.isnan(own), default, own)


def split(text: Any) -> frozenset[str]:
    """Members of a comma list, trimmed."""
    return frozenset(part.strip() for part in str(text).split(","))


def values(aggregates: Iterable[Aggregate], key: str) -> frozenset[str]:
    """Every value these aggregates list for ``key``; empty when none of them has the key."""
    found: set[str] = set()
    for aggregate in aggregates:
        text = aggregate.metadata.get(key)
        if text is not None:
            found |= split(text)
    return frozenset(found)

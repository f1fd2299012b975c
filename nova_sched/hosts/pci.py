"""PCI pools: reading the column, and taking devices from it as Juno does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from nova_sched.model.pci import PciPool, PciRequest

_CACHED_TEXTS = 1 << 15

Pools = tuple[PciPool, ...]


@lru_cache(maxsize=_CACHED_TEXTS)
def parse_pools(text: str | None) -> Pools | None:
    """Pools of the ``pci_stats`` column; None when it is NULL, empty or does not parse."""
    if not text:
        return None
    try:
        return tuple(_pool(entry) for entry in orjson.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _pool(entry: Mapping[str, Any]) -> PciPool:
    return PciPool(int(entry["count"]), {key: value for key, value in entry.items() if key != "count"})


def matches(pool: PciPool, request: PciRequest) -> bool:
    """Whether the devices of a pool satisfy any one spec of the request."""
    return any(all(pool.tags.get(key) == value for key, value in spec.items()) for spec in request.spec)


def take(pools: Sequence[PciPool], requests: Iterable[PciRequest]) -> Pools | None:
    """The pools after all requests are served, in turn, from the first pools that match; None when too few are free.

    Emptied pools are left out.
    """
    left = list(pools)
    for request in requests:
        missing = request.count
        after: list[PciPool] = []
        for pool in left:
            if missing <= 0 or not matches(pool, request):
                after.append(pool)
            elif pool.count > missing:
                after.append(PciPool(pool.count - missing, pool.tags))
                missing = 0
            else:
                missing -= pool.count
        if missing > 0:
            return None
        left = after
    return tuple(left)


def taken(before: Sequence[PciPool], after: Sequence[PciPool]) -> Pools:
    """The devices by which ``after`` is less than ``before``, pool by pool."""
    return subtract(before, after)


def subtract(pools: Sequence[PciPool], used: Iterable[PciPool]) -> Pools:
    """The pools without the used devices; a use is matched to pools of equal tags, and never goes below zero.

    Pools emptied by a use are left out, as by :func:`take`; those that were empty before stay.
    """
    open_uses = list(used)
    left: list[PciPool] = []
    for pool in pools:
        count = pool.count
        for index, use in enumerate(open_uses):
            if use.count and use.tags == pool.tags:
                served = min(count, use.count)
                count -= served
                open_uses[index] = PciPool(use.count - served, use.tags)
        if count or not pool.count:
            left.append(PciPool(count, pool.tags))
    return tuple(left)

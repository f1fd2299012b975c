"""Whether a host row still takes what was decided for it: arithmetic on one locked row, without SQL.

Limits are those of the chosen row as the filters computed them. A resource whose use is unknown (NULL) and one without
a limit are not guarded, but they are counted. Devices and exact fits are no arithmetic: for those the row's
``allocation_generation`` must be the one that was seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from nova_sched.db.codec import numa_to_list, value_of
from nova_sched.model.decision import Placement
from nova_sched.model.limits import Limits
from nova_sched.model.request import Amounts

#: Order of every five-tuple of amounts here.
RESOURCES = ("vcpus", "memory_mb", "disk_mb", "instances", "io_ops")


class Sums(NamedTuple):
    """Amounts of one guest or of many."""

    vcpus: int
    memory_mb: int
    disk_mb: int
    instances: int
    io_ops: int

    @classmethod
    def of(cls, amounts: Amounts) -> Sums:
        """What one guest takes."""
        return cls(amounts.vcpus, amounts.memory_mb, amounts.disk_mb, amounts.instances, amounts.io_ops)


@dataclass(slots=True)
class Room:
    """One locked host row. ``generation`` is the one read; ``claimed`` and ``devices`` move as claims come and go."""

    id: int
    host: str
    node: str | None
    generation: int
    used: tuple[float | None, ...]
    claimed: list[int]
    devices: str | None = None
    pci_stats: str | None = None
    removed: bool = False
    failed_builds: int = 0
    changed: bool = False
    devices_stale: bool = False
    """A claim with devices left: ``devices`` must be made anew from the live claims."""
    _pools: list[dict[str, Any]] | None = field(default=None, repr=False)

    def unmet(self, placement: Placement, asked: Sums) -> list[str]:
        """Every limit that refuses, with its numbers; empty = it fits."""
        if self.removed:
            return ["the host is gone"]
        refused = []
        if needs_generation(placement) and placement.host_generation != self.generation:
            refused.append(f"generation {self.generation}, seen {placement.host_generation}")
        for name, used, claimed, ask, limit in zip(
            RESOURCES, self.used, self.claimed, asked, bounds(placement.limits), strict=True
        ):
            if limit is not None and used is not None and used + claimed + ask > limit:
                refused.append(f"{name}: used {used} + claimed {claimed} + asked {ask} > limit {limit}")
        return refused

    def take(self, asked: Sums, sign: int = 1) -> None:
        """Add a claim's amounts; ``sign=-1`` gives them back (never below zero)."""
        self.claimed = [max(0, have + sign * ask) for have, ask in zip(self.claimed, asked, strict=True)]
        self.changed = True

    def take_devices(
        self, placement: Placement
    ) -> tuple[list[dict[str, Any]] | None, list[dict[str, Any]] | None]:
        """Note the devices and cells of a placement; (pci, numa) as the claim stores them."""
        cells = numa_to_list(placement.numa_fit)
        pci = None
        if placement.pci_pools is not None:
            before = self._pools if self._pools is not None else free_pools(self.pci_stats, self.devices)
            after = [{"count": pool.count, "tags": dict(pool.tags)} for pool in placement.pci_pools]
            pci = _difference(before, after)
            self._pools = after
        if pci is not None or cells is not None:
            self.devices = joined(self.devices, pci, cells)
            self.changed = True
        return pci, cells


def bounds(limits: Limits | None) -> tuple[float | None, ...]:
    """Inclusive upper bounds in the order of RESOURCES; None = unguarded."""
    if limits is None:
        return (None,) * 5
    disk_mb = limits.disk_mb
    if disk_mb is None and limits.disk_gb is not None:
        disk_mb = limits.disk_gb * 1024
    return (limits.vcpu, limits.memory_mb, disk_mb, limits.num_instances, limits.io_ops)


def needs_generation(placement: Placement) -> bool:
    """Whether only an unchanged host will do: devices, NUMA cells, exact fits."""
    if placement.pci_pools is not None or placement.numa_fit is not None:
        return True
    limits = placement.limits
    return limits is not None and (limits.exact_memory or limits.exact_vcpu or limits.exact_disk)


def joined(
    devices: str | None, pci: list[dict[str, Any]] | None, cells: list[dict[str, Any]] | None
) -> str | None:
    """``claimed_devices`` with one more claim's devices in it; None when there are none."""
    body = value_of(devices) or {"pci": [], "numa": []}
    body["pci"] += pci or []
    body["numa"] += cells or []
    if not body["pci"] and not body["numa"]:
        return None
    return orjson.dumps(body).decode()


def free_pools(pci_stats: str | None, devices: str | None) -> list[dict[str, Any]]:
    """Pools of a row less what live claims took: list of ``{"count", "tags"}``."""
    try:
        reported = orjson.loads(pci_stats or "[]")
    except orjson.JSONDecodeError:
        return []
    pools = [
        {"count": int(pool.get("count", 0)), "tags": {k: v for k, v in pool.items() if k != "count"}}
        for pool in reported
        if isinstance(pool, dict)
    ]
    return _difference(pools, (value_of(devices) or {}).get("pci", []))


def _difference(pools: list[dict[str, Any]], less: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts: dict[bytes, int] = {}
    for pool in less:
        key = _tags(pool)
        counts[key] = counts.get(key, 0) + pool["count"]
    left = []
    for pool in pools:
        key = _tags(pool)
        taken = min(pool["count"], counts.get(key, 0))
        counts[key] = counts.get(key, 0) - taken
        if pool["count"] > taken:
            left.append({"count": pool["count"] - taken, "tags": pool["tags"]})
    return left


def _tags(pool: dict[str, Any]) -> bytes:
    return orjson.dumps(pool["tags"], option=orjson.OPT_SORT_KEYS)

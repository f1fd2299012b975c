"""Why a decision came out as it did: a value made beside the decision, bounded in size.

``Detail.COUNTS`` is made for every decision: counts per filter, top-k weights, and where no host was left the filters'
sentences with some of the hosts they refused. ``Detail.FULL`` also names the hosts left after each filter, all weights
and the consumed state, for replay, explain and tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from nova_sched.model.limits import Limits
from nova_sched.model.quick import quick_init
from nova_sched.model.request import HostNode, InstanceRef


class Detail(IntEnum):
    """How much of the reasoning is recorded."""

    COUNTS = 0
    FULL = 1


@quick_init
@dataclass(frozen=True, slots=True)
class FilterStep:
    """One filter of one round: hosts before and after; ``reason`` is the filter's sentence with its telling numbers.

    ``hosts``: names left, sorted, and ``refused``: the hosts taken out with the reason of each, at most
    ``REFUSED_MAX`` (a few of them with Detail.COUNTS, where no host was left).
    """

    name: str
    hosts_in: int
    hosts_out: int
    reason: str | None = None
    hosts: tuple[HostNode, ...] | None = None
    refused: tuple[tuple[HostNode, str], ...] = ()


REFUSED_MAX = 200


@quick_init
@dataclass(frozen=True, slots=True)
class WeighedHost:
    """One candidate: total weight and per weigher (raw, normalised, weighted)."""

    host: str
    node: str | None
    weight: float
    parts: tuple[tuple[str, float, float, float], ...] = ()


@quick_init
@dataclass(frozen=True, slots=True)
class Round:
    """One instance tried. ``weighed`` by falling weight and ``choices`` (top k, all with Detail.FULL).

    ``filtered``: hosts that passed all filters, sorted (Detail.FULL only).
    """

    index: int
    instance: InstanceRef
    hosts_seen: int
    steps: tuple[FilterStep, ...]
    filtered: tuple[HostNode, ...] | None = None
    weighed: tuple[WeighedHost, ...] = ()
    choices: tuple[HostNode, ...] = ()
    chosen: HostNode | None = None
    limits: Limits | None = None
    """Of the chosen host; None for forced placements."""
    after: Mapping[str, Any] | None = None
    """State of the chosen host with the guest consumed (Detail.FULL): free_ram_mb, free_disk_mb, vcpus_used,
    num_instances, num_io_ops and, where they matter, numa_topology and pci_pools; None = unknown."""


@quick_init
@dataclass(frozen=True, slots=True)
class Explanation:
    """The record of a decision. ``stage_seconds`` is filled by the service, which owns the clock.

    ``before``: counts of hosts taken out before the filters (ignored, excluded, not forced).
    """

    driver: str
    hosts_total: int
    rounds: tuple[Round, ...] = ()
    before: Mapping[str, int] = field(default_factory=dict)
    forced: bool = False
    refused: str | None = None
    generation: int = 0
    seed: int | None = None
    stage_seconds: Mapping[str, float] = field(default_factory=dict)

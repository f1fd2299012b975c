"""How many more guests of one kind fit, where, and what stops the next one.

Guests come one after the other, each a request of its own, and count as built (they are no I/O operation any more).
A host's filters look at that host only, so the order does not matter and all hosts are filled at once:

- filters that refuse a host for good once they refuse it: the count of each host is found by doubling and halving;
- other filters (a query over amounts, filters of others): one guest more on every host, until none passes;
- filters that look at other guests (server groups, instance types), and guests with NUMA cells or PCI devices:
  one by one through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nova_sched.errors import ConfigurationError
from nova_sched.hosts.view import HostView
from nova_sched.lab.scene import Scene
from nova_sched.model.decision import Refusal
from nova_sched.model.facts import Facts, InstanceFact, moving_facts
from nova_sched.model.request import InstanceRef, SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters._aggregate_values import values
from nova_sched.plugins.filters._amounts import AmountFilter
from nova_sched.plugins.filters._maxima import MaximumFilter
from nova_sched.plugins.filters.compute import ComputeFilter
from nova_sched.plugins.filters.metrics import MetricsFilter
from nova_sched.plugins.filters.retry import RetryFilter
from nova_sched.plugins.pipeline import Sieve

Counts = NDArray[np.int64]

#: More of them on one host than this, or one by one on all: nothing limits them.
PER_HOST_MAX = 1 << 20
ONE_BY_ONE_MAX = 100_000

#: A host that one of these refuses is not taken back by it when more guests come.
_FOR_GOOD = (AmountFilter, MaximumFilter, ComputeFilter, RetryFilter, MetricsFilter)


@dataclass(frozen=True, slots=True)
class Share:
    """Part of the cloud: hosts in it, guests that still fit there, and per filter how many of its hosts it closes."""

    name: str
    hosts: int
    guests: int
    closed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Capacity:
    """``guests``: in all, None when nothing limits them. ``reason``: why the next one finds no host.

    ``per_host``: guests by (host, node), in table order.
    """

    guests: int | None
    reason: str
    zones: tuple[Share, ...]
    aggregates: tuple[Share, ...]
    per_host: tuple[tuple[str, str | None, int], ...]


def capacity(scene: Scene, request: SchedulingRequest) -> Capacity:
    """Fill the scene's hosts with guests of ``request`` (its first instance's kind); the scene stays filled.

    Raises ConfigurationError for a driver without filters, RequestRefused for a request that no host could serve,
    PluginError.
    """
    if not hasattr(scene.driver, "sift"):
        raise ConfigurationError(
            "scheduler_driver",
            scene.driver.name,
            "a driver with filters, since nothing else limits what fits",
        )
    request = built(request)
    facts = scene.facts(request)
    filling = how(scene.driver.filters, request, facts)(scene, request, facts)
    if filling is None:
        return Capacity(None, "nothing limits how many fit on a host", (), (), ())
    return _told(scene, request, filling.facts, filling.counts)


def built(request: SchedulingRequest) -> SchedulingRequest:
    """The request for one guest whose build is over as soon as it is placed."""
    return replace(request, instances=request.instances[:1], amounts=replace(request.amounts, io_ops=0))


@dataclass(frozen=True, slots=True)
class Filling:
    """Guests that were put on each row, and the facts with them there."""

    counts: Counts
    facts: Facts


Way = Callable[[Scene, SchedulingRequest, Facts], Filling | None]


def how(filters: Iterable[HostFilter], request: SchedulingRequest, facts: Facts) -> Way:
    """The quickest exact way to count."""
    moving = moving_facts(facts)
    if request.numa is not None or request.pci_requests or any(one.needs & moving for one in filters):
        return one_by_one
    if all(one.cache_key(request) is not None or isinstance(one, _FOR_GOOD) for one in filters):
        return by_halves
    return in_rounds


def by_halves(scene: Scene, request: SchedulingRequest, facts: Facts) -> Filling | None:
    """Doubled until the filters refuse, then halved down to the last that passes."""
    filled = _Filled(scene, request, facts)
    growing = filled.passing(np.zeros(len(scene.overlay.view), dtype=np.int64))
    low, high = np.zeros(len(growing), dtype=np.int64), growing.astype(np.int64)
    while growing.any():
        if int(high.max(initial=0)) > PER_HOST_MAX:
            return None
        growing &= filled.passing(high)
        low = np.where(growing, high, low)
        high = np.where(growing, high * 2, high)
    # low: so many are there and one more passes; high: so many are there and none passes any more.
    while (open_rows := high - low > 1).any():
        middle = np.where(open_rows, (low + high) // 2, low)
        passes = filled.passing(middle)
        low = np.where(open_rows & passes, middle, low)
        high = np.where(open_rows & ~passes, middle, high)
    filled.put(high)
    return Filling(high, facts)


def in_rounds(scene: Scene, request: SchedulingRequest, facts: Facts) -> Filling | None:
    """One more on every host that passes, round after round."""
    filled = _Filled(scene, request, facts)
    counts = np.zeros(len(scene.overlay.view), dtype=np.int64)
    growing = filled.passing(counts)
    while growing.any():
        counts = counts + growing
        if int(counts.max()) > PER_HOST_MAX:
            return None
        growing &= filled.passing(counts)
    return Filling(counts, facts)


def one_by_one(scene: Scene, request: SchedulingRequest, facts: Facts) -> Filling | None:
    """Decided by the driver, each as a request of its own."""
    rng = np.random.default_rng(0)
    counts = np.zeros(len(scene.overlay.view), dtype=np.int64)
    for number in range(ONE_BY_ONE_MAX):
        guest = InstanceRef(f"guest {number}", 0)
        answer = scene.driver.decide(request.only((guest,)), scene.overlay, facts, rng).answers[0]
        if isinstance(answer, Refusal):
            return Filling(counts, facts)
        row = scene.overlay.table.row_of(answer.host_id)
        counts[row] += 1
        scene.overlay.settle()
        facts = facts.placed(
            InstanceFact(
                f"guest {number}", answer.host, answer.node, request.project_id, request.instance_type_id
            )
        )
    return None


class _Filled:
    """The hosts with so many guests on each."""

    def __init__(self, scene: Scene, request: SchedulingRequest, facts: Facts) -> None:
        self._scene = scene
        self._request = request
        self._facts = facts
        self._there = np.zeros(len(scene.overlay.view), dtype=np.int64)

    def put(self, counts: Counts) -> None:
        """So many guests on each row, instead of those there."""
        self._scene.overlay.consume_from_all((counts - self._there).astype(np.float64), self._request.amounts)
        self._there = counts

    def passing(self, counts: Counts) -> Mask:
        """Rows that take one more."""
        self.put(counts)
        sieve: Sieve = self._scene.driver.sift(self._request, self._scene.overlay.view, self._facts)
        return sieve.left


def _told(scene: Scene, request: SchedulingRequest, facts: Facts, counts: Counts) -> Capacity:
    view = scene.overlay.view
    last = scene.driver.decide(request, scene.overlay, facts, np.random.default_rng(0))
    closing = _closing(scene, request, facts)
    zone = scene.settings.scheduler.filters.default_availability_zone
    return Capacity(
        guests=int(counts.sum()),
        reason=last.refusals[0].reason if last.refusals else "",
        zones=_shares(
            view, counts, closing, lambda row: values(view.aggregates_of(row), "availability_zone") or {zone}
        ),
        aggregates=_shares(view, counts, closing, lambda row: [one.name for one in view.aggregates_of(row)]),
        per_host=tuple(zip(view.hosts.tolist(), view.nodes.tolist(), counts.tolist(), strict=True)),
    )


def _closing(scene: Scene, request: SchedulingRequest, facts: Facts) -> list[str | None]:
    """Per row the filter that refuses one more guest."""
    sieve: Sieve = scene.driver.sift(request, scene.overlay.view, facts)
    names: list[str | None] = [None] * len(scene.overlay.view)
    for refusing, rows in sieve.removed():
        for row in rows.tolist():
            names[row] = refusing.name
    return names


def _shares(
    view: HostView,
    counts: Counts,
    closing: list[str | None],
    names_of: Callable[[int], Iterable[str]],
) -> tuple[Share, ...]:
    hosts: dict[str, int] = {}
    guests: dict[str, int] = {}
    closed: dict[str, dict[str, int]] = {}
    for row in range(len(view)):
        for name in names_of(row):
            hosts[name] = hosts.get(name, 0) + 1
            guests[name] = guests.get(name, 0) + int(counts[row])
            if (refusing := closing[row]) is not None:
                by_filter = closed.setdefault(name, {})
                by_filter[refusing] = by_filter.get(refusing, 0) + 1
    return tuple(Share(name, hosts[name], guests[name], closed.get(name, {})) for name in sorted(hosts))


def as_plain(found: Capacity) -> dict[str, Any]:
    """The answer as JSON values."""

    def share(one: Share) -> dict[str, Any]:
        return {"name": one.name, "hosts": one.hosts, "guests": one.guests, "closed": dict(one.closed)}

    return {
        "guests": found.guests,
        "reason": found.reason,
        "zones": [share(one) for one in found.zones],
        "aggregates": [share(one) for one in found.aggregates],
        "hosts": [{"host": host, "node": node, "guests": count} for host, node, count in found.per_host],
    }

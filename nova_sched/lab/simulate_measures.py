"""What a simulation measures of its fleet, at evenly spaced moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nova_sched.hosts.overlay import Overlay
from nova_sched.lab.trace import Trace
from nova_sched.model.facts import NO_FACTS
from nova_sched.model.request import Amounts, Caller, Flavor, InstanceRef, SchedulingRequest
from nova_sched.plugins.filters._amounts import AmountFilter


@dataclass(frozen=True, slots=True)
class Sample:
    """The fleet at one moment. Shares are of the hosts' own vCPUs and RAM, so overcommitted ones exceed 1.

    ``hosts_used``: with at least one guest. ``hosts_bound``: no packing of these guests could use fewer hosts (by
    volume, the largest hosts first); None when no filter looks at amounts. ``largest_*``: the largest size of the trace that a host still takes, None when none
    does or nobody can tell.
    """

    seconds: float
    guests: int
    vcpu_share: float
    ram_share: float
    hosts_used: int
    hosts_bound: int | None
    refused: int
    largest_vcpus: int | None
    largest_memory_mb: int | None


class Gauge:
    """Keeps count while a trace is played and takes the samples."""

    def __init__(self, trace: Trace, driver: Any, overlay: Overlay, samples: int) -> None:
        self._driver = driver
        self._overlay = overlay
        self.end_seconds = max(trace.last_seconds, 0.0)
        self._moments = np.linspace(0.0, self.end_seconds, samples).tolist() if samples else []
        self._next = 0
        self._guests_on = np.zeros(len(overlay.view), dtype=np.int64)
        self._taken = Amounts(instances=0, io_ops=0)
        self.refused = 0
        self.samples: list[Sample] = []
        self._sizes = self._largest_first(trace) if samples else []
        self._bounds = self._volumes() if samples else []

    def placed(self, row: int, amounts: Amounts) -> None:
        """A guest took its place."""
        self._guests_on[row] += 1
        self._add(amounts, 1)

    def ended(self, row: int, amounts: Amounts) -> None:
        """A guest is gone."""
        self._guests_on[row] -= 1
        self._add(amounts, -1)

    def until(self, seconds: float) -> None:
        """Take the samples due before anything happens at ``seconds``."""
        while self._next < len(self._moments) and self._moments[self._next] < seconds:
            self._sample(self._moments[self._next])

    def finish(self) -> None:
        """Take the samples that are left."""
        while self._next < len(self._moments):
            self._sample(self._moments[self._next])

    def _add(self, amounts: Amounts, sign: int) -> None:
        taken = self._taken
        self._taken = Amounts(
            taken.vcpus + sign * amounts.vcpus,
            taken.memory_mb + sign * amounts.memory_mb,
            taken.disk_mb + sign * amounts.disk_mb,
            taken.instances + sign,
            0,
        )

    def _sample(self, seconds: float) -> None:
        self._next += 1
        view, taken = self._overlay.view, self._taken
        largest = self._largest()
        self.samples.append(
            Sample(
                seconds=seconds,
                guests=taken.instances,
                vcpu_share=taken.vcpus / float(np.nansum(view.vcpus_total) or 1.0),
                ram_share=taken.memory_mb / float(np.nansum(view.ram_total_mb) or 1.0),
                hosts_used=int(np.count_nonzero(self._guests_on)),
                hosts_bound=self._bound(),
                refused=self.refused,
                largest_vcpus=None if largest is None else largest.flavor.vcpus,
                largest_memory_mb=None if largest is None else largest.flavor.memory_mb,
            )
        )

    def _largest(self) -> SchedulingRequest | None:
        return next(
            (one for one in self._sizes if self._driver.sift(one, self._overlay.view, NO_FACTS).count), None
        )

    def _largest_first(self, trace: Trace) -> list[SchedulingRequest]:
        """One request per size of the trace, by the larger of its shares of the fleet's vCPUs and RAM."""
        if not hasattr(self._driver, "sift"):
            return []
        view = self._overlay.view
        vcpus, ram = float(np.nansum(view.vcpus_total) or 1.0), float(np.nansum(view.ram_total_mb) or 1.0)
        sizes = {(one.vcpus, one.memory_mb, one.disk_gb) for one in trace.arrivals}
        ordered = sorted(sizes, key=lambda size: (max(size[0] / vcpus, size[1] / ram), size), reverse=True)
        return [_asking(Flavor(vcpus=v, memory_mb=m, root_gb=d)) for v, m, d in ordered]

    def _volumes(self) -> list[tuple[AmountFilter, Any]]:
        """Per filter of an amount: what the largest 1, 2, 3, … hosts may give together."""
        filters = getattr(self._driver, "filters", ())
        view = self._overlay.view
        return [
            (one, np.cumsum(np.sort(np.nan_to_num(one.limit(view)))[::-1]))
            for one in filters
            if isinstance(one, AmountFilter)
        ]

    def _bound(self) -> int | None:
        taken = self._taken
        if not self._bounds:
            return None
        if not taken.instances:
            return 0
        # Sizes are linear in the flavor, so all guests together are one large one.
        together = _asking(Flavor(vcpus=taken.vcpus, memory_mb=taken.memory_mb, swap_mb=taken.disk_mb))
        needed = [int(np.searchsorted(room, one.asked(together))) + 1 for one, room in self._bounds]
        return min(max(needed), len(self._guests_on))


def _asking(flavor: Flavor) -> SchedulingRequest:
    return SchedulingRequest("explain", Caller(), (InstanceRef(None, 0),), flavor)

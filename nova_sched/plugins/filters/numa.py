"""NUMATopologyFilter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from nova_sched.hosts import numa
from nova_sched.hosts.view import Column, HostView
from nova_sched.model.facts import Facts
from nova_sched.model.limits import NumaLimits
from nova_sched.model.numa import HostTopology, InstanceTopology
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters._amounts import reported_or
from nova_sched.settings import SchedulerSettings


class NUMATopologyFilter(HostFilter):
    """The guest's NUMA cells fit distinct cells of the host, under the host's CPU and RAM ratios per cell.

    A guest without cells passes everywhere; a guest with cells needs a host that reports its own.
    """

    name = "NUMATopologyFilter"
    reason = "the guest's NUMA cells do not fit"
    per_row = True

    def __init__(self, cpu_ratio: float, ram_ratio: float) -> None:
        self._cpu_ratio = cpu_ratio
        self._ram_ratio = ram_ratio

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        return cls(settings.filters.cpu_allocation_ratio, settings.filters.ram_allocation_ratio)

    def _ratios(self, view: HostView) -> tuple[Column, Column]:
        cpu = reported_or(view, "cpu_ratio", self._cpu_ratio)
        return cpu, reported_or(view, "ram_ratio", self._ram_ratio)

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        guest = request.numa
        passes = np.ones(len(view), dtype=np.bool_)
        if guest is None:
            return passes
        cpu, ram = (ratios.tolist() for ratios in self._ratios(view))
        # Hosts of one kind and use share the object that their text was parsed to; kept here, so that no id is reused.
        asked: dict[tuple[int, float, float], tuple[HostTopology | None, bool]] = {}
        for row in range(len(view)):
            host = view.topology(row)
            key = (id(host), cpu[row], ram[row])
            if key not in asked:
                asked[key] = host, _fits(host, guest, cpu[row], ram[row])
            passes[row] = asked[key][1]
        return passes

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        host, guest = view.topology(row), request.numa
        if host is None or guest is None:
            return "the host reports no NUMA cells"
        asked = ", ".join(f"{len(cell.cpus)} CPUs {cell.memory_mb} MB" for cell in guest.cells)
        found = ", ".join(
            f"{cell.cpu_usage} of {len(cell.cpus)} CPUs and {cell.memory_used_mb} of {cell.memory_mb} MB used"
            for cell in host.cells
        )
        return f"asks for cells of {asked}; the host has cells with {found}"

    def limits(self, view: HostView, row: int, request: SchedulingRequest) -> Mapping[str, Any]:
        host = view.topology(row)
        if request.numa is None or host is None:
            return {}
        cpu, ram = self._ratios(view.take(np.array([row])))
        return {"numa": NumaLimits(host, cpu.item(), ram.item())}


def _fits(host: HostTopology | None, guest: InstanceTopology, cpu_ratio: float, ram_ratio: float) -> bool:
    return host is not None and numa.fit(host, guest, cpu_ratio=cpu_ratio, ram_ratio=ram_ratio) is not None

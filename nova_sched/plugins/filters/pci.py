"""PciPassthroughFilter."""

from __future__ import annotations

import numpy as np

from nova_sched.hosts import pci
from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters._texts import some


class PciPassthroughFilter(HostFilter):
    """The host's free PCI devices serve all requests of the guest together, each device once."""

    name = "PciPassthroughFilter"
    reason = "not enough matching PCI devices"
    per_row = True

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        asked = request.pci_requests
        passes = np.ones(len(view), dtype=np.bool_)
        if not asked:
            return passes
        for row in range(len(view)):
            pools = view.pools(row)
            passes[row] = pools is not None and pci.take(pools, asked) is not None
        return passes

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        asked = some(f"{one.count} x {[dict(spec) for spec in one.spec]}" for one in request.pci_requests)
        found = some(f"{pool.count} x {dict(pool.tags)}" for pool in view.pools(row) or ())
        return f"asks for {asked}; free are {found}"

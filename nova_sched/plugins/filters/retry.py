"""RetryFilter."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask


class RetryFilter(HostFilter):
    """Leaves out the (host, node) pairs where this instance was already tried; both must match."""

    name = "RetryFilter"
    reason = "already tried for this instance"

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        passes = np.ones(len(view), dtype=np.bool_)
        for host, node in request.tried:
            passes &= ~(view.on_hosts([host]) & view.on_nodes([node]))
        return passes

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        return None if request.tried else ()

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        return f"already tried: {view.hosts[row]}, node {view.nodes[row]}"

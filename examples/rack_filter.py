"""A filter: hosts of an aggregate with ``rack_full = yes`` take no new guests, unless a hint asks for that rack."""

from __future__ import annotations

from collections.abc import Hashable

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask


class RackFilter(HostFilter):
    """Metadata ``rack`` and ``rack_full`` of aggregates against the hint ``rack``."""

    name = "RackFilter"
    reason = "in a full rack"
    run_once_per_request = True  # guests placed before do not change what an aggregate says

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        """One look per distinct set of aggregates, spread over the hosts that are in it."""
        wanted = request.hints.get("rack")

        def open_for_guests(aggregates: tuple) -> bool:
            full = any(aggregate.metadata.get("rack_full") == "yes" for aggregate in aggregates)
            return not full or any(aggregate.metadata.get("rack") == wanted for aggregate in aggregates)

        return view.aggregates.spread(open_for_guests)

    def cache_key(self, request: SchedulingRequest) -> Hashable:
        """Only aggregates and the hint matter, so the mask may be kept."""
        return request.hints.get("rack")

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        """Names the aggregates of one refused host."""
        names = ", ".join(aggregate.name for aggregate in view.aggregates_of(row))
        return f"aggregate {names} says rack_full = yes"

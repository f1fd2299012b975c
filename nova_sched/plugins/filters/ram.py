"""Room in memory: RamFilter, AggregateRamFilter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova_sched.hosts.view import Column, HostView
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.filters._amounts import AmountFilter


class RamFilter(AmountFilter):
    """``total x ram_allocation_ratio - (total - free) >= memory_mb`` of the flavor, MB; free may be negative."""

    name = "RamFilter"
    reason = "not enough RAM"
    key = "ram_allocation_ratio"
    column = "ram_ratio"
    unit = "MB"

    def asked(self, request: SchedulingRequest) -> float:
        return request.flavor.memory_mb

    def total(self, view: HostView) -> Column:
        return view.ram_total_mb

    def used(self, view: HostView) -> Column:
        return view.ram_total_mb - view.free_ram_mb

    def limits(self, view: HostView, row: int, request: SchedulingRequest) -> Mapping[str, Any]:
        return {"memory_mb": self.limit_of(view, row)}


class AggregateRamFilter(RamFilter):
    """RamFilter with ``ram_allocation_ratio`` of the host's aggregates where they set it."""

    name = "AggregateRamFilter"
    per_aggregate = True

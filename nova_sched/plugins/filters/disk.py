"""Room on local disk: DiskFilter, AggregateDiskFilter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova_sched.hosts.view import Column, HostView
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.filters._amounts import AmountFilter


class DiskFilter(AmountFilter):
    """``total x disk_allocation_ratio - (total - free) >= root + ephemeral (GB) + swap (MB)``, all in MB."""

    name = "DiskFilter"
    reason = "not enough disk"
    key = "disk_allocation_ratio"
    column = "disk_ratio"
    unit = "MB"

    def asked(self, request: SchedulingRequest) -> float:
        return request.flavor.disk_mb

    def total(self, view: HostView) -> Column:
        return view.disk_total_mb

    def used(self, view: HostView) -> Column:
        return view.disk_total_mb - view.free_disk_mb

    def limits(self, view: HostView, row: int, request: SchedulingRequest) -> Mapping[str, Any]:
        limit_mb = self.limit_of(view, row)
        return {"disk_gb": limit_mb / 1024, "disk_mb": limit_mb}


class AggregateDiskFilter(DiskFilter):
    """DiskFilter with ``disk_allocation_ratio`` of the host's aggregates where they set it."""

    name = "AggregateDiskFilter"
    per_aggregate = True

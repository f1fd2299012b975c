"""Room in vCPUs: CoreFilter, AggregateCoreFilter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova_sched.hosts.view import Column, HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import Mask
from nova_sched.plugins.filters._amounts import AmountFilter


class CoreFilter(AmountFilter):
    """``total x cpu_allocation_ratio - used >= vcpus``; a host that reports 0 vCPUs passes without limit, as in Juno."""

    name = "CoreFilter"
    reason = "not enough vCPUs"
    key = "cpu_allocation_ratio"
    column = "cpu_ratio"
    unit = "vCPUs"

    def asked(self, request: SchedulingRequest) -> float:
        return request.flavor.vcpus

    def total(self, view: HostView) -> Column:
        return view.vcpus_total

    def used(self, view: HostView) -> Column:
        return view.vcpus_used

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        unlimited: Mask = view.vcpus_total == 0.0
        return super().mask(view, request, facts) | unlimited

    def limits(self, view: HostView, row: int, request: SchedulingRequest) -> Mapping[str, Any]:
        limit = self.limit_of(view, row)
        return {"vcpu": limit} if limit > 0.0 else {}


class AggregateCoreFilter(CoreFilter):
    """CoreFilter with ``cpu_allocation_ratio`` of the host's aggregates where they set it."""

    name = "AggregateCoreFilter"
    per_aggregate = True

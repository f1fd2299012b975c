"""Whole machines: the guest takes exactly what is free (bare metal): ExactRamFilter, ExactCoreFilter, ExactDiskFilter."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from nova_sched.hosts.view import Column, HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters._texts import amount


class _ExactFilter(HostFilter):
    unit: ClassVar[str]
    limit_name: ClassVar[str]

    @abstractmethod
    def asked(self, request: SchedulingRequest) -> float:
        """What one guest asks for."""

    @abstractmethod
    def free(self, view: HostView) -> Column:
        """What is free on each host."""

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        found: Mask = self.free(view) == self.asked(request)
        return found

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        free = amount(self.free(view)[row], self.unit)
        return f"asks for exactly {amount(self.asked(request), self.unit)}, free are {free}"

    def limits(self, view: HostView, row: int, request: SchedulingRequest) -> Mapping[str, Any]:
        return {self.limit_name: True}


class ExactRamFilter(_ExactFilter):
    """Free RAM equals the flavor's, MB."""

    name = "ExactRamFilter"
    reason = "free RAM is not exactly what is asked"
    unit = "MB"
    limit_name = "exact_memory"

    def asked(self, request: SchedulingRequest) -> float:
        return request.flavor.memory_mb

    def free(self, view: HostView) -> Column:
        return view.free_ram_mb


class ExactCoreFilter(_ExactFilter):
    """Free vCPUs equal the flavor's; a host that reports 0 vCPUs never passes."""

    name = "ExactCoreFilter"
    reason = "free vCPUs are not exactly what is asked"
    unit = "vCPUs"
    limit_name = "exact_vcpu"

    def asked(self, request: SchedulingRequest) -> float:
        return request.flavor.vcpus

    def free(self, view: HostView) -> Column:
        return view.vcpus_total - view.vcpus_used

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        there: Mask = view.vcpus_total != 0.0
        return super().mask(view, request, facts) & there


class ExactDiskFilter(_ExactFilter):
    """Free disk equals root + ephemeral (GB) + swap (MB), in MB."""

    name = "ExactDiskFilter"
    reason = "free disk is not exactly what is asked"
    unit = "MB"
    limit_name = "exact_disk"

    def asked(self, request: SchedulingRequest) -> float:
        return request.flavor.disk_mb

    def free(self, view: HostView) -> Column:
        return view.free_disk_mb

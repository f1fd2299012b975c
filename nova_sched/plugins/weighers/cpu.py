"""CPUWeigher."""

from __future__ import annotations

from typing import Self

from nova_sched.hosts.view import HostView
from nova_sched.plugins.api import Column
from nova_sched.plugins.filters._amounts import reported_or
from nova_sched.plugins.weighers._amounts import AmountWeigher
from nova_sched.settings import SchedulerSettings


class CPUWeigher(AmountWeigher):
    """Free vCPUs: total x CPU ratio - used. A positive ``cpu_weight_multiplier`` spreads, a negative one stacks."""

    name = "CPUWeigher"
    key = "cpu_weight_multiplier"

    def __init__(self, option: float, cpu_ratio: float) -> None:
        super().__init__(option)
        self._cpu_ratio = cpu_ratio

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        return cls(settings.weighers.cpu_weight_multiplier, settings.filters.cpu_allocation_ratio)

    def amount(self, view: HostView) -> Column:
        return view.vcpus_total * reported_or(view, "cpu_ratio", self._cpu_ratio) - view.vcpus_used

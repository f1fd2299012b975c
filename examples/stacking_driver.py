"""A driver: the filter driver, except that a project named ``batch`` is stacked instead of spread."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.model.decision import Decision
from nova_sched.model.request import SchedulingRequest
from nova_sched.settings import SchedulerSettings


class StackBatchDriver(FilterDriver):
    """Two filter drivers that differ in the sign of the RAM multiplier."""

    name = "stack_batch"
    stacking: FilterDriver

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        """Build both from the same settings."""
        driver = super().from_settings(settings)
        stacked = replace(
            settings.weighers, ram_weight_multiplier=-abs(settings.weighers.ram_weight_multiplier)
        )
        driver.stacking = FilterDriver.from_settings(replace(settings, weighers=stacked))
        return driver

    def decide(self, request: SchedulingRequest, *arguments: Any, **named: Any) -> Decision:
        """As the protocol says; claims, casts and errors are the service's work, not a driver's."""
        if request.project_id == "batch":
            return self.stacking.decide(request, *arguments, **named)
        return super().decide(request, *arguments, **named)

"""The caching driver: the filter driver's engine on host state that is read only every so often."""

from __future__ import annotations

from typing import Self

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.settings import SchedulerSettings


class CachingDriver(FilterDriver):
    """Lives with a host table that is up to ``scheduler_driver_task_period`` seconds old."""

    name = "caching_scheduler"

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        """As the filter driver, with the refresh period. Raises ConfigurationError and UnknownPlugin."""
        driver = super().from_settings(settings)
        driver.refresh_period_seconds = float(settings.driver_task_period_seconds)
        return driver

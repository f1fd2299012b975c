"""AllHostsFilter and ComputeFilter."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters._texts import amount
from nova_sched.settings import SchedulerSettings


class AllHostsFilter(HostFilter):
    """Every host passes."""

    name = "AllHostsFilter"
    reason = "never refuses"
    run_once_per_request = True

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        return np.ones(len(view), dtype=np.bool_)

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        return ()


class ComputeFilter(HostFilter):
    """The host's service is enabled and gave a sign of life within ``service_down_time`` seconds.

    The distance counts in both directions: a heartbeat from the future is as suspicious as an old one.
    """

    name = "ComputeFilter"
    reason = "compute service disabled or down"
    run_once_per_request = True

    def __init__(self, down_time_seconds: float) -> None:
        self._down_time_seconds = down_time_seconds

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        return cls(settings.filters.service_down_time_seconds)

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        return view.once((self.name, self._down_time_seconds), self._up)

    def _up(self, view: HostView) -> Mask:
        alive: Mask = np.abs(view.now_seconds - view.heartbeat_seconds) <= self._down_time_seconds
        return alive & ~view.disabled

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        if view.disabled[row]:
            return "the compute service is disabled"
        age = float(view.now_seconds - view.heartbeat_seconds[row])
        return (
            f"the compute service is down: last sign of life {amount(age, 's')} ago, "
            f"allowed are {amount(self._down_time_seconds, 's')}"
        )

    def summary(
        self, view: HostView, rows: NDArray[np.intp], request: SchedulingRequest, facts: Facts
    ) -> str:
        disabled = int(np.count_nonzero(view.disabled[rows]))
        return f"{self.reason}: {disabled} disabled, {len(rows) - disabled} down"

"""AvailabilityZoneFilter."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters._aggregate_values import values
from nova_sched.plugins.filters._texts import clipped, some
from nova_sched.settings import SchedulerSettings

_KEY = "availability_zone"


class AvailabilityZoneFilter(HostFilter):
    """The host is in the zone asked for; no zone or an empty one = any.

    A host's zones are the comma lists ``availability_zone`` of its aggregates; a host without is in
    ``default_availability_zone``.
    """

    name = "AvailabilityZoneFilter"
    reason = "in another availability zone"
    run_once_per_request = True

    def __init__(self, default_zone: str) -> None:
        self._default_zone = default_zone

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        return cls(settings.filters.default_availability_zone)

    def _zones(self, aggregates: object) -> frozenset[str]:
        return values(aggregates, _KEY) or frozenset({self._default_zone})  # type: ignore[arg-type]

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        zone = request.availability_zone
        if not zone:
            return np.ones(len(view), dtype=np.bool_)
        return view.aggregates.spread(lambda aggregates: zone in self._zones(aggregates))

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        return request.availability_zone or ""

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        found = some(self._zones(view.aggregates_of(row)))
        return f"asks for zone {request.availability_zone}, the host is in {found}"

    def summary(
        self, view: HostView, rows: NDArray[np.intp], request: SchedulingRequest, facts: Facts
    ) -> str:
        return f"not in availability zone {clipped(request.availability_zone)}"

"""What IoOpsFilter and NumInstancesFilter have in common: a count of the host stays below a maximum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.view import Column, HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters._aggregate_values import minimum_or, whole_number
from nova_sched.plugins.filters._texts import amount
from nova_sched.settings import SchedulerSettings


class MaximumFilter(HostFilter):
    """``column < maximum``. ``key``: option and aggregate metadata key; ``limit_name``: field of ``Limits``."""

    key: ClassVar[str]
    column: ClassVar[str]
    limit_name: ClassVar[str]
    per_aggregate: ClassVar[bool] = False

    def __init__(self, option: int) -> None:
        self._option = option

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        return cls(getattr(settings.filters, cls.key))

    def _maximum(self, view: HostView) -> Column:
        if self.per_aggregate:
            return minimum_or(view, self.key, whole_number, self._option)
        return np.full(len(view), float(self._option))

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        below: Mask = view.number(self.column) < self._maximum(view)
        return below

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        one = view.take(np.array([row]))
        found, maximum = one.number(self.column).item(), self._maximum(one).item()
        return f"{self.column} is {amount(found)}, must be below {amount(maximum)}"

    def summary(
        self, view: HostView, rows: NDArray[np.intp], request: SchedulingRequest, facts: Facts
    ) -> str:
        found = view.take(rows).number(self.column)
        known = found[~np.isnan(found)]
        return f"{self.reason}, fewest found {amount(known.min().item() if len(known) else np.nan)}"

    def limits(self, view: HostView, row: int, request: SchedulingRequest) -> Mapping[str, Any]:
        return {self.limit_name: int(self._maximum(view.take(np.array([row]))).item())}

"""MetricsFilter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters import _columns
from nova_sched.plugins.filters._metric_settings import parse_ratios
from nova_sched.plugins.filters._texts import some
from nova_sched.settings import SchedulerSettings


class MetricsFilter(HostFilter):
    """The host reports every metric that ``[metrics] weight_setting`` names, so that MetricsWeigher can weigh it."""

    name = "MetricsFilter"
    reason = "lacks a metric"

    def __init__(self, metrics: Iterable[str]) -> None:
        self._metrics = frozenset(metrics)

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        return cls(name for name, _ in parse_ratios(settings.weighers.metrics_weight_setting))

    def _missing(self, text: str | None) -> frozenset[str]:
        found: Mapping[str, float] = _columns.metrics(text)
        return self._metrics - found.keys()

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        return view.coded("metrics").spread(lambda text: _columns.metrics(text).keys() >= self._metrics)

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        return f"does not report {some(self._missing(view.coded('metrics')[row]))}"

    def summary(
        self, view: HostView, rows: NDArray[np.intp], request: SchedulingRequest, facts: Facts
    ) -> str:
        texts = view.take(rows).coded("metrics")
        missing = frozenset[str]().union(
            *(self._missing(texts.values[code]) for code in np.unique(texts.codes))
        )
        return f"{self.reason}: {some(missing)}"

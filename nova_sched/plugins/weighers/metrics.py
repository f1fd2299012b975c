"""MetricsWeigher."""

from __future__ import annotations

from typing import Self

import numpy as np

from nova_sched.errors import RequestRefused
from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import Column, HostWeigher, RawWeights
from nova_sched.plugins.filters import _columns
from nova_sched.plugins.filters._metric_settings import parse_ratios
from nova_sched.plugins.weighers._multipliers import multiplier
from nova_sched.settings import SchedulerSettings, WeigherSettings


class MetricsWeigher(HostWeigher):
    """Sum of metric x ratio over ``[metrics] weight_setting``.

    A host without one of the metrics: with ``required`` the request is refused, naming metric and host (enable
    MetricsFilter to leave such hosts out instead); otherwise the host weighs ``weight_of_unavailable``, unless the
    ratio of that metric is 0.
    """

    name = "MetricsWeigher"
    counts_at_zero = True

    def __init__(self, settings: WeigherSettings) -> None:
        self._ratios = parse_ratios(settings.metrics_weight_setting)
        self._multiplier = settings.metrics_weight_multiplier
        self._required = settings.metrics_required
        self._unavailable = settings.metrics_weight_of_unavailable

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        return cls(settings.weighers)

    def raw(self, view: HostView, request: SchedulingRequest, facts: Facts) -> RawWeights:
        if not self._ratios:
            return RawWeights(np.zeros(len(view)))
        sums: Column = view.coded("metrics").map(self._sum, np.float64)
        missing = np.isnan(sums)
        if missing.any():
            if self._required:
                self._refuse(view, int(missing.argmax()))
            sums = np.where(missing, self._unavailable, sums)
        return RawWeights(sums)

    def _sum(self, text: str | None) -> float:
        found = _columns.metrics(text)
        # A metric that weighs nothing is missed only where it is required.
        counted = (pair for pair in self._ratios if pair[1] or self._required)
        return sum(found.get(name, np.nan) * ratio for name, ratio in counted)

    def _refuse(self, view: HostView, row: int) -> None:
        found = _columns.metrics(view.coded("metrics")[row])
        metric = next(name for name, _ in self._ratios if name not in found)
        raise RequestRefused(
            self.name,
            f"required metric {metric} is missing on host {view.hosts[row]}, node {view.nodes[row]}",
        )

    def multiplier(self, view: HostView) -> float | Column:
        return multiplier(view, "metrics_weight_multiplier", self._multiplier)

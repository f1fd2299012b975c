"""Weighers of one amount of a host: more of it weighs more, times the multiplier."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Self

import numpy as np

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import Column, HostWeigher, RawWeights
from nova_sched.plugins.weighers._multipliers import multiplier
from nova_sched.settings import SchedulerSettings


class AmountWeigher(HostWeigher):
    """``key``: option and aggregate metadata key of the multiplier. ``sign``: -1 where more of it is worse."""

    key: ClassVar[str]
    sign: ClassVar[float] = 1.0
    floor: ClassVar[float | None] = None

    def __init__(self, option: float) -> None:
        self._option = option

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        return cls(getattr(settings.weighers, cls.key))

    @abstractmethod
    def amount(self, view: HostView) -> Column:
        """The amount per row; NaN = unknown."""

    def raw(self, view: HostView, request: SchedulingRequest, facts: Facts) -> RawWeights:
        """The amounts; an unknown one counts as 0 and ranks after all known ones, whatever the multiplier's sign."""
        amounts = self.amount(view)
        unknown = np.isnan(amounts)
        if not unknown.any():
            return RawWeights(amounts, self.floor)
        return RawWeights(np.where(unknown, 0.0, amounts), self.floor, unknown)

    def multiplier(self, view: HostView) -> float | Column:
        found = multiplier(view, self.key, self._option)
        return found if self.sign == 1.0 else self.sign * found

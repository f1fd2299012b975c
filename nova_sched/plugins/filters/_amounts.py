"""What the Ram, Core and Disk filters have in common: total × ratio − used ≥ asked, and asked ≤ total.

The ratio overcommits the whole machine, not what is left of it, and only among guests: one guest may not be larger
than the machine. Ratio of a host, first that is set: numeric minimum of its aggregates (Aggregate* filters), what its
agent reported (0 or NULL = not set), the option.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.view import Column, HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters._aggregate_values import minimum_or, ratio
from nova_sched.plugins.filters._texts import amount
from nova_sched.settings import SchedulerSettings


def reported_or(view: HostView, column: str, option: float) -> Column:
    """Per row the ratio that the agent reported, ``option`` where it reported none or 0."""
    reported = view.number(column)
    return np.where(np.isnan(reported) | (reported == 0.0), option, reported)


class AmountFilter(HostFilter):
    """Room for one amount of a guest. ``key``: option, aggregate metadata key; ``column``: the reported ratio."""

    key: ClassVar[str]
    column: ClassVar[str]
    unit: ClassVar[str]
    per_aggregate: ClassVar[bool] = False

    def __init__(self, option: float) -> None:
        self._option = option

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        return cls(float(getattr(settings.filters, cls.key)))

    @abstractmethod
    def asked(self, request: SchedulingRequest) -> float:
        """What one guest asks for, in ``unit``."""

    @abstractmethod
    def total(self, view: HostView) -> Column:
        """What each host has, in ``unit``."""

    @abstractmethod
    def used(self, view: HostView) -> Column:
        """What is taken of it, in ``unit``."""

    def ratio(self, view: HostView) -> Column:
        """Overcommit ratio of each row."""
        own = reported_or(view, self.column, self._option)
        return minimum_or(view, self.key, ratio, own) if self.per_aggregate else own

    def limit(self, view: HostView) -> Column:
        """Most that all guests of a host together may take."""
        return view.derived((self.name, self._option), lambda rows: self.total(rows) * self.ratio(rows))

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        asked = self.asked(request)
        fits: Mask = self.limit(view) - self.used(view) >= asked
        return fits & (asked <= self.total(view))

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        one = view.take(np.array([row]))
        asked, total = self.asked(request), self.total(one).item()
        if asked > total:
            return f"asks for {amount(asked, self.unit)}, the host has {amount(total, self.unit)} in total"
        usable = self.limit(one).item() - self.used(one).item()
        return (
            f"asks for {amount(asked, self.unit)}, usable are {amount(usable, self.unit)} (total "
            f"{amount(total, self.unit)} x {amount(self.ratio(one).item())} - {amount(self.used(one).item())} used)"
        )

    def summary(
        self, view: HostView, rows: NDArray[np.intp], request: SchedulingRequest, facts: Facts
    ) -> str:
        refused = view.take(rows)
        usable = np.minimum(self.limit(refused) - self.used(refused), self.total(refused))
        known = usable[~np.isnan(usable)]
        most = amount(known.max().item() if len(known) else np.nan, self.unit)
        return f"{self.reason}, most usable {most} of {amount(self.asked(request), self.unit)} asked"

    def limit_of(self, view: HostView, row: int) -> float:
        """Limit of one row."""
        return float(self.limit(view.take(np.array([row]))).item())

    @abstractmethod
    def limits(self, view: HostView, row: int, request: SchedulingRequest) -> Mapping[str, Any]:
        """The limit of the chosen row under its name in ``Limits``."""

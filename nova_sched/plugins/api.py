"""The extension points: filters and weighers, over a read-only view.

A plugin is built once at start with :meth:`from_settings` and is stateless afterwards, so any thread may use it for
any request. It reads the view, the request and the facts; it does no I/O, knows no clock (the view carries
``now_seconds``) and changes nothing. Raising :class:`~nova_sched.errors.RequestRefused` ends the request with a
reason; anything else raised becomes a :class:`~nova_sched.errors.PluginError` that names the plugin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Fact, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.settings import SchedulerSettings

Mask = NDArray[np.bool_]
Column = NDArray[np.float64]


class HostFilter(ABC):
    """Says which hosts a request may use. The answer for a row depends on that row, the request and the facts only.

    ``run_once_per_request``: the answer does not depend on what earlier instances of the same request took, so it is
    asked in the first round only (and appears in the first round's trace only).
    ``per_row``: costs time per host; the pipeline hands it only the rows that earlier filters left.
    ``needs``: facts the service has to prefetch.
    ``reason``: constant half sentence for "does not fit", e.g. ``not enough free RAM``.
    A class without the texts ``name`` and ``reason`` is refused at the start.
    """

    name: ClassVar[str]
    reason: ClassVar[str]
    run_once_per_request: ClassVar[bool] = False
    per_row: ClassVar[bool] = False
    needs: ClassVar[frozenset[Fact]] = frozenset()

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        """Build the one instance of the process. Raises ConfigurationError for values it cannot use."""
        return cls()

    @abstractmethod
    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        """Boolean array of ``len(view)``: True where the host passes. A host whose needed value is unknown fails."""

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        """What the mask depends on besides static columns, or None when it may not be cached.

        Return a key only if the mask reads nothing but static columns (``view.static_generation``) and the parts of
        the request that make up the key. ``()`` is a key: "the same for all requests".
        """
        return None

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        """One sentence with the wanted and the found value for one refused row; only asked when somebody reads it."""
        return self.reason

    def summary(
        self, view: HostView, rows: NDArray[np.intp], request: SchedulingRequest, facts: Facts
    ) -> str:
        """One bounded half sentence about all rows refused (no host names), e.g. ``most free 1024 MB of 2048 asked``."""
        return self.reason

    def limits(self, view: HostView, row: int, request: SchedulingRequest) -> Mapping[str, Any]:
        """Fields of :class:`~nova_sched.model.limits.Limits` that this filter sets for the chosen row.

        Asked after the choice, in the order of the filters (a later filter's field replaces an earlier one's).
        """
        return {}

    def check(self, request: SchedulingRequest) -> None:  # noqa: B027 (most filters have nothing to check)
        """Refuse a broken request. Asked before the filter's first :meth:`mask`, if hosts are left. Raises RequestRefused."""

    def concerns(self, view: HostView, request: SchedulingRequest) -> bool:
        """Whether one of these hosts (those left) meets the part that :meth:`check` refused; asked only then.

        A request whose broken part no host meets is not refused, as in Nova; :meth:`mask` must be able to answer it.
        """
        return True


@dataclass(frozen=True, slots=True)
class RawWeights:
    """Raw values of a weigher over the rows of its view, and how to normalise them.

    ``floor``: the smallest value counts as at most this (RAM: 0); None = the plain minimum.
    ``demoted``: rows that rank after all others, whatever the sign of any multiplier (unknown amounts); None = none.
    """

    values: Column
    floor: float | None = None
    demoted: Mask | None = None


class HostWeigher(ABC):
    """Says how much a request likes each host that passed.

    ``per_row`` and ``needs`` as for filters; the value of a row depends on that row, the request and the facts only.
    Multiplied by :meth:`multiplier`, one number or one per row (per-aggregate multipliers); it may depend on static parts of
    the view only, and one number is kept until the table changes.
    ``counts_at_zero``: asked even while its multiplier is 0, because it may refuse requests or demote hosts.
    """

    name: ClassVar[str]
    per_row: ClassVar[bool] = False
    needs: ClassVar[frozenset[Fact]] = frozenset()
    counts_at_zero: ClassVar[bool] = False

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        """Build the one instance of the process. Raises ConfigurationError for values it cannot use."""
        return cls()

    @abstractmethod
    def raw(self, view: HostView, request: SchedulingRequest, facts: Facts) -> RawWeights:
        """Raw weights of the rows of ``view`` (only hosts that passed the filters).

        Raises RequestRefused when a required value is missing (MetricsWeigher).
        """

    @abstractmethod
    def multiplier(self, view: HostView) -> float | Column:
        """Option's value, or one per row where an aggregate sets its own."""

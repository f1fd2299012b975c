"""The filters of a configuration, run over a request's hosts round after round.

Every filter's answer for a row depends on that row, the request and the facts alone. So masks are combined over the
whole table, static ones are kept across requests, and in the later rounds of a request only the rows consumed from
are asked again, except by filters whose facts change with each placement.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nova_sched.errors import RequestRefused
from nova_sched.hosts.view import HostView, Rows
from nova_sched.model.facts import Facts, moving_facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.guard import PluginGuard, checked_mask
from nova_sched.plugins.masks import MaskCache

#: Below this share of all hosts left, filters are asked about the rows left instead of all rows.
_SPARSE = 8


@dataclass(frozen=True, slots=True)
class Step:
    """One filter run in one round: masks over the whole table before and after it, with their counts."""

    filter: HostFilter
    before: Mask
    after: Mask
    hosts_in: int
    hosts_out: int

    def refused(self) -> Rows:
        """Rows that this step took out."""
        return np.flatnonzero(self.before & ~self.after)


class FilterPipeline:
    """The enabled filters in their order. ``limiting``: those of them that set limits."""

    def __init__(self, filters: Sequence[HostFilter], guard: PluginGuard) -> None:
        self.filters = tuple(filters)
        self._guard = guard
        self._cache = MaskCache(guard)
        # Most filters have neither a check nor limits, and asking all of them is what a cheap decision spends time on.
        self._checking = frozenset(
            one.name for one in self.filters if type(one).check is not HostFilter.check
        )
        self.limiting = tuple(one for one in self.filters if type(one).limits is not HostFilter.limits)

    def _check(self, asked: HostFilter, view: HostView, request: SchedulingRequest, left: Mask) -> None:
        """Let a filter refuse a broken request if a host that is left meets the broken part."""
        if asked.name not in self._checking:
            return
        try:
            self._guard.call(asked.name, asked.check, request)
        except RequestRefused:
            if self._guard.call(asked.name, asked.concerns, view.take(np.flatnonzero(left)), request):
                raise

    def sieve(self, view: HostView, request: SchedulingRequest, candidates: Mask | None = None) -> Sieve:
        """A fresh run over all rows of ``view`` (a whole table), or over those in ``candidates``."""
        return Sieve(self, view, request, candidates)

    def _mask(
        self, index: int, view: HostView, request: SchedulingRequest, facts: Facts, left: Mask, count: int
    ) -> Mask | None:
        """Mask over the whole table of one filter; right where ``left`` is set, anything elsewhere. None = all pass."""
        asked = self.filters[index]
        key: Hashable | None = self._guard.call(asked.name, asked.cache_key, request)
        sparse = count * _SPARSE < len(view)
        if key is not None and (not sparse or self._cache.has(index, key)):
            return self._cache.get(index, asked, key, view, request, facts)
        if not sparse and (not asked.per_row or count == len(view)):
            found = self._ask(asked, view, request, facts)
            return None if found.all() else found
        rows = np.flatnonzero(left)
        found = self._ask(asked, view.take(rows), request, facts)
        if found.all():
            return None
        mask = np.zeros(len(view), dtype=np.bool_)
        mask[rows] = found
        return mask

    def _ask(self, asked: HostFilter, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        mask = self._guard.call(asked.name, asked.mask, view, request, facts)
        return checked_mask(asked.name, mask, len(view))


class Sieve:
    """The hosts that one request may still use. ``left``: mask over the whole table; ``count``: how many.

    ``steps``: of the latest round, ending with the filter that left none. ``removed``: rows each filter took out in
    all rounds so far, by the filter's position.
    """

    def __init__(
        self, pipeline: FilterPipeline, view: HostView, request: SchedulingRequest, candidates: Mask | None
    ) -> None:
        self._pipeline = pipeline
        self._view = view
        self._request = request
        self.left: Mask = np.ones(len(view), dtype=np.bool_) if candidates is None else candidates
        self.count = int(np.count_nonzero(self.left))
        self.steps: list[Step] = []
        self._history: list[Step] = []

    def first_round(self, facts: Facts) -> None:
        """Run all filters, as long as there are hosts. Raises RequestRefused, PluginError."""
        self.steps = []
        for index, asked in enumerate(self._pipeline.filters):
            if not self.count:
                break
            self._pipeline._check(asked, self._view, self._request, self.left)
            self._pass(index, self._left_by(index, facts))

    def next_round(self, facts: Facts, touched: Sequence[int]) -> None:
        """Run the filters again after guests were consumed on the ``touched`` rows, over the hosts left."""
        self.steps = []
        rows = np.array(sorted(set(touched)), dtype=np.intp)
        moving = moving_facts(facts)
        for index, asked in enumerate(self._pipeline.filters):
            if asked.run_once_per_request:
                continue
            if asked.needs & moving:
                self._pass(index, self._left_by(index, facts))
            else:
                self._pass(index, self._without_refused(asked, rows, facts))
            if not self.count:
                break

    def _left_by(self, index: int, facts: Facts) -> Mask:
        mask = self._pipeline._mask(index, self._view, self._request, facts, self.left, self.count)
        return self.left if mask is None else self.left & mask

    def _without_refused(self, asked: HostFilter, rows: Rows, facts: Facts) -> Mask:
        rows = rows[self.left[rows]]
        if not len(rows):
            return self.left
        passes = self._pipeline._ask(asked, self._view.take(rows), self._request, facts)
        if passes.all():
            return self.left
        left = self.left.copy()
        left[rows[~passes]] = False
        return left

    def _pass(self, index: int, after: Mask) -> None:
        count = self.count if after is self.left else int(np.count_nonzero(after))
        step = Step(self._pipeline.filters[index], self.left, after, self.count, count)
        self.steps.append(step)
        if count != self.count:
            self._history.append(step)
        self.left, self.count = after, count

    def removed(self) -> list[tuple[HostFilter, NDArray[np.intp]]]:
        """Per filter that took hosts out, in the order of the filters, the rows of all rounds together."""
        by_filter: dict[int, list[Rows]] = {}
        for step in self._history:
            position = next(i for i, one in enumerate(self._pipeline.filters) if one is step.filter)
            by_filter.setdefault(position, []).append(step.refused())
        return [(self._pipeline.filters[i], np.concatenate(rows)) for i, rows in sorted(by_filter.items())]

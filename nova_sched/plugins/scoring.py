"""Asking the weighers, and drawing one of the best hosts.

Each weigher's raw values are stretched to 0…1 between their smallest and largest value of this very round, multiplied,
and summed. Equal weights keep the order of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nova_sched.hosts.view import HostView, Rows
from nova_sched.model.facts import Facts, moving_facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import Column, HostWeigher, Mask
from nova_sched.plugins.guard import PluginGuard, checked_column, checked_mask
from nova_sched.plugins.scores import Part, Scores, normalised


class Scorer:
    """The enabled weighers in their order, and how one of the best hosts is drawn."""

    def __init__(
        self,
        weighers: Sequence[HostWeigher],
        guard: PluginGuard,
        *,
        subset_size: int = 1,
        shuffle: bool = False,
    ) -> None:
        self.weighers = tuple(weighers)
        self.subset_size = max(1, subset_size)
        self._shuffle = shuffle
        self.guard = guard
        self._plain_multipliers: dict[int, float] = {}
        self._plain_of: tuple[object, int] = (None, -1)

    def weighing(self, request: SchedulingRequest) -> Weighing:
        """The weights of one request's hosts, round after round."""
        return Weighing(self, request)

    def multiplier(self, index: int, view: HostView) -> float | Column:
        """One number or one per row for weigher number ``index``; a plain number is asked for once per generation."""
        if self._plain_of != (view.origin, view.generation):
            self._plain_of = (view.origin, view.generation)
            self._plain_multipliers.clear()
        kept = self._plain_multipliers.get(index)
        if kept is not None:
            return kept
        weigher = self.weighers[index]
        found = self.guard.call(weigher.name, weigher.multiplier, view)
        if isinstance(found, np.ndarray):
            return checked_column(weigher.name, found, len(view))
        number = self._plain_multipliers[index] = float(found)
        return number

    def draw(self, scores: Scores, rng: np.random.Generator) -> int:
        """Position in ``scores.rows`` of the host to use: the best, or one of the best ``subset_size`` by chance."""
        if self.subset_size == 1 and not self._shuffle:
            return scores.top(1)[0]
        best = scores.top(min(self.subset_size, len(scores.rows)))
        if self._shuffle:
            tied = scores.choices(1)
            tied = tied[rng.permutation(len(tied))]
            best = [*tied.tolist(), *(position for position in best if position not in tied)][: len(best)]
        return best[int(rng.integers(len(best)))] if len(best) > 1 else best[0]


@dataclass(slots=True)
class _Raw:
    """Raw weights of one weigher, a value per row of the round they were computed in."""

    values: Column
    floor: float | None
    demoted: Mask | None

    def keep(self, kept: Mask) -> None:
        """Forget the rows that are not kept."""
        self.values = self.values[kept]
        self.demoted = None if self.demoted is None else self.demoted[kept]

    def put(self, positions: Rows, newer: _Raw) -> None:
        """Take over newer values of some rows. Earlier rounds keep theirs."""
        self.values = self.values.copy()
        self.values[positions] = newer.values
        if self.demoted is not None or newer.demoted is not None:
            demoted = np.zeros(len(self.values), np.bool_) if self.demoted is None else self.demoted.copy()
            demoted[positions] = False if newer.demoted is None else newer.demoted
            self.demoted = demoted


class Weighing:
    """The weights of one request. Raw values are asked once per row, and again for rows consumed from.

    The smallest and largest values, and so all weights, are those of the hosts left in each round.
    """

    def __init__(self, scorer: Scorer, request: SchedulingRequest) -> None:
        self._scorer = scorer
        self._request = request
        self._rows: Rows | None = None
        self._raws: dict[int, _Raw] = {}

    def scores(self, view: HostView, facts: Facts, touched: Sequence[int] = ()) -> Scores:
        """Weights of all rows of ``view``, which are rows of the previous round's view; ``touched``: table rows.

        Raises PluginError and RequestRefused.
        """
        self._advance(view)
        changed = self._changed(view, touched)
        moving = moving_facts(facts)
        total: Column | None = None
        demoted: Mask | None = None
        parts: list[Part] = []
        for index, weigher in enumerate(self._scorer.weighers):
            multiplier = self._scorer.multiplier(index, view)
            if isinstance(multiplier, float) and multiplier == 0.0 and not weigher.counts_at_zero:
                continue
            raw = self._raws.get(index)
            if raw is None or weigher.needs & moving:
                raw = self._raws[index] = self._ask(weigher, view, facts)
            elif len(changed):
                raw.put(changed, self._ask(weigher, view.take(changed), facts))
            stretched = normalised(raw.values, raw.floor)
            weighted = (
                stretched if isinstance(multiplier, float) and multiplier == 1.0 else multiplier * stretched
            )
            total = weighted if total is None else total + weighted
            parts.append(Part(weigher.name, raw.values, stretched, weighted))
            if raw.demoted is not None:
                demoted = raw.demoted if demoted is None else demoted | raw.demoted
        if demoted is not None and not demoted.any():
            demoted = None
        weights = np.zeros(len(view)) if total is None else total
        return Scores(view.table_rows, weights, demoted, tuple(parts))

    def _advance(self, view: HostView) -> None:
        """Narrow what is known to the rows that are left."""
        rows = view.table_rows
        if self._rows is not None and len(rows) != len(self._rows):
            still_there = np.zeros(int(self._rows[-1]) + 1, dtype=np.bool_)
            still_there[rows] = True
            kept = still_there[self._rows]
            for raw in self._raws.values():
                raw.keep(kept)
        self._rows = rows

    def _changed(self, view: HostView, touched: Sequence[int]) -> Rows:
        """Positions in the view of the touched rows that are still in it."""
        rows = view.table_rows
        wanted = np.array(sorted(set(touched)), dtype=np.intp)
        positions = np.searchsorted(rows, wanted)
        there = positions < len(rows)
        positions, wanted = positions[there], wanted[there]
        found: Rows = positions[rows[positions] == wanted]
        return found

    def _ask(self, weigher: HostWeigher, view: HostView, facts: Facts) -> _Raw:
        found = self._scorer.guard.call(weigher.name, weigher.raw, view, self._request, facts)
        values = checked_column(weigher.name, found.values, len(view))
        demoted = None if found.demoted is None else checked_mask(weigher.name, found.demoted, len(view))
        return _Raw(values, found.floor, demoted)

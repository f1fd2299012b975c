"""Weighing the hosts that passed the filters, and drawing one of the best.

Juno's arithmetic: each weigher's raw values are stretched to 0…1 between their smallest and largest value of this
very round, multiplied, and summed. Equal weights keep the order of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.view import HostView, Rows
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import Column, HostWeigher, Mask, RawWeights
from nova_sched.plugins.guard import PluginGuard, checked_column, checked_mask


def normalised(values: Column, floor: float | None = None) -> Column:
    """Values stretched so that the smallest (or ``floor`` if that is smaller) is 0 and the largest 1; all 0 if equal.

    NaN counts as the smallest.
    """
    if not len(values):
        return values
    low, high = float(values.min()), float(values.max())
    if np.isnan(low):
        known = values[~np.isnan(values)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        values = np.where(np.isnan(values), low, values)
    if floor is not None:
        low = min(low, floor)
    if low == high:
        return np.zeros(len(values))
    stretched: Column = (values - low) / (high - low)
    return stretched


@dataclass(frozen=True, slots=True)
class Part:
    """What one weigher adds to each row of a scoreboard."""

    name: str
    raw: Column
    normalised: Column
    weighted: Column


@dataclass(frozen=True, slots=True)
class Scores:
    """Weights of the candidate rows (table rows, in table order). ``demoted`` ones rank after all others."""

    rows: Rows
    weights: Column
    demoted: Mask | None
    parts: tuple[Part, ...]

    def ranked(self) -> NDArray[np.intp]:
        """Positions in ``rows`` from the best to the worst."""
        if self.demoted is None:
            return np.argsort(-self.weights, kind="stable")
        return np.lexsort((-self.weights, self.demoted))

    def top(self, count: int) -> list[int]:
        """The best ``count`` positions in ``rows``, best first, without sorting all."""
        if count * 16 >= len(self.rows):
            best: list[int] = self.ranked()[:count].tolist()
            return best
        left = self._contenders()
        best = []
        for _ in range(count):
            position = int(left.argmax())
            best.append(position)
            left[position] = -np.inf
        return best

    def choices(self, subset_size: int) -> NDArray[np.intp]:
        """Positions that may be chosen: the best ``subset_size`` and those that tie with the last of them."""
        if subset_size == 1:
            contenders = self._contenders()
            return np.flatnonzero(contenders == contenders.max())
        best = self.ranked()
        last = best[min(subset_size, len(best)) - 1]
        if self.demoted is None:
            return np.flatnonzero(self.weights >= self.weights[last])
        as_good = (self.demoted == self.demoted[last]) & (self.weights >= self.weights[last])
        return np.flatnonzero(as_good | (self.demoted < self.demoted[last]))

    def _contenders(self) -> Column:
        """A fresh copy of the weights in which demoted rows cannot win, unless there are no others."""
        if self.demoted is None or self.demoted.all():
            return self.weights.copy()
        return np.where(self.demoted, -np.inf, self.weights)


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
        self._guard = guard

    def weigh(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Scores:
        """Weights of all rows of ``view``. Raises PluginError and RequestRefused."""
        rows = len(view)
        total = np.zeros(rows)
        demoted: Mask | None = None
        parts: list[Part] = []
        for weigher in self.weighers:
            multiplier = self._guard.call(weigher.name, weigher.multiplier, view)
            if isinstance(multiplier, np.ndarray):
                multiplier = checked_column(weigher.name, multiplier, rows)
            elif multiplier == 0.0 and not weigher.counts_at_zero:
                continue
            raw = self._guard.call(weigher.name, weigher.raw, view, request, facts)
            values = checked_column(weigher.name, raw.values, rows)
            stretched = normalised(values, raw.floor)
            weighted = multiplier * stretched
            total += weighted
            parts.append(Part(weigher.name, values, stretched, weighted))
            demoted = _joined(demoted, raw, weigher.name, rows)
        return Scores(view.table_rows, total, demoted, tuple(parts))

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


def _joined(demoted: Mask | None, raw: RawWeights, name: str, rows: int) -> Mask | None:
    if raw.demoted is None:
        return demoted
    more = checked_mask(name, raw.demoted, rows)
    if not more.any():
        return demoted
    return more if demoted is None else demoted | more

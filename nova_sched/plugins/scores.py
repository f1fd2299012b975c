"""Weights of the hosts that passed the filters: Juno's arithmetic, and who is best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.view import Rows
from nova_sched.plugins.api import Column, Mask


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
        if count == 1:
            return [int(self._contenders().argmax())]
        if count * 16 >= len(self.rows) or self.demoted is not None:
            best: list[int] = self.ranked()[:count].tolist()
            return best
        left = self.weights.copy()
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

    def choices_among(self, top: list[int], subset_size: int) -> list[int]:
        """Those of the best positions (best first) that may be chosen, without looking at all others."""
        last = min(subset_size, len(top)) - 1
        as_good = [p for p in top[last + 1 :] if self._ranks_as(p, top[last])]
        return sorted([*top[: last + 1], *as_good])

    def _ranks_as(self, position: int, other: int) -> bool:
        same = self.demoted is None or self.demoted[position] == self.demoted[other]
        return bool(same and self.weights[position] == self.weights[other])

    def _contenders(self) -> Column:
        """The weights, in which demoted rows cannot win unless there are no others."""
        if self.demoted is None or self.demoted.all():
            return self.weights
        return np.where(self.demoted, -np.inf, self.weights)

"""Masks of filters that read static columns only, kept across requests and updated row by row."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.guard import PluginGuard, checked_mask


@dataclass(slots=True)
class _Kept:
    mask: Mask
    passes_all: bool
    origin: object
    stamp: int


class MaskCache:
    """The ``capacity`` most recently used masks, by filter and its cache key, each over the whole table.

    A kept mask is brought up to date by asking the filter about the rows whose static parts changed since.
    """

    def __init__(self, guard: PluginGuard, capacity: int = 256) -> None:
        self._guard = guard
        self._capacity = capacity
        self._kept: OrderedDict[tuple[int, Hashable], _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(
        self,
        index: int,
        asked: HostFilter,
        key: Hashable,
        view: HostView,
        request: SchedulingRequest,
        facts: Facts,
    ) -> Mask | None:
        """Mask of filter number ``index`` over ``view``, which must be a whole table. Read-only; None = all pass."""
        kept = self._kept.get((index, key))
        if kept is None or kept.origin is not view.origin:
            kept = self._keep(self._ask(asked, view, request, facts), view)
        elif kept.stamp != view.static_stamp or len(kept.mask) != len(view):
            kept = self._keep(self._updated(kept, asked, view, request, facts), view)
        self._kept[index, key] = kept
        self._kept.move_to_end((index, key))
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
        return None if kept.passes_all else kept.mask

    def _keep(self, mask: Mask, view: HostView) -> _Kept:
        mask.flags.writeable = False
        return _Kept(mask, bool(mask.all()), view.origin, view.static_stamp)

    def has(self, index: int, key: Hashable) -> bool:
        """Whether a mask is kept under this key."""
        return (index, key) in self._kept

    def _updated(
        self, kept: _Kept, asked: HostFilter, view: HostView, request: SchedulingRequest, facts: Facts
    ) -> Mask:
        changed = np.flatnonzero(view.static_generation > kept.stamp)
        if len(changed) * 2 > len(view):
            return self._ask(asked, view, request, facts)
        mask = np.zeros(len(view), dtype=np.bool_)
        mask[: len(kept.mask)] = kept.mask[: len(view)]
        mask[changed] = self._ask(asked, view.take(changed), request, facts)
        return mask

    def _ask(self, asked: HostFilter, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        mask = self._guard.call(asked.name, asked.mask, view, request, facts)
        return checked_mask(asked.name, mask, len(view)).copy()

"""ComputeCapabilitiesFilter."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters import _columns
from nova_sched.plugins.filters._attributes import ATTRIBUTES, stats_of
from nova_sched.plugins.filters._operators import is_broken, match, refuse_broken
from nova_sched.plugins.filters._texts import clipped

_SCOPE = "capabilities"
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class _Spec:
    """One requirement: ``path`` leads from the host to the value. ``strict``: a host without the value is refused."""

    key: str
    path: tuple[str, ...]
    requirement: str
    strict: bool


class ComputeCapabilitiesFilter(HostFilter):
    """Extra specs, without scope or in scope ``capabilities``, hold for the host.

    ``capabilities:cpu_info:topology:cores`` descends into an attribute that is JSON text or an object; a name that is
    no attribute (or one that is unknown) is looked up in ``stats``. A key without scope that a host has neither as
    attribute nor in its stats is meant for another filter and ignored for that host.
    """

    name = "ComputeCapabilitiesFilter"
    reason = "lacks a capability"
    run_once_per_request = True

    def check(self, request: SchedulingRequest) -> None:
        for spec in _specs(request):
            refuse_broken(self.name, spec.key, spec.requirement)

    def concerns(self, view: HostView, request: SchedulingRequest) -> bool:
        broken = [spec for spec in _specs(request) if is_broken(spec.requirement)]
        return any(_has(view, spec).any() for spec in broken)

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        return None if any(True for _ in _specs(request)) else ()

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        passes = np.ones(len(view), dtype=np.bool_)
        for spec in _specs(request):
            passes &= _holds(view, spec)
        return passes

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        one = view.take(np.array([row]))
        for spec in _specs(request):
            if not _holds(one, spec)[0]:
                found = _found(one, spec)
                text = "nothing" if found is _ABSENT else clipped(_as_text(found))
                return f"{clipped(spec.key)} must be {clipped(spec.requirement)!r}, found {text!r}"
        return self.reason

    def summary(
        self, view: HostView, rows: NDArray[np.intp], request: SchedulingRequest, facts: Facts
    ) -> str:
        refused = view.take(rows)
        failing = [spec for spec in _specs(request) if not _holds(refused, spec).all()]
        asked = ", ".join(f"{clipped(spec.key)} {clipped(spec.requirement)!r}" for spec in failing[:3])
        return f"{self.reason}: {asked}" if asked else self.reason


def _specs(request: SchedulingRequest) -> Iterator[_Spec]:
    for key, requirement in request.flavor.extra_specs.items():
        scope, *rest = path = key.split(":")
        if not rest:
            yield _Spec(key, (key,), str(requirement), strict=False)
        elif scope == _SCOPE:
            yield _Spec(key, tuple(path[1:]), str(requirement), strict=True)


def _holds(view: HostView, spec: _Spec) -> Mask:
    name, rest = spec.path[0], spec.path[1:]
    attribute = ATTRIBUTES.get(name)
    absent = not spec.strict and attribute is None
    own: Mask = np.zeros(len(view), dtype=np.bool_)
    known: Mask = own
    if attribute is not None:
        values = attribute.read(view)
        known = values.spread(lambda value: value is not None)
        own = values.spread(lambda value: _satisfies(value, rest, spec, absent))
        if known.all():
            return own
    in_stats = stats_of(view).spread(lambda stats: _satisfies(_in_stats(stats, name), rest, spec, absent))
    return np.where(known, own, in_stats)


def _has(view: HostView, spec: _Spec) -> Mask:
    """True where the host has a value for the requirement to be compared with."""
    name, rest = spec.path[0], spec.path[1:]
    attribute = ATTRIBUTES.get(name)
    stats = stats_of(view)
    in_stats = stats.spread(lambda found: _descend(_in_stats(found, name), rest) not in (None, _ABSENT))
    if attribute is None:
        return in_stats
    values = attribute.read(view)
    known = values.spread(lambda value: value is not None)
    return np.where(known, values.spread(lambda value: _descend(value, rest) is not None), in_stats)


def _satisfies(value: Any, rest: tuple[str, ...], spec: _Spec, absent: bool) -> bool:
    """``absent``: the answer for a host that does not have the name at all."""
    if value is _ABSENT:
        return absent
    found = _descend(value, rest)
    return found is not None and match(_as_text(found), spec.requirement)


def _in_stats(stats: Mapping[str, Any] | None, name: str) -> Any:
    """The value in parsed stats; None when they are broken (whether the name is in them is unknown)."""
    if stats is None:
        return None
    found = stats.get(name)
    return _ABSENT if found is None else found


def _descend(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        inner = _columns.parse(value) if isinstance(value, str) else value
        if not isinstance(inner, Mapping):
            return None
        value = inner.get(name)
    return value


def _found(one: HostView, spec: _Spec) -> Any:
    attribute = ATTRIBUTES.get(spec.path[0])
    value = attribute.read(one)[0] if attribute is not None else None
    if value is None:
        value = _in_stats(stats_of(one)[0], spec.path[0])
    if value is _ABSENT or value is None:
        return _ABSENT
    found = _descend(value, spec.path[1:])
    return _ABSENT if found is None else found


def _as_text(value: Any) -> str:
    return str(dict(value)) if isinstance(value, Mapping) else str(value)

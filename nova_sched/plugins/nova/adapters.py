"""Runs filters and weighers written for Nova as ours.

Which age a filter is of shows in the name of its second argument: ``filter_properties`` (Juno) or ``spec_obj`` (today).
The plugin is asked host by host, so the pipeline hands it only the rows that earlier filters left. What it raises
becomes a PluginError that names it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from nova_sched.errors import ConfigurationError
from nova_sched.hosts.view import HostView
from nova_sched.model.facts import NO_FACTS, Fact, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import Column, HostFilter, HostWeigher, Mask, RawWeights
from nova_sched.plugins.nova.base import WeighedHost
from nova_sched.plugins.nova.host_state import HostState
from nova_sched.plugins.nova.request_spec import RequestSpec, filter_properties
from nova_sched.settings import FilterSettings, SchedulerSettings

_JUNO_ARGUMENTS = frozenset({"filter_properties", "properties", "filter_props"})


class NovaFilter(HostFilter):
    """A filter of Nova. ``adapt_filter`` makes one subclass per class it adapts, with that class's name."""

    reason = "refused by a filter written for Nova"
    per_row = True

    def __init__(self, plugin: Any, settings: FilterSettings, *, juno: bool) -> None:
        self._plugin = plugin
        self._settings = settings
        self._juno = juno

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        spec: Any = filter_properties(request, facts) if self._juno else RequestSpec(request, facts)
        passes = np.empty(len(view), dtype=np.bool_)
        for row in range(len(view)):
            host = HostState(view, row, facts, self._settings, juno=self._juno)
            passes[row] = bool(self._plugin.host_passes(host, spec))
        return passes


class NovaWeigher(HostWeigher):
    """A weigher of Nova. ``adapt_weigher`` makes one subclass per class it adapts, with that class's name."""

    per_row = True

    def __init__(self, plugin: Any, settings: FilterSettings) -> None:
        self._plugin = plugin
        self._settings = settings

    def _hosts(self, view: HostView, facts: Facts) -> list[HostState]:
        return [HostState(view, row, facts, self._settings) for row in range(len(view))]

    def raw(self, view: HostView, request: SchedulingRequest, facts: Facts) -> RawWeights:
        spec = RequestSpec(request, facts)
        hosts = self._hosts(view, facts)
        if hasattr(self._plugin, "weigh_objects"):
            weights = self._plugin.weigh_objects([WeighedHost(host, 0.0) for host in hosts], spec)
        else:
            weights = [self._plugin._weigh_object(host, spec) for host in hosts]
        floor = getattr(self._plugin, "minval", None) if _has_floor(type(self._plugin)) else None
        return RawWeights(np.array(list(weights), dtype=np.float64), floor)

    def multiplier(self, view: HostView) -> float | Column:
        multiplier = getattr(self._plugin, "weight_multiplier", 1.0)
        if not callable(multiplier):
            return float(multiplier)
        if not inspect.signature(multiplier).parameters:
            return float(multiplier())
        return np.array([float(multiplier(host)) for host in self._hosts(view, NO_FACTS)], dtype=np.float64)


def adapt_filter(plugin: type[Any], settings: SchedulerSettings) -> HostFilter:
    """One filter of ours that asks an instance of ``plugin``. Raises ConfigurationError when it cannot be made."""
    parameters = list(inspect.signature(plugin.host_passes).parameters)
    if len(parameters) < 3:
        raise ConfigurationError(
            "scheduler_default_filters",
            plugin.__name__,
            "host_passes with arguments for the host and the request",
        )
    members = {
        "name": plugin.__name__,
        "__module__": plugin.__module__,
        "run_once_per_request": bool(getattr(plugin, "run_filter_once_per_request", False)),
        "needs": _needs(plugin),
        "__doc__": inspect.getdoc(plugin),
    }
    adapted: type[NovaFilter] = type(plugin.__name__, (NovaFilter,), members)
    made = _make(plugin, "scheduler_default_filters")
    return adapted(made, settings.filters, juno=parameters[2] in _JUNO_ARGUMENTS)


def adapt_weigher(plugin: type[Any], settings: SchedulerSettings) -> HostWeigher:
    """One weigher of ours that asks an instance of ``plugin``. Raises ConfigurationError when it cannot be made."""
    members = {
        "name": plugin.__name__,
        "__module__": plugin.__module__,
        "needs": _needs(plugin),
        "__doc__": inspect.getdoc(plugin),
    }
    adapted: type[NovaWeigher] = type(plugin.__name__, (NovaWeigher,), members)
    return adapted(_make(plugin, "scheduler_weight_classes"), settings.filters)


def _make(plugin: type[Any], option: str) -> Any:
    try:
        return plugin()
    except Exception as broken:
        raise ConfigurationError(
            option, plugin.__name__, f"a class that can be made without arguments; it raised {broken!r}"
        ) from broken


def _has_floor(plugin: type[Any]) -> bool:
    """Whether the class sets ``minval`` itself; Nova's old base class also keeps the last run's there (LP#1870096)."""
    return any("minval" in vars(base) and vars(base)["minval"] is not None for base in plugin.__mro__)


def _needs(plugin: type[Any]) -> frozenset[Fact]:
    """The group always; all instances of all hosts only for code that names the attribute, since that read is large."""
    needs = {Fact.GROUP}
    if any("instances" in code.co_names for code in _codes(plugin)):
        needs.add(Fact.INSTANCES_BY_HOST)
    return frozenset(needs)


def _codes(plugin: type[Any]) -> Iterator[CodeType]:
    """Code of the modules in which the plugin and its bases are defined, our own bases left out."""
    names = {base.__module__ for base in plugin.__mro__ if base is not object}
    for name in sorted(names - {"nova_sched.plugins.nova.base"}):
        for member in vars(sys.modules.get(name, object)).values():
            functions = vars(member).values() if isinstance(member, type) else (member,)
            for function in functions:
                if isinstance(plain := _unwrapped(function), FunctionType):
                    yield from _nested(plain.__code__)


def _unwrapped(member: Any) -> Callable[..., Any] | Any:
    if isinstance(member, property):
        return member.fget
    return getattr(member, "__func__", member)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)

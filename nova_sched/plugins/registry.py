"""Finds drivers, filters and weighers: entry points, dotted paths, and the names that Nova gives its own.

``known`` names come from the entry points ``nova_sched.drivers``, ``nova_sched.filters`` and ``nova_sched.weighers`` of
every installed package. A dotted path (``package.module.Class``) names a class that needs no entry point. Nova's own
dotted names mean ours, so that a nova.conf works unedited.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from nova_sched.errors import ConfigurationError, UnknownPlugin
from nova_sched.plugins.api import HostFilter, HostWeigher
from nova_sched.settings import SchedulerSettings

KINDS = ("drivers", "filters", "weighers")

#: Nova's names of whole catalogues; each stands for everything known of its kind.
CATALOGUES = {
    "nova.scheduler.filters.all_filters": "filters",
    "nova.scheduler.filters.standard_filters": "filters",
    "nova.scheduler.weights.all_weighers": "weighers",
}
NOVA_DRIVERS = {
    "nova.scheduler.filter_scheduler.FilterScheduler": "filter_scheduler",
    "nova.scheduler.chance.ChanceScheduler": "chance_scheduler",
    "nova.scheduler.caching_scheduler.CachingScheduler": "caching_scheduler",
}
#: Folders of Nova whose classes we have under the same class name.
_NOVA_FOLDERS = {"nova.scheduler.filters.": "filters", "nova.scheduler.weights.": "weighers"}

Plugin = TypeVar("Plugin")


@dataclass(frozen=True, slots=True)
class Source:
    """One plugin and where it comes from. ``path``: module:Class."""

    name: str
    path: str
    package: str | None


@lru_cache(maxsize=len(KINDS))
def _entry_points(kind: str) -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"nova_sched.{kind}")}


def known(kind: str) -> tuple[Source, ...]:
    """What the entry points of a kind (``drivers``, ``filters``, ``weighers``) offer, by name."""
    return tuple(
        Source(name, point.value, point.dist.name if point.dist else None)
        for name, point in sorted(_entry_points(kind).items())
    )


def load_driver(settings: SchedulerSettings) -> Any:
    """The configured :class:`~nova_sched.drivers.api.SchedulerDriver`. Raises UnknownPlugin, ConfigurationError."""
    name = NOVA_DRIVERS.get(settings.driver, settings.driver)
    found = _resolve("drivers", name, "scheduler_driver")
    if not callable(getattr(found, "from_settings", None)) or not callable(getattr(found, "decide", None)):
        raise ConfigurationError("scheduler_driver", settings.driver, "a class with from_settings and decide")
    return found.from_settings(settings)


def load_filters(settings: SchedulerSettings) -> list[HostFilter]:
    """The enabled filters in their order, each built once.

    Raises UnknownPlugin for a name that nobody knows, ConfigurationError for one that is not available.
    """
    _prepare_nova_imports(settings)
    available = _available(settings.filters.available)
    loaded: list[HostFilter] = []
    for name in settings.filters.enabled:
        found = available.get(name) or available.get(_class_name("filters", name))
        if found is None:
            _resolve("filters", name, "scheduler_default_filters")
            raise ConfigurationError(
                "scheduler_default_filters", name, "a filter that scheduler_available_filters offers"
            )
        loaded.append(_build_filter(_class_of(found, "scheduler_default_filters", name), settings, name))
    return loaded


def load_weighers(settings: SchedulerSettings) -> list[HostWeigher]:
    """The configured weighers in their order, each built once. Raises UnknownPlugin and ConfigurationError."""
    _prepare_nova_imports(settings)
    option = "scheduler_weight_classes"
    chosen: dict[Any, str] = {}
    for name in settings.weighers.classes:
        if CATALOGUES.get(name) == "weighers":
            points = _entry_points("weighers").values()
            chosen.update({_load(point, option): point.name for point in sorted(points, key=_by_module)})
        else:
            for one in _classes(_resolve("weighers", name, option)):
                chosen.setdefault(one, name)
    return [_build_weigher(found, settings, name) for found, name in chosen.items()]


def _by_module(point: EntryPoint) -> str:
    return point.value


def _available(names: Iterable[str]) -> dict[str, Any]:
    """Classes or their entry points by every name they go by."""
    offered: dict[str, Any] = {}
    for name in names:
        if CATALOGUES.get(name) == "filters":
            for point in _entry_points("filters").values():
                offered[point.name] = point
                offered.setdefault(point.attr, point)
            continue
        for found in _classes(_resolve("filters", name, "scheduler_available_filters")):
            offered[name] = offered[found.__name__] = found
            offered[f"{found.__module__}.{found.__name__}"] = found
    return offered


def _classes(found: Any) -> Sequence[Any]:
    """A class itself, or what a function that lists classes returns (as Nova's ``all_filters``)."""
    return [found] if isinstance(found, type) else list(found())


def _class_of(found: Any, option: str, name: str) -> Any:
    return _load(found, option) if isinstance(found, EntryPoint) else found


def _class_name(kind: str, name: str) -> str:
    """Our name for one of Nova's dotted class names, else the name itself."""
    for folder, of_kind in _NOVA_FOLDERS.items():
        if of_kind == kind and name.startswith(folder):
            return name.rpartition(".")[2]
    return name


def _resolve(kind: str, name: str, option: str) -> Any:
    """The class (or listing function) of a name. Raises UnknownPlugin, ConfigurationError."""
    points = _entry_points(kind)
    point = points.get(name) or points.get(_class_name(kind, name))
    if point is not None:
        return _load(point, option)
    module_name, _, attribute = name.replace(":", ".").rpartition(".")
    if not module_name:
        raise _unknown(kind, option, name)
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except AttributeError:
        raise _unknown(kind, option, name, f"{module_name} has no {attribute}") from None
    except ModuleNotFoundError as missing:
        if missing.name is not None and f"{module_name}.".startswith(f"{missing.name}."):
            raise _unknown(kind, option, name, f"there is no module {missing.name}") from None
        raise _broken(option, name, missing) from missing
    except Exception as broken:
        raise _broken(option, name, broken) from broken


def _unknown(kind: str, option: str, name: str, why: str = "") -> UnknownPlugin:
    """Each plugin by one of its names: that of its class, else the longest, which is Nova's."""
    by_path: dict[str, str] = {}
    for point in sorted(
        _entry_points(kind).values(), key=lambda point: (point.name == point.attr, len(point.name))
    ):
        by_path[point.value] = point.name
    return UnknownPlugin(option, name, by_path.values(), why, aliases=_entry_points(kind))


def _load(point: EntryPoint, option: str) -> Any:
    try:
        return point.load()
    except Exception as broken:
        raise _broken(option, point.name, broken) from broken


def _broken(option: str, name: str, why: Exception) -> ConfigurationError:
    return ConfigurationError(
        option, name, f"a plugin that loads; importing it raised {type(why).__name__}: {why}"
    )


def _build_filter(found: Any, settings: SchedulerSettings, name: str) -> HostFilter:
    if isinstance(found, type) and issubclass(found, HostFilter):
        ours: HostFilter = _built(found, settings, "scheduler_default_filters", name, ("name", "reason"))
        return ours
    if callable(getattr(found, "host_passes", None)):
        adapted: HostFilter = _adapters().adapt_filter(found, settings)
        return adapted
    raise ConfigurationError("scheduler_default_filters", name, "a HostFilter or a class with host_passes")


def _build_weigher(found: Any, settings: SchedulerSettings, name: str) -> HostWeigher:
    if isinstance(found, type) and issubclass(found, HostWeigher):
        ours: HostWeigher = _built(found, settings, "scheduler_weight_classes", name, ("name",))
        return ours
    if callable(getattr(found, "_weigh_object", None)) or callable(getattr(found, "weigh_objects", None)):
        adapted: HostWeigher = _adapters().adapt_weigher(found, settings)
        return adapted
    raise ConfigurationError("scheduler_weight_classes", name, "a HostWeigher or a class with _weigh_object")


def _built(found: Any, settings: SchedulerSettings, option: str, name: str, texts: Sequence[str]) -> Any:
    """The plugin, whose attributes ``texts`` are what they must be: a decision is a bad moment to miss one."""
    try:
        plugin = found.from_settings(settings)
    except ConfigurationError:
        raise
    except Exception as broken:
        raise ConfigurationError(
            option, name, f"a plugin that starts; it raised {type(broken).__name__}: {broken}"
        ) from broken
    for text in texts:
        if not isinstance(getattr(plugin, text, None), str):
            raise ConfigurationError(
                option, name, f"a class with the attribute {text}, a text ({found.__name__} has none)"
            )
    return plugin


def _prepare_nova_imports(settings: SchedulerSettings) -> None:
    if settings.plugins.nova_imports:
        importlib.import_module("nova_sched.plugins.nova.imports").install()


def _adapters() -> Any:
    return importlib.import_module("nova_sched.plugins.nova.adapters")

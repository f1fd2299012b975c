"""Classes and functions that plugins written for Nova inherit and call, where Nova itself is not installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nova_sched.plugins.filters._aggregate_values import split
from nova_sched.plugins.filters._operators import match


class BaseHostFilter:
    """Base of filters: ``nova.scheduler.filters.BaseHostFilter``."""

    run_filter_once_per_request = False
    RUN_ON_REBUILD = False

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        """Whether the host may be used."""
        raise NotImplementedError

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> Iterator[Any]:
        """The hosts that pass."""
        return (one for one in filter_obj_list if self.host_passes(one, spec_obj))


class BaseHostWeigher:
    """Base of weighers: ``nova.scheduler.weights.BaseHostWeigher``."""

    minval: float | None = None
    maxval: float | None = None

    def weight_multiplier(self, host_state: Any = None) -> float:
        """What the normalised weight is multiplied with."""
        return 1.0

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        """Raw weight of one host."""
        raise NotImplementedError

    def weigh_objects(self, weighed_obj_list: Iterable[Any], weight_properties: Any) -> list[float]:
        """Raw weights of hosts, each wrapped with its ``obj``."""
        return [self._weigh_object(one.obj, weight_properties) for one in weighed_obj_list]


class WeighedHost:
    """A host and its weight: ``nova.scheduler.weights.WeighedHost``."""

    def __init__(self, obj: Any, weight: float) -> None:
        self.obj = obj
        self.weight = weight

    def __repr__(self) -> str:
        return f"WeighedHost [host: {self.obj!r}, weight: {self.weight}]"


def aggregate_values_from_key(host_state: Any, key_name: str) -> set[str]:
    """Values of one metadata key over the host's aggregates, as they are."""
    return {
        aggregate.metadata[key_name] for aggregate in host_state.aggregates if key_name in aggregate.metadata
    }


def aggregate_metadata_get_by_host(host_state: Any, key: str | None = None) -> dict[str, set[str]]:
    """Metadata of the host's aggregates that have ``key`` (all without): comma lists as sets."""
    found: dict[str, set[str]] = {}
    for aggregate in host_state.aggregates:
        if key is None or key in aggregate.metadata:
            for name, text in aggregate.metadata.items():
                found.setdefault(name, set()).update(split(text))
    return found


def validate_num_values(
    vals: Iterable[Any], default: Any = None, cast_to: Callable[[Any], Any] = int, based_on: Any = min
) -> Any:
    """The smallest (or ``based_on``) of the values as numbers, ``default`` for none. Raises ValueError."""
    numbers = [cast_to(value) for value in vals]
    return based_on(numbers) if numbers else default


def instance_uuids_overlap(host_state: Any, uuids: str | Iterable[str]) -> bool:
    """Whether any of these instances runs on the host."""
    named = {uuids} if isinstance(uuids, str) else set(uuids)
    return bool(named & set(host_state.instances))


def other_types_on_host(host_state: Any, instance_type_id: int) -> bool:
    """Whether the host runs an instance of another flavor."""
    return any(one.instance_type_id != instance_type_id for one in host_state.instances.values())


def get_weight_multiplier(host_state: Any, multiplier_name: str, multiplier_config: float) -> float:
    """Smallest multiplier that the host's aggregates set, else the option's."""
    values = []
    for text in aggregate_values_from_key(host_state, multiplier_name):
        try:
            values.append(float(text))
        except ValueError:
            continue
    return min(values, default=multiplier_config)


def translated(message: str) -> str:
    """``_`` of ``nova.i18n``: texts are not translated here."""
    return message


__all__ = [
    "BaseHostFilter",
    "BaseHostWeigher",
    "WeighedHost",
    "aggregate_metadata_get_by_host",
    "aggregate_values_from_key",
    "get_weight_multiplier",
    "instance_uuids_overlap",
    "match",
    "other_types_on_host",
    "translated",
    "validate_num_values",
]

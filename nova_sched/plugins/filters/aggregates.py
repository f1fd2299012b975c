"""Filters on the metadata of a host's aggregates: extra specs, image properties, tenants, flavors."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.schema import Aggregate
from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters._aggregate_values import values
from nova_sched.plugins.filters._operators import is_broken, match, refuse_broken
from nova_sched.plugins.filters._texts import clipped, some
from nova_sched.settings import FilterSettings, SchedulerSettings

Aggregates = tuple[Aggregate, ...]

_EXTRA_SPECS_SCOPE = "aggregate_instance_extra_specs"

#: Metadata that this scheduler itself reads; never a property of images.
_OWN_KEYS = ("availability_zone", "filter_tenant_id", "instance_type")
_OWN_ENDINGS = ("_allocation_ratio", "_per_host", "_weight_multiplier")


class AggregateInstanceExtraSpecsFilter(HostFilter):
    """Each extra spec, without scope or in ``aggregate_instance_extra_specs``, is met by a value of the aggregates.

    A key that no aggregate of the host has refuses the host; other scopes are for other filters.
    """

    name = "AggregateInstanceExtraSpecsFilter"
    reason = "not in an aggregate with the extra specs"
    run_once_per_request = True

    def check(self, request: SchedulingRequest) -> None:
        for key, requirement in _extra_specs(request):
            refuse_broken(self.name, key, requirement)

    def concerns(self, view: HostView, request: SchedulingRequest) -> bool:
        broken = [key for key, requirement in _extra_specs(request) if is_broken(requirement)]
        return bool(view.aggregates.spread(lambda own: any(values(own, key) for key in broken)).any())

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        return tuple(_extra_specs(request))

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        passes = np.ones(len(view), dtype=np.bool_)
        for key, requirement in _extra_specs(request):
            passes &= view.aggregates.spread(partial(_meets, key=key, requirement=requirement))
        return passes

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        aggregates = view.aggregates_of(row)
        for key, requirement in _extra_specs(request):
            if not _meets(aggregates, key, requirement):
                found = some(values(aggregates, key))
                return f"aggregate metadata {clipped(key)} must be {clipped(requirement)!r}, found {found}"
        return self.reason

    def summary(
        self, view: HostView, rows: NDArray[np.intp], request: SchedulingRequest, facts: Facts
    ) -> str:
        asked = some(f"{key} {requirement!r}" for key, requirement in _extra_specs(request))
        return f"{self.reason}: {asked}"


def _extra_specs(request: SchedulingRequest) -> Iterator[tuple[str, str]]:
    for key, requirement in request.flavor.extra_specs.items():
        scope, colon, rest = key.partition(":")
        if not colon:
            yield key, str(requirement)
        elif scope == _EXTRA_SPECS_SCOPE:
            yield rest, str(requirement)


def _meets(aggregates: Aggregates, key: str, requirement: str) -> bool:
    return any(match(value, requirement) for value in values(aggregates, key))


class AggregateImagePropertiesIsolation(HostFilter):
    """A property that both the image and an aggregate have must have one of the aggregate's values.

    With ``aggregate_image_properties_isolation_namespace`` only keys that begin with namespace and separator count.
    ``aggregate_image_properties_isolation_strict`` (off as in Nova) also keeps images without the property away.
    """

    name = "AggregateImagePropertiesIsolation"
    reason = "its aggregates want other image properties"
    run_once_per_request = True

    def __init__(self, settings: FilterSettings) -> None:
        namespace = settings.aggregate_image_properties_isolation_namespace
        separator = settings.aggregate_image_properties_isolation_separator
        self._prefix = f"{namespace}{separator}" if namespace else ""
        self._strict = settings.aggregate_image_properties_isolation_strict

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        return cls(settings.filters)

    def _missed(self, aggregates: Aggregates, properties: Any) -> str | None:
        """The first key whose values the image does not meet."""
        for key in sorted({key for aggregate in aggregates for key in aggregate.metadata}):
            if not key.startswith(self._prefix):
                continue
            value = properties.get(key)
            if not value:
                if self._strict and not _is_own(key):
                    return key
            elif str(value) not in values(aggregates, key):
                return key
        return None

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        return tuple(sorted((key, str(value)) for key, value in request.image.properties.items()))

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        properties = request.image.properties
        return view.aggregates.spread(lambda aggregates: self._missed(aggregates, properties) is None)

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        aggregates = view.aggregates_of(row)
        key = self._missed(aggregates, request.image.properties)
        if key is None:
            return self.reason
        found = clipped(request.image.properties.get(key))
        return f"aggregates want {clipped(key)} in {some(values(aggregates, key))}, the image has {found}"


def _is_own(key: str) -> bool:
    return key in _OWN_KEYS or key.endswith(_OWN_ENDINGS)


class AggregateMultiTenancyIsolation(HostFilter):
    """A host whose aggregates list ``filter_tenant_id`` is for these projects only; other hosts are for all."""

    name = "AggregateMultiTenancyIsolation"
    reason = "kept for other projects"
    run_once_per_request = True

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        return view.aggregates.spread(
            lambda aggregates: _allows(aggregates, "filter_tenant_id", request.project_id)
        )

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        return request.project_id or ""

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        found = some(values(view.aggregates_of(row), "filter_tenant_id"))
        return f"aggregates allow projects {found}, the request is of {request.project_id}"


class AggregateTypeAffinityFilter(HostFilter):
    """A host whose aggregates list ``instance_type`` is for these flavors (names) only; other hosts are for all."""

    name = "AggregateTypeAffinityFilter"
    reason = "kept for other flavors"
    run_once_per_request = True

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        return view.aggregates.spread(
            lambda aggregates: _allows(aggregates, "instance_type", request.flavor.name)
        )

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        return request.flavor.name or ""

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        found = some(values(view.aggregates_of(row), "instance_type"))
        return f"aggregates allow flavors {found}, the request has {request.flavor.name}"


def _allows(aggregates: Aggregates, key: str, wanted: str | None) -> bool:
    listed = values(aggregates, key)
    return not listed or wanted in listed

"""What a plugin written for Nova reads of a request.

:class:`RequestSpec` has the attributes of today's object of that name; as a mapping it is Juno's ``filter_properties``,
since a weigher cannot say which of the two it was written for. Made afresh for each call: what a plugin writes stays
with it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from nova_sched.model.facts import Facts, GroupFact
from nova_sched.model.request import Caller, SchedulingRequest
from nova_sched.plugins.nova.devices import NUMATopology, numa_topology, pci_requests

#: Property names of today → of Juno, which is what travels in this API.
_OLD_PROPERTIES: Mapping[str, str] = {
    "hw_architecture": "architecture",
    "img_hv_type": "hypervisor_type",
    "hw_vm_mode": "vm_mode",
    "img_hv_requested_version": "hypervisor_version_requires",
}


class Context:
    """Who asks, as far as plugins read it."""

    def __init__(self, caller: Caller, *, is_admin: bool | None = None) -> None:
        self._caller = caller
        self.request_id = caller.request_id
        self.user_id = caller.user_id
        self.project_id = caller.project_id
        self.is_admin = caller.is_admin if is_admin is None else is_admin
        self.read_deleted = caller.read_deleted

    def elevated(self, read_deleted: str | None = None) -> Context:
        """The same caller as administrator."""
        return Context(self._caller, is_admin=True)

    def to_dict(self) -> dict[str, Any]:
        """The members above; no token."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


class ImageProperties(Mapping[str, Any]):
    """Properties of an image, by item, attribute or ``get``, under today's names as well as Juno's."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = dict(properties)

    def __getitem__(self, name: str) -> Any:
        if name in self._properties:
            return self._properties[name]
        return self._properties[_OLD_PROPERTIES.get(name, name)]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._properties)

    def __len__(self) -> int:
        return len(self._properties)


class RequestSpec(Mapping[str, Any]):
    """One request. Unset parts are None, as in Nova; ``instance_uuid`` is that of the first instance."""

    def __init__(self, request: SchedulingRequest, facts: Facts) -> None:
        self._request = request
        self._facts = facts
        self.project_id = request.project_id
        self.user_id = request.user_id
        self.instance_uuid = next(iter(request.uuids), None)
        self.num_instances = len(request.instances)
        self.availability_zone = request.availability_zone
        self.ignore_hosts = _listed(request.ignore_hosts)
        self.force_hosts = _listed(request.force_hosts)
        self.force_nodes = _listed(request.force_nodes)
        self.requested_destination = None
        self.requested_networks = None
        self.requested_resources: list[Any] = []
        self.network_metadata = None
        self.security_groups: list[Any] = []
        self.limits = SimpleNamespace(memory_mb=None, vcpu=None, disk_gb=None, numa_topology=None)

    @cached_property
    def flavor(self) -> Any:
        """Sizes: ``vcpus memory_mb root_gb ephemeral_gb swap`` (MB), ``id flavorid name extra_specs``."""
        return SimpleNamespace(**_flavor(self._request))

    @cached_property
    def image(self) -> Any:
        """``id`` and ``properties``."""
        image = self._request.image
        return SimpleNamespace(id=image.id, properties=ImageProperties(image.properties))

    @property
    def is_bfv(self) -> bool:
        """Boot from volume: the request names no image."""
        return not self._request.image.id

    @cached_property
    def scheduler_hints(self) -> dict[str, list[Any]]:
        """Every hint as a list, as today's object keeps them."""
        hints = self._request.hints.items()
        return {key: list(value) if isinstance(value, tuple) else [value] for key, value in hints}

    def get_scheduler_hint(self, name: str, default: Any = None) -> Any:
        """One hint; a list of one as its member."""
        found = self.scheduler_hints.get(name)
        if found is None:
            return default
        return found[0] if len(found) == 1 else found

    @cached_property
    def retry(self) -> Any:
        """``num_attempts`` and ``hosts`` (each with ``host`` and ``node``); None when nothing was tried."""
        if self._request.retry is None and not self._request.tried:
            return None
        tried = [SimpleNamespace(host=host, node=node) for host, node in self._request.tried]
        return SimpleNamespace(num_attempts=self._request.attempt, hosts=tried)

    @cached_property
    def instance_group(self) -> Any:
        """``uuid name policies policy members hosts`` of the server group, or None."""
        group = self._facts.group
        return None if group is None else _group(group)

    @cached_property
    def numa_topology(self) -> NUMATopology | None:
        """The cells asked for."""
        return None if self._request.numa is None else numa_topology(self._request.numa)

    @cached_property
    def pci_requests(self) -> Any:
        """``requests``, each with ``count`` and ``spec``; None without."""
        asked = self._request.pci_requests
        return pci_requests(asked) if asked else None

    @property
    def vcpus(self) -> int:
        """Of the flavor."""
        return self._request.flavor.vcpus

    @property
    def memory_mb(self) -> int:
        """Of the flavor."""
        return self._request.flavor.memory_mb

    @property
    def root_gb(self) -> int:
        """Of the flavor."""
        return self._request.flavor.root_gb

    @property
    def ephemeral_gb(self) -> int:
        """Of the flavor."""
        return self._request.flavor.ephemeral_gb

    @property
    def swap(self) -> int:
        """Of the flavor, MB."""
        return self._request.flavor.swap_mb

    def obj_attr_is_set(self, name: str) -> bool:
        """Whether the object has this attribute."""
        return hasattr(self, name)

    @cached_property
    def _legacy(self) -> dict[str, Any]:
        return filter_properties(self._request, self._facts)

    def to_legacy_filter_properties_dict(self) -> dict[str, Any]:
        """Juno's ``filter_properties``."""
        return self._legacy

    def to_legacy_request_spec_dict(self) -> dict[str, Any]:
        """Juno's ``request_spec``."""
        spec: dict[str, Any] = self._legacy["request_spec"]
        return spec

    def __getitem__(self, name: str) -> Any:
        return self._legacy[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._legacy)

    def __len__(self) -> int:
        return len(self._legacy)


def filter_properties(request: SchedulingRequest, facts: Facts) -> dict[str, Any]:
    """Juno's ``filter_properties``: a copy of what came with the message, completed as Juno's scheduler did."""
    given = copy.deepcopy(dict(request.passthrough.filter_properties))
    spec = copy.deepcopy(dict(request.passthrough.request_spec))
    flavor = {**(spec.get("instance_type") or {}), **_flavor(request)}
    properties = spec.get("instance_properties") or {}
    spec["instance_type"] = flavor
    spec["instance_properties"] = {
        "project_id": request.project_id,
        "user_id": request.user_id,
        "os_type": request.os_type,
        "availability_zone": request.availability_zone,
        "image_ref": request.image.id,
        **properties,
    }
    spec["image"] = {**(spec.get("image") or {}), "properties": dict(request.image.properties)}
    spec["instance_uuids"] = list(request.uuids)
    spec["num_instances"] = len(request.instances)
    completed = {
        **given,
        "context": Context(request.caller),
        "request_spec": spec,
        "instance_type": flavor,
        "config_options": {},
        "project_id": request.project_id,
        "os_type": request.os_type,
        "scheduler_hints": {
            key: list(value) if isinstance(value, tuple) else value for key, value in request.hints.items()
        },
        "limits": {},
    }
    if facts.group is not None:
        completed["group_hosts"] = set(facts.group.hosts)
        completed["group_policies"] = sorted(facts.group.policies)
    return completed


def _flavor(request: SchedulingRequest) -> dict[str, Any]:
    flavor = request.flavor
    return {
        "id": flavor.id,
        "flavorid": flavor.flavorid,
        "name": flavor.name,
        "vcpus": flavor.vcpus,
        "memory_mb": flavor.memory_mb,
        "root_gb": flavor.root_gb,
        "ephemeral_gb": flavor.ephemeral_gb,
        "swap": flavor.swap_mb,
        "extra_specs": dict(flavor.extra_specs),
    }


def _group(group: GroupFact) -> Any:
    policies = sorted(group.policies)
    return SimpleNamespace(
        uuid=group.uuid,
        name=group.name,
        policies=policies,
        policy=policies[0] if policies else None,
        members=sorted(group.member_hosts),
        hosts=sorted(group.hosts),
    )


def _listed(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)

"""Hosts, aggregates, requests and facts for tests: a test names only what matters to it, the rest is ordinary.

Columns are those of ``compute_nodes`` (GB for disk, JSON columns as Python values or as text); the defaults make an
empty, healthy host of 16 vCPUs, 32 GB RAM and 500 GB disk, and a request for one guest of 2 vCPUs, 2 GB and 20 GB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from nova_sched.hosts.schema import HOST_COLUMNS, Aggregate, HostDelta
from nova_sched.hosts.table import HostTable
from nova_sched.model.facts import GroupFact, InstanceFact
from nova_sched.model.request import Amounts, Caller, Flavor, Image, InstanceRef, SchedulingRequest

#: The database's clock of these tables: 2014-10-16 12:00 UTC, seconds since the epoch.
NOW_SECONDS = 1_413_460_800.0

_ORDINARY: Mapping[str, Any] = {
    "vcpus": 16,
    "memory_mb": 32768,
    "local_gb": 500,
    "vcpus_used": 0,
    "free_ram_mb": 32768,
    "free_disk_gb": 500,
    "local_gb_used": 0,
    "hypervisor_type": "QEMU",
    "hypervisor_version": 2001000,
    "cpu_info": {"arch": "x86_64", "vendor": "Intel", "features": ["aes"], "topology": {"cores": 4}},
    "supported_instances": [["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]],
    "stats": {"num_instances": "0", "io_workload": "0"},
    "host_ip": "10.20.0.5",
    "running_vms": 0,
    "current_workload": 0,
    "allocation_generation": 0,
    "disabled": False,
}


def host(
    name: str = "alder", node: str | None = None, *, age_seconds: float = 5.0, **columns: Any
) -> dict[str, Any]:
    """One row of ``sched_hosts``. ``age_seconds``: since its service's last sign of life. Raises KeyError."""
    unknown = columns.keys() - set(HOST_COLUMNS)
    if unknown:
        raise KeyError(f"no columns of a host: {sorted(unknown)}")
    given: dict[str, Any] = {
        "host": name,
        "node": node or f"{name}.lab",
        "heartbeat_seconds": NOW_SECONDS - age_seconds,
        **_ORDINARY,
        **columns,
    }
    return {column: _cell(given.get(column)) for column in HOST_COLUMNS}


def _cell(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, (dict, list)) else value


def aggregate(name: str, hosts: Iterable[str], metadata: Mapping[str, str]) -> Aggregate:
    """A host aggregate; :func:`table` numbers them."""
    return Aggregate(0, name, frozenset(hosts), dict(metadata))


def table(*hosts: Mapping[str, Any], aggregates: Iterable[Aggregate] = ()) -> HostTable:
    """A table of these rows, in this order; rows without an id are numbered from 1."""
    ids = [row["id"] or number for number, row in enumerate(hosts, 1)]
    columns = {column: [row[column] for row in hosts] for column in HOST_COLUMNS}
    numbered = [
        Aggregate(number, one.name, one.hosts, one.metadata) for number, one in enumerate(aggregates, 1)
    ]
    made = HostTable()
    made.apply(HostDelta({**columns, "id": ids}, NOW_SECONDS, full=True, aggregates=numbered))
    return made


def request(
    *,
    count: int = 1,
    method: str = "run_instance",
    vcpus: int = 2,
    memory_mb: int = 2048,
    root_gb: int = 20,
    ephemeral_gb: int = 0,
    swap_mb: int = 0,
    flavor_id: int = 7,
    flavor_name: str = "lab.small",
    extra_specs: Mapping[str, str] | None = None,
    image_id: str | None = "image-1",
    image: Mapping[str, Any] | None = None,
    is_admin: bool = False,
    project_id: str = "project-1",
    **fields: Any,
) -> SchedulingRequest:
    """A request for ``count`` instances. ``image``: its properties; other fields as :class:`SchedulingRequest` has."""
    flavor = Flavor(
        id=flavor_id,
        name=flavor_name,
        vcpus=vcpus,
        memory_mb=memory_mb,
        root_gb=root_gb,
        ephemeral_gb=ephemeral_gb,
        swap_mb=swap_mb,
        extra_specs=extra_specs or {},
    )
    return SchedulingRequest(
        method=method,
        caller=Caller("req-1", "user-1", project_id, is_admin),
        instances=tuple(InstanceRef(instance_uuid(number), number) for number in range(count)),
        flavor=flavor,
        amounts=Amounts(vcpus, memory_mb, (root_gb + ephemeral_gb) * 1024),
        image=Image(image_id, image or {}),
        project_id=fields.pop("request_project_id", project_id),
        user_id="user-1",
        instance_type_id=flavor_id,
        **fields,
    )


def instance_uuid(number: int) -> str:
    """The uuid of instance ``number`` of :func:`request`."""
    return f"c0de0000-0000-4000-8000-{number:012d}"


def instance(uuid: str, on: str, *, project_id: str = "project-1", instance_type_id: int = 7) -> InstanceFact:
    """An instance that runs on host ``on``."""
    return InstanceFact(uuid, on, f"{on}.lab", project_id, instance_type_id)


def group(*policies: str, members: Mapping[str, str] | None = None) -> GroupFact:
    """A server group; ``members``: host by instance uuid."""
    return GroupFact("bbbb0000-0000-4000-8000-000000000001", "ring", frozenset(policies), members or {})

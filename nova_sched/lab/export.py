"""The state of a service as a case, so that everything that reads cases runs on it: replay, explain, capacity, simulate.

Beside what recorded cases have, an export carries ``claims`` (room promised to guests that no agent has reported yet)
and, per instance, its amounts and times. It holds no passwords, tokens or user data: these never reach the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nova_sched.errors import SchedulerError
from nova_sched.hosts.schema import HOST_COLUMNS, HostDelta

#: Columns that say what claims take: a case tells claims one by one.
_OF_CLAIMS = frozenset(name for name in HOST_COLUMNS if name.startswith("claimed_"))
_RENAMED = {"node": "hypervisor_hostname"}
_NOT_OF_THE_ROW = frozenset({"id", "heartbeat_seconds", "disabled", "allocation_generation"}) | _OF_CLAIMS


class NotRecorded(SchedulerError):
    """A decision record does not hold enough to ask its request again; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What a service knows, as its database has it.

    ``hosts``: all of them. ``instances``: rows with ``uuid, host, node, project_id, instance_type_id, flavor, vm_state,
    vcpus, memory_mb, disk_mb, created_at, deleted_at`` (seconds since the epoch). ``groups``: ``uuid, name, policies,
    members, moving``. ``claims``: those that no report contains: ``instance_uuid, attempt, kind, state, host, node, vcpus,
    memory_mb, disk_mb, instances, io_ops, pci, numa``.
    """

    hosts: HostDelta
    instances: Sequence[Mapping[str, Any]]
    groups: Sequence[Mapping[str, Any]]
    claims: Sequence[Mapping[str, Any]]


def as_case(
    name: str,
    state: ServiceState,
    config: Mapping[str, Any],
    requests: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """A case without ``expected``. ``config``: options that are set; ``requests``: as cases have them."""
    return {
        "name": name,
        "covers": ["export"],
        "note": "State of a running service.",
        "input": {
            "now": moment(state.hosts.now_seconds),
            "config": dict(config),
            "hosts": _hosts(state.hosts),
            "aggregates": [
                {"name": one.name, "hosts": sorted(one.hosts), "metadata": dict(one.metadata)}
                for one in state.hosts.aggregates or ()
            ],
            "instances": [_instance(row) for row in state.instances],
            "server_groups": [dict(group) for group in state.groups],
            "claims": [dict(claim) for claim in state.claims],
            "requests": list(requests),
        },
    }


def moment(seconds: float | None) -> str | None:
    """UTC time of seconds since the epoch, as cases write it."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat(timespec="microseconds")


def _hosts(delta: HostDelta) -> list[dict[str, Any]]:
    names = [name for name in HOST_COLUMNS if name not in _NOT_OF_THE_ROW]
    rows = []
    for index in range(len(delta.columns["id"])):
        row: dict[str, Any] = {_RENAMED.get(name, name): delta.columns[name][index] for name in names}
        # Without a time of its own a row is taken as it is, with the claims on top.
        row["updated_at"] = None
        row["service"] = {
            "host": row["host"],
            "disabled": bool(delta.columns["disabled"][index]),
            "updated_at": moment(delta.columns["heartbeat_seconds"][index]),
        }
        rows.append(row)
    return rows


def _instance(row: Mapping[str, Any]) -> dict[str, Any]:
    times = {key: moment(row.get(key)) for key in ("created_at", "deleted_at")}
    return {**row, **times, "deleted": int(row.get("deleted_at") is not None)}


def recorded_request(
    uuid: str, method: str, project_id: str | None, recorded: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The request for one instance as a case has it, from ``record["request"]`` of a decision. Raises NotRecorded.

    Hosts that were tried before are part of it. It is a dry question, so ``select_destinations`` for all methods but
    ``run_instance``.
    """
    if recorded is None or "vcpus" not in recorded.get("flavor", {}):
        raise NotRecorded(f"the decision record of {uuid} does not hold the sizes of its flavor")
    flavor = dict(recorded["flavor"])
    type_id, flavor["flavorid"] = flavor.pop("type_id"), flavor.pop("id")
    flavor.update(id=type_id, swap=flavor.pop("swap_mb"))
    vcpus, memory_mb, disk_mb = recorded["amounts"]
    hints = dict(recorded.get("hints", {}))
    if recorded.get("group"):
        hints["group"] = recorded["group"]
    properties: dict[str, Any] = {
        "uuid": uuid,
        "project_id": project_id,
        "vcpus": vcpus,
        "memory_mb": memory_mb,
        "root_gb": max(0, disk_mb // 1024 - flavor["ephemeral_gb"]),
        "ephemeral_gb": min(disk_mb // 1024, flavor["ephemeral_gb"]),
        "os_type": recorded.get("os_type"),
        "availability_zone": recorded.get("availability_zone"),
        "instance_type_id": recorded.get("instance_type_id"),
        "numa_topology": _numa(recorded.get("numa_cells")),
    }
    asked: dict[str, Any] = {"instance_type": flavor, "scheduler_hints": hints}
    for name in ("force_hosts", "force_nodes", "ignore_hosts"):
        if recorded.get(name):
            asked[name] = list(recorded[name])
    if recorded.get("pci_requests"):
        asked["pci_requests"] = {"requests": list(recorded["pci_requests"])}
    if recorded.get("tried"):
        asked["retry"] = {
            "num_attempts": recorded["attempt"] - 1,
            "hosts": [list(pair) for pair in recorded["tried"]],
        }
    return {
        "method": method if method == "run_instance" else "select_destinations",
        "request_spec": {
            "instance_type": flavor,
            "instance_properties": properties,
            "instance_uuids": [uuid],
            "num_instances": 1,
            "image": {"id": recorded.get("image"), "properties": dict(recorded.get("image_properties", {}))},
        },
        "filter_properties": asked,
        "context": {"project_id": project_id},
    }


def _numa(cells: Sequence[Mapping[str, Any]] | None) -> dict[str, Any] | None:
    if not cells:
        return None
    return {
        "cells": [
            {
                "id": cell["id"],
                "cpus": ",".join(map(str, cell["cpus"])),
                "mem": {"total": cell["memory_mb"]},
            }
            for cell in cells
        ]
    }

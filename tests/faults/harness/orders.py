"""Requests as an API service sends them, small and quick to make, with secrets that must not turn up anywhere."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from nova_sched.rpc.bus.envelope import UNIQUE_ID, encode_message

SECRET = "open-sesame-7f3a"
"""Sent as password, file and user data; the checker looks for it in SQL and in notifications."""

Body = tuple[list[str], int, bytes]
"""(uuids, attempt that the message asks for, body)."""


def run_instance(
    uuids: list[str],
    *,
    memory_mb: int = 64,
    vcpus: int = 1,
    disk_gb: int = 0,
    retry: Mapping[str, Any] | None = None,
    hints: Mapping[str, Any] | None = None,
    metadata: Mapping[str, str] | None = None,
    unique_id: str | None = None,
    padding: int = 0,
) -> Body:
    """A ``run_instance`` cast for these instances."""
    flavor = {
        "id": 7, "flavorid": "42", "name": "lab.small", "vcpus": vcpus, "memory_mb": memory_mb, "root_gb": disk_gb,
        "ephemeral_gb": 0, "swap": 0, "rxtx_factor": 1.0, "vcpu_weight": None, "extra_specs": {},
    }  # fmt: skip
    properties = {
        "uuid": uuids[0], "vm_state": "building", "task_state": "scheduling", "project_id": "project-1",
        "user_id": "user-1", "display_name": "lab", "reservation_id": "r-lab", "instance_type_id": 7, "launch_index": 0,
        "memory_mb": memory_mb, "vcpus": vcpus, "root_gb": disk_gb, "ephemeral_gb": 0, "image_ref": "image-1",
        "user_data": SECRET, "system_metadata": {}, "metadata": dict(metadata or {}), "os_type": None,
        "availability_zone": None,
    }  # fmt: skip
    spec = {
        "instance_type": flavor,
        "instance_properties": properties,
        "instance_uuids": uuids,
        "num_instances": len(uuids),
        "image": {
            "id": "image-1",
            "name": "lab-image",
            "properties": {},
            "min_ram": 0,
            "min_disk": 0,
            "size": 1,
        },
        "block_device_mapping": [],
        "security_group": ["default"],
        "padding": "x" * padding,
    }
    filter_properties: dict[str, Any] = {"instance_type": flavor, "scheduler_hints": dict(hints or {})}
    if retry is not None:
        filter_properties["retry"] = dict(retry)
    arguments = {
        "request_spec": spec,
        "admin_password": SECRET,
        "injected_files": [["/etc/secret", SECRET]],
        "requested_networks": None,
        "is_first_time": True,
        "filter_properties": filter_properties,
        "legacy_bdm_in_spec": False,
    }
    attempt = (retry or {}).get("num_attempts", 0) + 1
    return uuids, attempt, message("run_instance", arguments, unique_id=unique_id)


def message(
    method: str,
    arguments: Mapping[str, Any],
    *,
    version: str = "3.0",
    namespace: str | None = None,
    unique_id: str | None = None,
) -> bytes:
    """A cast in its envelope."""
    inner: dict[str, Any] = {
        "method": method,
        "args": arguments,
        "version": version,
        "_context_request_id": f"req-{uuid.uuid4()}",
        "_context_user_id": "user-1",
        "_context_project_id": "project-1",
        "_context_auth_token": SECRET,
        "_context_is_admin": False,
        UNIQUE_ID: unique_id or uuid.uuid4().hex,
    }
    if namespace is not None:
        inner["namespace"] = namespace
    return encode_message(inner)


def delete_instance(uuid_: str) -> bytes:
    """The cast that says an instance is no longer wanted."""
    return message("delete_instance", {"uuid": uuid_}, version="1.0", namespace="nova_sched")


def fresh(amount: int = 1) -> list[str]:
    """New uuids."""
    return [str(uuid.uuid4()) for _ in range(amount)]

"""Payloads of notifications, key by key as Juno sent them, without anything secret."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nova_sched.wire.objects import mapping

#: Keys whose values never leave in a notification, wherever they stand.
SECRET_KEYS = frozenset(
    {
        "access_token",
        "admin_pass",
        "admin_password",
        "adminPass",
        "auth_password",
        "auth_token",
        "connection_info",
        "context",
        "injected_files",
        "new_pass",
        "password",
        "personality",
        "secret",
        "service_catalog",
        "token",
        "user_data",
    }
)


_CONTAINERS = frozenset({dict, list, tuple})


def public(value: Any) -> Any:
    """``value`` with the values of ``SECRET_KEYS`` set to null; parts without secrets are shared, not copied."""
    if type(value) is dict:
        changed: dict[str, Any] = {}
        if not SECRET_KEYS.isdisjoint(value):
            changed = dict.fromkeys(SECRET_KEYS.intersection(value))
        for key, item in value.items():
            if type(item) in _CONTAINERS and key not in changed:
                cleaned = public(item)
                if cleaned is not item:
                    changed[key] = cleaned
        return {**value, **changed} if changed else value
    if type(value) is list or type(value) is tuple:
        items = [public(item) if type(item) in _CONTAINERS else item for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def error_payload(
    method: str, spec: Mapping[str, Any], uuid: str | None, state: str, reason: str
) -> dict[str, Any]:
    """Payload of the ERROR event of one instance; ``spec`` is public and names all uuids of the request."""
    return {
        "request_spec": spec,
        "instance_properties": spec.get("instance_properties") or {},
        "instance_id": uuid,
        "state": state,
        "method": method,
        "reason": reason.strip() or "unknown error",
    }


def update_payload(
    properties: Mapping[str, Any], uuid: str | None, state: str, now: datetime
) -> dict[str, Any]:
    """Payload of ``compute.instance.update`` for an instance whose state becomes ``state`` and its task none.

    ``properties`` are public. Usage is counted from the first of the month; there is no image service to make a whole
    URL with, so ``image_ref_url`` is the reference.
    """
    system_metadata = mapping(properties.get("system_metadata")) or {}
    get = properties.get
    return {
        "access_ip_v4": get("access_ip_v4"),
        "access_ip_v6": get("access_ip_v6"),
        "architecture": get("architecture"),
        "audit_period_beginning": now.replace(day=1, hour=0, minute=0, second=0, microsecond=0).isoformat(
            timespec="microseconds"
        ),
        "audit_period_ending": now.isoformat(timespec="microseconds"),
        "availability_zone": get("availability_zone"),
        "bandwidth": {},
        "cell_name": get("cell_name") or "",
        "created_at": _time(get("created_at")),
        "deleted_at": _time(get("deleted_at")),
        "disk_gb": _gb(get("root_gb")) + _gb(get("ephemeral_gb")),
        "display_name": get("display_name"),
        "ephemeral_gb": get("ephemeral_gb"),
        "host": None,
        "hostname": get("hostname"),
        "image_meta": {
            key.removeprefix("image_"): value
            for key, value in system_metadata.items()
            if key.startswith("image_")
        },
        "image_ref_url": get("image_ref") or "",
        "instance_flavor_id": system_metadata.get("instance_type_flavorid"),
        "instance_id": uuid,
        "instance_type": system_metadata.get("instance_type_name"),
        "instance_type_id": get("instance_type_id"),
        "kernel_id": get("kernel_id"),
        "launched_at": _time(get("launched_at")),
        "memory_mb": get("memory_mb"),
        "metadata": mapping(get("metadata")) or {},
        "new_task_state": None,
        "node": None,
        "old_state": get("vm_state"),
        "old_task_state": get("task_state"),
        "os_type": get("os_type"),
        "progress": get("progress") or "",
        "ramdisk_id": get("ramdisk_id"),
        "reservation_id": get("reservation_id"),
        "root_gb": get("root_gb"),
        "state": state,
        "state_description": "",
        "tenant_id": get("project_id"),
        "terminated_at": _time(get("terminated_at")),
        "user_id": get("user_id"),
        "vcpus": get("vcpus"),
    }


def _gb(value: Any) -> int:
    return value if type(value) is int else 0


def _time(value: Any) -> str:
    """A moment as Juno's usage events write it: blank instead of T, empty where there is none."""
    return value.replace("T", " ") if isinstance(value, str) else ""

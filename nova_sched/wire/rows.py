"""The ``instance`` argument of a build cast: ``instance_properties`` in the form of a row of Juno's database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from nova_sched.wire.objects import fields, mapping

#: Columns of Juno's ``instances`` that a row has even where the API left them out.
COLUMNS: Mapping[str, Any] = dict.fromkeys(
    (
        "access_ip_v4",
        "access_ip_v6",
        "architecture",
        "auto_disk_config",
        "availability_zone",
        "cell_name",
        "config_drive",
        "created_at",
        "default_ephemeral_device",
        "default_swap_device",
        "deleted_at",
        "disable_terminate",
        "display_description",
        "display_name",
        "ephemeral_gb",
        "ephemeral_key_uuid",
        "hostname",
        "id",
        "image_ref",
        "instance_type_id",
        "internal_id",
        "kernel_id",
        "key_data",
        "key_name",
        "launched_at",
        "launched_on",
        "locked",
        "locked_by",
        "memory_mb",
        "name",
        "os_type",
        "power_state",
        "progress",
        "project_id",
        "ramdisk_id",
        "reservation_id",
        "root_device_name",
        "root_gb",
        "shutdown_terminate",
        "task_state",
        "terminated_at",
        "user_data",
        "user_id",
        "vcpus",
        "vm_mode",
        "vm_state",
    )
)
_FLAGS_KEPT_AS_NULL = ("auto_disk_config", "locked")
_ROW_LISTS = ("metadata", "system_metadata")


def instance_row(properties: Mapping[str, Any], uuid: str | None, now: str) -> dict[str, Any]:
    """The row of one instance, from its own properties; ``now`` (ISO 8601, UTC) becomes ``scheduled_at`` and ``updated_at``.

    Host and node stay null until the compute has taken the instance. Ids of rows that only Nova's database knows are
    the position in their list; names are those of the request, as no database is asked.
    """
    row = {
        **COLUMNS,
        **properties,
        "uuid": uuid,
        "scheduled_at": now,
        "updated_at": now,
        "host": None,
        "node": None,
        "deleted": int(bool(properties.get("deleted"))),
        "cleaned": int(bool(properties.get("cleaned"))),
    }
    row.setdefault("security_groups", [])
    for flag in _FLAGS_KEPT_AS_NULL:
        row[flag] = row[flag] or None
    created_at = properties.get("created_at")
    for name in _ROW_LISTS:
        row[name] = key_value_rows(properties.get(name), uuid, created_at)
    row["info_cache"] = _info_cache_row(properties, uuid)
    return row


def key_value_rows(value: Any, uuid: str | None, created_at: Any) -> list[dict[str, Any]]:
    """A dictionary as the rows of Juno's ``instance_metadata`` and ``instance_system_metadata`` tables."""
    pairs = mapping(value) or {}
    return [
        {
            "id": position,
            "instance_uuid": uuid,
            "key": key,
            "value": item,
            "created_at": created_at,
            "updated_at": None,
            "deleted": 0,
            "deleted_at": None,
        }
        for position, (key, item) in enumerate(pairs.items(), 1)
    ]


def _info_cache_row(properties: Mapping[str, Any], uuid: str | None) -> dict[str, Any]:
    """The network cache as its table holds it: the list as JSON text."""
    cache = fields(properties.get("info_cache")) or {}
    network_info = cache.get("network_info")
    return {
        "created_at": properties.get("created_at"),
        "updated_at": None,
        "deleted_at": None,
        "id": properties.get("id"),
        **cache,
        "instance_uuid": uuid,
        "deleted": int(bool(cache.get("deleted"))),
        "network_info": network_info if isinstance(network_info, str) else json.dumps(network_info or []),
    }

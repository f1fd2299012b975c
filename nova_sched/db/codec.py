"""Values of the model as JSON text of columns, and back. Nothing secret gets through, whatever is handed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from nova_sched.model.limits import Limits, NumaLimits
from nova_sched.model.messages import Event
from nova_sched.model.numa import HostCell, HostTopology, InstanceCell, InstanceTopology
from nova_sched.model.pci import PciPool

#: Names whose values are never written, at any depth.
SECRETS = frozenset(
    {
        "admin_password",
        "admin_pass",
        "adminPass",
        "auth_token",
        "injected_files",
        "user_data",
        "service_catalog",
        "password",
    }
)
MESSAGE_LENGTH = 4096
TRACEBACK_LENGTH = 65536


def text_of(value: Any) -> str:
    """Compact JSON; sets and tuples become lists, unknown objects their text."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS).decode()


def value_of(text: str | bytes | None) -> Any:
    """The value behind a JSON column; None for NULL."""
    return None if text is None else orjson.loads(text)


def clipped(text: Any, length: int = MESSAGE_LENGTH) -> str | None:
    """Text that every database takes: no NUL characters, bounded; None stays None."""
    if text is None:
        return None
    if type(text) is str and len(text) <= length and text.isascii() and "\x00" not in text:
        return text  # nearly all of them
    clean = str(text).replace("\x00", "").encode("utf-8", "replace").decode("utf-8", "replace")
    return clean if len(clean) <= length else clean[: length - 3] + "..."


def name_of(value: Any) -> str | None:
    """A value for a column of 255 characters."""
    return clipped(value, 255)


def without_secrets(value: Any) -> Any:
    """A copy without the members named in SECRETS."""
    if isinstance(value, Mapping):
        return {key: without_secrets(member) for key, member in value.items() if key not in SECRETS}
    if isinstance(value, list | tuple):
        return [without_secrets(member) for member in value]
    return value


def limits_to_text(limits: Limits | None) -> str | None:
    """Limits as JSON; defaults are left out."""
    if limits is None:
        return None
    body: dict[str, Any] = {}
    for name in ("memory_mb", "vcpu", "disk_gb", "disk_mb", "num_instances", "io_ops"):
        if (value := getattr(limits, name)) is not None:
            body[name] = value
    for name in ("exact_memory", "exact_vcpu", "exact_disk"):
        if getattr(limits, name):
            body[name] = True
    if limits.numa is not None:
        cells = [
            {
                "id": c.id,
                "cpus": sorted(c.cpus),
                "memory_mb": c.memory_mb,
                "cpu_usage": c.cpu_usage,
                "memory_used_mb": c.memory_used_mb,
            }
            for c in limits.numa.topology.cells
        ]
        body["numa"] = {
            "cells": cells,
            "cpu_ratio": limits.numa.cpu_ratio,
            "ram_ratio": limits.numa.ram_ratio,
        }
    return text_of(body)


def limits_from_text(text: str | None) -> Limits | None:
    """The inverse of :func:`limits_to_text`."""
    body = value_of(text)
    if body is None:
        return None
    numa = body.pop("numa", None)
    if numa is not None:
        cells = tuple(HostCell(**{**cell, "cpus": frozenset(cell["cpus"])}) for cell in numa["cells"])
        numa = NumaLimits(HostTopology(cells), numa["cpu_ratio"], numa["ram_ratio"])
    return Limits(**body, numa=numa)


def numa_to_list(fit: InstanceTopology | None) -> list[dict[str, Any]] | None:
    """Cells as ``claimed_devices`` lists them; ``id`` is the host's cell."""
    if fit is None:
        return None
    return [{"id": c.id, "cpus": sorted(c.cpus), "memory_mb": c.memory_mb} for c in fit.cells]


def numa_from_text(text: str | None) -> InstanceTopology | None:
    """The fit that a claim stored."""
    cells = value_of(text)
    if cells is None:
        return None
    return InstanceTopology(tuple(InstanceCell(c["id"], frozenset(c["cpus"]), c["memory_mb"]) for c in cells))


def pools_to_list(pools: Iterable[PciPool]) -> list[dict[str, Any]]:
    """Pools as ``claimed_devices`` lists them."""
    return [{"count": pool.count, "tags": dict(pool.tags)} for pool in pools]


def event_to_text(event: Event) -> str:
    """An event for the outbox, without secrets."""
    return text_of(
        {
            "message_id": event.message_id,
            "publisher_id": event.publisher_id,
            "event_type": event.event_type,
            "priority": event.priority,
            "payload": without_secrets(event.payload),
            "timestamp": event.timestamp,
            "context": without_secrets(event.context),
        }
    )


def event_from_text(text: str) -> Event:
    """The event of an outbox row."""
    return Event(**orjson.loads(text))


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset | set):
        return sorted(value, key=str)
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)

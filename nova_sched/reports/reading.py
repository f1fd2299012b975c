"""From the arguments of a report, already checked against their schemas, to values with one type per column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from nova_sched.db.progress import InstanceUpdate
from nova_sched.db.reporting import NodeReport, Report
from nova_sched.db.tables import REPORTED, USED
from nova_sched.hosts.reported import stats_amounts


def report_of(
    service: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], age_seconds: float | None = None
) -> Report:
    """A ``report_state`` as a value."""
    interval = service.get("interval_seconds")
    return Report(
        host=service["host"],
        epoch=int(service["epoch"]),
        seq=int(service["seq"]),
        nodes=tuple(_node(node) for node in nodes),
        interval_seconds=None if interval is None else float(interval),
        version=service.get("version"),
        age_seconds=max(0.0, age_seconds or 0.0),
    )


def update_of(update: Mapping[str, Any]) -> InstanceUpdate:
    """An ``update_instance`` as a value."""
    return InstanceUpdate(
        uuid=update["uuid"],
        attempt=int(update["attempt"]),
        host=update["host"],
        node=update.get("node"),
        state=update["state"],
        reason=update.get("reason"),
    )


def used_of(values: Mapping[str, Any]) -> tuple[int | None, ...]:
    """Amounts in use as the filters see them, in the order of ``tables.USED``; None = unknown.

    RAM: memory_mb − free_ram_mb. Disk (MB): local_gb − the smaller of free_disk_gb and disk_available_least, of
    those that are known (LP#1253599). Instances and I/O operations: from ``stats``; empty stats mean none.
    """
    free_disk = [
        values[name] for name in ("free_disk_gb", "disk_available_least") if values.get(name) is not None
    ]
    stats = values.get("stats")
    guests, io_ops = stats_amounts(stats) if stats else (0.0, 0.0)
    used = {
        "used_vcpus": values.get("vcpus_used"),
        "used_memory_mb": _less(values.get("memory_mb"), values.get("free_ram_mb")),
        "used_disk_mb": _less(values.get("local_gb"), min(free_disk) if free_disk else None, 1024),
        "used_instances": _known(guests),
        "used_io_ops": _known(io_ops),
    }
    return tuple(used[name] for name in USED)


def _node(node: Mapping[str, Any]) -> NodeReport:
    given = node.get("values") or {}
    values = {name: _value(REPORTED[name], given[name]) for name in given if name in REPORTED}
    instances = node.get("instances")
    return NodeReport(
        node=node["hypervisor_hostname"],
        values=values,
        instances=None if instances is None else frozenset(instances),
        full=bool(node.get("full", False)),
    )


def _value(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "text":
        return value if isinstance(value, str) else orjson.dumps(value).decode()
    try:
        return float(value) if kind == "float" else int(value)
    except (TypeError, ValueError, OverflowError):
        # A hypervisor version that is no number: unknown, like everything that does not parse.
        return None


def _less(total: int | None, free: int | None, factor: int = 1) -> int | None:
    return None if total is None or free is None else _known((total - free) * factor)


def _known(value: float) -> int | None:
    # NaN, and beyond what a column holds nothing is known either.
    return int(value) if abs(value) < 2**62 else None

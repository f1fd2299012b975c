"""Clouds to schedule on: the same host rows for the table in memory, for SQL and for Nova's host states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova_sched.hosts.schema import Aggregate
from nova_sched.hosts.table import HostTable
from nova_sched.testing import builders

SIZES = 4
RAM_MB = 32768
VCPUS = 16


def host_row(number: int, guests: int = 0) -> dict[str, Any]:
    """Row ``number``: one of four sizes, free RAM spread so that hosts differ; ``guests``: so many run there.

    A host with guests is as much larger as they need, so that the requests of a workload find the same room.
    """
    size = 1 << (number % SIZES)
    ram, used_ram = RAM_MB * size + 2048 * guests, (number * 7) % 16384 + 2048 * guests
    vcpus, used_vcpus = VCPUS * size + 2 * guests, number % 8 + 2 * guests
    disk_gb = 500 * size + 20 * guests
    return builders.host(
        f"host-{number}",
        f"node-{number}",
        vcpus=vcpus,
        vcpus_used=used_vcpus,
        memory_mb=ram,
        free_ram_mb=ram - used_ram,
        local_gb=disk_gb,
        free_disk_gb=disk_gb - 100 - 20 * guests,
        local_gb_used=100 + 20 * guests,
        hypervisor_version=2001000 + number % 3 * 1000,
        host_ip=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
        running_vms=guests,
        stats={"num_instances": str(guests), "io_workload": "0"},
    )


def report_values(number: int, guests: int = 0) -> dict[str, Any]:
    """The same host as its agent reports it: columns of ``compute_nodes``."""
    row = host_row(number, guests)
    names = (
        "vcpus", "memory_mb", "local_gb", "vcpus_used", "local_gb_used", "free_ram_mb", "free_disk_gb",
        "hypervisor_type", "hypervisor_version", "cpu_info", "supported_instances", "stats", "host_ip", "running_vms",
        "current_workload",
    )  # fmt: skip
    return {**{name: row[name] for name in names}, "memory_mb_used": row["memory_mb"] - row["free_ram_mb"]}


def rows(count: int, guests: int = 0) -> list[dict[str, Any]]:
    """``count`` rows, ids from 1."""
    return [{**host_row(number, guests), "id": number + 1} for number in range(count)]


def zones(count: int, hosts: int) -> list[Aggregate]:
    """``count`` availability zones zone-0, zone-1, …; host n is in zone n modulo ``count``."""
    return [
        builders.aggregate(
            f"zone-{zone}",
            [f"host-{number}" for number in range(zone, hosts, count)],
            {"availability_zone": f"zone-{zone}"},
        )
        for zone in range(count)
    ]


def table(found: list[dict[str, Any]], aggregates: list[Aggregate] | None = None) -> HostTable:
    """A host table of these rows."""
    return builders.table(*found, aggregates=aggregates or ())


def fits(row: Mapping[str, Any], guests: int, memory_mb: int, ratio: float) -> bool:
    """Whether a host holds that many more guests of ``memory_mb`` by plain arithmetic."""
    used = row["memory_mb"] - row["free_ram_mb"]
    return bool(row["memory_mb"] * ratio - used >= guests * memory_mb)

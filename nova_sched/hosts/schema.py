"""Which columns a host has, in which unit, and what a delta read delivers.

Names are those of Nova's ``compute_nodes`` where they mean the same. Amounts of live claims that the agent's report
does not contain yet travel beside the reported numbers (``claimed_*``), so that the table shows reported + claimed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Columns of a :class:`HostDelta`, as they stand in ``sched_hosts`` (claimed_devices: JSON of live claims' pci and numa).
HOST_COLUMNS = (
    "id",
    "host",
    "node",
    "vcpus",
    "memory_mb",
    "local_gb",
    "vcpus_used",
    "memory_mb_used",
    "free_ram_mb",
    "free_disk_gb",
    "disk_available_least",
    "local_gb_used",
    "hypervisor_type",
    "hypervisor_version",
    "cpu_info",
    "supported_instances",
    "metrics",
    "pci_stats",
    "numa_topology",
    "stats",
    "host_ip",
    "running_vms",
    "current_workload",
    "cpu_allocation_ratio",
    "ram_allocation_ratio",
    "disk_allocation_ratio",
    "failed_builds",
    "claimed_vcpus",
    "claimed_memory_mb",
    "claimed_disk_mb",
    "claimed_instances",
    "claimed_io_ops",
    "claimed_devices",
    "allocation_generation",
    "heartbeat_seconds",
    "disabled",
)

#: float64 columns of a view that change with every placement or report; NaN = unknown. Disk and RAM in MB.
AMOUNT_COLUMNS = (
    "vcpus_used",
    "free_ram_mb",
    "free_disk_mb",
    "disk_used_mb",
    "num_instances",
    "num_io_ops",
)

#: float64 columns that change with reports only.
REPORTED_COLUMNS = ("running_vms", "current_workload", "failed_builds", "heartbeat_seconds")

#: float64 columns that hardly ever change; masks that read only these (and STATIC_CODED) may be cached.
STATIC_COLUMNS = (
    "vcpus_total",
    "ram_total_mb",
    "disk_total_mb",
    "hypervisor_version",
    "cpu_ratio",
    "ram_ratio",
    "disk_ratio",
)

#: Dictionary-encoded text columns (None = NULL) that hardly ever change.
STATIC_CODED = ("hypervisor_type", "cpu_info", "supported_instances", "host_ip")

#: Dictionary-encoded text columns that change with reports or claims.
DYNAMIC_CODED = ("stats", "metrics", "pci_stats", "numa_topology", "claimed_devices")


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A host aggregate: ``metadata`` values are text, comma lists where a plugin says so."""

    id: int
    name: str
    hosts: frozenset[str]
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HostDelta:
    """Rows that changed, column by column.

    ``columns``: one sequence per name of HOST_COLUMNS, all of equal length, values as in SQL (None = NULL).
    ``full``: these are all rows there are; rows not among them are gone.
    ``removed``: ids of rows that are gone (delta reads).
    ``aggregates``: all aggregates when any changed since the cursor, else None.
    ``heartbeats``: service host → last heartbeat, of services that reported since the cursor; it holds for all rows of
    that host, most of which are not among ``columns`` (a heartbeat alone does not make a row travel).
    ``now_seconds``: the database's clock, seconds since the epoch. ``cursor``: for the next read.
    """

    columns: Mapping[str, Sequence[Any]]
    now_seconds: float
    full: bool = False
    removed: Sequence[int] = ()
    aggregates: Sequence[Aggregate] | None = None
    cursor: Any = field(default=None, compare=False)
    heartbeats: Mapping[str, float] | None = None

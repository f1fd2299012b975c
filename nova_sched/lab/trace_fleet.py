"""Inventories: the hosts that a trace is played on, all empty at the start."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nova_sched.hosts.schema import HOST_COLUMNS, Aggregate, HostDelta
from nova_sched.hosts.table import HostTable
from nova_sched.lab import case as cases
from nova_sched.lab.case import Case
from nova_sched.lab.trace import BrokenTrace, opened

#: The clock of a simulation's hosts; they are up as long as it lasts.
NOW_SECONDS = 0.0
_ZONE_KEY = "availability_zone"
#: Columns of inventories by the names they go by; ``cpu_milli`` are thousandths.
_NAMES = ("host", "sn", "name")
_MEMORY = ("memory_mb", "memory_mib")


@dataclass(frozen=True, slots=True)
class Fleet:
    """Hosts as rows by the names of ``hosts.schema.HOST_COLUMNS``, and their aggregates."""

    name: str
    rows: tuple[Mapping[str, Any], ...]
    aggregates: tuple[Aggregate, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def table(self) -> HostTable:
        """A fresh table of these hosts."""
        made = HostTable()
        columns = {name: [row.get(name) for row in self.rows] for name in HOST_COLUMNS}
        columns["id"] = list(range(1, len(self.rows) + 1))
        made.apply(HostDelta(columns, NOW_SECONDS, full=True, aggregates=self.aggregates))
        return made

    def of_size(self, count: int) -> Fleet:
        """So many hosts in the same mix: evenly picked from this fleet, or the whole of it several times over."""
        there = len(self.rows)
        rows = []
        for number in range(count):
            row = self.rows[number % there if count > there else number * there // count]
            copy = number // there if count > there else 0
            rows.append(
                {**row, "host": f"{row['host']}-{copy}", "node": f"{row['node']}-{copy}"} if copy else row
            )
        return replace(self, rows=tuple(rows))


def read(path: str | Path) -> Fleet:
    """Hosts from CSV (plain or packed) or from an export. Raises BrokenTrace, BrokenCase, OSError."""
    where = Path(path)
    if where.suffix == ".json":
        return of_case(cases.load(where))
    with opened(where) as file:
        reader = csv.DictReader(file)
        try:
            fleet = of_rows(where.name.partition(".")[0], reader)
        except (KeyError, TypeError, ValueError) as error:
            raise BrokenTrace(
                f"{path}:{reader.line_num}: {error}; expected host (or sn), vcpus (or cpu_milli) and memory_mb (or"
                " memory_mib), with local_gb and zone if there are any"
            ) from None
    if not fleet.rows:
        raise BrokenTrace(f"{path}: no hosts")
    return fleet


def of_rows(name: str, rows: Iterable[Mapping[str, str]]) -> Fleet:
    """Hosts of inventory lines by the names of their columns. Raises KeyError, ValueError."""
    found = tuple(_row(row) for row in rows)
    return Fleet(name, found, _zones(found))


def of_case(case: Case) -> Fleet:
    """The hosts of an export with nothing on them. Disabled ones stay disabled, silent ones count as up."""
    rows = tuple(
        {**row, "node": row["hypervisor_hostname"], "disabled": bool(row["service"].get("disabled"))}
        | _emptied(row)
        for row in case.hosts
        if row["service"]
    )
    return Fleet(case.name, rows, case.aggregates)


def _emptied(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "vcpus_used": 0,
        "memory_mb_used": 0,
        "local_gb_used": 0,
        "free_ram_mb": row["memory_mb"],
        "free_disk_gb": row["local_gb"],
        "disk_available_least": None,
        "stats": None,
        "running_vms": 0,
        "current_workload": 0,
        "heartbeat_seconds": NOW_SECONDS,
    }


def _row(row: Mapping[str, str]) -> dict[str, Any]:
    name = _first(row, _NAMES)
    amounts = {
        "vcpus": int(row["vcpus"]) if row.get("vcpus") else int(row["cpu_milli"]) // 1000,
        "memory_mb": int(_first(row, _MEMORY)),
        "local_gb": int(row.get("local_gb") or 0),
    }
    known = {"host": name, "node": row.get("node") or name, "zone": row.get("zone"), "disabled": False}
    return {**known, **amounts, **_emptied(amounts)}


def _first(row: Mapping[str, str], names: Sequence[str]) -> str:
    """The value of the first of these columns that has one. Raises KeyError."""
    for name in names:
        if row.get(name):
            return row[name]
    raise KeyError(names[0])


def _zones(rows: Sequence[Mapping[str, Any]]) -> tuple[Aggregate, ...]:
    zones: dict[str, set[str]] = {}
    for row in rows:
        if row["zone"]:
            zones.setdefault(row["zone"], set()).add(row["host"])
    return tuple(
        Aggregate(number, f"zone {zone}", frozenset(hosts), {_ZONE_KEY: zone})
        for number, (zone, hosts) in enumerate(sorted(zones.items()), 1)
    )

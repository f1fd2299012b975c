"""Traces: which guests come and go, and when.

Read from CSV (plain or ``.gz``) with the columns ``vmId,tenantId,cores,ram,vmTypeId,starttime,endtime`` (the Azure packing
trace as CoSpot gives it: times in days, sizes on a scale of their own), from CSV with ``guest,tenant,vcpus,memory_mb,
disk_gb,start_seconds,end_seconds``, or from an export of a running service (its instances).
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

import orjson

from nova_sched.errors import SchedulerError
from nova_sched.lab.case import seconds

_DAY_SECONDS = 86400.0
#: Sizes of the packing trace: hundredths of a vCPU, and RAM so that its common rows are whole GB.
_CORES_PER_VCPU = 100.0
_MB_PER_RAM = 64.0
_PACKING = ("vmId", "cores", "ram", "starttime", "endtime")
_PLAIN = ("guest", "vcpus", "memory_mb", "start_seconds", "end_seconds")


class BrokenTrace(SchedulerError):
    """A file is not a trace: which file and line, and what was expected."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One guest. ``start_seconds`` below 0: it runs already when the trace begins. ``end_seconds``: inf = it stays."""

    guest: str
    tenant: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True, slots=True)
class Trace:
    """Arrivals by time; of equal times in the order of the file."""

    name: str
    arrivals: tuple[Arrival, ...]

    @property
    def last_seconds(self) -> float:
        """When the last guest arrives."""
        return max((one.start_seconds for one in self.arrivals), default=0.0)

    def first(self, count: int) -> Trace:
        """The first so many arrivals."""
        return Trace(self.name, self.arrivals[:count])


def of(name: str, arrivals: Iterable[Arrival]) -> Trace:
    """A trace of arrivals in any order."""
    return Trace(name, tuple(sorted(arrivals, key=lambda one: one.start_seconds)))


def read(path: str | Path) -> Trace:
    """A trace from a file. Raises BrokenTrace, OSError."""
    where = Path(path)
    try:
        if where.suffix == ".json":
            return of(where.stem, _of_export(orjson.loads(where.read_bytes())))
        with opened(where) as file:
            return of(where.name.partition(".")[0], _rows(where, csv.DictReader(file)))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BrokenTrace(f"{path}: {type(error).__name__}: {error}") from None


def opened(path: Path, mode: Literal["r", "w"] = "r") -> TextIO:
    """A text file, packed or not, to read or to write."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt" if mode == "r" else "wt", encoding="utf-8", newline="")
    return path.open(mode, encoding="utf-8", newline="")


def write(path: str | Path, trace: Trace) -> None:
    """Write a trace as CSV; a name that ends with ``.gz`` is packed."""
    with opened(Path(path), "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("guest", "tenant", "vcpus", "memory_mb", "disk_gb", "start_seconds", "end_seconds"))
        for one in trace.arrivals:
            times = (f"{one.start_seconds:.3f}", f"{one.end_seconds:.3f}")
            writer.writerow((one.guest, one.tenant, one.vcpus, one.memory_mb, one.disk_gb, *times))


def _rows(path: Path, reader: csv.DictReader[str]) -> Iterator[Arrival]:
    names: Sequence[str] = reader.fieldnames or ()
    if set(_PACKING) <= set(names):
        read_row = _packing_row
    elif set(_PLAIN) <= set(names):
        read_row = _plain_row
    else:
        raise BrokenTrace(f"{path}: expected the columns {', '.join(_PLAIN)} or {', '.join(_PACKING)}")
    for row in reader:
        try:
            arrival = read_row(row)
        except (TypeError, ValueError) as error:
            raise BrokenTrace(f"{path}:{reader.line_num}: {error}") from None
        if arrival.end_seconds > max(arrival.start_seconds, 0.0):
            yield arrival


def _packing_row(row: Mapping[str, str]) -> Arrival:
    return Arrival(
        guest=row["vmId"],
        tenant=row.get("tenantId", ""),
        vcpus=max(1, math.ceil(float(row["cores"]) / _CORES_PER_VCPU)),
        memory_mb=round(float(row["ram"]) * _MB_PER_RAM),
        disk_gb=0,
        start_seconds=float(row["starttime"]) * _DAY_SECONDS,
        end_seconds=float(row["endtime"] or "inf") * _DAY_SECONDS,
    )


def _plain_row(row: Mapping[str, str]) -> Arrival:
    return Arrival(
        guest=row["guest"],
        tenant=row.get("tenant", ""),
        vcpus=int(row["vcpus"]),
        memory_mb=int(row["memory_mb"]),
        disk_gb=int(row.get("disk_gb") or 0),
        start_seconds=float(row["start_seconds"]),
        end_seconds=float(row["end_seconds"] or "inf"),
    )


def _of_export(case: Mapping[str, Any]) -> Iterator[Arrival]:
    """Instances that got a host, from the oldest on; time 0 is when the oldest was made."""
    rows = [
        row for row in case["input"]["instances"] if row.get("created_at") and row.get("vcpus") is not None
    ]
    if not rows:
        raise BrokenTrace("the export has no instances with sizes and times")
    begin = min(seconds(row["created_at"]) for row in rows)
    for row in rows:
        end = row.get("deleted_at")
        yield Arrival(
            guest=row["uuid"],
            tenant=row.get("project_id") or "",
            vcpus=row["vcpus"],
            memory_mb=row["memory_mb"] or 0,
            disk_gb=(row["disk_mb"] or 0) // 1024,
            start_seconds=seconds(row["created_at"]) - begin,
            end_seconds=seconds(end) - begin if end else math.inf,
        )

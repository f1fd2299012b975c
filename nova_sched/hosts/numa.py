"""NUMA cells: reading the column, fitting a guest, taking and counting what it uses.

The rules are Juno's: guest cells go to distinct host cells, tried in the order of the row; the first arrangement in
which every cell fits wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import orjson

from nova_sched.model.limits import NumaLimits
from nova_sched.model.numa import HostCell, HostTopology, InstanceCell, InstanceTopology

_CACHED_TEXTS = 1 << 15


def parse_cpus(text: object) -> frozenset[int]:
    """CPU ids of ``0,1``, ``0-3`` or ``0-7,^2`` (``^``: all but). A list of integers is accepted as well.

    Raises ValueError for anything else.
    """
    if isinstance(text, (list, tuple)):
        return frozenset(int(cpu) for cpu in text)
    if not isinstance(text, str):
        raise ValueError(f"cpu ids {text!r} are neither text nor a list")
    taken: set[int] = set()
    left_out: set[int] = set()
    for part in (piece.strip() for piece in text.split(",")):
        if not part:
            continue
        if part.startswith("^"):
            left_out.add(int(part[1:]))
            continue
        first, dash, last = part.partition("-")
        taken.update(range(int(first), int(last) + 1) if dash else (int(first),))
    return frozenset(taken - left_out)


@lru_cache(maxsize=_CACHED_TEXTS)
def parse_host_topology(text: str | None) -> HostTopology | None:
    """Cells of the ``numa_topology`` column; None when it is NULL, empty or does not parse."""
    if not text:
        return None
    try:
        return HostTopology(tuple(_host_cell(cell) for cell in orjson.loads(text)["cells"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _host_cell(cell: Any) -> HostCell:
    memory = cell.get("mem") or {}
    return HostCell(
        id=int(cell["id"]),
        cpus=parse_cpus(cell.get("cpus", "")),
        memory_mb=int(memory.get("total", 0)),
        cpu_usage=int(cell.get("cpu_usage", 0)),
        memory_used_mb=int(memory.get("used", 0)),
    )


def fit(
    host: HostTopology, guest: InstanceTopology, *, cpu_ratio: float, ram_ratio: float
) -> InstanceTopology | None:
    """The guest's cells with the ids of the host cells they go to; None when they do not fit.

    A guest cell never overcommits against itself: it must fit a host cell's totals whatever the ratios.
    """
    if not host.cells or len(host.cells) < len(guest.cells):
        return None
    limits = NumaLimits(host, cpu_ratio, ram_ratio)
    order = _first_arrangement(
        [[i for i, cell in enumerate(host.cells) if _has_room(cell, asked, limits)] for asked in guest.cells]
    )
    if order is None:
        return None
    return InstanceTopology(
        tuple(
            replace(asked, id=host.cells[found].id) for asked, found in zip(guest.cells, order, strict=True)
        )
    )


def _first_arrangement(rooms: Sequence[Sequence[int]]) -> list[int] | None:
    """Per guest cell one of its possible host cells, all distinct, the lexicographically smallest; None if there is none.

    Same answer as trying all permutations, in polynomial time: a choice is kept when the rest can still be matched.
    """
    chosen: list[int] = []
    for wanted, possible in enumerate(rooms):
        for cell in possible:
            if cell not in chosen and _can_match(rooms[wanted + 1 :], {*chosen, cell}):
                chosen.append(cell)
                break
        else:
            return None
    return chosen


def _can_match(rooms: Sequence[Sequence[int]], taken: set[int]) -> bool:
    owner: dict[int, int] = {}

    def place(wanted: int, seen: set[int]) -> bool:
        for cell in rooms[wanted]:
            if cell in taken or cell in seen:
                continue
            seen.add(cell)
            if cell not in owner or place(owner[cell], seen):
                owner[cell] = wanted
                return True
        return False

    return all(place(wanted, set()) for wanted in range(len(rooms)))


def _has_room(cell: HostCell, asked: InstanceCell, limits: NumaLimits) -> bool:
    cpus = len(asked.cpus)
    if asked.memory_mb > cell.memory_mb or cpus > len(cell.cpus):
        return False
    return cell.memory_used_mb + asked.memory_mb <= memory_limit_mb(
        cell, limits
    ) and cell.cpu_usage + cpus <= cpu_limit(cell, limits)


def memory_limit_mb(cell: HostCell, limits: NumaLimits) -> int:
    """MB that all guests together may use of a cell."""
    return int(cell.memory_mb * limits.ram_ratio)


def cpu_limit(cell: HostCell, limits: NumaLimits) -> float:
    """Guest CPUs that may be put on a cell."""
    return len(cell.cpus) * limits.cpu_ratio


@dataclass(frozen=True, slots=True)
class CellUse:
    """What one guest takes of one host cell."""

    id: int
    cpus: int
    memory_mb: int


def uses_of(guest: InstanceTopology) -> tuple[CellUse, ...]:
    """Per guest cell what it takes of the host cell of the same id."""
    return tuple(CellUse(cell.id, len(cell.cpus), cell.memory_mb) for cell in guest.cells)


def use(host: HostTopology, uses: Iterable[CellUse]) -> HostTopology:
    """The host's cells with these uses added; ids the host does not have are ignored."""
    taken: dict[int, list[CellUse]] = {}
    for one in uses:
        taken.setdefault(one.id, []).append(one)
    return HostTopology(tuple(_used(cell, taken.get(cell.id, ())) for cell in host.cells))


def _used(cell: HostCell, uses: Sequence[CellUse]) -> HostCell:
    if not uses:
        return cell
    return replace(
        cell,
        cpu_usage=cell.cpu_usage + sum(one.cpus for one in uses),
        memory_used_mb=cell.memory_used_mb + sum(one.memory_mb for one in uses),
    )

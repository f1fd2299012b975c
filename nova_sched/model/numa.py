"""NUMA topologies of guests and hosts, as Juno writes them. Memory in MB; CPU ids are integers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InstanceCell:
    """One guest cell: guest cpu ids and memory. ``id`` is the host cell once fitted, the guest's own before."""

    id: int
    cpus: frozenset[int]
    memory_mb: int


@dataclass(frozen=True, slots=True)
class InstanceTopology:
    """The cells a guest asks for (or was fitted to)."""

    cells: tuple[InstanceCell, ...]


@dataclass(frozen=True, slots=True)
class HostCell:
    """One host cell and its use."""

    id: int
    cpus: frozenset[int]
    memory_mb: int
    cpu_usage: int = 0
    memory_used_mb: int = 0


@dataclass(frozen=True, slots=True)
class HostTopology:
    """The cells of a host, in the order of the row."""

    cells: tuple[HostCell, ...]

"""NUMA cells and PCI pools as Nova's objects name them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nova_sched.hosts import pci
from nova_sched.model.numa import HostTopology, InstanceTopology
from nova_sched.model.pci import PciPool, PciRequest


@dataclass
class NUMACell:
    """One cell. ``memory`` and ``memory_usage`` in MB; a guest's cell has no usage."""

    id: int
    cpuset: set[int]
    memory: int
    cpu_usage: int = 0
    memory_usage: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As Juno wrote it."""
        return {
            "id": self.id,
            "cpus": ",".join(str(cpu) for cpu in sorted(self.cpuset)),
            "mem": {"total": self.memory, "used": self.memory_usage},
            "cpu_usage": self.cpu_usage,
        }


@dataclass
class NUMATopology:
    """The cells of a host or a guest."""

    cells: list[NUMACell]

    def __len__(self) -> int:
        return len(self.cells)

    def to_dict(self) -> dict[str, Any]:
        """As Juno wrote it."""
        return {"cells": [cell.to_dict() for cell in self.cells]}


def numa_topology(topology: HostTopology | InstanceTopology) -> NUMATopology:
    """Nova's object of ours."""
    if isinstance(topology, HostTopology):
        return NUMATopology(
            [
                NUMACell(cell.id, set(cell.cpus), cell.memory_mb, cell.cpu_usage, cell.memory_used_mb)
                for cell in topology.cells
            ]
        )
    return NUMATopology([NUMACell(cell.id, set(cell.cpus), cell.memory_mb) for cell in topology.cells])


@dataclass
class InstancePCIRequest:
    """``count`` devices, each matching any one of ``spec``."""

    count: int
    spec: list[dict[str, Any]]


@dataclass
class InstancePCIRequests:
    """What a guest asks for."""

    requests: list[InstancePCIRequest]


def pci_requests(requests: Iterable[PciRequest]) -> InstancePCIRequests:
    """Nova's object of ours."""
    return InstancePCIRequests(
        [InstancePCIRequest(one.count, [dict(spec) for spec in one.spec]) for one in requests]
    )


class PciStats:
    """The free devices of a host: ``pools`` (each with ``count`` and its tags) and :meth:`support_requests`."""

    def __init__(self, pools: Sequence[PciPool]) -> None:
        self._free = tuple(pools)
        self.pools = [{**pool.tags, "count": pool.count} for pool in pools]

    def support_requests(self, requests: Iterable[Any], *_: Any, **__: Any) -> bool:
        """Whether the pools serve all requests together."""
        asked = [PciRequest(one.count, tuple(one.spec)) for one in requests]
        return pci.take(self._free, asked) is not None

"""NUMA cells and PCI devices."""

from __future__ import annotations

from nova_sched.model.numa import InstanceCell, InstanceTopology
from nova_sched.model.pci import PciRequest
from nova_sched.testing.builders import host, request
from nova_sched.testing.deciding import decide, hosts_chosen, passing, reason_of, settings

CELLS = {
    "cells": [
        {"id": 0, "cpus": "0,1,2,3", "mem": {"total": 8192, "used": 0}, "cpu_usage": 0},
        {"id": 1, "cpus": "4,5,6,7", "mem": {"total": 8192, "used": 4096}, "cpu_usage": 2},
    ]
}
EXACT = {"cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0}


def guest(*cells: tuple[int, int]) -> InstanceTopology:
    """Cells of (CPUs, MB)."""
    return InstanceTopology(
        tuple(
            InstanceCell(number, frozenset(range(cpus)), memory)
            for number, (cpus, memory) in enumerate(cells)
        )
    )


def numa(*cells: tuple[int, int], rows=None, **options) -> list[str]:
    """Hosts that pass NUMATopologyFilter."""
    rows = rows or [host("u1", numa_topology=CELLS), host("u3")]
    return passing("NUMATopologyFilter", rows, request(numa=guest(*cells)), options=options or EXACT)


def test_cells_fit_distinct_host_cells():
    """The topology as a whole, not cell by cell."""
    assert numa((2, 4096), (2, 4096)) == ["u1"]
    assert numa((3, 4096), (3, 4096)) == []
    assert numa((1, 512), (1, 512), (1, 512)) == []


def test_a_cell_never_overcommits_against_itself():
    """Ratios share a cell among guests; one guest's cell fits the cell's totals."""
    assert numa((5, 512), cpu_allocation_ratio=16.0) == []
    assert numa((4, 8193), ram_allocation_ratio=16.0) == []
    assert numa((4, 8192), (4, 8192), cpu_allocation_ratio=16.0, ram_allocation_ratio=2.0) == ["u1"]


def test_a_broken_topology_costs_its_host_only():
    """It fails where cells are asked for, and only there."""
    rows = [host("bad", numa_topology="{"), host("good", numa_topology=CELLS)]
    assert numa((1, 512), rows=rows) == ["good"]
    assert passing("NUMATopologyFilter", rows, request()) == ["bad", "good"]


def test_guests_of_one_request_fill_the_cells():
    """Two guests in cell 0, one in cell 1, none left for the fourth."""
    chosen = settings(["NUMATopologyFilter"], options=EXACT)
    decision = decide([host("u1", numa_topology=CELLS)], request(count=5, numa=guest((2, 4096))), chosen)
    assert [placement.numa_fit.cells[0].id for placement in decision.placements] == [0, 0, 1]
    assert "NUMATopologyFilter" in reason_of(decision)


def pci(count: int, **spec: str) -> PciRequest:
    """``count`` devices with these tags."""
    return PciRequest(count, (spec,))


POOL = {"vendor_id": "8086", "product_id": "1520"}


def test_devices_come_from_all_matching_pools():
    """Pools that match are taken in turn; others are left alone."""
    rows = [
        host("p1", pci_stats=[{**POOL, "count": 1}, {**POOL, "count": 1}]),
        host("p2", pci_stats=[{**POOL, "count": 1}]),
        host("p3", pci_stats=[{**POOL, "vendor_id": "10de", "count": 9}]),
        host("p4"),
        host("p5", pci_stats="[{"),
    ]
    assert passing("PciPassthroughFilter", rows, request(pci_requests=(pci(2, **POOL),))) == ["p1"]
    assert passing("PciPassthroughFilter", rows, request()) == ["p1", "p2", "p3", "p4", "p5"]


def test_any_one_spec_suffices():
    """A request may list alternatives."""
    either = PciRequest(2, ({"product_id": "1"}, {"product_id": "2"}))
    row = host(pci_stats=[{"product_id": "1", "count": 1}, {"product_id": "2", "count": 1}])
    assert passing("PciPassthroughFilter", [row], request(pci_requests=(either,))) == ["alder"]


def test_guests_of_one_request_take_devices():
    """A host whose devices are gone is left out for the next guest."""
    rows = [
        host("p1", pci_stats=[{**POOL, "count": 2}], free_ram_mb=20000),
        host("p2", pci_stats=[{**POOL, "count": 1}], free_ram_mb=9000),
    ]
    decision = decide(
        rows, request(count=4, pci_requests=(pci(1, **POOL),)), settings(["PciPassthroughFilter"])
    )
    assert hosts_chosen(decision) == ["p1", "p1", "p2"]
    assert "PciPassthroughFilter" in reason_of(decision)

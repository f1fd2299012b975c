"""NUMA cells and PCI pools: fitting, taking, counting."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched.hosts import numa, pci
from nova_sched.model.numa import HostCell, HostTopology, InstanceCell, InstanceTopology
from nova_sched.model.pci import PciPool, PciRequest

NIC = {"vendor_id": "8086", "product_id": "1520"}


def host(*cells: tuple[int, int, int, int]) -> HostTopology:
    """Cells as (cpus, memory, cpus used, memory used)."""
    return HostTopology(
        tuple(
            HostCell(number, frozenset(range(cpus)), memory, used_cpus, used_memory)
            for number, (cpus, memory, used_cpus, used_memory) in enumerate(cells)
        )
    )


def guest(*cells: tuple[int, int]) -> InstanceTopology:
    return InstanceTopology(
        tuple(InstanceCell(n, frozenset(range(cpus)), memory) for n, (cpus, memory) in enumerate(cells))
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0,1", {0, 1}), ("0-3,^2", {0, 1, 3}), (" 1 , 3-4 ", {1, 3, 4}), ("", set()), ([2, 5], {2, 5})],
)
def test_cpu_lists_are_read_in_every_spelling(text: object, wanted: set[int]) -> None:
    """Single ids, ranges, exclusions, and lists."""
    assert numa.parse_cpus(text) == wanted


def test_a_guest_cell_never_overcommits_against_itself() -> None:
    """Ratios are for sharing among guests: one guest cell may not be larger than the host cell."""
    assert numa.fit(host((2, 1024, 0, 0)), guest((4, 512)), cpu_ratio=16.0, ram_ratio=1.5) is None
    assert numa.fit(host((2, 1024, 0, 0)), guest((1, 1500)), cpu_ratio=16.0, ram_ratio=1.5) is None


def test_the_first_arrangement_in_row_order_wins_and_ids_are_the_hosts() -> None:
    """The second guest cell takes the first host cell when only the order 1, 0 fits."""
    fitted = numa.fit(
        host((4, 1024, 0, 0), (4, 4096, 0, 0)), guest((2, 4096), (2, 1024)), cpu_ratio=1.0, ram_ratio=1.0
    )
    assert fitted is not None
    assert [cell.id for cell in fitted.cells] == [1, 0]


def test_use_adds_to_the_cells_named() -> None:
    """Usage by cell id; ids the host does not have are ignored."""
    uses = [numa.CellUse(1, 2, 512), numa.CellUse(9, 2, 512)]
    cells = numa.use(host((4, 1024, 0, 0), (4, 1024, 1, 256)), uses).cells
    assert [(cell.cpu_usage, cell.memory_used_mb) for cell in cells] == [(0, 0), (3, 768)]


cells = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3), st.integers(0, 3))


@settings(max_examples=200, deadline=None)
@given(st.lists(cells, max_size=4), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=4))
def test_fit_is_the_first_permutation_that_fits(
    host_cells: list[tuple[int, int, int, int]], guest_cells: list[tuple[int, int]]
) -> None:
    """The polynomial search answers as trying all permutations in order does."""
    topology, asked = host(*host_cells), guest(*guest_cells)

    def fits(cell: HostCell, wanted: InstanceCell) -> bool:
        return (
            wanted.memory_mb <= cell.memory_mb
            and len(wanted.cpus) <= len(cell.cpus)
            and cell.memory_used_mb + wanted.memory_mb <= int(cell.memory_mb * 1.5)
            and cell.cpu_usage + len(wanted.cpus) <= len(cell.cpus) * 2.0
        )

    orders = permutations(topology.cells, len(asked.cells)) if host_cells else iter(())
    first = next(
        (order for order in orders if all(fits(c, w) for c, w in zip(order, asked.cells, strict=True))), None
    )
    found = numa.fit(topology, asked, cpu_ratio=2.0, ram_ratio=1.5)
    assert (None if found is None else [cell.id for cell in found.cells]) == (
        None if first is None else [cell.id for cell in first]
    )


def test_a_hopeless_guest_with_many_cells_is_answered_at_once() -> None:
    """Sixteen cells that all want the one large cell: no search through 16! permutations."""
    topology = host(*[(1, 1, 0, 0)] * 31, (8, 4096, 0, 0))
    assert numa.fit(topology, guest(*[(8, 4096)] * 16), cpu_ratio=1.0, ram_ratio=1.0) is None


def test_requests_are_served_in_turn_across_pools() -> None:
    """Each device serves one request; emptied pools disappear."""
    pools = (PciPool(2, NIC), PciPool(1, {**NIC, "address": "x"}), PciPool(1, {"vendor_id": "15b3"}))
    left = pci.take(pools, [PciRequest(3, (NIC,)), PciRequest(1, ({"vendor_id": "15b3"}, NIC))])
    assert left == ()
    assert pci.take(pools, [PciRequest(3, (NIC,)), PciRequest(1, (NIC,))]) is None


def test_a_request_without_specs_matches_nothing() -> None:
    """No alternative means no device, as in Juno."""
    assert pci.take((PciPool(1, NIC),), [PciRequest(1, ())]) is None


def test_what_was_taken_subtracts_to_what_is_left() -> None:
    """Claims store devices taken; reported pools minus them are the pools left."""
    pools = (PciPool(3, NIC), PciPool(1, {"vendor_id": "15b3"}))
    left = pci.take(pools, [PciRequest(2, (NIC,)), PciRequest(1, ({"vendor_id": "15b3"},))])
    assert left is not None
    used = pci.taken(pools, left)
    assert [(pool.count, pool.tags) for pool in used] == [(2, NIC), (1, {"vendor_id": "15b3"})]
    assert pci.subtract(pools, used) == left


def test_pools_that_were_empty_before_stay_as_the_row_has_them() -> None:
    """Claims on a host leave out the pools that they emptied, and no others."""
    empty, full, other = PciPool(0, {"a": 1}), PciPool(2, {"a": 2}), PciPool(1, {"a": 3})
    assert pci.subtract((empty, full, other), [full]) == (empty, other)

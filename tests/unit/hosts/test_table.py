"""The host table: reported rows to columns, deltas, generations."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched.hosts.schema import DYNAMIC_CODED, STATIC_CODED, Aggregate, HostDelta
from nova_sched.hosts.table import HostTable
from nova_sched.model.request import Amounts

ROW: dict[str, Any] = {
    "vcpus": 16,
    "memory_mb": 32768,
    "local_gb": 500,
    "vcpus_used": 4,
    "free_ram_mb": 8192,
    "free_disk_gb": 400,
    "local_gb_used": 100,
    "hypervisor_type": "QEMU",
    "hypervisor_version": 2001000,
    "stats": '{"num_instances": "2", "io_workload": "1"}',
    "heartbeat_seconds": 100.0,
}


def row(host_id: int, **values: Any) -> dict[str, Any]:
    return {"id": host_id, "host": f"h{host_id}", "node": f"h{host_id}.lab", **ROW, **values}


def delta(*rows: dict[str, Any], **options: Any) -> HostDelta:
    names = sorted({name for one in rows for name in one})
    columns = {name: [one.get(name) for one in rows] for name in names}
    return HostDelta(columns, options.pop("now_seconds", 100.0), **options)


def table(*rows: dict[str, Any], **options: Any) -> HostTable:
    made = HostTable()
    made.apply(delta(*rows, full=True, **options))
    return made


def number(made: HostTable, name: str, host_id: int = 1) -> float:
    found = made.row_of(host_id)
    assert found is not None
    return float(made.view().number(name)[found])


def test_reported_and_claimed_amounts_are_one() -> None:
    """Usage of a host is what its agent reported plus live claims that the report does not contain."""
    made = table(
        row(
            1,
            claimed_vcpus=2,
            claimed_memory_mb=2048,
            claimed_disk_mb=1024,
            claimed_instances=1,
            claimed_io_ops=1,
        )
    )
    assert number(made, "vcpus_used") == 6
    assert number(made, "free_ram_mb") == 6144
    assert number(made, "free_disk_mb") == 400 * 1024 - 1024
    assert number(made, "num_instances") == 3
    assert number(made, "num_io_ops") == 2
    assert number(made, "disk_used_mb") == 100 * 1024


@pytest.mark.parametrize(
    ("free_gb", "least_gb", "wanted_mb"),
    [(10, None, 10240), (10, 5, 5120), (5, 10, 5120), (None, 7, 7168), (10, -1, -1024), (None, None, None)],
)
def test_free_disk_is_the_smaller_of_what_is_known(
    free_gb: int | None, least_gb: int | None, wanted_mb: float | None
) -> None:
    """disk_available_least knows of sparse images; a row without either is unknown, not zero (LP#1610679)."""
    found = number(table(row(1, free_disk_gb=free_gb, disk_available_least=least_gb)), "free_disk_mb")
    assert np.isnan(found) if wanted_mb is None else found == wanted_mb


@pytest.mark.parametrize(
    ("stats", "guests", "io_ops"),
    [
        (None, 0, 0),
        ("", 0, 0),
        ("{}", 0, 0),
        ("null", 0, 0),
        ('{"num_instances": 3}', 3, 0),
        ('{"num_instances": "3", "io_workload": "2"}', 3, 2),
        ("{broken", np.nan, np.nan),
        ("[1]", np.nan, np.nan),
        ('{"num_instances": "many", "io_workload": 1}', np.nan, 1),
        ('{"num_instances": null}', np.nan, 0),
    ],
)
def test_stats_that_do_not_parse_are_unknown_and_absent_ones_zero(
    stats: str | None, guests: float, io_ops: float
) -> None:
    """NULL and empty stats are empty, broken ones cost their own numbers only."""
    made = table(row(1, stats=stats))
    np.testing.assert_equal(number(made, "num_instances"), guests)
    np.testing.assert_equal(number(made, "num_io_ops"), io_ops)


@pytest.mark.parametrize("reported", [0.0, 0, None])
def test_a_ratio_reported_as_zero_means_the_default(reported: float | None) -> None:
    """LP#1789654: a host whose ratio is stored as 0.0 must not advertise zero capacity."""
    assert np.isnan(number(table(row(1, cpu_allocation_ratio=reported)), "cpu_ratio"))


def test_one_unreadable_value_costs_that_value_only() -> None:
    """Text in a numeric column of one host leaves every other host and column as it is (LP#1654102)."""
    made = table(row(1, free_ram_mb="lots"), row(2))
    assert np.isnan(number(made, "free_ram_mb", 1))
    assert number(made, "free_ram_mb", 2) == 8192
    assert number(made, "vcpus_used", 1) == 4


def test_rows_stand_in_the_order_of_their_ids_however_they_came() -> None:
    """A row committed late with a smaller id takes its place, and everything moved is marked as changed."""
    made = table(row(5), row(9))
    made.apply(delta(row(7), row(1)))
    assert made.view().ids.tolist() == [1, 5, 7, 9]
    assert made.view().hosts.tolist() == ["h1", "h5", "h7", "h9"]
    assert (made.view().row_generation == made.generation).all()


def test_only_changed_rows_carry_the_new_generation() -> None:
    """A report of one host leaves the generation of the others; its static generation stays when no static part changed."""
    made = table(row(1), row(2))
    first = made.generation
    made.apply(delta(row(2, free_ram_mb=1)))
    assert made.view().row_generation.tolist() == [first, made.generation]
    assert made.view().static_generation.tolist() == [first, first]
    assert made.view().static_stamp == first
    made.apply(delta(row(2, hypervisor_type="xen")))
    assert made.view().static_generation.tolist() == [first, made.generation]
    assert made.view().static_stamp == made.generation


def test_a_delta_without_rows_only_moves_the_clock() -> None:
    """Nothing changed, so the generation stays and every cache stays good."""
    made = table(row(1))
    before = made.generation
    made.apply(HostDelta({"id": [], "host": []}, now_seconds=200.0))
    assert (made.generation, made.now_seconds) == (before, 200.0)


def test_removed_rows_and_rows_missing_from_a_full_read_are_gone() -> None:
    """Host rows deleted in SQL leave the table by name or by absence."""
    made = table(row(1), row(2), row(3))
    made.apply(HostDelta({"id": [], "host": []}, 100.0, removed=[2]))
    assert made.view().ids.tolist() == [1, 3]
    assert made.row_of(2) is None
    assert made.row_of(3) == 1
    made.apply(delta(row(3), full=True))
    assert made.view().ids.tolist() == [3]


def test_of_two_rows_with_one_id_the_later_counts() -> None:
    """A read that saw a row twice leaves one row, with the values read last."""
    made = table(row(1, free_ram_mb=1), row(1, free_ram_mb=2), row(2))
    made.apply(delta(row(2, free_ram_mb=3), row(2, free_ram_mb=4)))
    assert made.view().ids.tolist() == [1, 2]
    assert made.view().free_ram_mb.tolist() == [2.0, 4.0]


def test_aggregates_reach_every_node_of_their_hosts() -> None:
    """Several nodes may share a service host; aggregates name hosts."""
    zone = Aggregate(1, "zone", frozenset({"twin"}), {"availability_zone": "z1"})
    made = table(row(1, host="twin"), row(2, host="twin", node="second"), row(3), aggregates=[zone])
    assert [made.view().aggregates_of(index) for index in range(3)] == [(zone,), (zone,), ()]
    assert made.view().aggregate_keys == {"availability_zone"}


def test_a_host_that_leaves_an_aggregate_changes_and_the_others_do_not() -> None:
    """LP#1605804: after a change the map of hosts is what the aggregates say now."""
    both = Aggregate(1, "a", frozenset({"h1", "h2"}), {"k": "v"})
    made = table(row(1), row(2), row(3), aggregates=[both])
    before = made.generation
    made.apply(
        HostDelta(
            {"id": [], "host": []}, 100.0, aggregates=[Aggregate(1, "a", frozenset({"h1"}), {"k": "v"})]
        )
    )
    assert made.view().aggregates_of(1) == ()
    assert made.view().static_generation.tolist() == [made.generation, made.generation, before]
    made.apply(HostDelta({"id": [], "host": []}, 100.0, aggregates=[]))
    assert made.view().aggregates_of(0) == ()


def test_views_are_read_only() -> None:
    """A plugin cannot write to the shared columns."""
    view = table(row(1)).view()
    with pytest.raises(ValueError, match="read-only"):
        view.free_ram_mb[0] = 0


def test_pools_and_cells_are_what_is_reported_without_live_claims() -> None:
    """Claimed devices are taken out of the reported ones until a report contains them."""
    made = table(
        row(
            1,
            pci_stats='[{"count": 3, "vendor_id": "8086"}, {"count": 1, "vendor_id": "15b3"}]',
            numa_topology='{"cells": [{"id": 0, "cpus": "0-3", "mem": {"total": 8192, "used": 1024}, "cpu_usage": 1}]}',
            claimed_devices=json.dumps(
                {
                    "pci": [
                        {"count": 1, "tags": {"vendor_id": "8086"}},
                        {"count": 1, "tags": {"vendor_id": "15b3"}},
                    ],
                    "numa": [{"id": 0, "cpus": [0, 1], "memory_mb": 2048}],
                }
            ),
        )
    )
    pools = made.view().pools(0)
    cells = made.view().topology(0)
    assert pools is not None
    assert cells is not None
    assert [(pool.count, pool.tags) for pool in pools] == [(2, {"vendor_id": "8086"})]
    assert (cells.cells[0].cpu_usage, cells.cells[0].memory_used_mb) == (3, 3072)


@pytest.mark.parametrize(
    "text", ["{broken", "[1]", '{"cells": [{"cpus": "0"}]}', '{"cells": [{"id": 0, "cpus": "a"}]}']
)
def test_devices_that_do_not_parse_are_unknown(text: str) -> None:
    """A broken column costs the host only where a filter needs it."""
    made = table(row(1, numa_topology=text, pci_stats=text.replace("[1]", "[[]]")))
    assert made.view().topology(0) is None
    assert made.view().pools(0) is None


def test_an_overlay_is_private_and_rolls_back() -> None:
    """Consumption shows in its own view only, and a failed request leaves no trace."""
    made = table(row(1), row(2, free_ram_mb=None))
    overlay = made.overlay()
    overlay.consume(0, Amounts(vcpus=1, memory_mb=512, disk_mb=1024))
    mark = overlay.mark
    overlay.consume(0, Amounts(vcpus=1, memory_mb=512))
    overlay.consume(1, Amounts(vcpus=1, memory_mb=512))
    assert overlay.touched_since(mark) == [0, 1]
    assert overlay.state(0)["free_ram_mb"] == 7168
    assert overlay.state(1)["free_ram_mb"] is None
    overlay.rollback(mark)
    assert overlay.view.free_ram_mb[0] == 7680
    assert overlay.touched == {0}
    overlay.rollback(0)
    assert overlay.view.free_ram_mb[0] == made.view().free_ram_mb[0] == 8192
    assert made.view().vcpus_used[1] == 4


def test_dictionaries_forget_texts_that_no_host_has() -> None:
    """Stats change with every report; a table that runs for months must not keep all of them."""
    made = table(row(1), row(2))
    for number_of_guests in range(500):
        made.apply(delta(row(1, stats=json.dumps({"num_instances": number_of_guests}))))
    assert len(made.view().coded("stats").values) <= 4
    assert number(made, "num_instances") == 499


reports = st.fixed_dictionaries(
    {
        "free_ram_mb": st.sampled_from([None, 0, 1024]),
        "hypervisor_type": st.sampled_from([None, "QEMU", "xen"]),
        "stats": st.sampled_from([None, "{}", '{"num_instances": 1}']),
        "host": st.sampled_from(["a", "b", "c"]),
        "disabled": st.booleans(),
        "ram_allocation_ratio": st.sampled_from([None, 0.0, 2.0]),
    }
)
changes = st.tuples(
    st.dictionaries(st.integers(1, 6), reports, max_size=4),
    st.sets(st.integers(1, 6), max_size=2),
    st.sampled_from([None, (), ("a",), ("a", "b")]),
    st.booleans(),
)


def seen(made: HostTable) -> list[Any]:
    """All that a plugin can read of a table, row by row."""
    view = made.view()
    frame = made.frame
    return [
        [
            int(view.ids[index]),
            view.hosts[index],
            view.nodes[index],
            bool(view.disabled[index]),
            view.aggregates_of(index),
            {name: str(column[index]) for name, column in frame.numbers.items()},
            {name: view.coded(name)[index] for name in STATIC_CODED + DYNAMIC_CODED},
        ]
        for index in range(len(view))
    ]


@settings(max_examples=150, deadline=None)
@given(st.lists(changes, max_size=6))
def test_any_sequence_of_deltas_ends_where_a_full_read_does(
    history: list[tuple[dict[int, dict[str, Any]], set[int], tuple[str, ...] | None, bool]],
) -> None:
    """Incremental and fresh tables show the same; rows whose static parts changed say so."""
    made = HostTable()
    rows: dict[int, dict[str, Any]] = {}
    aggregates: list[Aggregate] = []
    for reported, removed, members, full in history:
        before = {one[0]: one for one in seen(made)}
        stamp = made.generation
        gone = removed & rows.keys() - reported.keys()
        rows = {} if full else {key: value for key, value in rows.items() if key not in gone}
        rows |= {key: {"id": key, "node": f"n{key}", **value} for key, value in reported.items()}
        if members is not None:
            aggregates = [Aggregate(1, "one", frozenset(members), {"k": "v"})]
        made.apply(
            HostDelta(
                {
                    name: [rows[key].get(name) for key in reported]
                    for name in ("id", "host", "node", *next(iter(rows.values()), {}))
                },
                100.0,
                full=full,
                removed=sorted(gone),
                aggregates=None if members is None else aggregates,
            )
        )
        fresh = HostTable()
        columns = {
            name: [rows[key].get(name) for key in sorted(rows)]
            for name in ("id", "host", "node", *next(iter(rows.values()), {}))
        }
        fresh.apply(HostDelta(columns, 100.0, full=True, aggregates=aggregates))
        assert seen(made) == seen(fresh)
        for index, one in enumerate(seen(made)):
            static = (one[1], one[2], one[3], one[4], one[5]["ram_ratio"], one[6]["hypervisor_type"])
            was = before.get(one[0])
            if was is None or static != (
                was[1],
                was[2],
                was[3],
                was[4],
                was[5]["ram_ratio"],
                was[6]["hypervisor_type"],
            ):
                assert made.view().static_generation[index] > stamp
        assert made.view().on_hosts(["a"]).tolist() == [one[1] == "a" for one in seen(made)]

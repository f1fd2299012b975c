"""From reported values to columns: one type each, and the same amounts in use as the host table shows."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_sched.hosts.reported import numbers_of
from nova_sched.reports.reading import report_of, used_of

NUMBERS = st.none() | st.integers(-(2**31), 2**31)
STATS = st.sampled_from(
    [
        None,
        "",
        "{}",
        "{broken",
        "[]",
        '{"num_instances": "3", "io_workload": 2}',
        '{"num_instances": "x"}',
        "null",
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "vcpus": NUMBERS,
        "memory_mb": NUMBERS,
        "local_gb": NUMBERS,
        "vcpus_used": NUMBERS,
        "free_ram_mb": NUMBERS,
        "free_disk_gb": NUMBERS,
        "disk_available_least": NUMBERS,
        "stats": STATS,
    }
)


def known(value: float) -> float | None:
    return None if math.isnan(value) else value


@given(row=ROWS)
def test_what_guards_a_claim_is_what_the_filters_saw(row: dict[str, Any]) -> None:
    """nomad#13017: two logics for one question reject a host for ever. Used = total − free, as the table has it."""
    seen = {
        name: float(column[0]) for name, column in numbers_of({n: [v] for n, v in row.items()}, 1).items()
    }
    vcpus, memory_mb, disk_mb, instances, io_ops = used_of(row)
    assert vcpus == known(seen["vcpus_used"])
    assert memory_mb == known(seen["ram_total_mb"] - seen["free_ram_mb"])
    assert disk_mb == known(seen["disk_total_mb"] - seen["free_disk_mb"])
    assert instances == known(seen["num_instances"])
    assert io_ops == known(seen["num_io_ops"])


@pytest.mark.parametrize(
    "name, value, column",
    [
        ("vcpus", 4.0, 4),
        ("hypervisor_version", "2001000", 2001000),
        ("hypervisor_version", "2.1", None),
        ("cpu_allocation_ratio", 2, 2.0),
        ("stats", {"num_instances": "1"}, '{"num_instances":"1"}'),
        ("cpu_info", '{"vendor": "Intel"}', '{"vendor": "Intel"}'),
        ("metrics", None, None),
    ],
)
def test_each_column_gets_its_type(name: str, value: Any, column: Any) -> None:
    """JSON columns are text, as in Nova's table; what is no number is unknown."""
    node = {"hypervisor_hostname": "n", "values": {name: value, "unheard_of": 1}}
    report = report_of({"host": "h", "epoch": 1, "seq": 1}, [node])
    assert report.nodes[0].values == {name: column}


def test_only_complete_reports_name_all_nodes() -> None:
    """One delta among them, or no node at all, names nobody as gone."""

    def lists_all(*full: bool) -> bool:
        nodes = [{"hypervisor_hostname": f"n{n}", "full": one} for n, one in enumerate(full)]
        return report_of({"host": "h", "epoch": 1, "seq": 1}, nodes).lists_all_nodes

    assert (lists_all(True, True), lists_all(True, False), lists_all()) == (True, False, False)

"""Reading traces and inventories, and the synthetic twin."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest

from nova_sched.lab import trace, trace_fleet
from nova_sched.lab.trace import Arrival, BrokenTrace
from nova_sched.lab.trace_twin import twin
from tests.unit.lab.clouds import NOW, host

PACKING = """vmId,tenantId,cores,ram,vmTypeId,starttime,endtime
1,9,200.0,28.0,0,-1497.0,0.5
2,9,42.0,7.0,0,0.25,inf
3,8,100.0,14.0,1,-3.0,-1.0
4,8,101.0,14.0,1,0.125,0.25
"""


def test_the_packing_trace_has_days_and_sizes_of_its_own(tmp_path: Path) -> None:
    """Times in days, hundredths of a vCPU rounded up, RAM on a scale; who ended before the begin is not there."""
    file = tmp_path / "trace.csv.gz"
    file.write_bytes(gzip.compress(PACKING.encode()))
    assert trace.read(file).arrivals == (
        Arrival("1", "9", 2, 1792, 0, -1497.0 * 86400, 43200.0),
        Arrival("4", "8", 2, 896, 0, 10800.0, 21600.0),
        Arrival("2", "9", 1, 448, 0, 21600.0, math.inf),
    )


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Plain or packed, to the millisecond."""
    made = twin(50, seed=3)
    for name in ("twin.csv", "twin.csv.gz"):
        trace.write(tmp_path / name, made)
        found = trace.read(tmp_path / name)
        assert [(one.guest, one.vcpus, one.memory_mb) for one in found.arrivals] == [
            (one.guest, one.vcpus, one.memory_mb) for one in made.arrivals
        ]
        assert found.arrivals[-1].end_seconds == pytest.approx(made.arrivals[-1].end_seconds, abs=0.001)


def test_an_exports_instances_come_and_go_again(tmp_path: Path) -> None:
    """Time begins with the oldest instance; one without sizes is left out."""
    rows = [
        {"uuid": "b", "project_id": "p", "vcpus": 2, "memory_mb": 512, "disk_mb": 2048, "created_at": NOW},
        {"uuid": "a", "project_id": "p", "vcpus": 1, "memory_mb": 256, "disk_mb": 0,
         "created_at": "2026-12-01T11:00:00", "deleted_at": "2026-12-01T11:30:00"},
        {"uuid": "c", "vcpus": None, "created_at": NOW},
    ]  # fmt: skip
    file = tmp_path / "export.json"
    file.write_text(json.dumps({"input": {"instances": rows}}))
    assert trace.read(file).arrivals == (
        Arrival("a", "p", 1, 256, 0, 0.0, 1800.0),
        Arrival("b", "p", 2, 512, 2, 3600.0, math.inf),
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [("a,b\n1,2\n", "expected the columns"), (PACKING + "5,8,many,14.0,1,0.1,0.2\n", ":6: ")],
    ids=["other columns", "a text for a number"],
)
def test_a_broken_trace_says_where(tmp_path: Path, content: str, said: str) -> None:
    """The file, and the line where there is one."""
    file = tmp_path / "trace.csv"
    file.write_text(content)
    with pytest.raises(BrokenTrace, match=said):
        trace.read(file)


def test_the_twin_has_the_shape_of_the_cloud_it_imitates() -> None:
    """Rate, lives, bursts, sizes; the same for the same seed and another one for another."""
    made = twin(30_000, seed=1)
    new = [one for one in made.arrivals if one.start_seconds >= 0]
    lives = np.array([one.end_seconds - one.start_seconds for one in new if one.end_seconds < math.inf])
    p50, p90, p99 = np.percentile(lives, [50, 90, 99]) / 3600
    assert len(new) / made.last_seconds == pytest.approx(0.68, rel=0.01)
    assert p50 == pytest.approx(0.55, rel=0.15)
    assert p90 == pytest.approx(13.3, rel=0.2)
    assert p99 == pytest.approx(226, rel=0.3)
    starts = np.bincount(np.array([one.start_seconds for one in new]).astype(int))
    assert starts.max() > 20 * np.percentile(starts, 99) / 8
    assert 60 <= len({(one.vcpus, one.memory_mb) for one in made.arrivals}) <= 110
    assert made == twin(30_000, seed=1)
    assert made != twin(30_000, seed=2)


def test_an_inventory_of_gpu_clusters_has_thousandths_of_cores(tmp_path: Path) -> None:
    """``sn,cpu_milli,memory_mib`` as the openb hosts have it, and plain columns with zones."""
    file = tmp_path / "hosts.csv"
    file.write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,96000,393216,8,V100\n")
    view = trace_fleet.read(file).table().view()
    assert (view.vcpus_total.tolist(), view.free_ram_mb.tolist()) == ([32.0, 96.0], [262144.0, 393216.0])
    file.write_text("host,vcpus,memory_mb,local_gb,zone\na,8,16384,100,north\nb,8,16384,100,\n")
    fleet = trace_fleet.read(file)
    assert [one.metadata for one in fleet.aggregates] == [{"availability_zone": "north"}]
    assert fleet.table().view().disk_total_mb.tolist() == [102400.0, 102400.0]


def test_an_exports_hosts_are_emptied(tmp_path: Path) -> None:
    """The inventory of an export is what its hosts have, not what is in use."""
    file = tmp_path / "export.json"
    hosts = [host("alder", free_ram_mb=100, vcpus_used=9), host("gone", service=None)]
    file.write_text(json.dumps({"input": {"now": NOW, "hosts": hosts, "requests": []}}))
    view = trace_fleet.read(file).table().view()
    assert (view.hosts.tolist(), view.free_ram_mb.tolist(), view.vcpus_used.tolist()) == (
        ["alder"],
        [32768.0],
        [0.0],
    )


def test_a_fleet_of_another_size_keeps_the_mix(tmp_path: Path) -> None:
    """Fewer: evenly picked; more: the whole again, under other names."""
    file = tmp_path / "hosts.csv"
    file.write_text("host,vcpus,memory_mb\n" + "".join(f"h{n},{n + 1},1024\n" for n in range(10)))
    fleet = trace_fleet.read(file)
    assert [row["vcpus"] for row in fleet.of_size(5).rows] == [1, 3, 5, 7, 9]
    grown = fleet.of_size(25)
    assert len({row["host"] for row in grown.rows}) == 25
    assert sum(row["vcpus"] for row in grown.rows) == 55 + 55 + 15

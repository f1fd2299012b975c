"""Commands that answer from files: simulate, capacity and explain on an export, replay; plots and formats."""

from __future__ import annotations

import csv
import json
import sys
import uuid
from pathlib import Path

import pytest
import yaml

from tests.unit.lab.clouds import NOW, host

CASES = Path(__file__).parents[2] / "golden" / "cases"


@pytest.fixture
def export(tmp_path: Path) -> str:
    """Two hosts, one of them nearly full."""
    hosts = [host("alder", free_ram_mb=512), host("birch")]
    config = {"scheduler_default_filters": ["RamFilter", "ComputeFilter"], "ram_allocation_ratio": 1.0}
    aggregates = [{"name": "north", "hosts": ["birch"], "metadata": {"availability_zone": "north"}}]
    file = tmp_path / "cloud.json"
    given = {"now": NOW, "hosts": hosts, "config": config, "aggregates": aggregates, "requests": []}
    file.write_text(json.dumps({"input": given}))
    return str(file)


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    """Four hosts."""
    file = tmp_path / "hosts.csv"
    file.write_text("host,vcpus,memory_mb\n" + "".join(f"h{n},16,65536\n" for n in range(4)))
    return str(file)


def test_explain_of_an_export_shows_host_by_filter(shell, export: str) -> None:
    """The table marks what passed and what did not, with the numbers; the best is chosen."""
    ran = shell.client("explain", "--export", export, "--ram", "1024")
    assert ran.code == 0, ran.err
    alder, birch = (
        next(line for line in ran.out.splitlines() if line.startswith(name)) for name in ("alder", "birch")
    )
    assert "✗  ·" in alder
    assert "asks for 1024 MB" in alder
    assert birch.endswith("chosen") or "chosen" in birch
    assert max(len(line) for line in ran.out.splitlines()) <= 100


def test_another_configuration_is_shown_beside(shell, export: str, tmp_path: Path) -> None:
    """A nova.conf or a single option; both the old and the new verdict of each host that differs."""
    other = tmp_path / "other.conf"
    other.write_text("[DEFAULT]\nscheduler_default_filters = RamFilter\nram_allocation_ratio = 1.5\n")
    for words in (("--config-file", str(other)), ("--set", "ram_allocation_ratio=1.5")):
        ran = shell.client("explain", "--export", export, "--ram", "1024", "-f", "json", *words)
        assert ran.code == 0, ran.err
        (found,) = json.loads(ran.out)["differences"]
        assert (found["host"], found["there"]) == ("alder", "passed, weight 0.015625")
        assert found["here"].startswith("refused by RamFilter")


def test_a_short_table_shows_passed_and_refused_hosts(shell, tmp_path: Path) -> None:
    """Half of the lines are for those that were refused; the rest is counted."""
    hosts = [host(f"good{n}") for n in range(9)] + [host(f"poor{n}", memory_mb=64) for n in range(9)]
    file = tmp_path / "cloud.json"
    file.write_text(json.dumps({"input": {"now": NOW, "hosts": hosts, "requests": []}}))
    ran = shell.client("explain", "--export", str(file), "--limit", "4")
    lines = [line for line in ran.out.splitlines() if "✓" in line]
    assert [line[:4] for line in lines] == ["good", "good", "poor", "poor"]
    assert "… 14 more" in ran.out


def test_no_host_is_a_no_in_every_format(shell, export: str) -> None:
    """Exit 1, the answer is shown all the same."""
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        ran = shell.client("explain", "--export", export, "--ram", "90000", "-f", form)
        assert ran.code == 1
        assert read(ran.out)["rounds"][0]["chosen"] is None
        assert "RamFilter" in ran.err


def test_an_option_that_nobody_can_read_is_a_usage_error(shell, export: str) -> None:
    """Exit 2 with the option's name."""
    ran = shell.client("explain", "--export", export, "--set", "ram_allocation_ratio=lots")
    assert ran.code == 2
    assert "ram_allocation_ratio" in ran.err


def test_a_misspelt_option_is_a_usage_error(shell, export: str) -> None:
    """It would change nothing, and the answer would look like one."""
    ran = shell.client("explain", "--export", export, "--set", "ram_alocation_ratio=2")
    assert ran.code == 2
    assert "did you mean ram_allocation_ratio" in ran.err


def test_capacity_of_an_export(shell, export: str, tmp_path: Path) -> None:
    """In all, per zone, what stops the next; SVG and PNG."""
    ran = shell.client("capacity", "--export", export, "--ram", "4096", "--plot", str(tmp_path / "c.svg"))
    assert ran.code == 0, ran.err
    assert "8 more fit" in ran.out
    assert "RamFilter" in ran.out
    assert (tmp_path / "c.svg").read_text().startswith("<?xml")
    ran = shell.client(
        "capacity", "--export", export, "--ram", "4096", "--plot", str(tmp_path / "c.png"), "-f", "json"
    )
    assert {one["name"]: one["guests"] for one in json.loads(ran.out)["zones"]} == {"north": 8, "nova": 0}
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_capacity_of_nothing_is_a_no(shell, export: str) -> None:
    """Exit 1: not one fits."""
    assert shell.client("capacity", "--export", export, "--ram", "90000").code == 1


def test_a_png_without_matplotlib_names_the_remedy(shell, export: str, tmp_path: Path, monkeypatch) -> None:
    """Exit 2 and the extra that brings it."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    ran = shell.client("capacity", "--export", export, "--plot", str(tmp_path / "c.png"))
    assert ran.code == 2
    assert "nova_sched[plots]" in ran.err


def test_simulate_compares_and_writes_reports(shell, fleet: str, tmp_path: Path) -> None:
    """A synthetic trace on four hosts, two configurations and a policy; every output is there and agrees."""
    paths = {name: tmp_path / f"out.{name}" for name in ("html", "json", "csv")}
    outputs = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    ran = shell.client(
        "simulate", "--synthetic", "300", "--hosts", fleet, "--set", "scheduler_default_filters=RamFilter,CoreFilter",
        "--set", "cpu_allocation_ratio=1", "--compare", "best-fit", "--compare", "cpu_allocation_ratio=2",
        "--placements", str(tmp_path / "placements.csv"), "--save-trace", str(tmp_path / "trace.csv.gz"), *outputs,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert "300 guests of twin-300-0 on 4 hosts" in ran.out
    assert max(len(line) for line in ran.out.splitlines()) <= 100
    plain = json.loads(paths["json"].read_text())
    names = ["configuration", "best-fit", "cpu_allocation_ratio=2"]
    assert [one["name"] for one in plain["contenders"]] == names
    assert plain["contenders"][0]["refused"] > plain["contenders"][2]["refused"]
    placements = list(csv.DictReader((tmp_path / "placements.csv").read_text().splitlines()))
    assert sum(row["best-fit host"] != "" for row in placements) == plain["contenders"][1]["placed"]
    again = shell.client("simulate", str(tmp_path / "trace.csv.gz"), "--hosts", fleet, "-f", "json")
    assert json.loads(again.out)["trace"]["arrivals"] == 300
    assert "<svg" in paths["html"].read_text()


def test_an_export_is_trace_and_inventory(shell, export: str) -> None:
    """Its instances are played again on its emptied hosts, under its options."""
    case = json.loads(Path(export).read_text())
    case["input"]["instances"] = [
        {
            "uuid": f"u{n}",
            "vcpus": 1,
            "memory_mb": 20000,
            "disk_mb": 1024,
            "created_at": f"2026-12-01T10:00:0{n}",
        }
        for n in range(3)
    ]
    Path(export).write_text(json.dumps(case))
    ran = shell.client("simulate", export, "--hosts", export, "-f", "json")
    found = json.loads(ran.out)["contenders"][0]
    assert (found["placed"], found["refused_by"]) == (2, {"RamFilter": 1})
    assert found["setup"]["ram_allocation_ratio"] == 1.0


def test_simulate_finds_the_fewest_hosts(shell, fleet: str) -> None:
    """Of a fleet in the same mix, made larger than the inventory."""
    ran = shell.client(
        "simulate", "--synthetic", "60", "--hosts", fleet, "--fleet", "12", "--fewest-hosts", "-f", "json",
        "--set", "scheduler_default_filters=RamFilter",
    )  # fmt: skip
    assert 1 <= json.loads(ran.out)["contenders"][0]["fewest_hosts"] <= 12, ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a trace"),
        (("nowhere.csv",), "nowhere.csv"),
        (("--synthetic", "5", "--compare", "nowhere.conf"), "nowhere.conf"),
    ],
)
def test_what_is_missing_is_named(shell, fleet: str, words: tuple[str, ...], said: str) -> None:
    """Exit 2."""
    ran = shell.client("simulate", *words, "--hosts", fleet)
    assert ran.code == 2
    assert said in ran.err


def test_replay_checks_cases_and_says_what_differs(shell, tmp_path: Path) -> None:
    """The golden case comes out as expected; with another host chosen it does not, exit 1 and the place."""
    case = CASES / "juno" / "010_ram_tie_top_two.json"
    assert shell.client("replay", "--check", str(case)).code == 0
    changed = json.loads(case.read_text())
    changed["expected"]["results"][0]["rounds"][0]["weighed"][0]["weight"] = 7.0
    file = tmp_path / "changed.json"
    file.write_text(json.dumps(changed))
    ran = shell.client("replay", "--check", str(file))
    assert ran.code == 1
    assert "results[0].rounds[0].weighed" in ran.out


def test_replay_tells_rounds_and_what_was_sent(shell) -> None:
    """Filter by filter, weights, choice, limits, the state afterwards, casts, errors with their reason, and events."""
    told = " ".join(
        shell.client("replay", str(CASES / "juno" / "018_ram_fill_until_exhausted.json")).out.split()
    )
    assert "request 1: run_instance partial" in told
    assert (
        "weights p/p.lab 1, q/q.lab 0.555556 choices p/p.lab chosen p/p.lab limits memory_mb 8000 after"
        in told
    )
    assert "round 3 c0de0000-0000-4000-8000-000000000031 RetryFilter p/p.lab RamFilter none cast" in told
    assert "to p/p.lab, index 2, tried p/p.lab error c0de0000-0000-4000-8000-000000000031" in told
    assert "reason 2 hosts: 2 RamFilter (not enough RAM" in told
    assert told.endswith("ERROR scheduler.run_instance, INFO scheduler.run_instance.end")


def test_replay_of_an_export_has_nothing_to_compare(shell, export: str) -> None:
    """No expectation is no mismatch."""
    ran = shell.client("replay", "--check", export)
    assert (ran.code, "nothing to compare" in ran.out) == (0, True)


def test_replay_of_an_export_without_requests_says_so_in_a_line(shell, export: str) -> None:
    """Silence would look like a fault."""
    ran = shell.client("replay", export)
    assert ran.code == 0
    assert ran.out == (
        f"{export}: nothing to replay, it has no requests (nova-sched export --instance UUID adds some)\n"
    )


def test_uuids_stay_whole_in_tables(shell, tmp_path: Path) -> None:
    """100 columns do not fold what somebody will search for, with node names like Ironic's and every filter of Juno."""
    nodes = [str(uuid.UUID(int=number, version=4)) for number in (11, 12)]
    asked = str(uuid.UUID(int=99, version=4))
    spec = {
        "instance_uuids": [asked],
        "num_instances": 1,
        "instance_type": {"memory_mb": 64_000, "vcpus": 1, "root_gb": 1},
        "instance_properties": {"project_id": "p"},
        "image": {},
    }
    given = {
        "now": NOW,
        "hosts": [host(f"ironic-{at}", hypervisor_hostname=node) for at, node in enumerate(nodes)],
        "config": {},
        "aggregates": [],
        "requests": [{"method": "run_instance", "request_spec": spec, "filter_properties": {}}],
    }
    file = tmp_path / "cloud.json"
    file.write_text(json.dumps({"input": given}))
    explained = shell.client("explain", "--export", str(file), "--ram", "64000").out
    replayed = shell.client("replay", str(file)).out
    assert all(node in explained and node in replayed for node in nodes)
    assert asked in replayed


def test_a_file_that_is_no_case_is_a_usage_error(shell, tmp_path: Path) -> None:
    """Exit 2 with its name."""
    file = tmp_path / "broken.json"
    file.write_text("{}")
    ran = shell.client("replay", str(file))
    assert ran.code == 2
    assert "broken.json" in ran.err

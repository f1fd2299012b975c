"""What operators ask a running service: explain, export and what is worked out from it, over a bus and a database."""

from __future__ import annotations

import io
import json
import uuid
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_sched.cmd import client
from tests.functional.behaviour.cloud import HOSTS, MEMORY_MB, Cloud, Request

pytestmark = pytest.mark.parametrize(
    "cloud", [("process", "sqlite"), ("rabbitmq", "postgres")], indirect=True, ids="-".join
)


@dataclass(frozen=True)
class Ran:
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def ask(cloud: Cloud, *words: str) -> Ran:
    """Run ``nova-sched`` with the service's configuration."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = client.main(["--config-file", str(cloud.conf.config_file[0]), *words], cfg.ConfigOpts())
    return Ran(code, out.getvalue(), err.getvalue())


def test_explain_tells_the_choice_and_reserves_nothing(cloud: Cloud) -> None:
    """Every host is listed with its weight, one of them is chosen, and the claims are as before."""
    before = cloud.hosts()
    ran = ask(cloud, "explain", "--ram", "1024", "-f", "json")
    assert ran.code == 0, ran.err
    one = ran.json["rounds"][0]
    assert {line["host"] for line in one["hosts"]} == set(HOSTS)
    assert one["chosen"][0] in HOSTS
    assert [row["claimed_memory_mb"] for row in cloud.hosts().values()] == [
        row["claimed_memory_mb"] for row in before.values()
    ]


def test_explain_names_the_filter_and_the_numbers_per_host(cloud: Cloud) -> None:
    """Nobody has that much RAM: exit 1, and each host says what it was asked for."""
    ran = ask(cloud, "explain", "--ram", str(MEMORY_MB * 2))
    assert ran.code == 1
    assert ran.out.count("✗") == len(HOSTS)
    assert f"asks for {MEMORY_MB * 2} MB" in ran.out.replace("\n", " ")
    assert "RamFilter" in ran.err


def test_why_an_instance_got_no_host_and_whether_another_ratio_helps(cloud: Cloud) -> None:
    """The request is taken from the decision record; with a larger ratio it would still not fit a smaller machine."""
    refused = Request(memory_mb=MEMORY_MB + 1)
    assert cloud.booted(refused)[0]["vm_state"] == "error"
    ran = ask(
        cloud, "explain", "--instance", refused.uuids[0], "--set", "ram_allocation_ratio=3", "-f", "json"
    )
    assert ran.code == 1, ran.err
    assert {line["refused_by"] for line in ran.json["rounds"][0]["hosts"]} == {"RamFilter"}
    assert "has" in ran.json["other"]["rounds"][0]["hosts"][0]["reason"]


def test_an_export_is_replayed_explained_and_counted_offline(cloud: Cloud, tmp_path: Path) -> None:
    """The file holds the last request of the instance and no secret; the commands need nothing else."""
    built = Request(memory_mb=2048)
    assert cloud.booted(built)[0]["vm_state"] == "active"
    file = str(tmp_path / "cloud.json")
    exported = ask(cloud, "export", file, "--instance", built.uuids[0])
    assert exported.code == 0, exported.err
    assert "3 hosts" in exported.out
    assert "1 requests" in exported.out
    assert "token-of-the-user" not in Path(file).read_text()
    replayed = ask(cloud, "replay", file, "-f", "json")
    assert replayed.json[file][0]["outcome"] == "ok"
    checked = ask(cloud, "replay", file, "--check")
    assert checked.code == 0
    assert "nothing to compare" in checked.out
    explained = ask(cloud, "explain", "--export", file, "--instance", built.uuids[0])
    assert explained.code == 0, explained.err
    assert "chosen" in explained.out
    live = ask(cloud, "capacity", "--ram", "4096", "-f", "json")
    offline = ask(cloud, "capacity", "--ram", "4096", "-f", "json", "--export", file)
    assert live.json["guests"] == offline.json["guests"] > 0
    assert "RamFilter" in offline.json["reason"]


def test_an_unknown_instance_is_a_no(cloud: Cloud) -> None:
    """Exit 1 with its name."""
    unknown = str(uuid.uuid4())
    ran = ask(cloud, "explain", "--instance", unknown)
    assert ran.code == 1
    assert unknown in ran.err

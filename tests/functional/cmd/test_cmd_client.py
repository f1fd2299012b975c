"""nova-sched against a live scheduler and an agent, all in this process on the in-process bus."""

from __future__ import annotations

import io
import json
import re
import threading
import time
from contextlib import redirect_stderr, redirect_stdout

import pytest
from oslo_config import cfg

from nova_sched.bootstrap.worker import Worker
from nova_sched.cmd import client, manage
from nova_sched.cmd.compute import make_agent
from nova_sched.conf import build
from nova_sched.db import schema
from nova_sched.db.engine import Database


class House:
    """A scheduler, the agent of host alder (8 vCPUs, 16 GB), and the command lines."""

    def __init__(self, folder) -> None:
        self.config = folder / "nova.conf"
        self.config.write_text(
            "[DEFAULT]\ntransport_url = fake://\nhost = alder\nreport_interval = 1\nram_allocation_ratio = 1.0\n"
            f"[database]\nconnection = sqlite:///{folder}/sched.sqlite\n"
            "[agent]\nvcpus = 8\nmemory_mb = 16384\nlocal_gb = 100\nbuild_seconds = 0.01\n"
        )
        conf = build.parse(cfg.ConfigOpts(), ["--config-file", str(self.config)])
        settings = build.settings_from(conf)
        database = Database(settings.database)
        schema.sync(database)
        database.close()
        self.worker = Worker(conf, settings)
        self.worker.start()
        self.agent = make_agent(conf, settings)
        self.agent.start()
        until = time.monotonic() + 20
        while not (rows := self.rows("host", "list")) or rows[0]["state"] != "up":
            assert time.monotonic() < until
            time.sleep(0.1)

    def run(self, *words: str, main=client.main) -> tuple[int, str, str]:
        """Exit code, output and errors of one command line."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(["--config-file", str(self.config), *words], cfg.ConfigOpts())
        return code, out.getvalue(), err.getvalue()

    def rows(self, *words: str) -> list[dict[str, object]]:
        """A list as JSON."""
        code, out, err = self.run(*words, "-f", "json")
        assert code == 0, err
        return json.loads(out)

    def close(self) -> None:
        self.agent.stop(5)
        self.worker.stop(5)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    house = House(tmp_path_factory.mktemp("house"))
    yield house
    house.close()


def test_boot_waits_and_tells_what_became_of_each(house):
    """Every instance with its host; the decision and the guest can be looked at."""
    rows = house.rows("boot", "web", "--count", "2", "--ram", "1024", "--wait", "20")
    assert [(row["State"], row["Host"], row["Attempt"]) for row in rows] == [("active", "alder", 1)] * 2
    uuid = str(rows[0]["ID"])
    assert uuid in {row["ID"] for row in house.rows("instance", "list", "--state", "active")}
    shown = json.loads(house.run("instance", "show", uuid, "-f", "json")[1])
    assert (shown["display_name"], shown["host"], shown["faults"]) == ("web", "alder", [])
    (event,) = shown["events"]
    decision = json.loads(house.run("decision", "show", str(event["decision_id"]), "-f", "json")[1])
    assert decision["placed"] == 2
    assert [row["ID"] for row in house.rows("decision", "list", "--instance", uuid)] == [decision["id"]]


def test_boot_without_room_exits_1_and_shows_the_fault(house):
    """The rows are written, then the verdict is said."""
    code, out, err = house.run("boot", "huge", "--ram", "999999", "--wait", "20", "-f", "json")
    assert code == 1
    (row,) = json.loads(out)
    assert row["State"] == "error"
    assert "RamFilter" in str(row["Fault"])
    assert err == "nova-sched: 1 of 1 instances ended in ERROR\n"


def test_boot_without_wait_returns_at_once(house):
    """A cast: the broker has it."""
    (row,) = house.rows("boot", "later", "--ram", "64")
    assert row["State"] == "asked for"


def test_boot_from_a_file_in_novas_form(house, tmp_path):
    """What an API service would send can be sent by hand."""
    path = tmp_path / "request.json"
    spec = {
        "instance_uuids": ["0f0f0f0f-0000-4000-8000-000000000001"],
        "instance_type": {"id": 1, "name": "s", "vcpus": 1, "memory_mb": 64, "root_gb": 1},
        "instance_properties": {
            "project_id": "p",
            "memory_mb": 64,
            "vcpus": 1,
            "root_gb": 1,
            "ephemeral_gb": 0,
        },
        "image": {},
    }
    path.write_text(json.dumps({"request_spec": spec, "filter_properties": {}}))
    (row,) = house.rows("boot", "--file", str(path), "--wait", "20")
    assert (row["ID"], row["State"]) == (spec["instance_uuids"][0], "active")
    path.write_text("{}")
    assert house.run("boot", "--file", str(path))[0] == 2


def test_select_reserves_destinations_and_exits_1_without(house):
    """Hosts with limits; a claim shows until it expires."""
    rows = house.rows("select", "--ram", "256", "--count", "2")
    assert [row["Host"] for row in rows] == ["alder", "alder"]
    assert rows[0]["Limits"]["memory_mb"] == 16384
    assert any(row["Kind"] == "move" for row in house.rows("claim", "list", "--host", "alder"))
    code, _, err = house.run("select", "--ram", "999999")
    assert code == 1
    assert "RamFilter" in err


def test_deleted_instance_becomes_a_tombstone(house):
    """Asked for, done, and still shown with --deleted."""
    (row,) = house.rows("boot", "gone", "--ram", "64", "--wait", "20")
    assert house.run("instance", "delete", str(row["ID"]))[0] == 0
    until = time.monotonic() + 10
    while row["ID"] in {found["ID"] for found in house.rows("instance", "list")}:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert row["ID"] in {found["ID"] for found in house.rows("instance", "list", "--deleted")}


def test_unknown_instance_host_and_decision(house):
    """1: there is no such thing; 2: that is no id."""
    assert house.run("instance", "show", "nobody")[0] == 1
    assert house.run("host", "show", "nowhere")[0] == 1
    assert house.run("decision", "show", "7")[0] in (1, 2)


def test_host_show_tells_what_the_agent_reported(house):
    """Columns by Nova's names."""
    shown = json.loads(house.run("host", "show", "alder", "-f", "json")[1])
    assert (shown["state"], shown["vcpus"], shown["memory_mb"]) == ("up", 8, 16384)
    (service,) = json.loads(house.run("service", "list", "-f", "json", main=manage.main)[1])
    assert (service["Host"], service["State"], service["Nodes"]) == ("alder", "up", 1)


def test_listen_shows_notifications_as_they_come(house):
    """One JSON object per line, until the count is reached."""
    heard: list[tuple[int, str, str]] = []
    words = ("listen", "--count", "1", "--seconds", "20", "--event", "scheduled", "-f", "json")
    listener = threading.Thread(target=lambda: heard.append(_listen(house, words)))
    listener.start()
    time.sleep(1.0)
    house.rows("boot", "heard", "--ram", "64")
    listener.join(25)
    ((code, out),) = heard
    assert code == 0
    event = json.loads(out)
    assert event["event_type"] == "scheduler.run_instance.scheduled"
    assert event["payload"]["weighted_host"]["host"] == "alder"


def _listen(house: House, words: tuple[str, ...]) -> tuple[int, str]:
    """Not through redirect_stdout, which other threads would share."""
    out = io.StringIO()
    console = client.Console(client.DESCRIPTION, client.NAMESPACE, "nova-sched", cfg.ConfigOpts(), stdout=out)
    code = client.run(console, ["--config-file", str(house.config), *words])
    return code, out.getvalue()


def test_hosts_are_compact_for_people_and_numbers_for_machines(house):
    """A text like 1+1/16 is read at a glance and by no program; machines get the fields of host show."""
    (row,) = house.rows("host", "list")
    code, out, err = house.run("host", "show", "alder", "-f", "json")
    assert code == 0, err
    shown = json.loads(out)
    assert set(row) <= set(shown)
    assert (row["host"], row["vcpus"], row["memory_mb"], row["local_gb"]) == ("alder", 8, 16384, 100)
    numbers = [name for name in row if name.startswith(("used_", "claimed_"))]
    assert len(numbers) == 7
    assert all(isinstance(row[name], int) for name in numbers)
    assert (
        house.run("host", "list", "-f", "csv")[1].splitlines()[0].startswith('"host","node","state","vcpus",')
    )
    assert re.search(r"\| \d+(\+\d+)?/8 +\|", house.run("host", "list")[1])

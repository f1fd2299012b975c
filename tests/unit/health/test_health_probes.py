"""Alive and ready, for all workers of a service."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

import prometheus_client
import pytest

from nova_sched.health.readiness import Probe
from nova_sched.health.server import HealthServer
from nova_sched.health.snapshot import Snapshots
from nova_sched.settings import HealthSettings

NOW = 1000.0


def worker(pid: str, **changed: float | None) -> dict[Any, float]:
    """What a worker in good order writes."""
    values = {
        "loop_monotonic_seconds": NOW - 1,
        "broker_up": 1.0,
        "store_up": 1.0,
        "host_state_read_monotonic_seconds": NOW - 5,
        **changed,
    }
    return {(f"nova_sched_{name}", (("pid", pid),)): v for name, v in values.items() if v is not None}


HOSTS_UP = {("nova_sched_hosts", (("state", "up"),)): 4.0}
PROBE = Probe(monotonic=lambda: NOW)


def ready(*workers: dict[Any, float], hosts: dict[Any, float] = HOSTS_UP) -> dict[str, bool]:
    samples = {key: value for one in (*workers, hosts) for key, value in one.items()}
    return {check.name: check.ok for check in PROBE.ready(samples)}


def test_a_service_without_a_worker_is_neither_alive_nor_ready():
    assert not all(check.ok for check in PROBE.live({}))
    assert not all(check.ok for check in PROBE.ready({}))


def test_one_good_worker_makes_the_service_ready():
    assert all(ready(worker("1"), worker("2", broker_up=0.0)).values())


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        ({"broker_up": 0.0}, "broker_up"),
        ({"store_up": 0.0}, "store_up"),
        ({"host_state_read_monotonic_seconds": None}, "host_state"),
        ({"host_state_read_monotonic_seconds": NOW - 500}, "host_state"),
        ({"loop_monotonic_seconds": NOW - 500}, "loop"),
    ],
)
def test_alive_but_useless_is_not_ready(broken: dict[str, float | None], check: str):
    found = ready(worker("1", **broken))
    assert not found[check]
    assert not found["workers"]


def test_workers_that_are_useless_in_different_ways_do_not_add_up_to_a_ready_one():
    assert not ready(worker("1", broker_up=0.0), worker("2", store_up=0.0))["workers"]


def test_without_a_host_that_is_up_nothing_is_ready():
    assert not ready(worker("1"), hosts={})["hosts_up"]


class Reads:
    """Counts how often it is asked."""

    asked = 0

    def hosts(self, limit: int) -> list[dict[str, Any]]:
        self.asked += 1
        return [{"host": "h1", "state": "up"}, {"host": "h2", "state": "down"}]

    def latest_instances(self, limit: int) -> list[dict[str, Any]]:
        return []

    def refusals(self, limit: int) -> list[dict[str, Any]]:
        return []

    def totals(self) -> dict[str, int]:
        return {"live claims": 3}


@pytest.fixture
def server():
    registry = prometheus_client.CollectorRegistry()
    reads = Reads()
    made = HealthServer(HealthSettings(port=0), lambda: registry, Snapshots(reads))
    made.start()
    yield made, reads
    made.stop()


def fetch(port: int, path: str, method: str = "GET") -> tuple[int, str, Any]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def test_many_viewers_cost_one_read_a_second(server):
    made, reads = server
    for _ in range(5):
        status, body, _ = fetch(made.port, "/state.json")
        assert status == 200
    assert '"hosts up": 1' in body
    assert reads.asked == 1


def test_nothing_can_be_changed_and_nothing_from_elsewhere_is_loaded(server):
    made, _ = server
    assert fetch(made.port, "/", "POST")[0] == 501
    assert fetch(made.port, "/nothing")[0] == 404
    status, page, headers = fetch(made.port, "/")
    assert status == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "http" not in page.replace("http-equiv", "")


def test_not_ready_is_503_with_the_reasons(server):
    status, body, _ = fetch(server[0].port, "/readyz")
    assert status == 503
    assert "[-] loop: no worker has turned its loop yet" in body


def test_the_port_listens_on_loopback_unless_told_otherwise():
    assert HealthSettings().bind == "127.0.0.1"

"""The observer of the daemon, fed by the real loop, drivers and filters."""

from __future__ import annotations

import prometheus_client
import pytest

from nova_sched.health.metrics import PrometheusObserver
from nova_sched.health.server import samples_of
from tests.unit.service.world import World, build, select


class Metrics:
    """A world whose worker tells a Prometheus registry of its own."""

    def __init__(self, hosts: int = 3) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self.world = World(hosts)
        self.world.observer = PrometheusObserver(self.registry)  # type: ignore[assignment]
        self.world.start_process()

    def __getitem__(self, key: tuple[str, ...]) -> float:
        """Value of (name, label values in the order of label names); 0 when it was never counted."""
        name, *values = key
        for (found, labels), value in samples_of(self.registry).items():
            if found == f"nova_sched_{name}" and [v for _, v in labels] == list(values):
                return value
        return 0.0


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_a_placement_is_counted_and_timed_at_every_stage(metrics: Metrics):
    metrics.world.run(build(1), build(2))
    assert metrics["requests_total", "run_instance"] == 2
    assert metrics["schedule_attempts_total", "scheduled"] == 2
    assert metrics["instances_total", "placed"] == 2
    assert metrics["scheduling_algorithm_duration_seconds_count",] == 2
    assert metrics["scheduling_attempt_duration_seconds_count", "scheduled"] == 2
    for stage in ("refresh", "decide", "commit", "publish"):
        assert metrics["stage_seconds_count", stage] == 1
    assert metrics["batch_seconds_count",] == 1
    assert metrics["host_reads_total", "full"] == 1


def test_each_filter_s_rejections_and_the_one_that_left_none_are_counted(metrics: Metrics):
    metrics.world.run(build(1, memory_mb=17000))
    assert metrics["filter_rejections_total", "RamFilter"] == 1
    assert metrics["schedule_attempts_total", "unschedulable"] == 0
    metrics.world.run(build(2, memory_mb=100_000))
    assert metrics["filter_rejections_total", "RamFilter"] == 4
    assert metrics["no_valid_host_total", "RamFilter"] == 1
    assert metrics["schedule_attempts_total", "unschedulable"] == 1
    assert metrics["scheduling_attempt_duration_seconds_count", "unschedulable"] == 1


def test_a_call_without_a_host_is_an_unschedulable_attempt_too(metrics: Metrics):
    (ticket,) = metrics.world.run(select(3, memory_mb=100_000))
    with pytest.raises(Exception, match="3 hosts: 3 RamFilter"):
        ticket.result()
    assert metrics["scheduling_attempt_duration_seconds_count", "unschedulable"] == 1


def test_no_known_host_and_a_refused_request_are_told_apart():
    empty = Metrics(hosts=0)
    empty.world.run(build(1))
    assert empty["no_valid_host_total", "no_hosts"] == 1
    grouped = Metrics()
    grouped.world.run(build(1, hints={"group": "nobody knows it"}))
    assert grouped["no_valid_host_total", "request"] == 1


def test_plugins_are_timed_in_the_first_and_every_32nd_decision():
    metrics = Metrics(hosts=10)
    metrics.world.run(*(build(number, memory_mb=64) for number in range(1, 34)))
    assert metrics["plugin_execution_duration_seconds_count", "RamFilter"] == 2
    assert metrics["plugin_execution_duration_seconds_count", "RAMWeigher"] == 2


def test_a_name_outside_of_the_catalogue_is_a_fault():
    observer = PrometheusObserver(prometheus_client.CollectorRegistry())
    with pytest.raises(KeyError):
        observer.count("surprises")


class Calls:
    """An observer that counts how often it is called."""

    def __init__(self) -> None:
        self.made = 0

    def _called(self, *args: object, **labels: object) -> None:
        self.made += 1

    count = observe = gauge = decided = _called


@pytest.mark.parametrize("requests", [10, 40])
def test_a_request_costs_a_constant_few_calls_of_the_observer(requests: int):
    world = World(hosts=20)
    calls = Calls()
    world.observer = calls  # type: ignore[assignment]
    world.start_process()
    world.run(build(1000))
    before = calls.made
    world.run(*(build(number, memory_mb=64) for number in range(1, requests + 1)))
    timed = (requests // 32) * 20
    assert calls.made - before <= 3 * requests + 12 + timed

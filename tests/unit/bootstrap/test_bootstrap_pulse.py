"""What a worker's gauges say: alive while it starts, hosts by state, at most once a second."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nova_sched.bootstrap.pulse import GaugePulse
from nova_sched.settings import FilterSettings, SchedulerSettings, Settings
from nova_sched.testing.builders import host, table
from nova_sched.testing.fakes import CountingObserver


class Clock:
    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def worker(**changed: Any) -> Any:
    rows = table(
        host("a"), host("b", age_seconds=500), host("c", disabled=True), host("d", heartbeat_seconds=None)
    )
    scheduler = SchedulerSettings(filters=FilterSettings(service_down_time_seconds=60))
    values = {
        "settings": Settings(scheduler=scheduler), "consuming": True, "store_answers": True, "pending": 3,
        "publisher": SimpleNamespace(blocked=False),
        "refresher": SimpleNamespace(age_seconds=1.0, table=rows),
        **changed,
    }  # fmt: skip
    return SimpleNamespace(**values)


def test_a_worker_that_waits_for_its_servers_is_alive():
    observer, clock = CountingObserver(), Clock()
    with GaugePulse(observer, "1.0", clock).starting():
        assert observer.gauges["loop_monotonic_seconds",] == 100.0


def test_hosts_are_counted_as_the_compute_filter_sees_them():
    observer = CountingObserver()
    GaugePulse(observer, "1.0", Clock())(worker())
    assert {state: observer.gauges["hosts", state] for state in ("up", "down", "disabled")} == {
        "up": 1, "down": 2, "disabled": 1,
    }  # fmt: skip
    assert observer.gauges["pending_requests",] == 3
    assert observer.gauges["build_info", "1.0", "filter_scheduler"] == 1.0


def test_a_table_that_was_never_read_is_no_cloud_without_hosts():
    observer = CountingObserver()
    unread = SimpleNamespace(age_seconds=float("inf"), table=table())
    GaugePulse(observer, "1.0", Clock())(worker(refresher=unread, store_answers=False, consuming=False))
    assert ("hosts", "up") not in observer.gauges
    assert (observer.gauges["store_up",], observer.gauges["broker_up",]) == (0.0, 0.0)


def test_gauges_are_written_once_a_second_however_fast_the_loop_turns():
    observer, clock = CountingObserver(), Clock()
    pulse = GaugePulse(observer, "1.0", clock)
    pulse(worker())
    clock.seconds += 0.5
    pulse(worker(pending=9))
    assert observer.gauges["pending_requests",] == 3
    clock.seconds += 0.5
    pulse(worker(pending=9))
    assert observer.gauges["pending_requests",] == 9

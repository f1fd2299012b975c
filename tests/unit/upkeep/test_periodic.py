"""The loop that outlives its errors."""

from __future__ import annotations

import logging
import threading

import pytest

from nova_sched.errors import StoreUnavailable
from nova_sched.upkeep.periodic import Periodic


def test_an_error_never_ends_the_loop_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """LP#1517926: caught, logged once, and once more when it is over."""
    caplog.set_level(logging.INFO)
    answers = iter([StoreUnavailable("away"), StoreUnavailable("away"), None, StoreUnavailable("away")])

    def work() -> None:
        answer = next(answers)
        if answer is not None:
            raise answer

    loop = Periodic("upkeep", 10.0, work)
    for _ in range(4):
        loop.run_once()
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO", "ERROR"]
    assert all(record.exc_info in (None, False) for record in caplog.records)


def test_an_unexpected_error_comes_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """A fault of ours is to be found."""
    Periodic("upkeep", 10.0, lambda: 1 // 0 and None).run_once()
    assert caplog.records[0].exc_info


def test_it_runs_until_it_is_stopped() -> None:
    """Stopping ends a wait at once, and twice is fine."""
    rounds = threading.Semaphore(0)
    loop = Periodic("upkeep", 0.01, rounds.release)
    loop.start()
    for _ in range(3):
        assert rounds.acquire(timeout=10)
    loop.stop()
    loop.stop()
    assert not any(thread.name == "upkeep" for thread in threading.enumerate())
    slow = Periodic("upkeep", 3600.0, rounds.release)
    slow.start()
    slow.stop(timeout_seconds=5)
    assert not any(thread.name == "upkeep" for thread in threading.enumerate())


def test_a_slow_round_does_not_cause_a_burst() -> None:
    """Rounds that were missed are skipped; the clock is monotonic and the loop's own."""
    now = [0.0]
    begun: list[float] = []
    over = threading.Event()

    def work() -> None:
        begun.append(now[0])
        now[0] += 100.0
        if len(begun) == 3:
            over.set()
            loop._stop.set()

    loop = Periodic("upkeep", 0.0, work, monotonic=lambda: now[0])
    loop.start()
    assert over.wait(10)
    loop.stop()
    assert begun == [0.0, 100.0, 200.0]

"""Waiting for what is not there yet."""

from __future__ import annotations

import logging
import threading

import pytest

from nova_sched.bootstrap.waiting import Stopped, wait_for
from nova_sched.errors import BusUnavailable, ConfigurationError, QueueMismatch, StoreUnavailable


class Patience:
    """An event that is never set and does not wait, and the clock that its waits move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.waits.append(seconds)

    def monotonic(self) -> float:
        return self.now


def failing(times: int, error: Exception):
    """A call that raises ``times`` times and then answers."""
    left = [error] * times

    def call() -> str:
        if left:
            raise left.pop()
        return "there"

    return call


def test_waits_longer_each_time_and_says_so_once(caplog):
    """One line when it starts to wait, one when it is over."""
    caplog.set_level(logging.INFO)
    patience = Patience()
    found = wait_for(
        "database", failing(5, StoreUnavailable("refused")), patience, monotonic=patience.monotonic
    )
    assert found == "there"
    assert patience.waits[0] < 1 < patience.waits[-1]
    assert [record.getMessage().split(" (")[0].split(" after")[0] for record in caplog.records] == [
        "waiting for the database",
        "the database is there",
    ]


def test_no_wait_is_longer_than_the_cap():
    """A server that comes back after an hour is met within seconds."""
    patience = Patience()
    wait_for("broker", failing(40, BusUnavailable("refused")), patience, monotonic=patience.monotonic)
    assert max(patience.waits) <= 18


@pytest.mark.parametrize("error", [QueueMismatch("durable"), ConfigurationError("a", 1, "b")])
def test_what_time_does_not_cure_is_raised_at_once(error):
    """LP#2012530: fail fast on wrong configuration, wait for the rest."""
    with pytest.raises(type(error)):
        wait_for("broker", failing(1, error), Patience())


def test_lp2147554_stop_ends_the_wait():
    """SIGTERM during start-up is no error."""
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(Stopped):
        wait_for("database", failing(1, StoreUnavailable("x")), stopping)


def test_gives_up_when_asked_to():
    """Commands do not wait for ever."""
    patience = Patience()
    with pytest.raises(StoreUnavailable):
        wait_for(
            "database",
            failing(100, StoreUnavailable("x")),
            patience,
            give_up_seconds=10,
            monotonic=patience.monotonic,
        )
    assert 10 <= patience.now < 40

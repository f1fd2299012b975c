"""Waiting for a broker or a database that is not there yet: back-off with jitter and few, clear lines."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from nova_sched.errors import BusUnavailable, QueueMismatch, StoreUnavailable

LOG = logging.getLogger(__name__)
T = TypeVar("T")

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 15.0
REMIND_SECONDS = 60.0


class Stopped(Exception):
    """The process was told to stop while it waited."""


def wait_for(
    what: str,
    attempt: Callable[[], T],
    stopping: threading.Event,
    *,
    give_up_seconds: float | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> T:
    """Call ``attempt`` until it no longer raises StoreUnavailable or BusUnavailable, and return its value.

    :param what: for the log, e.g. "database".
    :param stopping: ends the wait at once; Stopped is raised.
    :param give_up_seconds: raise what ``attempt`` raised after this long; None waits without limit.
    :raises QueueMismatch: and everything else that time does not cure, at once.
    """
    started = monotonic()
    said = float("-inf")
    delay = FIRST_SECONDS
    while True:
        if stopping.is_set():
            raise Stopped(what)
        try:
            value = attempt()
        except QueueMismatch:
            raise
        except (StoreUnavailable, BusUnavailable) as away:
            now = monotonic()
            if give_up_seconds is not None and now - started >= give_up_seconds:
                raise
            if now - said >= REMIND_SECONDS:
                LOG.warning("waiting for the %s (%s)", what, away)
                said = now
            stopping.wait(delay * random.uniform(0.8, 1.2))  # nosec B311
            delay = min(delay * 2, LONGEST_SECONDS)
        else:
            if said > float("-inf"):
                LOG.info("the %s is there after %.1f s", what, monotonic() - started)
            return value

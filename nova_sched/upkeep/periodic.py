"""A loop that outlives its errors and a clock that is set back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from nova_sched.errors import SchedulerError

LOG = logging.getLogger(__name__)


class Periodic:
    """Calls ``work`` every ``interval_seconds`` in a thread of its own until stopped.

    An error is logged once, not once per round, and never ends the loop (LP#1517926). Intervals are monotonic.

    :param monotonic: the clock, seconds.
    """

    def __init__(
        self,
        name: str,
        interval_seconds: float,
        work: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._interval_seconds = interval_seconds
        self._work = work
        self._monotonic = monotonic
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing: str | None = None

    def start(self) -> None:
        """Begin; the first round runs after one interval."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._loop, name=self.name, daemon=True)
        self._thread.start()

    def stop(self, timeout_seconds: float = 10.0) -> None:
        """End after the round in hand; twice is fine."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)
            self._thread = None

    def run_once(self) -> None:
        """One round, with its error handling."""
        try:
            self._work()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if text != self._failing:
                self._failing = text
                LOG.error(
                    "%s failed, it will be tried again: %s", self.name, text, exc_info=_unexpected(error)
                )
            return
        if self._failing is not None:
            self._failing = None
            LOG.info("%s works again", self.name)

    def _loop(self) -> None:
        due = self._monotonic() + self._interval_seconds
        while not self._stop.wait(max(0.0, due - self._monotonic())):
            self.run_once()
            # A round that took longer than the interval skips the rounds it missed.
            due = max(due + self._interval_seconds, self._monotonic())


def _unexpected(error: Exception) -> bool:
    """Whether a traceback helps: not for a server that is away."""
    return not isinstance(error, SchedulerError)

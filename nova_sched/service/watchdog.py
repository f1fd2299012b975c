"""Ends a worker whose plugin hangs: says which one, shows where, and leaves the rest to redelivery.

A thread looks at what the driver's guard says is running. A plugin that hangs inside of C code keeps that thread from
running too (a regular expression does), so the interpreter's own timer is wound up at every look: when nobody has wound
it up for much longer than the limit, it writes the stacks and ends the process. Much longer, since a whole process that
was merely stopped or starved for a while looks the same to that timer.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import TextIO

from nova_sched.plugins.guard import PluginGuard
from nova_sched.service.ports import Clock

LOG = logging.getLogger(__name__)

EXIT_STATUS = 70
"""Of a process that the thread ends (EX_SOFTWARE); one that the interpreter's timer ends has 1."""

_LOOKS_PER_TIMEOUT = 5
_LOOK_MAX_SECONDS = 1.0
_GRACE_SECONDS = 30.0


class Watchdog:
    """Watches the plugins of one process.

    :param guard: what runs now; asked at every look, since a reload changes it. None: nothing to watch.
    :param timeout_seconds: time one call of one plugin may take.
    :param grace_seconds: how much longer than that nobody may look, until the interpreter's timer ends the process.
    :param timer: wind up the interpreter's timer, of which a process has one, so only one watchdog may.
    :param leave: ends the process with a status, without running any handler of it.
    """

    def __init__(
        self,
        guard: Callable[[], PluginGuard | None],
        timeout_seconds: float,
        *,
        grace_seconds: float = _GRACE_SECONDS,
        clock: Clock | None = None,
        leave: Callable[[int], object] = os._exit,
        stacks: TextIO | None = None,
        timer: bool = True,
    ) -> None:
        self._guard = guard
        self._timeout_seconds = timeout_seconds
        self._patience_seconds = timeout_seconds + grace_seconds
        self._clock = clock or Clock()
        self._leave = leave
        self._stacks = stacks or sys.stderr
        self._timer = timer
        self._pause_seconds = min(_LOOK_MAX_SECONDS, timeout_seconds / _LOOKS_PER_TIMEOUT)
        self._seen: tuple[str | None, int] = (None, 0)
        self._since = self._clock.monotonic()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch; call it in the process that runs the plugins, after any fork."""
        self._thread = threading.Thread(target=self._watch, name="plugin-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. Idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def look(self) -> None:
        """Look once: end the process if the same call of a plugin has been seen for longer than the limit."""
        guard = self._guard()
        now = self._clock.monotonic()
        seen = (guard.current, guard.calls) if guard is not None else (None, 0)
        if seen != self._seen or seen[0] is None:
            self._seen, self._since = seen, now
        elif now - self._since > self._timeout_seconds:
            self._end(seen[0])

    def _watch(self) -> None:
        try:
            while not self._stopping.wait(self._pause_seconds):
                if self._timer:
                    faulthandler.dump_traceback_later(self._patience_seconds, exit=True, file=self._stacks)
                self.look()
        finally:
            if self._timer:
                faulthandler.cancel_dump_traceback_later()

    def _end(self, plugin: str) -> None:
        LOG.critical(
            "plugin %s has not come back for more than %g s; this worker ends with its stacks on standard error, "
            "its requests are delivered again",
            plugin,
            self._timeout_seconds,
        )
        faulthandler.dump_traceback(file=self._stacks, all_threads=True)
        self._stacks.flush()
        self._leave(EXIT_STATUS)

"""Crash points for fault tests: a process kills itself where a plan says so. Without the variable nothing happens.

``NOVA_SCHED_CRASH_PLAN`` names a file with one ``<point> <count>`` per line. Each process takes the first line away when
it starts and kills itself with SIGKILL at the ``count``-th arrival at that point; when no line is left it lives.
The names of the points stand in ``service.ports.CRASH_POINTS`` and ``rpc.bus.crash.POINTS``. What was carried out is
appended to ``<file>.done``.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping

from nova_sched.rpc.bus import crash as bus_crash
from nova_sched.service import ports

LOG = logging.getLogger(__name__)

VARIABLE = "NOVA_SCHED_CRASH_PLAN"
POINTS = frozenset((*ports.CRASH_POINTS, *bus_crash.POINTS))


def crash_point(environment: Mapping[str, str] = os.environ) -> Callable[[str], None]:
    """What this process shall do at named points. Call it after the fork. Raises ValueError for an unknown point."""
    path = environment.get(VARIABLE)
    line = _take_line(path) if path else None
    if path is None or line is None:
        return ports.no_crash
    point, count = line.split()
    if point not in POINTS:
        raise ValueError(f"{path}: {point} is no crash point; these are: {', '.join(sorted(POINTS))}")
    LOG.warning("this process kills itself at arrival %s at %s, for a fault test", count, point)
    return _Death(point, int(count), f"{path}.done")


class _Death:
    def __init__(self, point: str, count: int, done: str) -> None:
        self._point = point
        self._left = count
        self._done = done
        self._lock = threading.Lock()

    def __call__(self, point: str) -> None:
        if point != self._point:
            return
        with self._lock:
            self._left -= 1
            if self._left:
                return
            with open(self._done, "a", encoding="ascii") as file:
                file.write(f"{point} {os.getpid()}\n")
            os.kill(os.getpid(), signal.SIGKILL)


def _take_line(path: str) -> str | None:
    with open(path, "r+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lines = file.read().splitlines()
        file.seek(0)
        file.truncate()
        file.write("".join(f"{line}\n" for line in lines[1:]))
        return lines[0] if lines else None

"""Messages of an agent, sent in order and never dropped for an outage of the bus."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable

from nova_sched.errors import BusUnavailable

LOG = logging.getLogger(__name__)

_PAUSE_SECONDS = (0.2, 10.0)


class Outbox:
    """Sends what is put into it from one thread, in order; retries while the bus is away.

    What is not sent when the process dies is lost; the scheduler's time-outs then end the instance in ERROR.
    """

    def __init__(self, name: str = "outbox") -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def put(self, send: Callable[[], None]) -> None:
        """Have ``send`` called, after all that was put before."""
        with self._changed:
            self._waiting.append(send)
            self._changed.notify_all()

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything is sent; False if it was not in time."""
        until = time.monotonic() + timeout_seconds
        with self._changed:
            while self._waiting:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def stop(self, timeout_seconds: float = 10.0) -> bool:
        """Send what is there, within the limit, then end; False if something was left."""
        emptied = self.flush(timeout_seconds) if self._thread.ident is not None else not self._waiting
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(1.0)
        return emptied

    def _run(self) -> None:
        pause = _PAUSE_SECONDS[0]
        while (send := self._next()) is not None:
            try:
                send()
            except BusUnavailable as exc:
                if pause == _PAUSE_SECONDS[0]:
                    LOG.warning("the bus is away, messages wait: %s", exc)
                jitter = random.uniform(0.5, 1.5)  # nosec B311  # keeps agents from returning all at once
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, pause * jitter)
                pause = min(pause * 2, _PAUSE_SECONDS[1])
                continue
            except Exception:
                LOG.exception("a message could not be sent and is dropped")
            pause = _PAUSE_SECONDS[0]
            with self._changed:
                self._waiting.popleft()
                self._changed.notify_all()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._waiting)
            return None if self._stopping else self._waiting[0]

"""How long a request takes from its publishing to the arrival of its casts at the compute's queue."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import amqp

from benchmarks import messages
from benchmarks.bus import COMPUTES, EXCHANGE, SCHEDULER, Room
from benchmarks.checks import WrongOutcome

_UUID = re.compile(rb"be7c0000-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIMEOUT_SECONDS = 60.0


class Stopwatch:
    """Sends requests and consumes the casts; both on connections of their own. A context manager."""

    def __init__(self, room: Room) -> None:
        self._sending = room.connect()
        self._channel = self._sending.channel()
        self._receiving = room.connect()
        self._sent: dict[str, float] = {}
        self._arrived: dict[str, list[float]] = {}
        self._change = threading.Condition()
        self._closing = False
        channel = self._receiving.channel()
        channel.auto_decode = False
        channel.basic_consume(COMPUTES, no_ack=True, callback=self._take)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        self._thread.join()
        self._sending.close()
        self._receiving.close()

    def send(self, number: int, count: int = 1) -> None:
        """Publish the request for ``count`` instances numbered from ``number``."""
        body = (
            messages.body(messages.run_instance(number, count))
            if count > 1
            else messages.bodies(number, 1)[0]
        )
        message = amqp.Message(
            body, content_type="application/json", content_encoding="utf-8", delivery_mode=2
        )
        self._sent[messages.uuid_of(number)] = time.monotonic()
        self._channel.basic_publish(message, EXCHANGE, SCHEDULER)

    def wait(self, numbers: Sequence[int], count: int = 1) -> list[float]:
        """Seconds from the publishing to the (last) cast of each of these requests. Raises WrongOutcome."""
        until = time.monotonic() + _TIMEOUT_SECONDS
        found = []
        for number in numbers:
            uuids = [messages.uuid_of(number + index) for index in range(count)]
            with self._change:
                while not all(uuid in self._arrived for uuid in uuids):
                    if not self._change.wait(until - time.monotonic()):
                        raise WrongOutcome(f"no cast for request {number} came in time")
                last = max(self._arrived[uuid][0] for uuid in uuids)
            found.append(last - self._sent[uuids[0]])
        return found

    def pace(self, first: int, count: int, per_second: float) -> list[float]:
        """Send requests at a steady rate and wait for all of them; seconds of each."""
        began = time.monotonic()
        for index in range(count):
            pause = began + index / per_second - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            self.send(first + index)
        return self.wait(range(first, first + count))

    def _take(self, message: amqp.Message) -> None:
        now = time.monotonic()
        found = _UUID.search(message.body)
        if found is not None:
            with self._change:
                self._arrived.setdefault(found[0].decode(), []).append(now)
                self._change.notify_all()

    def _read(self) -> None:
        while not self._closing:
            try:
                self._receiving.drain_events(timeout=0.2)
            except TimeoutError:
                continue

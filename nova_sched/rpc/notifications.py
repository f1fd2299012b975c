"""Notifications: bare JSON or in an envelope, one queue per topic and priority, never in the way of scheduling.

INFO events are best effort: ``emit`` puts them into a bounded queue that a thread empties; when the notification bus is
down they are dropped after ``retry`` tries, with one warning per outage. ERROR events come from the outbox, which
keeps them until ``publish_confirmed`` says that the broker has them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from nova_sched.errors import BusUnavailable, ConfigurationError
from nova_sched.model.messages import Delivery, Event
from nova_sched.rpc.bus.confirms import ConfirmedSender
from nova_sched.rpc.bus.envelope import dump_json
from nova_sched.rpc.bus.render import BARE, ENVELOPE, render_event
from nova_sched.rpc.bus.settings import Topology
from nova_sched.service.ports import NullObserver, Observer

LOG = logging.getLogger(__name__)
EVENT_LOG = logging.getLogger("oslo.messaging.notification")

DRIVERS = (BARE, ENVELOPE, "log", "noop")
_CHUNK = 300
_EMIT_TIMEOUT_SECONDS = 5.0
_RETRY_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """``[oslo_messaging_notifications]``. ``retry``: -1 for ever, 0 none, N tries after the first."""

    drivers: tuple[str, ...] = (BARE,)
    topics: tuple[str, ...] = ("notifications",)
    retry: int = 2
    queue_max: int = 20_000
    timeout_seconds: float = 30.0

    def checked(self) -> NotificationSettings:
        """Itself. :raises ConfigurationError: a driver that this service does not have."""
        for driver in self.drivers:
            if driver not in DRIVERS:
                raise ConfigurationError(
                    "oslo_messaging_notifications.driver", driver, f"one of {', '.join(DRIVERS)}"
                )
        return self

    @property
    def forms(self) -> tuple[str, ...]:
        """Forms in which events go to the bus; empty when no driver sends any."""
        return tuple(driver for driver in self.drivers if driver in (BARE, ENVELOPE))


class EventWire(Protocol):
    """Sends rendered events; one word of the broker per (event, topic, form)."""

    def send(self, events: Sequence[tuple[Event, str, str]], timeout_seconds: float) -> list[Delivery]:
        """Send all; raises BusUnavailable when none could be sent in time."""
        ...

    def close(self) -> None:
        """Leave."""
        ...


class RabbitEvents:
    """Events over RabbitMQ. A queue that somebody deleted is declared again when the broker returns an event."""

    def __init__(self, sender: ConfirmedSender, topology: Topology) -> None:
        self._sender = sender
        self._topology = topology

    def send(self, events: Sequence[tuple[Event, str, str]], timeout_seconds: float) -> list[Delivery]:
        """See EventWire."""
        messages = [render_event(event, topic, form, self._topology) for event, topic, form in events]
        answers = self._sender.send(messages, timeout_seconds)
        lost = [index for index, answer in enumerate(answers) if answer is Delivery.UNDELIVERABLE]
        if lost:
            self._sender.forget_declarations()
            again = self._sender.send([messages[index] for index in lost], timeout_seconds)
            for index, answer in zip(lost, again, strict=True):
                answers[index] = answer
        return answers

    def close(self) -> None:
        """See EventWire."""
        self._sender.close()


class Notifier:
    """See the module. Thread-safe; its thread starts with the first event."""

    def __init__(
        self, wire: EventWire, settings: NotificationSettings, observer: Observer | None = None
    ) -> None:
        self._wire = wire
        self._observer = observer or NullObserver()
        self._settings = settings.checked()
        self._queue: deque[Event] = deque()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._give_up_at = 0.0
        self._warned = False
        self._away = False
        self.dropped = 0

    def emit(self, events: Sequence[Event]) -> None:
        """Hand over events that may be lost; returns at once, whatever the bus does."""
        self._log(events)
        if not events or not self._settings.forms:
            return
        with self._change:
            room = self._settings.queue_max - len(self._queue)
            if self._closing:
                room = 0
            self._queue.extend(events[: max(0, room)])
            self._lose(len(events) - max(0, min(room, len(events))), "the queue is full")
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)
                self._thread.start()
            self._change.notify()

    def publish_confirmed(self, events: Sequence[Event]) -> list[Delivery]:
        """Send events that must not be lost and wait; CONFIRMED only if every topic and form has it.

        While the bus is away and queued INFO events try it anyway, nobody else waits for it.

        :raises BusUnavailable: nothing could be sent in time.
        """
        self._log(events)
        if not self._settings.forms or not events:
            return [Delivery.CONFIRMED] * len(events)
        if self._away and self._queue:
            raise BusUnavailable("the notification bus is away")
        spread = self._spread(events)
        timeout = min(self._settings.timeout_seconds, _EMIT_TIMEOUT_SECONDS)
        try:
            answers = self._wire.send(spread, timeout)
        except BusUnavailable:
            self._away = True
            raise
        self._away = False
        each = len(spread) // len(events)
        verdicts = []
        for start in range(0, len(answers), each):
            words = answers[start : start + each]
            verdicts.append(
                next((word for word in words if word is not Delivery.CONFIRMED), Delivery.CONFIRMED)
            )
        return verdicts

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Send what is queued within the limit, then leave; idempotent."""
        with self._change:
            self._closing = True
            self._give_up_at = time.monotonic() + timeout_seconds
            self._change.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_seconds + _EMIT_TIMEOUT_SECONDS)
        self._wire.close()

    @property
    def queued(self) -> int:
        """Events that wait to be sent."""
        return len(self._queue)

    def _spread(self, events: Sequence[Event]) -> list[tuple[Event, str, str]]:
        forms, topics = self._settings.forms, self._settings.topics
        return [(event, topic, form) for event in events for topic in topics for form in forms]

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._queue and not self._closing:
                    self._change.wait()
                if not self._queue:
                    return
                chunk = [self._queue.popleft() for _ in range(min(_CHUNK, len(self._queue)))]
            self._send(chunk)

    def _send(self, chunk: list[Event]) -> None:
        tries = 0
        while True:
            try:
                self._wire.send(self._spread(chunk), _EMIT_TIMEOUT_SECONDS)
                self._warned = self._away = False
                return
            except BusUnavailable as error:
                self._away = True
                reason = str(error)
            except Exception as error:  # an event that cannot be rendered must not end the thread
                LOG.exception("events could not be rendered")
                self._lose(len(chunk), str(error))
                return
            tries += 1
            if 0 <= self._settings.retry < tries or (self._closing and time.monotonic() >= self._give_up_at):
                self._lose(len(chunk), reason)
                return
            with self._change:
                self._change.wait(_RETRY_PAUSE_SECONDS)

    def _lose(self, count: int, reason: str) -> None:
        if count:
            self.dropped += count
            self._observer.count("events_dropped", count)
            if not self._warned:
                self._warned = True
                LOG.warning("notifications are dropped (%s); scheduling goes on", reason)

    def _log(self, events: Sequence[Event]) -> None:
        if "log" in self._settings.drivers:
            for event in events:
                level = logging.ERROR if event.priority == "ERROR" else logging.INFO
                message: dict[str, Any] = {"event_type": event.event_type, "message_id": event.message_id}
                EVENT_LOG.log(level, "%s", dump_json({**message, "payload": event.payload}).decode())

"""The broker of a run: a virtual host with the queues of one subject, filled beforehand and watched while they drain."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import amqp

from benchmarks import messages
from nova_sched.testing.servers import RabbitServer

EXCHANGE = "nova"
SCHEDULER = "scheduler"
COMPUTES = "computes"
"""One queue that takes the casts to every compute: thousands of queues would measure the broker's bookkeeping."""
NOTIFICATIONS = "notifications.info"
EVENTS_PER_REQUEST = 3


@dataclass(frozen=True, slots=True)
class Sighting:
    """What was out at a moment: casts and notifications; ``at``: monotonic seconds."""

    at: float
    casts: int
    events: int


class Room:
    """A fresh virtual host with the queues of one run; gone afterwards.

    :param quorum: the scheduler's, the computes' and the notifications' queues are quorum queues.
    """

    def __init__(self, rabbit: RabbitServer, quorum: bool = False) -> None:
        self._rabbit = rabbit
        self.quorum = quorum
        self.vhost = rabbit.create_vhost()
        self.url = rabbit.transport_url(self.vhost)
        self._published = 0
        self._connection = self.connect()
        self.channel = self._connection.channel()
        self.channel.confirm_select()
        self.channel.exchange_declare(EXCHANGE, "topic", durable=True, auto_delete=False)
        arguments: dict[str, Any] | None = {"x-queue-type": "quorum"} if quorum else None
        for queue, key in ((SCHEDULER, SCHEDULER), (COMPUTES, "compute.*"), (NOTIFICATIONS, NOTIFICATIONS)):
            self.channel.queue_declare(queue, durable=True, auto_delete=False, arguments=arguments)
            self.channel.queue_bind(queue, EXCHANGE, key)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._rabbit.delete_vhost(self.vhost)

    def put(self, bodies: Sequence[bytes], queue: str = SCHEDULER) -> None:
        """Put messages into a queue, persistent, confirmed in bulk."""
        confirmed = 0

        def on_ack(tag: int, multiple: bool) -> None:
            nonlocal confirmed
            confirmed = max(confirmed, tag)

        acks = self.channel.events["basic_ack"]
        acks.add(on_ack)
        first = self._published
        for number, body in enumerate(bodies, 1):
            message = amqp.Message(
                body, content_type="application/json", content_encoding="utf-8", delivery_mode=2, priority=0
            )
            self.channel.basic_publish(message, EXCHANGE, queue)
            self._published = first + number
            while self._published - confirmed > 500:
                self._connection.drain_events()
        while confirmed < self._published or self.depth(queue) < 0:
            self._connection.drain_events()
        acks.discard(on_ack)

    def connect(self) -> amqp.Connection:
        """A connection of its own to this virtual host."""
        connection = amqp.Connection(
            f"127.0.0.1:{self._rabbit.port}", virtual_host=self.vhost, login_method="PLAIN", heartbeat=0
        )
        connection.connect()
        return connection

    def fill(self, first: int, count: int, memory_mb: int | None = None) -> None:
        """Put ``count`` requests for one instance each into the scheduler's queue."""
        for start in range(first, first + count, 2000):
            self.put(messages.bodies(start, min(2000, first + count - start), memory_mb))

    def depth(self, queue: str) -> int:
        """Messages of a queue that are ready."""
        return int(self.channel.queue_declare(queue, passive=True).message_count)

    def look(self) -> Sighting:
        """What is out by now."""
        casts, events = self.depth(COMPUTES), self.depth(NOTIFICATIONS)
        return Sighting(time.monotonic(), casts, events)

    def left_behind(self) -> dict[str, int]:
        """Queues of requests that are not empty, unacknowledged messages included."""
        queues = self._rabbit.queues(self.vhost)
        sinks = (COMPUTES, NOTIFICATIONS)
        return {
            name: one["messages"] for name, one in queues.items() if one["messages"] and name not in sinks
        }

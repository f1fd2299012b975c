"""A bare AMQP client: puts bytes into queues as they were recorded and takes out what the service sends."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import amqp

PROPERTIES = ("content_type", "content_encoding", "delivery_mode", "priority")


@dataclass(frozen=True, slots=True)
class Taken:
    """One message out of a queue; ``message`` is decoded, an envelope taken off."""

    queue: str
    properties: Mapping[str, Any]
    body: str
    message: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Event type or method; of a reply what it is."""
        told = self.message.get("event_type") or self.message.get("method")
        return str(told or ("ending" if self.message.get("ending") else "answer"))


class Desk:
    """One connection to one virtual host; a context manager."""

    def __init__(self, port: int, vhost: str, user: str = "guest", password: str = "guest") -> None:
        self._connection = amqp.Connection(
            f"127.0.0.1:{port}", user, password, virtual_host=vhost, login_method="PLAIN"
        )
        self._connection.connect()
        self._channel = self._connection.channel()
        self._channel.confirm_select()
        self._channel.exchange_declare("nova", "topic", durable=True, auto_delete=False)
        self._taken: list[Taken] = []

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def queue(self, name: str, exchange: str | None = "nova") -> None:
        """Declare a queue as the service's peers do, bound by its name."""
        self._channel.queue_declare(name, durable=True, auto_delete=False)
        if exchange:
            self._channel.queue_bind(name, exchange, name)

    def copy(self, routing_key: str, queue: str) -> None:
        """A queue of our own that gets what the one of ``routing_key`` gets as well."""
        self._channel.queue_declare(queue, exclusive=True)
        self._channel.queue_bind(queue, "nova", routing_key)

    def listen(self, queues: Iterable[str]) -> None:
        """Take everything out of these queues from now on."""
        for queue in queues:
            self._channel.basic_consume(
                queue, no_ack=True, callback=lambda m, queue=queue: self._take(queue, m)
            )

    def put(
        self, body: str | bytes, routing_key: str = "scheduler", exchange: str = "nova", **properties: Any
    ) -> None:
        """Publish exactly this and wait for the broker's word."""
        message = amqp.Message(body, **{"content_type": "application/json", "delivery_mode": 2, **properties})
        self._channel.basic_publish_confirm(message, exchange, routing_key)

    def take(self, count: int, seconds: float = 15.0) -> list[Taken]:
        """The next ``count`` messages, in their order of arrival; fails when fewer come in time."""
        deadline = time.monotonic() + seconds
        while len(self._taken) < count:
            left = deadline - time.monotonic()
            names = [one.name for one in self._taken]
            assert left > 0, f"{len(names)} of {count} messages came: {names}"
            self._drain(left)
        found, self._taken = self._taken[:count], self._taken[count:]
        return found

    def drain(self, seconds: float = 0.3) -> list[Taken]:
        """What comes until nothing has come for ``seconds``."""
        while self._drain(seconds):
            pass
        found, self._taken = self._taken, []
        return found

    def _drain(self, seconds: float) -> bool:
        try:
            self._connection.drain_events(timeout=seconds)
        except TimeoutError:
            return False
        return True

    def _take(self, queue: str, message: amqp.Message) -> None:
        body = message.body if isinstance(message.body, str) else bytes(message.body).decode()
        content = json.loads(body)
        if "oslo.message" in content:
            content = json.loads(content["oslo.message"])
        self._taken.append(Taken(queue, dict(message.properties), body, content))

"""Listens to notifications beside their consumers: a queue of its own, so that nobody misses an event because of us."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import amqp
import orjson
import oslo_messaging

from nova_sched.errors import BusUnavailable
from nova_sched.rpc.bus.driver import rabbit_driver
from nova_sched.rpc.bus.link import LINK_ERRORS, Link
from nova_sched.rpc.bus.settings import LinkSettings, Topology
from nova_sched.rpc.bus.topology import control_exchange

PRIORITIES = ("info", "warn", "error")


class Tap(Protocol):
    """Notifications as they come: ``event_type``, ``priority``, ``payload``, ``publisher_id``, ``timestamp``, …"""

    def events(self, wait_seconds: float) -> Iterator[dict[str, Any]]:
        """What comes within ``wait_seconds``, oldest first. Raises BusUnavailable."""
        ...

    def close(self) -> None:
        """Leave; the queue goes as well."""
        ...


def open_tap(transport: Any, topics: Sequence[str]) -> Tap:
    """Listen to all priorities of these topics; what was sent before is not seen. Raises BusUnavailable."""
    driver = rabbit_driver(transport)
    if driver is None:
        return _StockTap(transport, topics)
    return _RabbitTap(driver.link_settings, driver.topology(), topics)


class _RabbitTap:
    def __init__(self, settings: LinkSettings, topology: Topology, topics: Sequence[str]) -> None:
        self._found: list[dict[str, Any]] = []
        self._link = Link(settings, "nova-sched listen")
        self._link.open()
        try:
            channel = self._link.channel
            control_exchange(topology).declare(channel)
            name = f"nova-sched.listen.{uuid.uuid4().hex}"
            channel.queue_declare(name, durable=False, exclusive=True, auto_delete=True)
            for topic in topics:
                for priority in PRIORITIES:
                    channel.queue_bind(name, topology.exchange, f"{topic}.{priority}")
            channel.basic_consume(name, no_ack=True, exclusive=True, callback=self._take)
        except LINK_ERRORS as error:
            self._link.close()
            raise BusUnavailable(f"notifications cannot be listened to: {error}") from error

    def events(self, wait_seconds: float) -> Iterator[dict[str, Any]]:
        try:
            if self._link.wait(min(wait_seconds, self._link.tick_seconds)):
                self._link.read()
            self._link.beat()
        except LINK_ERRORS as error:
            raise BusUnavailable(f"the connection to the broker was lost: {error}") from error
        found, self._found = self._found, []
        yield from found

    def close(self) -> None:
        self._link.farewell()

    def _take(self, message: amqp.Message) -> None:
        body = message.body.encode() if isinstance(message.body, str) else bytes(message.body or b"")
        try:
            self._found.append(_plain(_opened(body)))
        except ValueError as error:
            self._found.append({"event_type": "(not readable)", "payload": {"reason": str(error)}})


class _StockTap:
    def __init__(self, transport: Any, topics: Sequence[str]) -> None:
        self._queue: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        targets = [oslo_messaging.Target(topic=topic) for topic in topics]
        self._listener = oslo_messaging.get_notification_listener(
            transport, targets, [_Endpoint(self._queue)], executor="threading"
        )
        self._listener.start()

    def events(self, wait_seconds: float) -> Iterator[dict[str, Any]]:
        try:
            yield self._queue.get(timeout=wait_seconds)
            while True:
                yield self._queue.get_nowait()
        except queue.Empty:
            return

    def close(self) -> None:
        self._listener.stop()
        self._listener.wait()


class _Endpoint:
    """Takes every priority that oslo.messaging knows a method for."""

    def __init__(self, found: queue.SimpleQueue[dict[str, Any]]) -> None:
        self._found = found

    def _put(
        self, priority: str, publisher_id: str, event_type: str, payload: Any, metadata: Mapping[str, Any]
    ) -> None:
        self._found.put(
            {
                "priority": priority,
                "publisher_id": publisher_id,
                "event_type": event_type,
                "payload": payload,
                "message_id": metadata.get("message_id"),
                "timestamp": metadata.get("timestamp"),
            }
        )

    def info(self, context: Any, publisher_id: str, event_type: str, payload: Any, metadata: Any) -> None:
        self._put("INFO", publisher_id, event_type, payload, metadata)

    def warn(self, context: Any, publisher_id: str, event_type: str, payload: Any, metadata: Any) -> None:
        self._put("WARN", publisher_id, event_type, payload, metadata)

    def error(self, context: Any, publisher_id: str, event_type: str, payload: Any, metadata: Any) -> None:
        self._put("ERROR", publisher_id, event_type, payload, metadata)


def _opened(body: bytes) -> Mapping[str, Any]:
    """The inner message of either form, bare or in an envelope. Raises ValueError."""
    message = orjson.loads(body)
    if isinstance(message, dict) and "oslo.message" in message:
        message = orjson.loads(message["oslo.message"])
    if not isinstance(message, dict):
        raise ValueError("not an object")
    return message


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Without the context, which is nobody's business here."""
    return {key: value for key, value in message.items() if not key.startswith("_")}

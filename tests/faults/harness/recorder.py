"""Beside every compute queue lies one of the recorder's: what the broker routes to a compute is seen, whoever dies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import amqp

from tests.faults.harness.history import History, SeenCast, SeenEvent

QUEUE = "faults.recorder"
LINK_ERRORS = (OSError, amqp.AMQPError, ValueError, KeyError, AttributeError, TypeError)


def named_in(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """uuids of the instances that an event speaks of."""
    named = payload.get("instance_uuids") or [payload.get("instance_id") or payload.get("instance_uuid")]
    if not any(named):
        named = (payload.get("request_spec") or {}).get("instance_uuids") or []
    return tuple(one for one in named if one)


class Recorder:
    """Consumes in a thread of its own, comes back after outages of the broker, and forgets nothing meanwhile.

    :param addresses: (host, port) of the broker's nodes. :param hosts: compute hosts whose casts are recorded.
    """

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        vhost: str,
        history: History,
        hosts: Sequence[str],
        quorum: bool = False,
    ) -> None:
        self._addresses = list(addresses)
        self._vhost = vhost
        self._history = history
        self._hosts = list(hosts)
        self._arguments = {"x-queue-type": "quorum"} if quorum else {}
        self._quorum = quorum
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._seen: set[bytes] = set()
        self._at = 0
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        """Record from now on."""
        self._thread.start()
        assert self._ready.wait(60), "the recorder never reached the broker"

    def stop(self) -> None:
        """Leave."""
        self._stopping.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._record()
            except LINK_ERRORS:
                self._at += 1
                self._stopping.wait(0.2)

    def _record(self) -> None:
        host, port = self._addresses[self._at % len(self._addresses)]
        connection = amqp.Connection(
            f"{host}:{port}",
            virtual_host=self._vhost,
            login_method="PLAIN",
            connect_timeout=3,
            read_timeout=10,
        )
        connection.connect()
        try:
            channel = connection.channel()
            channel.exchange_declare("nova", "topic", durable=True, auto_delete=False)
            channel.queue_declare(QUEUE, durable=True, auto_delete=False, arguments=self._arguments)
            for name in self._hosts:
                channel.queue_bind(QUEUE, "nova", f"compute.{name}")
            for priority in ("info", "warn", "error"):
                # The notifier's own queues, so that it finds them as it wants them.
                queue = f"notifications.{priority}"
                channel.queue_declare(queue, durable=True, auto_delete=False, arguments=self._arguments)
                channel.queue_bind(queue, "nova", queue)
            channel.basic_qos(0, 500, False)
            for queue in (QUEUE, "notifications.info", "notifications.warn", "notifications.error"):
                channel.basic_consume(queue, callback=self._take)
            self._ready.set()
            while not self._stopping.is_set():
                try:
                    connection.drain_events(timeout=0.3)
                except TimeoutError:
                    continue
        finally:
            connection.collect()

    def _take(self, message: Any) -> None:
        body = message.body.encode() if isinstance(message.body, str) else bytes(message.body)
        key = message.delivery_info["routing_key"]
        if key.startswith("notifications."):
            self._event(body)
        else:
            self._cast(key.partition(".")[2], body, message.properties.get("message_id", ""))
        message.channel.basic_ack(message.delivery_tag)

    def _cast(self, host: str, body: bytes, message_id: str) -> None:
        inner = json.loads(json.loads(body)["oslo.message"])
        arguments = inner["args"]
        uuid = (arguments.get("instance") or {}).get("uuid", "")
        with self._history.lock:
            if inner["method"] != "run_instance":
                return
            retry = (arguments.get("filter_properties") or {}).get("retry") or {}
            index = (arguments["request_spec"].get("instance_properties") or {}).get("launch_index")
            self._history.casts.append(
                SeenCast(uuid, retry.get("num_attempts", 1), host, time.time(), message_id, index)
            )

    def _event(self, body: bytes) -> None:
        event = json.loads(body)
        uuids = named_in(event.get("payload") or {})
        with self._history.lock:
            self._history.events.append(
                SeenEvent(
                    event["event_type"], event["priority"], event["message_id"], uuids, time.time(), body
                )
            )

"""The dead-letter queue: messages given up, whole, with the reason; listed and shown masked, or put back by hand.

The body stays whole there only: whoever may read that queue may read passwords in it, so it wants the same access
rights as the scheduler topic. Letters expire after ``ttl_seconds``.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import amqp

from nova_sched.errors import BusUnavailable, MalformedMessage
from nova_sched.model.messages import Delivery
from nova_sched.model.secrets import MASK, SHOWN_CONTEXT, is_secret
from nova_sched.rpc.bus.confirms import ConfirmedSender
from nova_sched.rpc.bus.envelope import (
    CONTEXT_PREFIX,
    UNIQUE_ID,
    BodyLimits,
    Poison,
    decode_message,
    encode_message,
)
from nova_sched.rpc.bus.frames import Outgoing
from nova_sched.rpc.bus.judge import DeadLetter
from nova_sched.rpc.bus.link import LINK_ERRORS, Link
from nova_sched.rpc.bus.settings import LinkSettings, Topology
from nova_sched.rpc.bus.topology import QueueDeclaration

_HEADER = "x-nova-sched-"
_READ_LIMITS = BodyLimits(1 << 30, 900)


@dataclass(frozen=True, slots=True)
class DeadLetterInfo:
    """One letter as it may be displayed. ``died_at_seconds``: time of the epoch by the worker that gave it up."""

    message_id: str
    reason: str
    method: str
    exchange: str
    routing_key: str
    died_at_seconds: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Found:
    info: DeadLetterInfo
    body: bytes = field(repr=False)
    tag: int


def letter_queue(name: str, topology: Topology) -> QueueDeclaration:
    """The queue, reachable by its name only; as durable as the topics."""
    return QueueDeclaration(
        name, None, "", topology.durable, False, tuple(sorted(topology.queue_arguments.items()))
    )


class DeadLetterBox:
    """The writing side (``bus.judge.DeadLetterSink``): a letter is confirmed before its message is acknowledged."""

    def __init__(
        self,
        sender: ConfirmedSender,
        queue: QueueDeclaration,
        ttl_seconds: int,
        timeout_seconds: float = 10.0,
    ) -> None:
        self._sender = sender
        self._queue = queue
        self._ttl_seconds = ttl_seconds
        self._timeout_seconds = timeout_seconds

    def put(self, dead: DeadLetter) -> None:
        """Keep a letter; returns when the broker has it. :raises BusUnavailable: it did not confirm."""
        headers: dict[str, str | int | bool] = {
            f"{_HEADER}reason": dead.reason,
            f"{_HEADER}method": dead.method[:200],
            f"{_HEADER}exchange": dead.exchange,
            f"{_HEADER}routing-key": dead.routing_key,
            f"{_HEADER}died-at": int(time.time()),
        }
        message = Outgoing(
            "",
            self._queue.name,
            dead.body,
            dead.message_id[:250],
            True,
            self._ttl_seconds * 1000,
            headers,
            True,
            (self._queue,),
        )
        if self._sender.send([message], self._timeout_seconds) != [Delivery.CONFIRMED]:
            raise BusUnavailable(f"the queue {self._queue.name} did not take a dead letter")

    def close(self) -> None:
        """Leave."""
        self._sender.close()


class DeadLetterReader:
    """The operator's side: list, show, requeue. Opens a connection for each call."""

    def __init__(self, settings: LinkSettings, queue: QueueDeclaration, topology: Topology) -> None:
        self._settings = settings
        self._queue = queue
        self._topology = topology

    def list(self, limit: int = 100) -> list[DeadLetterInfo]:
        """The oldest letters; they stay where they are. :raises BusUnavailable: the broker cannot be reached."""
        with self._channel() as channel:
            return [found.info for found in self._walk(channel, limit)]

    def show(self, message_id: str, limit: int = 10_000) -> dict[str, Any]:
        """One letter with its content, secrets masked. :raises MalformedMessage: no letter has that id."""
        with self._channel() as channel:
            found = self._find(channel, message_id, limit)
        try:
            content: Any = masked(decode_message(found.body, _READ_LIMITS))
        except Poison as poison:
            content = f"not readable: {poison.reason}"
        info = found.info
        return {
            "message_id": info.message_id,
            "reason": info.reason,
            "method": info.method,
            "routing_key": info.routing_key,
            "died_at_seconds": info.died_at_seconds,
            "size_bytes": info.size_bytes,
            "content": content,
        }

    def requeue(self, message_id: str, new_attempt: bool = False, limit: int = 10_000) -> DeadLetterInfo:
        """Put a letter back where it came from; it leaves the dead-letter queue once the broker has confirmed.

        An instance that ended in ERROR stays there: with ``new_attempt`` the message counts as the next attempt
        (``retry.num_attempts`` + 1) and is decided again.

        :raises MalformedMessage: no letter has that id, or ``new_attempt`` for a body that cannot be read.
        """
        sender = ConfirmedSender(self._settings, "nova-sched dead-letter requeue")
        try:
            with self._channel() as channel:
                found = self._find(channel, message_id, limit)
                body = _renewed(found.body, new_attempt)
                message = Outgoing(found.info.exchange, found.info.routing_key, body, message_id[:250])
                if sender.send([message], 10.0) != [Delivery.CONFIRMED]:
                    raise BusUnavailable(f"the queue {found.info.routing_key} did not take the message back")
                channel.basic_ack(found.tag)
                return found.info
        finally:
            sender.close()

    @contextmanager
    def _channel(self) -> Iterator[amqp.Channel]:
        link = Link(self._settings, "nova-sched dead letters")
        for _ in range(len(self._settings.hosts) - 1):
            try:
                link.open()
                break
            except BusUnavailable:
                continue
        else:
            link.open()
        try:
            self._queue.declare(link.channel)
            yield link.channel
        except LINK_ERRORS as error:
            if isinstance(error, MalformedMessage | BusUnavailable):
                raise
            raise BusUnavailable(f"the connection to the broker was lost: {error}") from error
        finally:
            link.farewell()  # what was read without an acknowledgement goes back in its place

    def _walk(self, channel: amqp.Channel, limit: int) -> Iterator[_Found]:
        for _ in range(limit):
            message = channel.basic_get(self._queue.name)
            if message is None:
                return
            yield _read(message)

    def _find(self, channel: amqp.Channel, message_id: str, limit: int) -> _Found:
        for found in self._walk(channel, limit):
            if found.info.message_id == message_id:
                return found
        raise MalformedMessage(f"no dead letter has the id {message_id}")


def masked(value: Any) -> Any:
    """A message without its secrets: what may be displayed."""
    if isinstance(value, Mapping):
        return {key: MASK if item and _is_hidden(str(key)) else masked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    return value


def _is_hidden(key: str) -> bool:
    of_context = key.startswith(CONTEXT_PREFIX)
    return is_secret(key) or (of_context and key.removeprefix(CONTEXT_PREFIX) not in SHOWN_CONTEXT)


def _read(message: amqp.Message) -> _Found:
    headers = message.properties.get("application_headers") or {}
    body = message.body.encode() if isinstance(message.body, str) else bytes(message.body or b"")
    info = DeadLetterInfo(
        message_id=str(message.properties.get("message_id", "")),
        reason=str(headers.get(f"{_HEADER}reason", "")),
        method=str(headers.get(f"{_HEADER}method", "")),
        exchange=str(headers.get(f"{_HEADER}exchange", "")),
        routing_key=str(headers.get(f"{_HEADER}routing-key", "")),
        died_at_seconds=int(headers.get(f"{_HEADER}died-at", 0)),
        size_bytes=len(body),
    )
    return _Found(info, body, message.delivery_tag)


def _renewed(body: bytes, new_attempt: bool) -> bytes:
    """The body under a fresh unique id, since workers remember the old one as finished."""
    try:
        message = decode_message(body, _READ_LIMITS)
    except Poison as poison:
        if new_attempt:
            raise MalformedMessage(f"cannot be made a new attempt: {poison.reason}") from None
        return body
    message[UNIQUE_ID] = uuid.uuid4().hex
    if new_attempt:
        properties = message.setdefault("args", {}).setdefault("filter_properties", {})
        retry = properties.get("retry") or {}
        attempts = int(retry.get("num_attempts") or 0) + 1
        properties["retry"] = {"hosts": [], **retry, "num_attempts": attempts}
    return encode_message(message)

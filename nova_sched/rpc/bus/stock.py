"""The same two wires over any other transport of oslo.messaging (``fake://``, ``kombu+memory://``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import oslo_messaging

from nova_sched.errors import BusUnavailable
from nova_sched.model.messages import Cast, Delivery, Event
from nova_sched.rpc.bus.envelope import dump_json
from nova_sched.rpc.bus.render import ENVELOPE, event_message


class StockCasts:
    """``publisher.CastWire`` over an RPC transport."""

    blocked = False

    def __init__(self, transport: Any, retry: int = 2) -> None:
        self._transport = transport
        self._retry = retry

    def send(self, casts: Sequence[Cast], timeout_seconds: float) -> list[Delivery]:
        """Send one by one, as the library does."""
        answers: list[Delivery] = []
        for cast in casts:
            try:
                self._send(cast)
                answers.append(Delivery.CONFIRMED)
            except oslo_messaging.MessageUndeliverable:
                answers.append(Delivery.UNDELIVERABLE)
            except oslo_messaging.MessagingException as error:
                if not answers:
                    raise BusUnavailable(f"nothing could be published: {error}") from error
                answers += [Delivery.UNKNOWN] * (len(casts) - len(answers))
                break
        return answers

    def close(self) -> None:
        """The transport is somebody else's."""

    def _send(self, cast: Cast) -> None:
        target = oslo_messaging.Target(
            topic=cast.topic, server=cast.server, version=cast.version, namespace=cast.namespace
        )
        options = oslo_messaging.TransportOptions(at_least_once=cast.mandatory)
        client = oslo_messaging.get_rpc_client(
            self._transport, target, retry=self._retry, transport_options=options
        )
        client.cast(_plain(cast.context), cast.method, **_plain(cast.arguments))


class StockEvents:
    """``notifications.EventWire`` over a notification transport."""

    def __init__(self, transport: Any, retry: int = 2) -> None:
        self._transport = transport
        self._retry = retry

    def send(self, events: Sequence[tuple[Event, str, str]], timeout_seconds: float) -> list[Delivery]:
        """Send (event, topic, form) one by one, as the library does."""
        answers: list[Delivery] = []
        for event, topic, form in events:
            target = oslo_messaging.Target(topic=f"{topic}.{event.priority.lower()}")
            version = 2.0 if form == ENVELOPE else 1.0
            try:
                self._transport._send_notification(
                    target, _plain(event.context), _plain(event_message(event)), version, retry=self._retry
                )
                answers.append(Delivery.CONFIRMED)
            except oslo_messaging.MessagingException as error:
                raise BusUnavailable(f"notifications cannot be sent: {error}") from error
        return answers

    def close(self) -> None:
        """The transport is somebody else's."""


def _plain(value: Any) -> Any:
    """Plain dictionaries and lists of our own, which an in-process transport may hand to others."""
    return orjson.loads(dump_json(value))

"""Casts and events as messages on RabbitMQ, byte for byte what oslo.messaging's own client and notifier would send."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from nova_sched.model.messages import Cast, Event
from nova_sched.rpc.bus.envelope import CONTEXT_PREFIX, UNIQUE_ID, dump_json, encode_message
from nova_sched.rpc.bus.frames import Outgoing
from nova_sched.rpc.bus.settings import Topology
from nova_sched.rpc.bus.topology import control_exchange, lasting_queue

BARE, ENVELOPE = "messaging", "messagingv2"
"""oslo.messaging's names of the two forms of a notification."""


def cast_message(cast: Cast) -> dict[str, Any]:
    """The inner message of a cast, without context and ids."""
    message: dict[str, Any] = {"method": cast.method, "args": cast.arguments, "version": cast.version}
    if cast.namespace is not None:
        message["namespace"] = cast.namespace
    return message


def event_message(event: Event) -> dict[str, Any]:
    """The inner message of a notification, without context and unique id."""
    return {
        "message_id": event.message_id,
        "publisher_id": event.publisher_id,
        "event_type": event.event_type,
        "priority": event.priority,
        "payload": event.payload,
        "timestamp": event.timestamp,
    }


def render_cast(cast: Cast, topology: Topology) -> Outgoing:
    """A cast to ``topic`` or ``topic.server`` on the control exchange.

    A repeat of the same cast is told by its uuid and attempt, and by the same id in the message's properties.

    :raises TypeError: an argument has no JSON form.
    """
    message = cast_message(cast)
    _add_context(message, cast.context)
    message[UNIQUE_ID] = _unique_id()
    expiration = cast.expiration_seconds
    return Outgoing(
        topology.exchange,
        cast.topic if cast.server is None else f"{cast.topic}.{cast.server}",
        encode_message(message),
        cast.message_id,
        cast.mandatory,
        None if expiration is None else max(1, math.ceil(expiration * 1000)),
        needs=(control_exchange(topology),),
    )


def render_event(event: Event, topic: str, form: str, topology: Topology) -> Outgoing:
    """A notification on ``<topic>.<priority>``; its queue is declared first, so that it is kept without a reader.

    A repeat carries the same ``message_id``.
    """
    message = event_message(event)
    _add_context(message, event.context)
    message[UNIQUE_ID] = _unique_id()
    body = encode_message(message) if form == ENVELOPE else dump_json(message)
    queue = f"{topic}.{event.priority.lower()}"
    return Outgoing(topology.exchange, queue, body, event.message_id, needs=(lasting_queue(topology, queue),))


def _add_context(message: dict[str, Any], context: Mapping[str, Any]) -> None:
    for key, value in context.items():
        message[CONTEXT_PREFIX + key] = value


def _unique_id() -> str:
    """New for everything sent: a stock receiver that meets one twice drops the second and never acknowledges it."""
    return os.urandom(16).hex()

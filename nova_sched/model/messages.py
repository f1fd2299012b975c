"""What leaves the service over the bus, as values; ``rpc`` renders them, ``wire.outbound`` makes their bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nova_sched.model.quick import quick_init


@quick_init
@dataclass(frozen=True, slots=True)
class Cast:
    """One RPC cast: to topic ``topic`` and, when ``server`` is set, to that server's own queue ``topic.server``.

    ``context`` is the flat context mapping (keys without the ``_context_`` prefix).
    ``mandatory``: the broker must return it when no queue takes it. ``expiration_seconds``: None = never.
    """

    message_id: str
    topic: str
    server: str | None
    method: str
    version: str
    arguments: Mapping[str, Any] = field(repr=False)
    context: Mapping[str, Any] = field(repr=False)
    namespace: str | None = None
    mandatory: bool = True
    expiration_seconds: float | None = None


@quick_init
@dataclass(frozen=True, slots=True)
class Event:
    """One notification. ``priority``: INFO or ERROR (upper case, as on the wire). ``timestamp``: UTC text as Juno's."""

    message_id: str
    publisher_id: str
    event_type: str
    priority: str
    payload: Mapping[str, Any]
    timestamp: str
    context: Mapping[str, Any] = field(default_factory=dict, repr=False)


class Delivery(StrEnum):
    """What the broker said about one published message."""

    CONFIRMED = "confirmed"
    UNDELIVERABLE = "undeliverable"
    UNKNOWN = "unknown"
    """No word in time (connection lost, broker blocked): may or may not have arrived."""

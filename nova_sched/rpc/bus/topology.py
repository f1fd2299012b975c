"""Exchanges and queues: what must exist, declared on a channel, and one clear line when the broker has it otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import amqp

from nova_sched.errors import QueueMismatch
from nova_sched.rpc.bus.settings import Topology

_ACCESS_REFUSED = 403


@dataclass(frozen=True, slots=True)
class ExchangeDeclaration:
    """An exchange that must exist."""

    name: str
    kind: str = "topic"
    durable: bool = True
    auto_delete: bool = False

    def declare(self, channel: amqp.Channel) -> None:
        """:raises QueueMismatch: it exists with other properties."""
        try:
            channel.exchange_declare(
                self.name, self.kind, durable=self.durable, auto_delete=self.auto_delete, nowait=False
            )
        except amqp.PreconditionFailed as error:
            raise _mismatch("exchange", self.name, error) from error


@dataclass(frozen=True, slots=True)
class QueueDeclaration:
    """A queue that must exist, bound to ``exchange`` (None: only reachable through the default exchange)."""

    name: str
    exchange: ExchangeDeclaration | None = None
    routing_key: str = ""
    durable: bool = True
    auto_delete: bool = False
    arguments: tuple[tuple[str, Any], ...] = ()

    def declare(self, channel: amqp.Channel) -> None:
        """:raises QueueMismatch: the queue or its exchange exists with other properties."""
        if self.exchange is not None:
            self.exchange.declare(channel)
        try:
            channel.queue_declare(
                self.name,
                durable=self.durable,
                auto_delete=self.auto_delete,
                arguments=dict(self.arguments) or None,
            )
        except amqp.PreconditionFailed as error:
            raise _mismatch("queue", self.name, error) from error
        if self.exchange is not None:
            channel.queue_bind(self.name, self.exchange.name, self.routing_key)


Declaration = ExchangeDeclaration | QueueDeclaration


def control_exchange(topology: Topology) -> ExchangeDeclaration:
    """The exchange that all RPC and notifications of the service go through."""
    return ExchangeDeclaration(topology.exchange, "topic", topology.durable, topology.auto_delete)


def lasting_queue(topology: Topology, name: str) -> QueueDeclaration:
    """A queue of a topic or of one server, bound by its own name."""
    return QueueDeclaration(
        name,
        control_exchange(topology),
        name,
        topology.durable,
        topology.auto_delete,
        _frozen(topology.queue_arguments),
    )


def fanout_queue(topology: Topology, topic: str, name: str) -> QueueDeclaration:
    """One listener's private queue on the fanout exchange of ``topic``; the broker drops it some time after us."""
    exchange = ExchangeDeclaration(f"{topic}_fanout", "fanout", topology.transient_durable, auto_delete=True)
    return QueueDeclaration(
        name, exchange, topic, topology.transient_durable, False, _frozen(topology.transient_arguments)
    )


def _frozen(arguments: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(arguments.items()))


def _mismatch(kind: str, name: str, error: amqp.AMQPError) -> QueueMismatch:
    said = " ".join(str(getattr(error, "reply_text", None) or error).split())
    return QueueMismatch(
        f"{kind} {name!r} exists in the broker with other properties than configured ({said}); delete it there, or set "
        f"[oslo_messaging_rabbit] amqp_durable_queues, rabbit_quorum_queue and amqp_auto_delete to what it has"
    )

"""What the server loop is given to deal with messages that cannot be processed, and the values it hands over."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from nova_sched.rpc.bus.taken import Taken

LOG = logging.getLogger(__name__)

BatchEnd = Callable[[], None]
PoisonHook = Callable[[Mapping[str, Any] | None, str], None]
"""(message as far as it could be read, or None; reason). May raise StoreUnavailable: then it is called again."""


class Deliveries(Protocol):
    """How often messages were tried that the broker flags as redelivered; ``db`` implements it."""

    def count(self, message_id: str) -> int:
        """Add one and commit; returns the new number. Raises StoreUnavailable."""
        ...

    def forgive(self, message_id: str) -> None:
        """Take one off: the attempt ended in an outage. Raises StoreUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that is given up. ``body`` is whole, secrets included: it goes to the dead-letter queue only."""

    message_id: str
    reason: str
    method: str
    exchange: str
    routing_key: str
    body: bytes = field(repr=False)


class DeadLetterSink(Protocol):
    """Takes dead letters; ``rpc.dead_letters`` implements it on RabbitMQ."""

    def put(self, dead: DeadLetter) -> None:
        """Keep it; returns when the broker has confirmed. Raises BusUnavailable."""
        ...


class LoggedDeadLetters:
    """For transports without a dead-letter queue: the log has said it, the message is gone."""

    def put(self, dead: DeadLetter) -> None:
        """Log the drop, never the body."""
        LOG.error("dropped for want of a dead-letter queue: %s (%s)", dead.message_id, dead.reason)


@dataclass(slots=True)
class Poisoned:
    """A message and why it is given up; ``buried`` once that is recorded."""

    taken: Taken
    error: BaseException
    buried: bool = False

    @property
    def reason(self) -> str:
        """One line for the fault, the header of the dead letter and the log."""
        text = " ".join(str(self.error).split())
        name = type(self.error).__name__
        return (text if name == "MalformedMessage" and text else f"{name}: {text}")[:500]


def letter(taken: Taken, reason: str) -> DeadLetter:
    """The dead letter of a message in hand."""
    return DeadLetter(taken.message_id, reason, taken.method, taken.exchange, taken.routing_key, taken.body)

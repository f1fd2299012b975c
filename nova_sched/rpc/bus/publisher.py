"""Casts to compute and to the scheduler itself, confirmed by the broker in batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Protocol

from nova_sched.errors import BusUnavailable
from nova_sched.model.messages import Cast, Delivery, Event
from nova_sched.rpc.bus.confirms import ConfirmedSender
from nova_sched.rpc.bus.render import render_cast
from nova_sched.rpc.bus.settings import Topology
from nova_sched.rpc.notifications import Notifier
from nova_sched.service.ports import NullObserver, Observer

LOG = logging.getLogger(__name__)
INFO = "INFO"


class CastWire(Protocol):
    """Sends casts somewhere; one word of the broker per cast."""

    @property
    def blocked(self) -> bool:
        """The broker refuses messages for the moment."""
        ...

    def send(self, casts: Sequence[Cast], timeout_seconds: float) -> list[Delivery]:
        """Send all; raises BusUnavailable when none could be sent in time."""
        ...

    def close(self) -> None:
        """Leave."""
        ...


class RabbitCasts:
    """Casts over RabbitMQ with pipelined confirms."""

    def __init__(self, sender: ConfirmedSender, topology: Topology) -> None:
        self._sender = sender
        self._topology = topology

    @property
    def blocked(self) -> bool:
        """See CastWire."""
        return self._sender.blocked

    def send(self, casts: Sequence[Cast], timeout_seconds: float) -> list[Delivery]:
        """See CastWire."""
        return self._sender.send([render_cast(cast, self._topology) for cast in casts], timeout_seconds)

    def close(self) -> None:
        """See CastWire."""
        self._sender.close()


class Publisher:
    """The service's way out (``service.ports.MessageBus``): casts confirmed, INFO events handed over, others confirmed.

    Thread-safe. INFO events never hold a cast back: they are queued for the notifier and answered CONFIRMED.
    """

    def __init__(
        self,
        casts: CastWire,
        notifier: Notifier,
        timeout_seconds: float = 30.0,
        observer: Observer | None = None,
    ) -> None:
        self._casts = casts
        self._notifier = notifier
        self._timeout_seconds = timeout_seconds
        self._observer = observer or NullObserver()

    @property
    def blocked(self) -> bool:
        """The broker does not take messages (memory or disk alarm)."""
        return self._casts.blocked

    @property
    def notifier(self) -> Notifier:
        """The notifier events go through."""
        return self._notifier

    def publish(self, messages: Sequence[Cast | Event]) -> list[Delivery]:
        """Send all; the broker's word on each, in order. An event that must not be lost is UNKNOWN while its bus is away.

        :raises BusUnavailable: nothing could be sent within the publish time-out.
        :raises TypeError: a cast has an argument without JSON form; nothing was sent.
        """
        answers = [Delivery.CONFIRMED] * len(messages)
        casts = [(index, message) for index, message in enumerate(messages) if isinstance(message, Cast)]
        events = [(index, message) for index, message in enumerate(messages) if isinstance(message, Event)]
        if casts:
            began = time.monotonic()
            words = self._casts.send([cast for _, cast in casts], self._timeout_seconds)
            self._observer.observe("confirm_latency", time.monotonic() - began)
            for (index, _), word in zip(casts, words, strict=True):
                answers[index] = word
        self._notifier.emit([event for _, event in events if event.priority == INFO])
        kept = [(index, event) for index, event in events if event.priority != INFO]
        if kept:
            words = self._confirmed([event for _, event in kept])
            for (index, _), word in zip(kept, words, strict=True):
                answers[index] = word
        return answers

    def _confirmed(self, events: Sequence[Event]) -> list[Delivery]:
        """The outbox keeps what is not confirmed, so a notification bus that is away holds nothing back (LP#1917645)."""
        try:
            return self._notifier.publish_confirmed(events)
        except BusUnavailable as error:
            LOG.debug("%d events stay in the outbox: %s", len(events), error)
            return [Delivery.UNKNOWN] * len(events)

    def close(self) -> None:
        """Send what is queued for a moment longer, then leave; idempotent."""
        self._notifier.close()
        self._casts.close()

"""The client: sends until the broker confirms, and sends again what it has no word on (the contract's resend rule)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from nova_sched.errors import BusUnavailable
from nova_sched.model.messages import Delivery
from nova_sched.rpc.bus.confirms import ConfirmedSender
from nova_sched.rpc.bus.frames import Outgoing
from tests.faults.harness.history import History
from tests.faults.harness.orders import Body, delete_instance
from tests.faults.harness.sizes import PATIENCE


class Client:
    """Sends to the scheduler topic and notes in the history what was accepted.

    :param link: ``LinkSettings`` of the broker.
    """

    def __init__(self, link: Any, history: History, exchange: str = "nova", topic: str = "scheduler") -> None:
        self._sender = ConfirmedSender(link, "faults client")
        self._history = history
        self._exchange, self._topic = exchange, topic

    def send(self, orders: Sequence[Body], chunk: int = 200) -> None:
        """Send all; returns when the broker has confirmed each."""
        for start in range(0, len(orders), chunk):
            part = orders[start : start + chunk]
            self.send_bodies([body for _, _, body in part])
            for uuids, attempt, _ in part:
                self._history.accept(uuids, attempt)

    def send_bodies(self, bodies: Sequence[bytes]) -> None:
        """Send bodies as they are, until confirmed."""
        waiting = [self._outgoing(body) for body in bodies]
        until = time.monotonic() + 120 * PATIENCE
        while waiting:
            try:
                words = self._sender.send(waiting, 10.0)
            except BusUnavailable:
                if time.monotonic() > until:
                    raise
                continue
            waiting = [
                one for one, word in zip(waiting, words, strict=True) if word is not Delivery.CONFIRMED
            ]
            if waiting and time.monotonic() > until:
                raise BusUnavailable(f"{len(waiting)} messages were never confirmed: {words[0]}")

    def delete(self, uuids: Iterable[str]) -> None:
        """Say that these are no longer wanted."""
        gone = list(uuids)
        self.send_bodies([delete_instance(one) for one in gone])
        with self._history.lock:
            self._history.deleted.update(gone)

    def close(self) -> None:
        """Leave."""
        self._sender.close()

    def _outgoing(self, body: bytes) -> Outgoing:
        return Outgoing(self._exchange, self._topic, body, uuid.uuid4().hex)

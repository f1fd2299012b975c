"""A message in hand, and the book of what is in hand: who holds what on which connection."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any


@dataclass(slots=True, eq=False)
class Taken:
    """One message handed to the server loop; also what oslo.messaging's dispatcher reads (first three fields).

    ``client_timeout`` stays None: the dispatcher would start a thread per call; the loop itself keeps callers waiting.
    ``poison``: why it cannot be processed (then ``message`` holds what could be read of it, maybe nothing).
    ``wants_reply``: it is a call. ``native``: the library's own message on transports that are not ours.
    ``tag`` and ``generation`` name the delivery on one connection; adoption moves them to a newer one.
    """

    message: dict[str, Any] = field(repr=False)
    ctxt: Mapping[str, Any] = field(repr=False)
    client_timeout: int | None = None
    unique_id: str | None = None
    redelivered: bool = False
    body: bytes = field(default=b"", repr=False)
    exchange: str = ""
    routing_key: str = ""
    poison: str | None = None
    msg_id: str | None = None
    reply_q: str | None = None
    monitor_timeout_seconds: float | None = None
    tag: int = 0
    generation: int = 0
    taken_at: float = field(default_factory=time.monotonic)
    wants_reply: bool = False
    native: Any = field(default=None, repr=False)

    @property
    def method(self) -> str:
        """Name of the method, for logs."""
        return str(self.message.get("method", "?"))

    @property
    def message_id(self) -> str:
        """What tells this message from others over all its deliveries."""
        return self.unique_id or hashlib.sha256(self.body).hexdigest()


class Arrival(Enum):
    """What the book says about a delivery."""

    NEW = auto()
    ADOPTED = auto()
    """Somebody works on it already: his message now carries this delivery."""
    FINISHED = auto()
    """Done before, only the acknowledgement was lost: acknowledge again."""


class Ledger:
    """Deliveries of one listener. Touched by its I/O thread only.

    A connection that breaks makes the broker deliver again whatever was unacknowledged. What is in hand adopts its new
    delivery, what was finished is acknowledged again, what nobody had looked at keeps the ``redelivered`` flag it had.
    """

    def __init__(self, remember: int = 8192) -> None:
        self._remember = remember
        self._generation = 0
        self._in_hand: dict[str, Taken] = {}
        self._finished: OrderedDict[str, None] = OrderedDict()
        self._untouched: OrderedDict[str, bool] = OrderedDict()
        self._tags: dict[int, None] = {}
        self.stale_acknowledgements = 0

    @property
    def outstanding(self) -> int:
        """Deliveries of the present connection without an answer."""
        return len(self._tags)

    def connected(self) -> None:
        """A new connection: tags count from 1 again, older ones are void."""
        self._generation += 1
        self._tags.clear()

    def arrive(self, taken: Taken) -> Arrival:
        """Enter a delivery."""
        taken.generation = self._generation
        self._tags[taken.tag] = None
        uid = taken.unique_id
        if uid is None:
            return Arrival.NEW
        if uid in self._finished:
            return Arrival.FINISHED
        held = self._in_hand.get(uid)
        if held is not None:
            if held.generation == self._generation:
                return Arrival.NEW  # the same message sent twice: two deliveries, decided by their key
            held.tag, held.generation = taken.tag, taken.generation
            return Arrival.ADOPTED
        if taken.redelivered:
            taken.redelivered = self._untouched.pop(uid, True)
        self._in_hand[uid] = taken
        return Arrival.NEW

    def untouched(self, batch: Iterable[Taken]) -> None:
        """These go back without anybody having worked on them (or because of an outage): no suspicion falls on them."""
        for taken in batch:
            self._leave(taken)
            if taken.unique_id:
                self._untouched[taken.unique_id] = taken.redelivered
        _trim(self._untouched, self._remember)

    def finished(self, batch: Iterable[Taken]) -> list[tuple[int, bool]]:
        """(tag, multiple) of the acknowledgements that answer these; stale ones are dropped."""
        tags: set[int] = set()
        for taken in batch:
            self._leave(taken)
            if taken.unique_id:
                self._finished[taken.unique_id] = None
            if taken.generation == self._generation and taken.tag in self._tags:
                tags.add(taken.tag)
            else:
                self.stale_acknowledgements += 1
        _trim(self._finished, self._remember)
        return self._answer(tags)

    def returned(self, batch: Iterable[Taken]) -> list[int]:
        """Tags to reject with requeue."""
        tags = []
        for taken in batch:
            self._leave(taken)
            if taken.generation == self._generation and taken.tag in self._tags:
                del self._tags[taken.tag]
                tags.append(taken.tag)
        return tags

    def _leave(self, taken: Taken) -> None:
        if taken.unique_id and self._in_hand.get(taken.unique_id) is taken:
            del self._in_hand[taken.unique_id]

    def _answer(self, tags: set[int]) -> list[tuple[int, bool]]:
        prefix = 0
        for tag in self._tags:
            if tag not in tags:
                break
            prefix = tag
        answers = [(prefix, True)] if prefix else []
        for tag in tags:
            del self._tags[tag]
            if tag > prefix:
                answers.append((tag, False))
        return answers


def _trim(book: OrderedDict[str, Any], size: int) -> None:
    while len(book) > size:
        book.popitem(last=False)

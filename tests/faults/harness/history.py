"""What was seen from outside: the client's messages, the casts that reached a compute queue, the notifications."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field

Key = tuple[str, int]


@dataclass(frozen=True)
class SeenCast:
    """A build cast that the broker put into a compute queue. ``at``: wall clock of its arrival at the recorder."""

    uuid: str
    attempt: int
    host: str
    at: float
    message_id: str
    launch_index: int | None = None


@dataclass(frozen=True)
class SeenEvent:
    """A notification."""

    event_type: str
    priority: str
    message_id: str
    uuids: tuple[str, ...]
    at: float
    body: bytes = field(repr=False, default=b"")


class History:
    """Thread-safe; grows only."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.accepted: dict[str, int] = {}
        """uuid → highest attempt of a message that the broker confirmed to the client."""
        self.order: list[str] = []
        self.deleted: set[str] = set()
        self.casts: list[SeenCast] = []
        self.events: list[SeenEvent] = []

    def accept(self, uuids: list[str], attempt: int) -> None:
        """The broker has confirmed a message that asks for these."""
        with self.lock:
            for uuid in uuids:
                if uuid not in self.accepted:
                    self.order.append(uuid)
                self.accepted[uuid] = max(attempt, self.accepted.get(uuid, 0))

    def casts_by_key(self) -> dict[Key, list[SeenCast]]:
        """Build casts by (uuid, attempt)."""
        found: dict[Key, list[SeenCast]] = defaultdict(list)
        with self.lock:
            for cast in self.casts:
                found[(cast.uuid, cast.attempt)].append(cast)
        return found

    def errors_by_uuid(self) -> dict[str, set[str]]:
        """Distinct message ids of the ERROR events of each instance."""
        found: dict[str, set[str]] = defaultdict(set)
        with self.lock:
            for event in self.events:
                if event.priority == "ERROR":
                    for uuid in event.uuids:
                        found[uuid].add(event.message_id)
        return found

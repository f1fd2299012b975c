"""How fast a queue that was filled beforehand is worked off, and what each process spends on it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.bus import EVENTS_PER_REQUEST, Room, Sighting
from benchmarks.checks import WrongOutcome
from benchmarks.subjects import Subject, Usage, usage

#: Share of the requests that passes before the clock starts: connections, first statements, caches.
WARM_UP = 0.15
_LOOK_SECONDS = 0.02
_STALLED_SECONDS = 45.0
_SETTLE_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Drained:
    """``rate``: requests per second; ``cpu_ms``: per request, by process; ``rss_mb``: at the end, by process."""

    rate: float
    seconds: float
    cpu_ms: Mapping[str, float]
    rss_mb: Mapping[str, float]


def drain(
    room: Room,
    count: int,
    subjects: Mapping[str, Subject],
    servers: Mapping[str, int],
    events: int = EVENTS_PER_REQUEST,
) -> Drained:
    """Wait until ``count`` casts and their notifications are out and nothing is left behind.

    :param servers: pids of broker and SQL server by name. Raises WrongOutcome.
    """
    _wait(room, count, 0, int(count * WARM_UP))
    first, before = room.look(), _usages(subjects, servers)
    last = _wait(room, count, events, count)
    after = _usages(subjects, servers)
    _settle(room)
    done = last.casts - first.casts
    return Drained(
        rate=done / (last.at - first.at),
        seconds=last.at - first.at,
        cpu_ms={name: (after[name].cpu_seconds - before[name].cpu_seconds) * 1000 / done for name in after},
        rss_mb={name: after[name].rss_mb for name in after},
    )


def _wait(room: Room, count: int, events: int, casts: int) -> Sighting:
    moved = Sighting(time.monotonic(), -1, -1)
    while True:
        seen = room.look()
        if seen.casts >= casts and seen.events >= count * events:
            return seen
        if (seen.casts, seen.events) != (moved.casts, moved.events):
            moved = seen
        elif seen.at > moved.at + _STALLED_SECONDS:
            raise WrongOutcome(
                f"nothing moves: {seen.casts} casts and {seen.events} notifications of {count} requests are out,"
                f" left behind are {room.left_behind()}"
            )
        time.sleep(_LOOK_SECONDS)


def _settle(room: Room) -> None:
    until = time.monotonic() + _SETTLE_SECONDS
    while left := room.left_behind():
        if time.monotonic() > until:
            raise WrongOutcome(f"messages stay behind: {left}")
        time.sleep(0.1)


def _usages(subjects: Mapping[str, Subject], servers: Mapping[str, int]) -> dict[str, Usage]:
    found = {name: subject.usage for name, subject in subjects.items()}
    found.update((name, usage(pid)) for name, pid in servers.items())
    return found


def together(subjects: Sequence[Subject]) -> list[dict[str, float]]:
    """Wait until all of them serve; what they said."""
    return [subject.wait() for subject in subjects]

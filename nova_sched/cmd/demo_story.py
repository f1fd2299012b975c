"""What is known while the demo plays: from notifications, from SQL and from what agents report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nova_sched.bootstrap.connections import Connections
from nova_sched.cmd.demo_scenario import DemoRequest
from nova_sched.db.instances import InstanceDirectory
from nova_sched.rpc.tap import Tap

ENDED = ("active", "error")


@dataclass(slots=True)
class Guest:
    """One instance asked for. ``scheduled``: hosts of its ``.scheduled`` notifications, in order."""

    uuid: str
    name: str
    ends: str
    state: str = "asked for"
    host: str | None = None
    attempt: int = 0
    fault: str | None = None
    scheduled: list[str] = field(default_factory=list)
    error_events: set[str] = field(default_factory=set)


class Story:
    """Collects; :meth:`look` says in lines what is new."""

    def __init__(self, connections: Connections, tap: Tap, played: Sequence[DemoRequest]) -> None:
        self._directory = InstanceDirectory(connections.database())
        self._tap = tap
        self.guests = {
            uuid: Guest(uuid, name, request.ends)
            for request in played
            for uuid, name in zip(request.request.uuids, request.names, strict=True)
        }
        self.hosts: list[Mapping[str, Any]] = []
        self.phases: dict[str, int] = {"start": 0, "end": 0}

    def look(self, wait_seconds: float) -> list[str]:
        """Wait for notifications, read SQL; one line per event."""
        lines = [line for event in self._tap.events(wait_seconds) for line in self._heard(event)]
        lines += list(self._read())
        self.hosts = list(self._directory.get_hosts(None, 100))
        return lines

    @property
    def all_ended(self) -> bool:
        """Every instance is active or in ERROR, and the news of it have come."""
        return (
            all(
                guest.state in ENDED and (guest.state != "error" or guest.error_events)
                for guest in self.guests.values()
            )
            and self.phases["end"] >= self.phases["start"] > 0
        )

    def reported(self) -> int:
        """Guests that agents say they have."""
        return sum(host["running_vms"] or 0 for host in self.hosts)

    def _heard(self, event: Mapping[str, Any]) -> Iterator[str]:
        kind, payload = str(event.get("event_type")), event.get("payload") or {}
        if kind.endswith((".start", ".end")):
            self.phases[kind.rpartition(".")[2]] += 1
        guest = self.guests.get(str(payload.get("instance_id")))
        if guest is None:
            return
        if kind == "scheduler.run_instance.scheduled":
            host = str(payload["weighted_host"]["host"])
            again = f" (attempt {len(guest.scheduled) + 1})" if guest.scheduled else ""
            guest.scheduled.append(host)
            yield f"{guest.name} is scheduled on {host}{again}"
        elif kind == "scheduler.run_instance" and event.get("priority") == "ERROR":
            guest.error_events.add(str(event.get("message_id")))
            yield f"{guest.name} gets no host: {payload.get('reason')}"

    def _read(self) -> Iterator[str]:
        for row in self._directory.list_instances(limit=1000):
            guest = self.guests.get(row["uuid"])
            if guest is None:
                continue
            state = row["vm_state"]
            moved = (state, row["host"], row["attempt"]) != (guest.state, guest.host, guest.attempt)
            guest.state, guest.host, guest.attempt = state, row["host"], row["attempt"]
            if moved and state == "active":
                yield f"{guest.name} is active on {guest.host}"
            elif moved and state == "error":
                found = self._directory.get_instance(guest.uuid)["fault"]
                guest.fault = found["message"] if found else None

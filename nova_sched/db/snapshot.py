"""What the status page and ``nova-sched top`` show (``health.snapshot.Reads``), cheap enough to be asked every second."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from nova_sched.db.engine import Database
from nova_sched.db.tables import claims, faults, hosts, instance_events, instances, outbox, services
from nova_sched.model.states import ClaimState
from nova_sched.settings import FilterSettings

#: Newest rows looked at for the latest instances and for refusals; both are walked by primary key.
_EVENTS_SEEN = 200
_FAULTS_SEEN = 2000
_TOTALS_SECONDS = 10.0
_NUMBER = re.compile(r"\d[\d,.]*")

_HOST_COLUMNS = (
    "host", "node", "memory_mb", "vcpus", "used_vcpus", "used_memory_mb", "used_instances", "claimed_vcpus",
    "claimed_memory_mb", "claimed_instances", "ram_allocation_ratio", "cpu_allocation_ratio",
)  # fmt: skip


class SqlReads:
    """Reads of one database. Methods raise StoreUnavailable.

    :param filters: ratios and ``service_down_time`` in force; asked at each read, since a reload changes them.
    """

    def __init__(self, database: Database, filters: Callable[[], FilterSettings]) -> None:
        self._database = database
        self._filters = filters
        self._totals: tuple[float, Mapping[str, int]] | None = None

    def hosts(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """See ``Reads``: amounts are what may be given to guests, overcommit included."""
        filters = self._filters()
        query = (
            sa.select(
                *(hosts.c[name] for name in _HOST_COLUMNS), services.c.heartbeat_at, services.c.disabled
            )
            .select_from(hosts.outerjoin(services, services.c.host == hosts.c.host))
            .where(hosts.c.removed_at.is_(None))
            .order_by(hosts.c.host, hosts.c.id)
            .limit(limit)
        )

        def read(connection: Connection) -> list[dict[str, Any]]:
            now = self._now(connection)
            return [_host(row, now, filters) for row in connection.execute(query).mappings()]

        return self._database.read(read)

    def latest_instances(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """See ``Reads``: by their newest scheduling event; ``latency_ms`` is what that decision took."""
        newest = (
            sa.select(
                instance_events.c.instance_uuid, instance_events.c.started_at, instance_events.c.finished_at
            )
            .order_by(instance_events.c.id.desc())
            .limit(_EVENTS_SEEN)
        )

        def read(connection: Connection) -> list[dict[str, Any]]:
            latency: dict[str, float | None] = {}
            for event in connection.execute(newest):
                took = None if event.started_at is None else 1000 * (event.finished_at - event.started_at)
                latency.setdefault(event.instance_uuid, took)
            chosen = list(latency)[:limit]
            now = self._now(connection)
            names = ("uuid", "vm_state", "task_state", "host", "attempt", "updated_at")
            query = sa.select(*(instances.c[name] for name in names)).where(instances.c.uuid.in_(chosen))
            found = {row.uuid: row for row in connection.execute(query)}
            return [
                {
                    "uuid": uuid,
                    "vm_state": found[uuid].vm_state,
                    "task_state": found[uuid].task_state,
                    "host": found[uuid].host,
                    "attempt": found[uuid].attempt,
                    "age_seconds": max(0.0, now - found[uuid].updated_at),
                    "latency_ms": latency[uuid],
                }
                for uuid in chosen
                if uuid in found
            ]

        return self._database.read(read)

    def refusals(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """See ``Reads``: reasons that differ in their numbers only are one."""
        query = sa.select(faults.c.message).order_by(faults.c.id.desc()).limit(_FAULTS_SEEN)
        messages = self._database.read(lambda connection: connection.execute(query).scalars().all())
        counts = Counter(_NUMBER.sub("n", message) for message in messages)
        return [{"reason": reason, "count": count} for reason, count in counts.most_common(limit)]

    def totals(self) -> Mapping[str, int]:
        """See ``Reads``; counted every ten seconds, since these walk whole indexes."""
        if self._totals is None or time.monotonic() - self._totals[0] > _TOTALS_SECONDS:
            self._totals = (time.monotonic(), self._database.read(_totals))
        return self._totals[1]

    def _now(self, connection: Connection) -> float:
        return float(connection.execute(sa.text(f"SELECT {self._database.dialect.now}")).scalar_one())


def _host(row: sa.RowMapping, now: float, filters: FilterSettings) -> dict[str, Any]:
    beat = row["heartbeat_at"]
    alive = beat is not None and abs(now - beat) <= filters.service_down_time_seconds
    ram = _room(row["memory_mb"], row["ram_allocation_ratio"] or filters.ram_allocation_ratio)
    vcpus = _room(row["vcpus"], row["cpu_allocation_ratio"] or filters.cpu_allocation_ratio)
    return {
        "host": row["host"],
        "node": row["node"],
        "state": "disabled" if row["disabled"] else "up" if alive else "down",
        "ram_total_mb": ram,
        "ram_free_mb": _left(ram, row["used_memory_mb"], row["claimed_memory_mb"]),
        "vcpus_total": vcpus,
        "vcpus_free": _left(vcpus, row["used_vcpus"], row["claimed_vcpus"]),
        "instances": (row["used_instances"] or 0) + row["claimed_instances"],
    }


def _room(amount: int | None, ratio: float) -> int | None:
    return None if amount is None else int(amount * ratio)


def _left(room: int | None, used: int | None, claimed: int) -> int | None:
    return None if room is None or used is None else room - used - claimed


def _totals(connection: Connection) -> dict[str, int]:
    by_state = (
        sa.select(instances.c.vm_state, sa.func.count())
        .where(instances.c.deleted_at.is_(None))
        .group_by(instances.c.vm_state)
        .order_by(instances.c.vm_state)
    )
    live = sa.select(sa.func.count()).select_from(claims).where(claims.c.state != ClaimState.ENDED)
    waiting = sa.select(sa.func.count()).select_from(outbox)
    return {
        **{f"instances {state or 'unknown'}": int(count) for state, count in connection.execute(by_state)},
        "live claims": int(connection.execute(live).scalar_one()),
        "events waiting": int(connection.execute(waiting).scalar_one()),
    }

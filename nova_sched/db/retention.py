"""Deletes history that nobody needs any more, in small transactions. Live rows and open events are never touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from nova_sched.db.engine import Database
from nova_sched.db.sqltext import Dialect, Statements
from nova_sched.db.tables import decisions
from nova_sched.settings import DeliverySettings, RetentionSettings

#: Redelivery counts and tombstones of hosts are kept this long; both only matter for minutes.
_DAY_SECONDS = 86400


def _purge(d: Dialect, table: str, where: str) -> str:
    """DELETE of at most ``:limit`` rows; MariaDB takes a LIMIT, the others a sub-select."""
    if d.name == "mysql":
        return f"DELETE FROM {table} WHERE {where} LIMIT :limit"
    row = "ctid" if d.name == "postgresql" else "rowid"
    return f"DELETE FROM {table} WHERE {row} IN (SELECT {row} FROM {table} WHERE {where} LIMIT :limit)"


_WHERE = {
    "decisions": ("sched_decisions", "created_at < {now} - :age"),
    "decisions_by_count": ("sched_decisions", "id < :age"),
    "instance_events": ("sched_instance_events", "finished_at < {now} - :age"),
    "claims": ("sched_claims", "state = 'ended' AND state_at < {now} - :age"),
    "deliveries": ("sched_deliveries", "updated_at < {now} - :age"),
    "instances": ("sched_instances", "deleted_at IS NOT NULL AND deleted_at < {now} - :age"),
    "faults": (
        "sched_faults",
        "created_at < {now} - :age"
        " AND NOT EXISTS (SELECT 1 FROM sched_instances i WHERE i.uuid = sched_faults.instance_uuid)",
    ),
    "group_members": (
        "sched_group_members",
        "EXISTS (SELECT 1 FROM sched_instances i WHERE i.uuid = sched_group_members.instance_uuid"
        " AND i.deleted_at < {now} - :age)",
    ),
    "hosts": (
        "sched_hosts",
        "removed_at IS NOT NULL AND removed_at < {now} - :age AND NOT EXISTS"
        " (SELECT 1 FROM sched_claims c WHERE c.host_id = sched_hosts.id AND c.state <> 'ended')",
    ),
}


def _statement(name: str) -> Callable[[Dialect], str]:
    table, where = _WHERE[name]
    return lambda d: _purge(d, table, where.format(now=d.now))


_SQL = Statements(**{name: _statement(name) for name in _WHERE})


@dataclass(frozen=True, slots=True)
class Ages:
    """How long each kind of history is kept, seconds."""

    decisions_max_rows: int
    decisions: float
    instance_events: float
    claims: float
    instances: float
    deliveries: float = _DAY_SECONDS
    hosts: float = _DAY_SECONDS

    @classmethod
    def of(cls, retention: RetentionSettings, delivery: DeliverySettings) -> Ages:
        """From the settings."""
        return cls(
            decisions_max_rows=retention.decisions_max_rows,
            decisions=retention.decisions_max_age_seconds,
            instance_events=retention.events_max_age_seconds,
            claims=delivery.claim_history_seconds,
            instances=retention.deleted_instances_max_age_seconds,
        )


class Retention:
    """Purges; safe to run in several processes at once. Methods raise StoreUnavailable."""

    def __init__(self, database: Database, batch: int = 1000) -> None:
        self._database = database
        self._batch = batch

    def purge(self, ages: Ages, batches_max: int = 20) -> Counter[str]:
        """Delete what is older than ``ages``, at most ``batches_max`` batches per table; rows deleted by table."""
        counts: Counter[str] = Counter()
        for name, age in (
            ("decisions", ages.decisions),
            ("decisions_by_count", self._oldest_kept(ages.decisions_max_rows)),
            ("instance_events", ages.instance_events),
            ("claims", ages.claims),
            ("deliveries", ages.deliveries),
            ("group_members", ages.instances),
            ("instances", ages.instances),
            ("faults", ages.instances),
            ("hosts", ages.hosts),
        ):
            if age is None:
                continue
            for _ in range(batches_max):
                deleted = self._delete(name, age)
                counts[name.removesuffix("_by_count")] += deleted
                if deleted < self._batch:
                    break
        return counts

    def _delete(self, name: str, age: float) -> int:
        return self._database.write(
            lambda connection: _SQL.run(connection, name, age=age, limit=self._batch).rowcount
        )

    def _oldest_kept(self, rows_max: int) -> int | None:
        """Id of the oldest record that may stay; None when there are not too many."""
        query = (
            sa.select(decisions.c.id).order_by(decisions.c.id.desc()).offset(max(0, rows_max - 1)).limit(1)
        )

        def read(connection: Connection) -> int | None:
            return connection.execute(query).scalar()

        return self._database.read(read)

"""Reads of host state for the column table: everything once, then only what changed.

What a read must see is stamped with the change counter (``claims.py``), whose row is the last lock of every writer. So the
order of stamps is the order of commits: a reader that first reads the counter and then the rows stamped above its
cursor misses nothing, however late a transaction commits; no overlap of times is needed. Rows stamped while
the reader is at work come once more with the next read, which does no harm.

A heartbeat alone stamps the service's row only and arrives as (host, time), so that thousands of agents that say
"still here" do not make thousands of wide rows travel. Removed hosts stay as tombstones until retention takes them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from nova_sched.db.engine import Database
from nova_sched.db.sqltext import Statements
from nova_sched.db.tables import aggregate_hosts, aggregate_metadata, aggregates
from nova_sched.hosts.schema import HOST_COLUMNS, Aggregate, HostDelta

_OF_SERVICE = {"heartbeat_seconds": "s.heartbeat_at", "disabled": "s.disabled"}
_COLUMNS = ", ".join(_OF_SERVICE.get(name, f"h.{name}") for name in HOST_COLUMNS)
# The last column says whether the row is a host at all: tombstones and rows without a service are not.
_SELECT = (
    f"SELECT {_COLUMNS}, CASE WHEN h.removed_at IS NULL AND s.id IS NOT NULL THEN 1 ELSE 0 END"  # nosec B608
    " FROM sched_hosts h LEFT JOIN sched_services s ON s.host = h.host"
)
_SQL = Statements(counters=lambda d: f"SELECT name, value, {d.now} FROM sched_change_seq")


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a reader has seen: values of the two change counters."""

    hosts: int
    aggregates: int


class SqlHostSource:
    """``service.ports.HostSource`` on SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read_delta(self, cursor: Cursor | None) -> HostDelta:
        """Rows changed since ``cursor`` (None: all). Nothing changed costs one statement. Raises StoreUnavailable."""
        return self._database.read(lambda connection: self._read(connection, cursor))

    def read_rows(self, host_ids: Collection[int]) -> HostDelta:
        """Fresh rows of these hosts, those gone in ``removed``; the cursor is None. Raises StoreUnavailable."""

        def read(connection: Connection) -> HostDelta:
            now = _counters(connection)[1]
            rows = (
                _fetch(connection, f"h.id IN ({', '.join(str(int(i)) for i in sorted(host_ids))})")
                if host_ids
                else []
            )
            columns, removed = _transpose(rows)
            missing = set(host_ids) - set(columns["id"]) - set(removed)
            return HostDelta(columns, now, removed=[*removed, *sorted(missing)])

        return self._database.read(read)

    def _read(self, connection: Connection, cursor: Cursor | None) -> HostDelta:
        new, now = _counters(connection)
        if cursor is None or new.hosts < cursor.hosts:
            # Counters that went back: the database was restored from a backup.
            return _everything(connection, new, now)
        changed_aggregates = _aggregates(connection) if new.aggregates != cursor.aggregates else None
        if new.hosts == cursor.hosts:
            columns, removed = _transpose([])
            return HostDelta(columns, now, aggregates=changed_aggregates, cursor=new)
        columns, removed = _transpose(_fetch(connection, f"h.changed > {int(cursor.hosts)}"))
        beats = _raw(
            connection,
            "SELECT host, heartbeat_at FROM sched_services"  # nosec B608
            f" WHERE heartbeat_at IS NOT NULL AND changed > {int(cursor.hosts)}",
        )
        return HostDelta(
            columns, now, removed=removed, aggregates=changed_aggregates, cursor=new, heartbeats=dict(beats)
        )


def all_hosts(connection: Connection) -> HostDelta:
    """Every host and aggregate as they are now."""
    return _everything(connection, *_counters(connection))


def _everything(connection: Connection, cursor: Cursor, now_seconds: float) -> HostDelta:
    columns, _ = _transpose(_fetch(connection, "h.removed_at IS NULL"))
    return HostDelta(columns, now_seconds, full=True, aggregates=_aggregates(connection), cursor=cursor)


def _counters(connection: Connection) -> tuple[Cursor, float]:
    rows = _SQL.fetch(connection, "counters")
    values = {row[0]: int(row[1]) for row in rows}
    return Cursor(values["hosts"], values["aggregates"]), float(rows[0][2])


def _fetch(connection: Connection, where: str) -> Sequence[Any]:
    return _raw(connection, f"{_SELECT} WHERE {where} ORDER BY h.id")


def _raw(connection: Connection, statement: str) -> Sequence[Any]:
    """Rows straight from the driver: SQLAlchemy's row objects would cost more than the query."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(statement)
        return cursor.fetchall()
    except Exception as error:
        # The driver's errors are sorted like all others.
        raise sa.exc.DBAPIError.instance(
            statement, None, error, connection.dialect.loaded_dbapi.Error, dialect=connection.dialect
        ) from error
    finally:
        cursor.close()


def _transpose(rows: Sequence[Any]) -> tuple[dict[str, Sequence[Any]], list[int]]:
    """Columns of the rows that are hosts, and the ids of those that are not."""
    removed = [row[0] for row in rows if not row[-1]]
    if removed:
        rows = [row for row in rows if row[-1]]
    if not rows:
        return dict.fromkeys(HOST_COLUMNS, ()), removed
    return dict(zip(HOST_COLUMNS, zip(*rows, strict=True), strict=False)), removed


def _aggregates(connection: Connection) -> list[Aggregate]:
    hosts: dict[int, set[str]] = {}
    for aggregate_id, host in connection.execute(
        sa.select(aggregate_hosts.c.aggregate_id, aggregate_hosts.c.host)
    ):
        hosts.setdefault(aggregate_id, set()).add(host)
    metadata: dict[int, dict[str, str]] = {}
    for aggregate_id, key, value in connection.execute(sa.select(aggregate_metadata)):
        metadata.setdefault(aggregate_id, {})[key] = value
    found = connection.execute(sa.select(aggregates.c.id, aggregates.c.name).order_by(aggregates.c.id))
    return [Aggregate(i, name, frozenset(hosts.get(i, ())), metadata.get(i, {})) for i, name in found]

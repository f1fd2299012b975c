"""Events that must arrive: rows written with the state they tell of, kept until the broker confirmed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from nova_sched.db.codec import event_from_text, event_to_text
from nova_sched.db.engine import Database
from nova_sched.db.sqltext import Statements, new_id
from nova_sched.db.tables import outbox
from nova_sched.model.messages import Event

_SQL = Statements(
    insert=lambda d: d.insert(
        "sched_outbox", {"id": "int", "message_id": "key", "event": "text"}, {"created_at": d.now}
    ),
    remove=lambda d: d.delete("sched_outbox", {"id": "int"}, {}, where="1 = 1"),
    pending=lambda d: (
        f"SELECT id, event FROM sched_outbox WHERE created_at <= {d.now} - :age ORDER BY id LIMIT :limit"
    ),
)


def row_of(event: Event) -> dict[str, Any]:
    """The row of an event; its ``id`` grows with time and is known before the insert."""
    return {"id": new_id(), "message_id": event.message_id, "event": event_to_text(event)}


def insert(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows of :func:`row_of` in the caller's transaction."""
    if rows:
        _SQL.run(connection, "insert", rows)


def remove(connection: Connection, ids: Sequence[int]) -> None:
    """Forget rows in the caller's transaction; unknown ids are fine."""
    if ids:
        _SQL.run(connection, "remove", [{"id": i} for i in sorted(ids)])


class Outbox:
    """What upkeep needs of the outbox: what still waits, and forgetting it. Methods raise StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(self, limit: int = 100, min_age_seconds: float = 0.0) -> list[tuple[int, Event]]:
        """The oldest (outbox id, event) not confirmed yet.

        :param min_age_seconds: leave younger rows to the worker that is publishing them at this moment.
        """
        rows = self._database.read(
            lambda connection: _SQL.fetch(connection, "pending", limit=limit, age=min_age_seconds)
        )
        return [(row[0], event_from_text(row[1])) for row in rows]

    def sent(self, ids: Sequence[int]) -> None:
        """Forget confirmed rows."""
        if ids:
            self._database.write(lambda connection: remove(connection, ids))

    def size(self) -> int:
        """Rows that wait, for metrics."""
        count = self._database.read(
            lambda c: c.execute(sa.select(sa.func.count()).select_from(outbox)).scalar_one()
        )
        return int(count)

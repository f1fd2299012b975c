"""How often each redelivered message was taken up: committed before it is processed, so that a crash is counted too."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from nova_sched.db.codec import name_of
from nova_sched.db.engine import Database
from nova_sched.db.sqltext import Dialect, Statements


def _count(d: Dialect) -> str:
    insert = f"INSERT INTO sched_deliveries (message_id, count, updated_at) VALUES (:message_id, 1, {d.now})"
    if d.name == "mysql":
        return f"{insert} ON DUPLICATE KEY UPDATE count = count + 1, updated_at = {d.now}"
    return f"{insert} ON CONFLICT (message_id) DO UPDATE SET count = sched_deliveries.count + 1, updated_at = {d.now}"


_SQL = Statements(
    count=_count,
    read=lambda d: "SELECT count FROM sched_deliveries WHERE message_id = :message_id",
    forgive=lambda d: (
        "UPDATE sched_deliveries SET count = count - 1 WHERE message_id = :message_id AND count > 0"
    ),
    forget=lambda d: d.delete("sched_deliveries", {"message_id": "key"}, {}, where="1 = 1"),
)


class Deliveries:
    """Counts by message id. Methods raise StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self, message_id: str) -> int:
        """Count one more delivery of this message and commit; the count, from 1."""
        name = name_of(message_id)

        def count(connection: Connection) -> int:
            _SQL.run(connection, "count", message_id=name)
            return int(_SQL.run(connection, "read", message_id=name).scalar_one())

        return self._database.write(count)

    def forgive(self, message_id: str) -> None:
        """Take one off: the attempt ended in an outage, which is nobody's fault."""
        name = name_of(message_id)
        self._database.write(lambda connection: _SQL.run(connection, "forgive", message_id=name).rowcount)

    def forget(self, message_ids: list[str]) -> None:
        """Drop the counts of messages that were processed."""
        if message_ids:
            rows = [{"message_id": name_of(message_id)} for message_id in sorted(message_ids)]
            self._database.write(lambda connection: _SQL.run(connection, "forget", rows).rowcount)

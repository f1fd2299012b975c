"""A diary inside the database, kept by triggers: every change of a host's amounts and of a claim, in commit order.

The code under test does not know of it. A host's row is locked while it changes, so the diary's numbers of one host are
in the order of commits; together with the end states this is what the checker reads.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

_HOST = "host_id, memory_mb, used_memory_mb, claimed_memory_mb, vcpus, used_vcpus, claimed_vcpus, claimed_instances"
_HOST_NEW = (
    "NEW.id, NEW.memory_mb, NEW.used_memory_mb, NEW.claimed_memory_mb, NEW.vcpus, NEW.used_vcpus, NEW.claimed_vcpus,"
    " NEW.claimed_instances"
)
_CLAIM = "uuid, attempt, host_id, state, reason, memory_mb, limits"


def _claim(row: str) -> str:
    names = ("instance_uuid", "attempt", "host_id", "state", "ended_reason", "memory_mb", "limits")
    return ", ".join(f"{row}.{name}" for name in names)


def _tables(identity: str) -> list[str]:
    return [
        f"CREATE TABLE audit_hosts (id {identity}, at DOUBLE PRECISION, host_id BIGINT, memory_mb BIGINT, used_memory_mb"
        " BIGINT, claimed_memory_mb BIGINT, vcpus BIGINT, used_vcpus BIGINT, claimed_vcpus BIGINT, claimed_instances BIGINT)",
        f"CREATE TABLE audit_claims (id {identity}, at DOUBLE PRECISION, op VARCHAR(8), uuid VARCHAR(64), attempt INTEGER,"
        " host_id BIGINT, state VARCHAR(16), reason VARCHAR(32), memory_mb BIGINT, limits TEXT)",
    ]


def _statements(dialect: str) -> list[str]:
    if dialect == "postgresql":
        now = "extract(epoch from clock_timestamp())"
        return [
            *_tables("BIGSERIAL PRIMARY KEY"),
            "CREATE FUNCTION audit_host() RETURNS trigger AS $$ BEGIN"
            f" INSERT INTO audit_hosts (at, {_HOST}) VALUES ({now}, {_HOST_NEW}); RETURN NULL; END $$ LANGUAGE plpgsql",
            "CREATE TRIGGER audit_host AFTER INSERT OR UPDATE ON sched_hosts FOR EACH ROW EXECUTE FUNCTION audit_host()",
            "CREATE FUNCTION audit_claim() RETURNS trigger AS $$ BEGIN IF TG_OP = 'DELETE' THEN"
            f" INSERT INTO audit_claims (at, op, {_CLAIM}) VALUES ({now}, 'delete', {_claim('OLD')}); ELSE"
            f" INSERT INTO audit_claims (at, op, {_CLAIM}) VALUES ({now}, 'write', {_claim('NEW')}); END IF;"
            " RETURN NULL; END $$ LANGUAGE plpgsql",
            "CREATE TRIGGER audit_claim AFTER INSERT OR UPDATE OR DELETE ON sched_claims FOR EACH ROW"
            " EXECUTE FUNCTION audit_claim()",
        ]
    if dialect == "sqlite":
        now, identity, wrap = (
            "(julianday('now') - 2440587.5) * 86400.0",
            "INTEGER PRIMARY KEY AUTOINCREMENT",
            "BEGIN {}; END",
        )
    else:
        now, identity, wrap = "UNIX_TIMESTAMP(SYSDATE(6))", "BIGINT PRIMARY KEY AUTO_INCREMENT", "{}"
    made = _tables(identity)
    for event in ("INSERT", "UPDATE"):
        body = f"INSERT INTO audit_hosts (at, {_HOST}) VALUES ({now}, {_HOST_NEW})"
        made.append(
            f"CREATE TRIGGER audit_host_{event.lower()} AFTER {event} ON sched_hosts FOR EACH ROW {wrap.format(body)}"
        )
    for event, op, row in (
        ("INSERT", "write", "NEW"),
        ("UPDATE", "write", "NEW"),
        ("DELETE", "delete", "OLD"),
    ):
        body = f"INSERT INTO audit_claims (at, op, {_CLAIM}) VALUES ({now}, '{op}', {_claim(row)})"
        made.append(
            f"CREATE TRIGGER audit_claim_{event.lower()} AFTER {event} ON sched_claims FOR EACH ROW {wrap.format(body)}"
        )
    return made


def install(url: str) -> None:
    """Add the diary to a database whose tables exist."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in _statements(engine.dialect.name.replace("mariadb", "mysql")):
            connection.exec_driver_sql(statement)
    engine.dispose()


class Books:
    """Plain reads for the checker, on a connection of its own."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, pool_pre_ping=True)

    def rows(self, query: str, **values: Any) -> list[Any]:
        """All rows of a query."""
        with self._engine.connect() as connection:
            return list(connection.execute(sa.text(query), values))

    def scalar(self, query: str, **values: Any) -> Any:
        """The first value of the first row."""
        return self.rows(query, **values)[0][0]

    def texts_with(self, mark: str) -> list[tuple[str, str]]:
        """(table.column, text) of every text in a table of ours that holds ``mark``."""
        found = []
        inspector = sa.inspect(self._engine)
        for table in inspector.get_table_names():
            if not table.startswith("sched_"):
                continue
            names = [c["name"] for c in inspector.get_columns(table) if isinstance(c["type"], sa.String)]
            for name in names:
                column = sa.column(name)
                query = sa.select(column).select_from(sa.table(table)).where(column.like(f"%{mark}%"))
                with self._engine.connect() as connection:
                    found += [(f"{table}.{name}", row[0]) for row in connection.execute(query)]
        return found

    def close(self) -> None:
        """Leave."""
        self._engine.dispose()

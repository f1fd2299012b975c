"""Transactions that repeat themselves, errors by kind, forks, and the schema's version."""

from __future__ import annotations

import multiprocessing
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from nova_sched.db import schema
from nova_sched.db.engine import Again, Database, normalise_url
from nova_sched.db.sqltext import Statements
from nova_sched.db.tables import metadata
from nova_sched.errors import ConfigurationError, StoreUnavailable
from nova_sched.settings import DatabaseSettings
from nova_sched.testing.servers import SqlServer
from tests.integration.db.worlds import SqlWorld, placed, request


@pytest.mark.parametrize(
    "given, driver",
    [
        ("mysql://u:p@h/nova_sched", "mysql+pymysql"),
        ("mariadb+pymysql://h/x", "mysql+pymysql"),
        ("postgresql://h/x", "postgresql+psycopg"),
        ("postgres://h/x", "postgresql+psycopg"),
        ("postgresql+psycopg://h/x", "postgresql+psycopg"),
        ("sqlite:////tmp/x", "sqlite"),
    ],
)
def test_old_urls_get_the_drivers_of_today(given: str, driver: str) -> None:
    """A Juno nova.conf works unedited."""
    assert normalise_url(given).drivername == driver


def test_a_password_with_special_characters_survives() -> None:
    """LP#1675423 and its kin."""
    assert normalise_url("mysql://u:p%40ss%2Fw@h/x").password == "p@ss/w"


@pytest.mark.parametrize("given", ["nonsense", "oracle://h/x"])
def test_a_wrong_url_is_named_without_its_password(given: str) -> None:
    """Option, and what was expected."""
    with pytest.raises(ConfigurationError, match=r"database\.connection"):
        normalise_url(given)


def test_a_transaction_that_met_another_runs_again(sqlite_url: str) -> None:
    """From its first statement, a bounded number of times."""
    database = Database(DatabaseSettings(connection=sqlite_url, max_retries=3), sleep=lambda seconds: None)
    tries = []

    def work(connection: sa.Connection) -> int:
        tries.append(connection.exec_driver_sql("SELECT 1").scalar())
        if len(tries) < 3:
            raise Again("once more")
        return len(tries)

    assert database.write(work) == 3

    def never(connection: sa.Connection) -> None:
        raise Again("always")

    with pytest.raises(StoreUnavailable, match="gave up after 4 tries"):
        database.write(never)


def test_a_deadlock_is_repeated(sql: SqlWorld) -> None:
    """What the drivers call a deadlock or a serialization failure is worth a second try."""
    if sql.database.dialect.name == "sqlite":
        codes: list[Any] = ["database is locked"]
        make = __import__("sqlite3").OperationalError
    elif sql.database.dialect.name == "mysql":
        codes = [(1213, "Deadlock found"), (1205, "Lock wait timeout exceeded")]
        make = __import__("pymysql").err.OperationalError
    else:
        errors = __import__("psycopg").errors
        codes = [errors.DeadlockDetected, errors.SerializationFailure]
        make = None
    for code in codes:
        tries = []

        def work(connection: sa.Connection, code: Any = code, tries: list[int] = tries) -> None:
            tries.append(1)
            if len(tries) == 1:
                cause = make(*(code if isinstance(code, tuple) else (code,))) if make else code("again")
                raise sa.exc.OperationalError("UPDATE", None, cause)

        sql.database.write(work)
        assert len(tries) == 2


def test_a_failed_transaction_leaves_nothing(sql: SqlWorld) -> None:
    """Whatever was raised inside."""

    def work(connection: sa.Connection) -> None:
        connection.execute(sa.text("INSERT INTO sched_aggregates (name) VALUES ('half')"))
        raise RuntimeError("crash")

    with pytest.raises(RuntimeError):
        sql.database.write(work)
    assert sql.scalar("SELECT count(*) FROM sched_aggregates") == 0


def test_the_database_has_one_clock(sql: SqlWorld) -> None:
    """Seconds since the epoch, as a float."""
    statements = Statements(now=lambda d: f"SELECT {d.now}, {d.now}")
    first = sql.database.read(lambda connection: statements.fetch(connection, "now"))[0][0]
    second = sql.database.read(lambda connection: statements.fetch(connection, "now"))[0][1]
    assert isinstance(first, float)
    assert 0 <= second - first < 30


def test_a_server_that_is_away_is_told_apart_and_comes_back(
    sql_url: str, sql_server: SqlServer | None
) -> None:
    """StoreUnavailable while it is away; the next transaction after its return works, pooled connections or not."""
    if sql_server is None:
        with pytest.raises(StoreUnavailable):
            Database(DatabaseSettings(connection="sqlite:////nowhere/at/all.sqlite")).read(
                lambda c: c.execute(sa.text("SELECT 1")).scalar()
            )
        return
    world = SqlWorld(sql_url)
    host = world.add_host()
    sql_server.stop()
    with pytest.raises(StoreUnavailable):
        world.store.commit([placed(request(1), host)])
    with pytest.raises(StoreUnavailable):
        world.source.read_delta(None)
    sql_server.start()
    assert world.claimed(host)[0] == 0
    assert world.store.commit([placed(request(1), host)])[0].kind == "committed"
    world.database.close()


def test_connections_are_not_shared_with_a_forked_child(sql: SqlWorld) -> None:
    """LP#1330199, LP#1844929: the child opens its own, the parent's go on working."""
    host = sql.add_host()
    parent = _connection_id(sql)
    queue: Any = multiprocessing.get_context("fork").Queue()

    def child() -> None:
        sql.store.commit([placed(request(1), host)])
        queue.put((id(sql.database.engine), _connection_id(sql)))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    _, connection = queue.get(timeout=30)
    process.join(30)
    assert process.exitcode == 0
    if parent is not None:
        assert connection != parent
    assert sql.claimed(host)[0] == 2


def _connection_id(sql: SqlWorld) -> Any:
    statement = {"mysql": "SELECT connection_id()", "postgresql": "SELECT pg_backend_pid()"}
    text = statement.get(sql.database.dialect.name)
    return sql.scalar(text) if text else None


def test_sync_makes_the_tables_that_the_code_describes(sql_url: str) -> None:
    """Migrations and ``tables.py`` say the same; twice is once; the check then passes."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    database = Database(DatabaseSettings(connection=sql_url))
    database.write(lambda connection: None)  # SQLite's file is made by the first write
    assert schema.version(database) is None
    with pytest.raises(ConfigurationError, match="db sync"):
        schema.check(database)
    assert schema.sync(database) == schema.sync(database) == schema.newest()
    schema.check(database)

    def compare(connection: sa.Connection) -> list[Any]:
        options = {"version_table": schema.VERSION_TABLE, "compare_type": False}
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    assert database.write(compare) == []
    database.close()


@pytest.mark.parametrize("kind", ["mysql", "postgresql"])
def test_a_server_that_accepts_and_never_answers_is_given_up(kind: str) -> None:
    """The daemon's parent looks at the tables before it forks; a server that hangs must not hold it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{kind}://u:p@127.0.0.1:{silent.getsockname()[1]}/d"
        began = time.monotonic()
        database = Database(DatabaseSettings(connection=url), connect_timeout_seconds=2)
        with pytest.raises(StoreUnavailable):
            schema.check(database)
        assert time.monotonic() - began < 15
        database.close()


def test_reading_makes_no_sqlite_file(tmp_path: Path) -> None:
    """Looking at tables names the remedy, and any other read says which file is not there."""
    file = tmp_path / "misspelt.sqlite"
    database = Database(DatabaseSettings(connection=f"sqlite:///{file}"))
    for look in (schema.version, schema.check):
        with pytest.raises(
            ConfigurationError, match="a file that exists; to make it run: nova-sched-manage db sync"
        ):
            look(database)
    with pytest.raises(StoreUnavailable, match=r"misspelt\.sqlite: no such file"):
        database.read(lambda connection: connection.execute(sa.text("SELECT 1")).scalar())
    assert not file.exists()


def test_a_database_of_novas_own_is_refused(sqlite_url: str) -> None:
    """Unless the operator says so."""
    database = Database(DatabaseSettings(connection=sqlite_url))

    def make(connection: sa.Connection) -> None:
        connection.execute(sa.text("CREATE TABLE instances (id INTEGER)"))
        connection.execute(sa.text("CREATE TABLE compute_nodes (id INTEGER)"))

    database.write(make)
    with pytest.raises(ConfigurationError, match="compute_nodes, instances"):
        schema.sync(database)
    allowed = Database(DatabaseSettings(connection=sqlite_url, allow_nova_tables=True))
    assert schema.sync(allowed) == schema.newest()


def test_sqlite_is_durable_and_lets_readers_read(sqlite_url: str) -> None:
    """WAL and synchronous=FULL (DELIVERY 26)."""
    database = Database(DatabaseSettings(connection=sqlite_url))
    database.write(lambda connection: None)  # makes the file
    for pragma, value in (("journal_mode", "wal"), ("synchronous", 2)):
        assert database.read(lambda c, pragma=pragma: c.exec_driver_sql(f"PRAGMA {pragma}").scalar()) == value
        assert (
            database.write(lambda c, pragma=pragma: c.exec_driver_sql(f"PRAGMA {pragma}").scalar()) == value
        )
    database.close()

"""One engine per process, transactions that repeat themselves, and errors sorted into three kinds.

A transaction is a function of a connection. It runs from its first statement again after a deadlock, a serialization
failure or a key that another process inserted first, because all of them mean "look again". A server that is away
raises :class:`StoreUnavailable`; whatever else SQL says is a fault of the data or of ours and is passed on.

Isolation: READ COMMITTED on PostgreSQL and MariaDB, rows are locked where a decision depends on them. SQLite: WAL,
``synchronous=FULL``, and each writing transaction begins with ``BEGIN IMMEDIATE``, so it never has to upgrade a lock.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url

from nova_sched.db.sqltext import DIALECTS
from nova_sched.errors import ConfigurationError, StoreUnavailable
from nova_sched.settings import DatabaseSettings

T = TypeVar("T")

#: SQLSTATE of PostgreSQL: serialization failure, deadlock, lock not available.
_POSTGRES_AGAIN = frozenset({"40001", "40P01", "55P03"})
#: MariaDB/MySQL: lock wait time-out, deadlock, record changed since last read.
_MYSQL_AGAIN = frozenset({1205, 1213, 1020})
_SQLITE_BUSY_SECONDS = 30.0
#: pymysql waits for the greeting of a server that has accepted as for any answer.
_TIMEOUTS = {"mysql": ("connect_timeout", "read_timeout"), "postgresql": ("connect_timeout",)}
_DEFAULT_DRIVERS = {
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
}


def normalise_url(connection: str) -> URL:
    """The URL with today's drivers: ``mysql://`` is pymysql, ``postgresql://`` (and ``postgres://``) psycopg.

    Raises ConfigurationError for a text that is no URL and for databases we do not know.
    """
    try:
        url = make_url(connection)
    except sa.exc.ArgumentError as error:
        raise ConfigurationError("database.connection", "(not shown)", "an SQLAlchemy URL") from error
    name = _DEFAULT_DRIVERS.get(url.drivername, url.drivername)
    url = url.set(drivername=name.replace("mariadb+", "mysql+", 1))
    if url.get_backend_name() not in ("sqlite", "mysql", "postgresql"):
        raise ConfigurationError(
            "database.connection", url.render_as_string(hide_password=True), "sqlite, mysql or postgresql"
        )
    if url.get_backend_name() == "mysql" and "charset" not in url.query:
        url = url.update_query_dict({"charset": "utf8mb4"})
    return url


def is_worth_repeating(error: sa.exc.DBAPIError) -> bool:
    """True when the transaction met another one: the same statements may succeed at once."""
    if isinstance(error, sa.exc.IntegrityError):
        return True
    cause = error.orig
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    if state is not None:
        return state in _POSTGRES_AGAIN
    arguments = getattr(cause, "args", ())
    if arguments and isinstance(arguments[0], int):
        return arguments[0] in _MYSQL_AGAIN
    return "locked" in str(cause) or "busy" in str(cause)


def is_away(error: sa.exc.DBAPIError) -> bool:
    """True when the server cannot be reached or cannot serve (shut down, out of disk, no connections left)."""
    return error.connection_invalidated or isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)


class Again(Exception):
    """Raised by a transaction that found a row changed under it: run it again from the start."""


class Database:
    """The SQL of one process. Cheap to make, connects on first use, and again after a fork.

    :param sleep: waits between repeats, seconds.
    :param connect_timeout_seconds: of a server, for programs that look at it once; None: what its driver, or the URL,
        has.
    """

    def __init__(
        self,
        settings: DatabaseSettings,
        sleep: Callable[[float], None] = time.sleep,
        connect_timeout_seconds: int | None = None,
    ) -> None:
        self.url = normalise_url(settings.connection)
        if connect_timeout_seconds is not None:
            names = _TIMEOUTS.get(self.url.get_backend_name(), ())
            self.url = self.url.update_query_dict(dict.fromkeys(names, str(connect_timeout_seconds)))
        self.settings = settings
        self.dialect = DIALECTS[self.url.get_backend_name()]
        self._sleep = sleep
        self._engines: tuple[Engine, Engine] | None = None
        self._pid = 0

    @property
    def _place(self) -> str:
        """The file, or the server and its database; no credentials."""
        place = "/".join(filter(None, (self.url.host, self.url.database)))
        return place or self.url.get_backend_name()

    @property
    def engine(self) -> Engine:
        """The engine for writing transactions, of this very process."""
        return self._own_engines()[0]

    def _own_engines(self) -> tuple[Engine, Engine]:
        """For writing and for reading; those inherited through a fork are dropped without touching their sockets."""
        if self._engines is None or self._pid != os.getpid():
            for inherited in self._engines or ():
                inherited.dispose(close=False)
            self._engines = _make_engines(self.url)
            self._pid = os.getpid()
        return self._engines

    @property
    def missing_file(self) -> str | None:
        """The SQLite file, where there is none yet; only a writing transaction may make it."""
        path = self.url.database
        if self.url.get_backend_name() != "sqlite" or not path or path.startswith((":memory:", "file:")):
            return None
        return None if Path(path).exists() else path

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in one writing transaction, again from the start where that may help; its value is returned.

        Raises StoreUnavailable when the server is away or the repeats are used up, else what SQL or ``work`` raised.
        """
        return self._repeat(work, self._writing)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run ``work``, which only reads, each statement on its own. Raises StoreUnavailable."""
        return self._repeat(work, self._reading)

    def close(self) -> None:
        """Close pooled connections; the object may be used again."""
        if self._pid == os.getpid():
            for engine in self._engines or ():
                engine.dispose()
        self._engines = None

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        if missing := self.missing_file:
            raise StoreUnavailable(f"{missing}: no such file")
        with self._own_engines()[1].connect() as connection:
            yield connection

    def _repeat(self, work: Callable[[Connection], T], scope: Callable[[], Any]) -> T:
        reconnected = False
        for attempt in range(self.settings.max_retries + 1):
            try:
                with scope() as connection:
                    return work(connection)
            except sa.exc.DBAPIError as error:
                if is_worth_repeating(error):
                    if attempt == self.settings.max_retries:
                        if isinstance(error, sa.exc.IntegrityError):
                            raise
                        raise StoreUnavailable(
                            f"gave up after {attempt + 1} tries: {_text(error)}"
                        ) from error
                elif error.connection_invalidated and not reconnected:
                    # A pooled connection that died while idle: the server may well be there.
                    reconnected = True
                    continue
                elif is_away(error):
                    raise StoreUnavailable(f"{self._place}: {_text(error)}") from error
                else:
                    raise
            except Again as error:
                if attempt == self.settings.max_retries:
                    raise StoreUnavailable(f"gave up after {attempt + 1} tries: {error}") from error
            except sa.exc.TimeoutError as error:
                raise StoreUnavailable(f"no free connection: {error}") from error
            self._sleep(random.uniform(0.0, self.settings.retry_interval_seconds * min(2**attempt, 16)))  # nosec B311
        raise AssertionError("unreachable: the last try returns or raises")


def _text(error: sa.exc.DBAPIError) -> str:
    """One line without the statement and its values."""
    return " ".join(str(error.orig).split())[:500]


def _make_engines(url: URL) -> tuple[Engine, Engine]:
    if url.get_backend_name() == "sqlite":
        writer = sa.create_engine(
            url, connect_args={"timeout": _SQLITE_BUSY_SECONDS, "check_same_thread": False}
        )
        event.listen(writer, "connect", _prepare_sqlite)
        event.listen(writer, "begin", _begin_immediate)
        return writer, writer.execution_options(nova_sched_reads=True)
    writer = sa.create_engine(
        url, isolation_level="READ COMMITTED", pool_size=5, max_overflow=15, pool_recycle=3600
    )
    reader = sa.create_engine(
        url,
        isolation_level="AUTOCOMMIT",
        pool_reset_on_return=None,
        pool_size=5,
        max_overflow=15,
        pool_recycle=3600,
    )
    if url.get_backend_name() == "mysql":
        event.listen(writer, "connect", _prepare_mysql)
        event.listen(reader, "connect", _prepare_mysql)
    return writer, reader


def _prepare_sqlite(connection: Any, record: Any) -> None:
    # Transactions are begun by us (below); the driver would begin them late and deferred.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _begin_immediate(connection: Connection) -> None:
    """Take SQLite's one write lock. Its own waiting backs off to 100 ms, in which a busy neighbour commits ten times
    and a waiting worker starves, so we ask again every few milliseconds instead."""
    if connection.get_execution_options().get("nova_sched_reads"):
        return
    cursor = connection.connection.cursor()
    until = time.monotonic() + _SQLITE_BUSY_SECONDS
    cursor.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                cursor.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) and "busy" not in str(error):
                    raise StoreUnavailable(str(error)) from error
                if time.monotonic() > until:
                    raise StoreUnavailable(
                        f"SQLite stayed locked for {_SQLITE_BUSY_SECONDS:.0f} s"
                    ) from error
            time.sleep(random.uniform(0.0005, 0.003))  # nosec B311
    finally:
        cursor.execute(f"PRAGMA busy_timeout = {int(_SQLITE_BUSY_SECONDS * 1000)}")
        cursor.close()


def _prepare_mysql(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(
        "SET SESSION time_zone = '+00:00', sql_mode = 'TRADITIONAL', innodb_lock_wait_timeout = 20"
    )
    cursor.close()

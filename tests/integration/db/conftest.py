"""The worlds of the behaviour suite. Each kind of database is made once and emptied before each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from nova_sched.db.engine import Database
from nova_sched.db.tables import metadata
from nova_sched.testing.servers import MariaDbServer, PostgresServer
from tests.integration.db.worlds import MemoryWorld, SqlWorld, World

KINDS = ("sqlite", "postgres", "mariadb")


@pytest.fixture(scope="session")
def postgres_tables(postgres: PostgresServer) -> Iterator[str]:
    """The URL of one database for all tests of this folder."""
    with postgres.database() as url:
        yield url


@pytest.fixture(scope="session")
def mariadb_tables(mariadb: MariaDbServer) -> Iterator[str]:
    """The URL of one database for all tests of this folder."""
    with mariadb.database() as url:
        yield url


@pytest.fixture
def open_world(request: pytest.FixtureRequest) -> Iterator[Callable[[str], SqlWorld]]:
    """Opens an empty world on the kind of database named."""
    opened = []

    def open_one(kind: str) -> SqlWorld:
        url = request.getfixturevalue("sqlite_url" if kind == "sqlite" else f"{kind}_tables")
        world = SqlWorld(url)
        opened.append(world)
        if kind != "sqlite":
            _empty(world.database)
        return world

    yield open_one
    for world in opened:
        world.database.close()


@pytest.fixture(params=["memory", *KINDS])
def world(request: pytest.FixtureRequest, open_world: Callable[[str], SqlWorld]) -> World:
    """The store in memory and one on each kind of database: the test runs four times."""
    return MemoryWorld() if request.param == "memory" else open_world(request.param)


@pytest.fixture(params=KINDS)
def sql(request: pytest.FixtureRequest, open_world: Callable[[str], SqlWorld]) -> SqlWorld:
    """A world on each kind of database: the test runs three times."""
    return open_world(request.param)


def _empty(database: Database) -> None:
    def empty(connection: sa.Connection) -> None:
        for table in metadata.sorted_tables:
            if table.name == "sched_change_seq":
                connection.execute(table.update().values(value=1))
            elif table.name != "sched_hosts":
                connection.execute(table.delete())
        # Tests count hosts from 1.
        restart = "" if database.dialect.name == "mysql" else " RESTART IDENTITY"
        connection.execute(sa.text(f"TRUNCATE TABLE sched_hosts{restart}"))

    database.write(empty)

"""Fixtures with real servers; load with `pytest_plugins = ["nova_sched.testing.pytest_plugin"]`.

Servers start when the first test asks for them and live until the run ends; each test gets a virtual host or a database of its own. A server
that is not installed fails the test with the package to install, it never skips it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nova_sched.testing.servers import MariaDbServer, PostgresServer, RabbitServer, SqlServer

_SQL_FIXTURES = {"postgresql": "postgres", "mysql": "mariadb"}


@pytest.fixture(scope="session")
def rabbit() -> Iterator[RabbitServer]:
    """One private RabbitMQ node. A test may break it: the next one gets it repaired."""
    with RabbitServer() as server:
        yield server


@pytest.fixture(scope="module")
def rabbit_cluster() -> Iterator[RabbitServer]:
    """Three private RabbitMQ nodes in a cluster, for the length of a module."""
    with RabbitServer(size=3) as server:
        yield server


@pytest.fixture
def rabbit_vhost(rabbit: RabbitServer) -> Iterator[str]:
    """Name of a fresh virtual host of `rabbit`, removed with its queues afterwards."""
    rabbit.repair()
    name = rabbit.create_vhost()
    yield name
    rabbit.repair()
    rabbit.delete_vhost(name)


@pytest.fixture
def transport_url(rabbit: RabbitServer, rabbit_vhost: str) -> str:
    """The oslo.messaging URL of the test's own virtual host."""
    return rabbit.transport_url(rabbit_vhost)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One private PostgreSQL."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDbServer]:
    """One private MariaDB."""
    with MariaDbServer() as server:
        yield server


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path}/nova_sched.sqlite"


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty PostgreSQL database of the test's own."""
    postgres.start()
    with postgres.database() as url:
        yield url


@pytest.fixture
def mariadb_url(mariadb: MariaDbServer) -> Iterator[str]:
    """The URL of an empty MariaDB database of the test's own."""
    mariadb.start()
    with mariadb.database() as url:
        yield url


@pytest.fixture(params=["sqlite", *_SQL_FIXTURES])
def sql_url(request: pytest.FixtureRequest) -> str:
    """An empty database on each supported kind of server in turn: the test runs three times."""
    name = _SQL_FIXTURES.get(request.param, request.param)
    url: str = request.getfixturevalue(f"{name}_url")
    return url


@pytest.fixture
def sql_server(request: pytest.FixtureRequest, sql_url: str) -> SqlServer | None:
    """The server behind `sql_url`, for tests that stop it; None for SQLite."""
    name = _SQL_FIXTURES.get(sql_url.partition("+")[0])
    return request.getfixturevalue(name) if name else None

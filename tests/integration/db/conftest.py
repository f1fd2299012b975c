"""The worlds of the behaviour suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.db.worlds import MemoryWorld, SqlWorld, World


@pytest.fixture(params=["memory", "sqlite", "postgres", "mariadb"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """The store in memory and one on each kind of database: the test runs four times."""
    if request.param == "memory":
        yield MemoryWorld()
        return
    made = SqlWorld(request.getfixturevalue(f"{request.param}_url"))
    yield made
    made.database.close()


@pytest.fixture
def sql(sql_url: str) -> Iterator[SqlWorld]:
    """A world on each kind of database: the test runs three times."""
    made = SqlWorld(sql_url)
    yield made
    made.database.close()

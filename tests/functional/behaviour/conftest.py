"""One service per combination of bus and database, shared by all tests of this folder."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from nova_sched.testing.servers import RabbitServer
from tests.functional.behaviour.cloud import Cloud

DATABASES = ("sqlite", "postgres", "mariadb")
COMBINATIONS = [(bus, sql) for bus in ("process", "rabbitmq") for sql in DATABASES]


@pytest.fixture(scope="module", params=COMBINATIONS, ids=lambda pair: "-".join(pair))
def cloud(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A running service; tests use names and instances of their own."""
    bus, sql = request.param
    folder = tmp_path_factory.mktemp(f"{bus}-{sql}")
    if sql == "sqlite":
        yield from _with_bus(request, bus, f"sqlite:///{folder}/nova_sched.sqlite", folder)
    else:
        with request.getfixturevalue(sql).database() as url:
            yield from _with_bus(request, bus, url, folder)


def _with_bus(request: pytest.FixtureRequest, bus: str, sql_url: str, folder) -> Iterator[Cloud]:
    if bus == "process":
        # The in-process bus is one for the whole interpreter: an exchange of its own keeps tests apart.
        with Cloud(folder, "fake://", sql_url, f"nova-{uuid.uuid4().hex}") as cloud:
            yield cloud
        return
    rabbit: RabbitServer = request.getfixturevalue("rabbit")
    with rabbit.vhost() as vhost, Cloud(folder, rabbit.transport_url(vhost), sql_url, "nova") as cloud:
        yield cloud

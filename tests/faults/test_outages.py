"""Broker and database go away and come back under load. One cloud lives through all of it, in this order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from nova_sched.testing.servers import PostgresServer, RabbitServer
from tests.faults.harness import orders
from tests.faults.harness.cloud import Cloud, Load, descriptors, fresh_database, threads, until
from tests.faults.harness.proxy import Proxy
from tests.faults.harness.sizes import SIZES


class Home:
    """The cloud of this module, the proxy before its broker, and what its workers used when it was new."""

    def __init__(self, cloud: Cloud, proxy: Proxy, postgres: PostgresServer) -> None:
        self.cloud, self.proxy, self.postgres = cloud, proxy, postgres
        self.rabbit = cloud.rabbit
        self.conflicts = Conflicts(cloud.url)
        cloud.client.send(some())
        cloud.settle()
        self.pids = sorted(cloud.worker_pids())
        self.descriptors = [descriptors(pid) for pid in self.pids]
        self.threads = [threads(pid) for pid in self.pids]

    def survive(self, fault: Callable[[Load], None], times: int) -> None:
        """Cause the fault so often under load; everything must be as promised, and the workers those from before."""
        for _ in range(times):
            with Load(self.cloud, some) as load:
                fault(load)
                load.more(20)
            self.cloud.settle()
            self.cloud.check()
            assert sorted(self.cloud.worker_pids()) == self.pids, f"a worker died:\n{self.cloud.log_tail()}"


def some() -> list[orders.Body]:
    """A few requests, one of which finds no host."""
    return [
        *(orders.run_instance(orders.fresh(2)) for _ in range(4)),
        orders.run_instance(orders.fresh(), memory_mb=10_000_000),
    ]


@pytest.fixture(scope="module")
def home(
    tmp_path_factory: pytest.TempPathFactory, rabbit: RabbitServer, postgres: PostgresServer
) -> Iterator[Home]:
    """Two workers that reach the broker through a proxy, six agents that reach it directly."""
    rabbit.repair()
    proxy = Proxy(rabbit.port)
    url = fresh_database(postgres)
    folder = tmp_path_factory.mktemp("outages")
    cloud = Cloud(folder, rabbit, url, workers=2, hosts=6, daemon=True, ports=[proxy.port])
    try:
        yield Home(cloud.start(), proxy, postgres)
    finally:
        rabbit.repair()
        postgres.start()
        cloud.close()
        proxy.close()


def test_all_connections_closed_by_an_operator(home: Home) -> None:
    """connection.close to everybody, agents and client included."""
    home.survive(
        lambda load: assert_some(home.rabbit.close_connections(home.cloud.vhost)), SIZES.broker_faults
    )


def test_all_connections_cut(home: Home) -> None:
    """No goodbye: the sockets are reset."""
    home.survive(
        lambda load: assert_some(home.rabbit.drop_connections(home.cloud.vhost)), SIZES.broker_faults
    )


def test_half_open_connections(home: Home) -> None:
    """The network swallows everything without a word: heartbeats notice, new connections take over."""
    home.survive(lambda load: assert_some(home.proxy.freeze()), SIZES.broker_faults)


def test_a_blocked_broker(home: Home) -> None:
    """Memory alarm: nobody can publish for a while, nothing is lost, and the workers say what they wait for."""

    def block(load: Load) -> None:
        with home.rabbit.blocked():
            until(lambda: "blocks publishing" in home.cloud.log(), 30, "a worker notices the alarm")
            time.sleep(0.5)

    home.survive(block, SIZES.broker_faults)


def test_a_broker_restart(home: Home) -> None:
    """The broker goes down in good order and comes back with its durable queues and persistent messages."""

    def restart(load: Load) -> None:
        node = home.rabbit.nodes[0]
        node.stop_app()
        until(lambda: home.cloud.consumers_or_none() is None, 20, "the broker is down")
        node.start()

    home.survive(restart, SIZES.broker_faults)


def test_a_database_restart(home: Home) -> None:
    """SQL is away for a while: messages are held, not rejected and not counted, and go on when it is back."""

    def restart(load: Load) -> None:
        home.postgres.stop()
        until(lambda: "is held, nothing is lost" in home.cloud.log(), 30, "a worker holds its batch")
        load.more(20)
        home.postgres.start()

    home.survive(restart, SIZES.sql_restarts)
    assert home.cloud.dead_letters() == 0


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_injected_conflicts(home: Home, state: str) -> None:
    """Serialization failures and deadlocks by dice, on rows of hosts and instances: the transaction is repeated."""

    def inject(load: Load) -> None:
        with home.conflicts.of(state):
            load.more(60)

    home.survive(inject, SIZES.sql_conflicts)
    assert home.cloud.dead_letters() == 0


def test_nothing_has_grown(home: Home) -> None:
    """After all that the same workers hold as many descriptors and threads as when they were new."""
    assert sorted(home.cloud.worker_pids()) == home.pids
    for pid, before, before_threads in zip(home.pids, home.descriptors, home.threads, strict=True):
        until(
            lambda pid=pid, before=before: descriptors(pid) <= before + 6,
            30,
            f"descriptors of a worker: {before} before, {descriptors(pid)} now",
        )
        assert threads(pid) <= before_threads + 2
    assert home.cloud.consumers() == 2


def assert_some(amount: int) -> None:
    """The fault met somebody."""
    assert amount > 0


class Conflicts:
    """Makes one in five writes of these tables fail with an SQLSTATE, for the length of a ``with``."""

    TABLES = ("sched_hosts", "sched_instances")

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, poolclass=sa.NullPool)
        self._say("RETURN NEW;")
        with self._engine.begin() as connection:
            for table in self.TABLES:
                connection.exec_driver_sql(
                    f"CREATE TRIGGER conflict BEFORE INSERT OR UPDATE ON {table} FOR EACH STATEMENT"
                    " EXECUTE FUNCTION conflict()"
                )

    @contextmanager
    def of(self, state: str) -> Iterator[None]:
        """Conflicts with this SQLSTATE."""
        self._say(
            f"IF random() < 0.2 THEN RAISE EXCEPTION 'injected' USING ERRCODE = '{state}'; END IF; RETURN NEW;"
        )
        try:
            yield
        finally:
            self._say("RETURN NEW;")

    def _say(self, body: str) -> None:
        with self._engine.begin() as connection:
            connection.exec_driver_sql(
                f"CREATE OR REPLACE FUNCTION conflict() RETURNS trigger AS $$ BEGIN {body} END $$ LANGUAGE plpgsql"
            )

"""The database of a run: hosts put there by reports, and emptied of what a run left without filling it anew."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

import sqlalchemy as sa

from benchmarks import fleets
from nova_sched.db import schema, tables
from nova_sched.db.engine import Database
from nova_sched.reports.apply import ReportSink
from nova_sched.settings import DatabaseSettings
from nova_sched.testing.servers import MariaDbServer, PostgresServer, SqlServer

KINDS = ("sqlite", "postgresql", "mysql")
_REPORTS_PER_BATCH = 500
_LEFT_BY_RUNS = (
    tables.claims, tables.instances, tables.group_members, tables.faults, tables.instance_events, tables.decisions,
    tables.outbox, tables.deliveries,
)  # fmt: skip


class Store:
    """A database with hosts. ``server_pid``: of the SQL server's process, None for SQLite."""

    def __init__(self, url: str, server_pid: int | None) -> None:
        self.url = url
        self.server_pid = server_pid
        self.database = Database(DatabaseSettings(connection=url))

    def fill(self, hosts: int) -> None:
        """Make the tables and let ``hosts`` hosts report."""
        schema.sync(self.database)
        sink = ReportSink(self.database, _no_events, lambda host, uuid: None)
        for start in range(0, hosts, _REPORTS_PER_BATCH):
            for number in range(start, min(hosts, start + _REPORTS_PER_BATCH)):
                node = {
                    "hypervisor_hostname": f"node-{number}",
                    "values": fleets.report_values(number),
                    "instances": [],
                    "full": True,
                }
                service = {
                    "host": f"host-{number}",
                    "epoch": int(time.time()),
                    "seq": 1,
                    "interval_seconds": 10,
                }
                sink.report_state(service, [node])
            sink.apply()

    def empty(self) -> None:
        """Take away what a run left: claims, instances, history; hosts are as they were reported."""

        def clear(connection: sa.Connection) -> None:
            for table in _LEFT_BY_RUNS:
                connection.execute(table.delete())
            nothing = dict.fromkeys(tables.CLAIMED, 0)
            connection.execute(
                tables.hosts.update().values(**nothing, claimed_devices=None, allocation_generation=0)
            )

        self.database.write(clear)

    def count(self, table: sa.Table) -> int:
        """Rows of a table."""
        found = self.database.read(
            lambda c: c.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
        )
        return int(found)

    def heard(self, epoch: int) -> int:
        """Services whose newest report is of this epoch."""
        query = sa.select(sa.func.count()).where(tables.services.c.epoch == epoch)
        return int(self.database.read(lambda c: c.execute(query).scalar_one()))

    def claimed_mb(self) -> tuple[int, int]:
        """RAM that the hosts' columns say is claimed, and the sum of the claims themselves: equal, or something is wrong."""

        def read(connection: sa.Connection) -> tuple[int, int]:
            columns = connection.execute(
                sa.select(sa.func.sum(tables.hosts.c.claimed_memory_mb))
            ).scalar_one()
            rows = sa.select(sa.func.sum(tables.claims.c.memory_mb)).where(tables.claims.c.state == "claimed")
            return int(columns or 0), int(connection.execute(rows).scalar_one() or 0)

        return self.database.read(read)

    def room_for(self, memory_mb: int, ratio: float) -> int:
        """How many guests of that size the hosts' RAM holds."""
        rows = self._ram()
        return sum(int((total * ratio - used - claimed) // memory_mb) for total, used, claimed in rows)

    def oversold(self, ratio: float) -> int:
        """Hosts that carry more than their RAM times the ratio."""
        return sum(1 for total, used, claimed in self._ram() if used + claimed > total * ratio)

    def _ram(self) -> list[tuple[int, int, int]]:
        """(RAM, used by reports, claimed) of each host, MB."""
        hosts = tables.hosts.c
        query = sa.select(hosts.memory_mb, hosts.used_memory_mb, hosts.claimed_memory_mb)
        return [(row[0], row[1], row[2]) for row in self.database.read(lambda c: c.execute(query).all())]

    def close(self) -> None:
        """Let go of the connections."""
        self.database.close()


def _no_events(request: object, reason: str) -> NoReturn:
    raise AssertionError("no instance is lost while hosts report for the first time")


class Stores:
    """Stores of a run, each server started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._servers: dict[str, SqlServer] = {}
        self._stores: dict[tuple[str, int, str], Store] = {}

    def get(self, kind: str, hosts: int, name: str = "bench") -> Store:
        """A store with that many hosts, as after :meth:`Store.empty`; stores of other names stay as they are."""
        found = self._stores.get((kind, hosts, name))
        if found is None:
            found = self._stores[kind, hosts, name] = self._make(kind, hosts, name)
        else:
            found.empty()
        return found

    def _make(self, kind: str, hosts: int, name: str) -> Store:
        if kind == "sqlite":
            store = Store(f"sqlite:///{self._folder}/{name}-{hosts}.sqlite", None)
        else:
            server = self._server(kind)
            store = Store(server.url(server.create_database(f"{name}{hosts}")), _pid(server))
        self._stack.callback(store.close)
        store.fill(hosts)
        return store

    def _server(self, kind: str) -> SqlServer:
        if kind not in self._servers:
            made: SqlServer = PostgresServer() if kind == "postgresql" else MariaDbServer()
            self._servers[kind] = self._stack.enter_context(made)
        return self._servers[kind]

    def close(self) -> None:
        """Stop the servers."""
        self._stack.close()


def _pid(server: SqlServer) -> int | None:
    process = server._process
    return process.pid if process is not None else os.getpid()


@contextmanager
def stores(folder: Path) -> Iterator[Stores]:
    """Stores for the length of a ``with``."""
    made = Stores(folder)
    try:
        yield made
    finally:
        made.close()

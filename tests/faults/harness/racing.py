"""Scheduler processes that race: each has the whole loop on its own connections; only the bus is a recording one."""

from __future__ import annotations

import json
import multiprocessing
import traceback
from collections.abc import Callable
from typing import Any

from nova_sched.db.engine import Database
from nova_sched.db.facts import SqlFactSource
from nova_sched.db.hosts import SqlHostSource
from nova_sched.db.outcomes import SqlOutcomeStore
from nova_sched.hosts.table import HostTable
from nova_sched.model.limits import Limits
from nova_sched.plugins import registry
from nova_sched.service.batch import Batch
from nova_sched.service.ports import VerdictKind
from nova_sched.service.refresh import HostRefresher
from nova_sched.settings import BusSettings, DatabaseSettings, SchedulerSettings, Settings
from nova_sched.testing.fakes import RecordingBus
from nova_sched.wire import inbound
from nova_sched.wire.outbound import Outbound
from tests.faults.harness import orders
from tests.faults.harness.cloud import report_hosts
from tests.integration.db.worlds import placed, request

RACERS = 4
_FORK = multiprocessing.get_context("fork")


def race(url: str, run: Callable[..., None], *arguments: Any) -> None:
    """``run(racer, number, barrier, *arguments)`` in each of four processes. Raises AssertionError with what broke."""
    barrier = _FORK.Barrier(RACERS)
    broken = _FORK.SimpleQueue()
    processes = [
        _FORK.Process(target=_start, args=(url, barrier, broken, number, run, arguments), daemon=True)
        for number in range(RACERS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert broken.empty(), broken.get()
    assert [process.exitcode for process in processes] == [0] * RACERS


def _start(
    url: str, barrier: Any, broken: Any, number: int, run: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    racer = Racer(url)
    try:
        run(racer, number, barrier, *arguments)
    except BaseException:
        broken.put(traceback.format_exc())
        barrier.abort()
        raise
    finally:
        racer.database.close()


class Racer:
    """One scheduler process without a broker."""

    def __init__(self, url: str) -> None:
        self.database = Database(
            DatabaseSettings(connection=url, max_retries=30, retry_interval_seconds=0.01)
        )
        self.bus = RecordingBus()
        self.settings = Settings(scheduler=SchedulerSettings(host_subset_size=1))
        self.batch = Batch(
            driver=registry.load_driver(self.settings.scheduler),
            hosts=HostRefresher(SqlHostSource(self.database), HostTable()),
            facts=SqlFactSource(self.database),
            store=SqlOutcomeStore(self.database),
            bus=self.bus,
            messages=Outbound(BusSettings(host="sched-1")),
            delivery=self.settings.delivery,
        )

    def run(self, amount: int, **order: Any) -> None:
        """So many requests in one batch."""
        for _ in range(amount):
            _, _, body = orders.run_instance(orders.fresh(), **order)
            inner = json.loads(json.loads(body)["oslo.message"])
            self.batch.submit(inbound.run_instance({"request_id": "req-1"}, inner["args"], self.settings))
        self.batch.run()


def last_slot(racer: Racer, number: int, barrier: Any, rounds: int) -> None:
    """Each round one host with room for one guest appears, and a hundred requests want it."""
    for host in range(1, rounds + 1):
        if number == 0:
            report_hosts(racer.database, 1, 1000, first=host)
        barrier.wait(120)
        racer.run(25, memory_mb=1000)
        barrier.wait(120)


def last_slot_of_store(racer: Racer, number: int, barrier: Any, rounds: int) -> None:
    """The same at the store alone, where losers write nothing: as many claims of one host in one transaction."""
    store = SqlOutcomeStore(racer.database)
    for host in range(1, rounds + 1):
        barrier.wait(120)
        outcomes = [
            placed(request(host * 10_000 + number * 1_000 + at), host, limits=Limits(memory_mb=2048))
            for at in range(25)
        ]
        kinds = {verdict.kind for verdict in store.commit(outcomes)}
        assert kinds <= {VerdictKind.COMMITTED, VerdictKind.LOST}


def spread(racer: Racer, number: int, barrier: Any, groups: int) -> None:
    """One member of every group comes through each process at the same time."""
    for group in range(groups):
        barrier.wait(120)
        racer.run(1, memory_mb=1, hints={"group": f"g{group}"})

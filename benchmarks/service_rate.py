"""Rates of the whole service on a queue that was filled beforehand, beside relays that do nothing but relay."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import subjects
from benchmarks.bed import Bed, stage_ms
from benchmarks.bus import Room
from benchmarks.checks import WrongOutcome
from benchmarks.drain import Drained, drain, together
from benchmarks.placed import place_before
from benchmarks.results import Results
from benchmarks.sql import Store
from nova_sched.db import tables

HOSTS = 5000
STOCK = "stock relay"


@dataclass(frozen=True, slots=True)
class Runner:
    """One subject of a comparison. ``store``: kind of database, None for relays; ``count``: workers or threads."""

    name: str
    store: str | None = None
    count: int = 1
    relay: str = "stock"
    requests: int = 5000


def _worker(count: int, store: str) -> Runner:
    return Runner(f"{count} worker{'s' if count > 1 else ''} {store}", store, count)


RELAYS = (
    Runner(STOCK, requests=2500),
    Runner("stock relay 64 threads", count=64, requests=1500),
    Runner("kombu relay", relay="kombu", requests=2500),
)
DURABLE = (
    RELAYS[0], _worker(1, "sqlite"), _worker(1, "postgresql"), _worker(2, "postgresql"), _worker(1, "mysql"),
    _worker(2, "mysql"), _worker(2, "sqlite"), RELAYS[1], RELAYS[2],
)  # fmt: skip
QUORUM = (RELAYS[0], _worker(1, "sqlite"), _worker(2, "postgresql"))


def queue_filled(results: Results, bed: Bed) -> None:
    """Durable queues: relays and workers take turns; rates, ratios to the stock relay, CPU by process and stage."""
    runners = (DURABLE[0], DURABLE[1], DURABLE[3]) if bed.quick else DURABLE
    found = _compare(results, bed, "queue filled", runners, quorum=False)
    for store in ("postgresql", "mysql"):
        one, two = found.get(f"1 worker {store}"), found.get(f"2 workers {store}")
        if one and two:
            ratios = [b / a for a, b in zip(one, two, strict=True)]
            results.add("queue filled", HOSTS, f"2 workers / 1 {store}", "ratio", ratios, "ratio")


def quorum_queues(results: Results, bed: Bed) -> None:
    """The same on quorum queues."""
    _compare(results, bed, "quorum queues", QUORUM, quorum=True)


def _compare(
    results: Results, bed: Bed, workload: str, runners: Sequence[Runner], quorum: bool
) -> Mapping[str, list[float]]:
    """Rates by subject. All take one turn after the other, so that a slow minute of the machine hits each of them."""
    rates: dict[str, list[float]] = defaultdict(list)
    drained: dict[str, list[Drained]] = defaultdict(list)
    ends: dict[str, list[dict[str, float]]] = defaultdict(list)
    for _ in range(1 if bed.quick else 5):
        for runner in runners:
            one, stages = _turn(bed, runner, quorum)
            rates[runner.name].append(one.rate)
            drained[runner.name].append(one)
            ends[runner.name].append(stages)
    for runner in runners:
        name, hosts = runner.name, HOSTS if runner.store else 0
        results.add(workload, hosts, name, "rate", rates[name], "requests/s")
        if name != STOCK:
            ratios = [rate / stock for rate, stock in zip(rates[name], rates[STOCK], strict=True)]
            results.add(workload, hosts, f"{name} / {STOCK}", "ratio", ratios, "ratio")
        for process in drained[name][0].cpu_ms:
            used = [one.cpu_ms[process] for one in drained[name]]
            results.add(workload, hosts, name, f"CPU {process}", used, "ms/request")
            resident = [one.rss_mb[process] for one in drained[name]]
            results.add(workload, hosts, name, f"RSS {process}", resident, "MiB")
        for stage in ends[name][0]:
            spent = [one.get(stage, 0.0) for one in ends[name]]
            results.add(workload, hosts, name, f"CPU of {stage}", spent, "ms/request")
    return rates


def _turn(bed: Bed, runner: Runner, quorum: bool) -> tuple[Drained, dict[str, float]]:
    requests = runner.requests // (2 if bed.quick else 1)
    if quorum and runner.store is None:
        requests //= 2
    with Room(bed.rabbit, quorum) as room:
        room.fill(0, requests)
        if runner.store is None:
            relay = subjects.relay(runner.relay, room.url, runner.count, quorum)
            try:
                together([relay])
                found = drain(room, requests, {"relay": relay}, bed.servers(None))
                relay.stop()
            finally:
                relay.kill()
            return found, {}
        store = bed.stores.get(runner.store, HOSTS)
        return drain_with_workers(bed, room, store, runner.count, requests)


def drain_with_workers(
    bed: Bed, room: Room, store: Store, count: int, requests: int, options: str = ""
) -> tuple[Drained, dict[str, float]]:
    """Let workers work the queue off, and hold the database against what must be in it. Raises WrongOutcome."""
    before = store.count(tables.claims)
    with bed.workers(room, store, count, options) as workers:
        together(list(workers.values()))
        found = drain(room, requests, workers, bed.servers(store))
        ends: list[dict[str, Any]] = [worker.stop() for worker in workers.values()]
    claims = store.count(tables.claims) - before
    in_columns, in_claims = store.claimed_mb()
    if claims != requests or in_columns != in_claims:
        raise WrongOutcome(
            f"{claims} claims of {requests} requests, {in_columns} MB of {in_claims} MB claimed"
        )
    if lost := sum(end["dropped"] for end in ends):
        raise WrongOutcome(f"{lost} notifications were dropped")
    return found, stage_ms(ends, requests)


def placed_before(results: Results, bed: Bed) -> None:
    """The rate with a million instances in the database over the rate with none, taking turns."""
    placed = 100_000 if bed.quick else 1_000_000
    ratios: list[float] = []
    bare = bed.stores.get("sqlite", HOSTS)
    full = bed.stores.get("sqlite", HOSTS, name="placed")
    place_before(full, HOSTS, placed)
    next_number = 0
    for _ in range(1 if bed.quick else 5):
        rates = []
        for store in (full, bare):
            with Room(bed.rabbit) as room:
                room.fill(next_number, 3000)
                rates.append(drain_with_workers(bed, room, store, 1, 3000)[0].rate)
                next_number += 3000
        ratios.append(rates[0] / rates[1])
    results.add("placed before", HOSTS, "1 worker sqlite", f"rate with {placed} / none", ratios, "ratio")
    results.add("placed before", HOSTS, "1 worker sqlite", "rate", statistics.median(rates), "requests/s")


def rivals(results: Results, bed: Bed) -> None:
    """Four schedulers fill a small cloud to four fifths: how many of their decisions the guards refuse."""
    hosts, memory_mb = 500, 16384
    store = bed.stores.get("postgresql", hosts)
    requests = min(int(0.8 * store.room_for(memory_mb, 1.5)), 1500 if bed.quick else 10**9)
    with Room(bed.rabbit) as room:
        room.fill(0, requests, memory_mb=memory_mb)
        with bed.workers(room, store, 4) as workers:
            together(list(workers.values()))
            drain(room, requests, workers, bed.servers(store))
            ends = [worker.stop() for worker in workers.values()]
    lost = sum(
        count for end in ends for name, count in end["counts"].items() if name.startswith("claims_lost")
    )
    if store.oversold(1.5):
        raise WrongOutcome("hosts carry more than their limit")
    results.add(
        "rivals", hosts, "4 workers", "refused guards", 100 * lost / (requests + lost), "% of decisions"
    )

"""What one caller waits: on an idle service, at half of its rate, behind a large request, beside reports."""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

import amqp

from benchmarks import fleets
from benchmarks.bed import Bed
from benchmarks.bus import EXCHANGE, Room
from benchmarks.checks import WrongOutcome
from benchmarks.drain import together
from benchmarks.latency import Stopwatch
from benchmarks.messages import body
from benchmarks.results import Results, p99
from benchmarks.sql import Store

HOSTS = 5000
MANY_HOSTS = 10_000
REPORTS = "scheduler_report"
INTERVAL_SECONDS = 10.0
SUBJECT = "1 worker sqlite"
_WARM_UP = 30


def idle(results: Results, bed: Bed) -> None:
    """One request at a time, with pauses."""
    store = bed.stores.get("sqlite", HOSTS)
    with Room(bed.rabbit) as room, bed.workers(room, store) as workers:
        together(list(workers.values()))
        with Stopwatch(room) as stopwatch:
            samples = []
            for number in range(_WARM_UP + (100 if bed.quick else 500)):
                stopwatch.send(number)
                samples += stopwatch.wait([number])
                time.sleep(0.02)
            results.add("idle", HOSTS, SUBJECT, "latency", [s * 1000 for s in samples[_WARM_UP:]], "ms")


def half_rate(results: Results, bed: Bed) -> None:
    """Requests at half of the rate that was measured on a filled queue."""
    rate = results.find("queue filled", SUBJECT, "rate")
    per_second = (rate.median if rate else 400.0) / 2
    store = bed.stores.get("sqlite", HOSTS)
    with Room(bed.rabbit) as room, bed.workers(room, store) as workers:
        together(list(workers.values()))
        with Stopwatch(room) as stopwatch:
            stopwatch.pace(10**6, _WARM_UP, 50.0)
            samples = stopwatch.pace(0, int(per_second * (5 if bed.quick else 30)), per_second)
    results.add("half rate", HOSTS, SUBJECT, "latency", [s * 1000 for s in samples], "ms")
    results.add("half rate", HOSTS, SUBJECT, "p99 / p50", p99(samples) / statistics.median(samples), "ratio")


def large_request(results: Results, bed: Bed) -> None:
    """One request for 1,000 instances: from its publishing to its last cast."""
    store = bed.stores.get("sqlite", MANY_HOSTS)
    samples = []
    with Room(bed.rabbit) as room, bed.workers(room, store) as workers:
        together(list(workers.values()))
        with Stopwatch(room) as stopwatch:
            stopwatch.pace(10**6, _WARM_UP, 50.0)
            for turn in range(2 if bed.quick else 7):
                first = turn * 1000
                stopwatch.send(first, 1000)
                samples += stopwatch.wait([first], 1000)
    results.add(
        "one batch of 1000", MANY_HOSTS, SUBJECT, "to the last cast", [s * 1000 for s in samples], "ms"
    )


class Agents(threading.Thread):
    """As many agents as there are hosts, each reporting every ten seconds, evenly spread."""

    def __init__(self, room: Room, hosts: int) -> None:
        super().__init__(daemon=True)
        self._connection = room.connect()
        self._channel = self._connection.channel()
        self._hosts = hosts
        self._stopping = threading.Event()
        self.epoch = int(time.time()) + 1
        self.sent = 0

    def run(self) -> None:
        """Send until stopped."""
        began = time.monotonic()
        while not self._stopping.is_set():
            due = int((time.monotonic() - began) * self._hosts / INTERVAL_SECONDS)
            while self.sent < due:
                self._send(self.sent % self._hosts, self.sent // self._hosts + 1)
                self.sent += 1
            self._stopping.wait(0.01)

    def stop(self) -> None:
        """Send no more."""
        self._stopping.set()
        self.join()
        self._connection.close()

    def _send(self, number: int, seq: int) -> None:
        """A heartbeat; every tenth report is full, and every tenth of the others tells one changed value."""
        values: dict[str, Any] = {}
        full = (number + seq) % 10 == 0
        if full:
            values = fleets.report_values(number)
        elif number % 10 == seq % 10:
            values = {"current_workload": seq}
        node = {"hypervisor_hostname": f"node-{number}", "values": values, "instances": None, "full": full}
        service = {
            "host": f"host-{number}",
            "epoch": self.epoch,
            "seq": seq,
            "interval_seconds": INTERVAL_SECONDS,
        }
        message = {"method": "report_state", "version": "1.0", "args": {"service": service, "nodes": [node]}}
        sent = amqp.Message(
            body(message), content_type="application/json", content_encoding="utf-8", delivery_mode=2
        )
        self._channel.basic_publish(sent, EXCHANGE, REPORTS)


def _check_reports(store: Store, room: Room, hosts: int, epoch: int) -> None:
    """Every host that reported is known to have done so. Raises WrongOutcome."""
    until = time.monotonic() + 30.0
    while room.depth(REPORTS) and time.monotonic() < until:
        time.sleep(0.2)
    while (found := store.heard(epoch)) < hosts:
        if time.monotonic() > until:
            raise WrongOutcome(f"{found} hosts were heard of {hosts}")
        time.sleep(0.2)


def reports(results: Results, bed: Bed) -> None:
    """10,000 agents: what their reports cost, and by how much builds wait longer for them."""
    seconds = 12.0 if bed.quick else 60.0
    per_second = 20.0
    for kind in ("sqlite",) if bed.quick else ("sqlite", "postgresql", "mysql"):
        store = bed.stores.get(kind, MANY_HOSTS)
        subject = f"1 worker {kind}"
        with Room(bed.rabbit) as room, bed.workers(room, store) as workers:
            (worker,) = workers.values()
            together([worker])
            with Stopwatch(room) as stopwatch:
                stopwatch.pace(10**6, _WARM_UP, 50.0)
                before = worker.usage.cpu_seconds
                alone = stopwatch.pace(0, int(seconds * per_second), per_second)
                builds_cost = worker.usage.cpu_seconds - before
                agents = Agents(room, MANY_HOSTS)
                agents.start()
                began, before = time.monotonic(), worker.usage.cpu_seconds
                beside = stopwatch.pace(500_000, int(seconds * per_second), per_second)
                spent, took = worker.usage.cpu_seconds - before, time.monotonic() - began
                agents.stop()
            _check_reports(store, room, min(agents.sent, MANY_HOSTS), agents.epoch)
            results.add("reports", MANY_HOSTS, subject, "CPU", max(0.0, spent - builds_cost) / took, "cores")
            results.add("reports", MANY_HOSTS, subject, "reports", agents.sent / took, "reports/s")
            delay = (p99(beside) - p99(alone)) * 1000
            results.add("reports", MANY_HOSTS, subject, "delay of builds at p99", delay, "ms")

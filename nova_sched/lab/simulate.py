"""Plays a trace against a fleet with a real driver, offline: who is placed where, who is refused and why, how full it gets.

Each arrival is one request for one guest. Builds take no time; a guest that ends gives back what it took. Guests that
run already when the trace begins are placed first, in the order of the trace.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nova_sched.hosts.overlay import Overlay
from nova_sched.lab.simulate_measures import Gauge, Sample
from nova_sched.lab.trace import Arrival, Trace
from nova_sched.lab.trace_fleet import Fleet
from nova_sched.model.decision import Refusal
from nova_sched.model.explanation import Explanation
from nova_sched.model.facts import NO_FACTS, Fact, Facts, InstanceFact
from nova_sched.model.request import Amounts, Caller, Flavor, InstanceRef, SchedulingRequest

#: Told of progress after each so many arrivals.
_STEP = 256

REFUSED = -1


@dataclass(frozen=True, slots=True)
class Refused:
    """Arrivals that one filter (or mistake) kept out, and what was said of the first of them."""

    by: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a trace. ``rows``: host row per arrival, ``REFUSED`` where there was none.

    ``refused``: by the filter that took out the most hosts, most frequent first. ``stopped``: ended at the first
    refusal, as asked.
    """

    name: str
    hosts: int
    rows: tuple[int, ...]
    reasons: dict[int, str]
    refused: tuple[Refused, ...]
    samples: tuple[Sample, ...]
    stopped: bool = False

    @property
    def placed(self) -> int:
        """Guests that got a host."""
        return sum(1 for row in self.rows if row != REFUSED)


@dataclass
class _Count:
    count: int = 0
    example: str = ""


@dataclass
class _Running:
    """Guests that run, by the time they end."""

    ends: list[tuple[float, int, int, Amounts]] = field(default_factory=list)

    def add(self, arrival: Arrival, number: int, row: int, amounts: Amounts) -> None:
        if np.isfinite(arrival.end_seconds):
            heapq.heappush(self.ends, (arrival.end_seconds, number, row, amounts))

    def ended(self, seconds: float) -> Iterator[tuple[float, int, int, Amounts]]:
        while self.ends and self.ends[0][0] <= seconds:
            yield heapq.heappop(self.ends)


class Simulation:
    """One trace, one fleet, one driver.

    :param samples: moments at which the fleet is measured, evenly over the time of the trace.
    :param stop_at_refusal: end with the first guest that finds no host.
    """

    def __init__(
        self,
        name: str,
        trace: Trace,
        fleet: Fleet,
        driver: Any,
        *,
        samples: int = 240,
        stop_at_refusal: bool = False,
    ) -> None:
        self._name = name
        self._trace = trace
        self._driver = driver
        self._overlay: Overlay = fleet.table().overlay()
        self._stop = stop_at_refusal
        self._gauge = Gauge(trace, driver, self._overlay, samples)
        self._flavors: dict[tuple[int, int, int], tuple[Flavor, Amounts]] = {}
        self._knows_guests = Fact.INSTANCES_BY_HOST in driver.needs
        self._facts: Facts = NO_FACTS

    def run(self, progress: Callable[[int], None] = lambda done: None) -> Result:
        """Play to the end. ``progress`` gets the number of arrivals done, now and then. Raises PluginError."""
        rng = np.random.default_rng(0)
        rows: list[int] = []
        reasons: dict[int, str] = {}
        counts: dict[str, _Count] = {}
        running = _Running()
        stopped = False
        for number, arrival in enumerate(self._trace.arrivals):
            self._pass_time(arrival.start_seconds, running)
            request = self._request(arrival)
            decision = self._driver.decide(request, self._overlay, self._facts, rng)
            answer = decision.answers[0]
            if isinstance(answer, Refusal):
                rows.append(REFUSED)
                reasons[number] = answer.reason
                tally = counts.setdefault(_refuser(decision.explanation), _Count(example=answer.reason))
                tally.count += 1
                self._gauge.refused += 1
            else:
                row = answer.host_id - 1
                rows.append(row)
                running.add(arrival, number, row, request.amounts)
                self._gauge.placed(row, request.amounts)
                self._know(arrival, request, answer.host, answer.node)
            self._overlay.settle()
            if number % _STEP == 0:
                progress(number)
            if self._stop and rows[-1] == REFUSED:
                stopped = True
                break
        if not stopped:
            self._pass_time(self._gauge.end_seconds, running)
            self._gauge.finish()
        progress(len(rows))
        refused = sorted(counts.items(), key=lambda item: -item[1].count)
        return Result(
            name=self._name,
            hosts=len(self._overlay.view),
            rows=tuple(rows),
            reasons=reasons,
            refused=tuple(Refused(by, one.count, one.example) for by, one in refused),
            samples=tuple(self._gauge.samples),
            stopped=stopped,
        )

    def _pass_time(self, seconds: float, running: _Running) -> None:
        """Let guests end and measure, in the order of time, up to ``seconds``."""
        for end, number, row, amounts in running.ended(seconds):
            self._gauge.until(end)
            self._overlay.consume(row, _given_back(amounts))
            self._gauge.ended(row, amounts)
            self._forget(number, row)
        self._overlay.settle()
        self._gauge.until(seconds)

    def _request(self, arrival: Arrival) -> SchedulingRequest:
        size = (arrival.vcpus, arrival.memory_mb, arrival.disk_gb)
        if size not in self._flavors:
            self._flavors[size] = sized(*size)
        flavor, amounts = self._flavors[size]
        return SchedulingRequest(
            method="run_instance",
            caller=Caller(project_id=arrival.tenant),
            instances=(InstanceRef(arrival.guest, 0),),
            flavor=flavor,
            amounts=amounts,
            project_id=arrival.tenant,
            instance_type_id=flavor.id,
        )

    def _know(self, arrival: Arrival, request: SchedulingRequest, host: str, node: str | None) -> None:
        if not self._knows_guests:
            return
        fact = InstanceFact(arrival.guest, host, node, arrival.tenant, request.instance_type_id)
        by_host = self._facts.instances_by_host
        self._facts = Facts(instances_by_host={**by_host, host: (*by_host.get(host, ()), fact)})

    def _forget(self, number: int, row: int) -> None:
        if not self._knows_guests:
            return
        guest, host = self._trace.arrivals[number].guest, self._overlay.view.hosts[row]
        by_host = self._facts.instances_by_host
        left = tuple(one for one in by_host[host] if one.uuid != guest)
        self._facts = Facts(instances_by_host={**by_host, host: left})


def sized(vcpus: int, memory_mb: int, disk_gb: int) -> tuple[Flavor, Amounts]:
    """A flavor of this size, its id made of the size, and what a built guest of it takes."""
    name = f"{vcpus} vCPU, {memory_mb} MB" + (f", {disk_gb} GB" if disk_gb else "")
    number = (vcpus * 10_000_019 + memory_mb * 1_009 + disk_gb) % (1 << 31)
    flavor = Flavor(number, name, name, vcpus, memory_mb, disk_gb)
    return flavor, Amounts(vcpus, memory_mb, disk_gb * 1024, instances=1, io_ops=0)


def fewest_hosts(
    trace: Trace,
    fleet: Fleet,
    make_driver: Callable[[], Any],
    progress: Callable[[int], None] = lambda done: None,
) -> int | None:
    """The smallest fleet of the same mix on which nobody is refused, by halving; None when this fleet is too small."""

    def enough(count: int) -> bool:
        progress(count)
        run = Simulation("", trace, fleet.of_size(count), make_driver(), samples=0, stop_at_refusal=True)
        return not run.run().refused

    low, high = 0, len(fleet)
    if not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high


def _given_back(amounts: Amounts) -> Amounts:
    return Amounts(-amounts.vcpus, -amounts.memory_mb, -amounts.disk_mb, -amounts.instances, -amounts.io_ops)


def _refuser(explanation: Explanation) -> str:
    """The filter that took out the most hosts; what the request was refused for where no host was looked at."""
    steps = explanation.rounds[-1].steps if explanation.rounds else ()
    if not steps:
        return "request"
    return max(steps, key=lambda step: step.hosts_in - step.hosts_out).name

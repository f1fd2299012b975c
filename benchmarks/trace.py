"""A public cloud's trace, or its synthetic twin, played on a cloud: speed, placements against an oracle, and how well they pack."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from benchmarks.checks import WrongOutcome
from benchmarks.results import Results
from nova_sched.drivers.filtering import FilterDriver
from nova_sched.lab import trace as traces
from nova_sched.lab import trace_fleet
from nova_sched.lab.policies import policy_driver
from nova_sched.lab.simulate import REFUSED, Simulation
from nova_sched.lab.trace import Arrival, Trace
from nova_sched.lab.trace_fleet import Fleet
from nova_sched.lab.trace_twin import twin
from nova_sched.settings import FilterSettings, SchedulerSettings, WeigherSettings

COMPARED = 10_000
FILTERS = FilterSettings(
    enabled=("ComputeFilter", "RamFilter", "CoreFilter"), ram_allocation_ratio=1.0, cpu_allocation_ratio=1.0
)
SPREADING = SchedulerSettings(filters=FILTERS, weighers=WeigherSettings(classes=("RAMWeigher",)))
STACKING = replace(SPREADING, weighers=replace(SPREADING.weighers, ram_weight_multiplier=-1.0))
#: The ways of packing that are compared; "best fit" is the textbook's, over vCPUs and RAM.
PACKING: dict[str, Callable[[], FilterDriver]] = {
    "spreading": lambda: FilterDriver.from_settings(SPREADING),
    "stacking": lambda: FilterDriver.from_settings(STACKING),
    "best fit": lambda: policy_driver("best-fit", SPREADING),
}


def run(results: Results, quick: bool, trace_path: str | None = None, hosts_path: str | None = None) -> None:
    """Play the trace with each way of packing; compare the first requests of the first with the oracle."""
    arrivals = 3_000 if quick else 40_000
    trace = traces.read(trace_path) if trace_path else twin(arrivals)
    trace = _begin(trace, arrivals)
    fleet = trace_fleet.read(hosts_path) if hosts_path else synthetic_fleet(400 if quick else 1500)
    for name, make_driver in PACKING.items():
        simulation = Simulation(name, trace, fleet, make_driver(), samples=50)
        began = time.perf_counter()
        result = simulation.run()
        seconds = time.perf_counter() - began
        if name == "spreading":
            same = as_oracle(trace, fleet, result.rows)
            results.add("trace", len(fleet), "engine", "placements as the oracle's", same, "share")
            rate = len(result.rows) / seconds
            results.add("trace", len(fleet), "engine", "rate", rate, "instances/s")
        results.add("trace", len(fleet), name, "placed", result.placed / len(result.rows), "share")
        used = [one.hosts_used / one.hosts_bound for one in result.samples if one.hosts_bound]
        if used:
            results.add("trace", len(fleet), name, "hosts used / volume bound", median(used), "ratio")


def _begin(trace: Trace, count: int) -> Trace:
    """All guests that run at the start, and the first ``count`` that come after it."""
    running = sum(1 for one in trace.arrivals if one.start_seconds < 0)
    return trace.first(min(len(trace.arrivals), running + count))


def synthetic_fleet(count: int) -> Fleet:
    """Hosts of three sizes as clouds buy them."""
    sizes = ((32, 262_144), (64, 262_144), (96, 786_432))
    rows = [
        {"host": f"host-{n:04d}", "vcpus": str(sizes[n % 3][0]), "memory_mb": str(sizes[n % 3][1])}
        for n in range(count)
    ]
    return trace_fleet.of_rows("synthetic", rows)


def as_oracle(trace: Trace, fleet: Fleet, rows: Sequence[int]) -> float:
    """Share of the first requests that went where plain arithmetic, host by host, sends them.

    The oracle continues from the engine's own choice, so that one difference does not make all later ones. Guests that
    run at the start and those that are compared are both decided. Raises WrongOutcome when fewer than one are compared.
    """
    free = [[float(row["vcpus"]), float(row["memory_mb"])] for row in fleet.rows]
    total = [tuple(pair) for pair in free]
    running: list[tuple[float, int, int, Arrival]] = []
    same = compared = 0
    for number, (arrival, row) in enumerate(zip(trace.arrivals, rows, strict=True)):
        while running and running[0][0] <= arrival.start_seconds:
            _, _, host, gone = heapq.heappop(running)
            free[host][0] += gone.vcpus
            free[host][1] += gone.memory_mb
        if compared < COMPARED:
            compared += 1
            same += _best(free, total, arrival) == row
        if row != REFUSED:
            free[row][0] -= arrival.vcpus
            free[row][1] -= arrival.memory_mb
            if math.isfinite(arrival.end_seconds):
                heapq.heappush(running, (arrival.end_seconds, number, row, arrival))
    if not compared:
        raise WrongOutcome("the trace is empty")
    return same / compared


def _best(free: Sequence[Sequence[float]], total: Sequence[Sequence[float]], arrival: Arrival) -> int:
    """The host with the most free RAM among those that have room; the first of equals; REFUSED where none has."""
    best, most = REFUSED, -math.inf
    for row, (vcpus, ram) in enumerate(free):
        if (
            ram > most
            and vcpus >= arrival.vcpus
            and ram >= arrival.memory_mb
            and total[row][0] >= arrival.vcpus
        ):
            best, most = row, ram
    return best

"""The engine alone: decisions on host tables in memory, without bus and database.

As a program (``python -m benchmarks.engine --hosts N --workloads a,b``) it prints one JSON line per workload; each size
runs in a process of its own, so that the memory of one does not count for the next.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import psutil

from benchmarks import checks, workloads
from benchmarks.churn import Churn
from benchmarks.results import FOLDER, Results
from benchmarks.workloads import Workload
from nova_sched.drivers.filtering import FilterDriver
from nova_sched.hosts.table import HostTable
from nova_sched.model.decision import Decision
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest

#: Requests decided on one overlay, as the service's batches have it.
BATCH = 100
_MEGABYTE = 1 << 20


def run(results: Results, names: Sequence[str], quick: bool) -> None:
    """Measure these workloads at all their sizes, smallest first. Raises CalledProcessError on a wrong outcome."""
    known = workloads.load()
    sizes: dict[int, list[str]] = {}
    for name in names:
        for hosts in known[name].quick if quick else known[name].hosts:
            sizes.setdefault(hosts, []).append(name)
    for hosts in sorted(sizes):
        command = [sys.executable, "-m", "benchmarks.engine", "--hosts", str(hosts)]
        command += ["--workloads", ",".join(sizes[hosts])] + (["--quick"] if quick else [])
        found = subprocess.run(command, check=True, capture_output=True, text=True, cwd=FOLDER.parent)
        for line in found.stdout.splitlines():
            _report(results, hosts, json.loads(line))


def _report(results: Results, hosts: int, found: dict[str, Any]) -> None:
    name, samples = found["workload"], found["samples_ms"]
    metric = "request" if found["instances"] > 1 else "decision"
    results.add(name, hosts, "engine", metric, samples, "ms")
    results.add(name, hosts, "engine", "rate", found["rate"], "instances/s")
    if "rate_ratio" in found:
        results.add(name, hosts, "engine", "rate with 1000000 placed / none", found["rate_ratio"], "ratio")
    if name == "basic":
        results.add(name, hosts, "engine", "RSS", found["rss_mb"], "MiB")
        results.add(name, hosts, "engine", "table loaded", found["load_seconds"], "s")


def measure(workload: Workload, hosts: int, requests: int) -> dict[str, Any]:
    """Check the outcome of a workload, then time it. Raises WrongOutcome."""
    rows = workload.rows(hosts)
    began = time.perf_counter()
    table = workload.table(rows)
    load_seconds = time.perf_counter() - began
    driver, facts = FilterDriver.from_settings(workload.settings), workload.facts()
    tried = _best(workload, driver, table, facts) if workload.retry else ()

    decisions = list(_decided(driver, table, facts, workload.stream(tried), min(requests, 100)))
    checks.check(workload, rows, decisions)
    checks.check_with_oracle(workload, rows, decisions, facts)
    del decisions

    if workload.churn is not None:
        samples = Churn(driver, table, rows, workload, facts).run(requests)
    else:
        samples = _timed(driver, table, facts, workload.stream(tried), requests)
    instances = len(next(workload.stream()).instances)
    return {
        "workload": workload.name,
        "instances": instances,
        "samples_ms": [seconds * 1000 for seconds in samples],
        "rate": instances / float(np.median(samples)),
        "load_seconds": load_seconds,
        "rss_mb": psutil.Process().memory_info().rss / _MEGABYTE,
    }


def _growth(workload: Workload, hosts: int, requests: int) -> dict[str, Any]:
    """The same requests with and without guests on the hosts, taking turns; the ratio of the rates."""
    from dataclasses import replace

    bare = replace(workload, guests_per_host=0)
    pairs = [(measure(workload, hosts, requests), measure(bare, hosts, requests)) for _ in range(3)]
    found = pairs[len(pairs) // 2][0]
    found["rate_ratio"] = float(np.median([full["rate"] / empty["rate"] for full, empty in pairs]))
    return found


def _best(
    workload: Workload, driver: FilterDriver, table: HostTable, facts: Facts
) -> tuple[tuple[str, str | None], ...]:
    """The hosts that the first attempts of a retry workload got."""
    tried: list[tuple[str, str | None]] = []
    for _ in range(workload.retry):
        (decision,) = _decided(driver, table, facts, workload.stream(tuple(tried)), 1)
        tried.append(decision.placements[0].destination)
    return tuple(tried)


def _decided(
    driver: FilterDriver, table: HostTable, facts: Facts, stream: Iterator[SchedulingRequest], count: int
) -> Iterator[Decision]:
    rng = np.random.default_rng(1)
    overlay = table.overlay()
    for _ in range(count):
        yield driver.decide(next(stream), overlay, facts, rng)


def _timed(
    driver: FilterDriver, table: HostTable, facts: Facts, stream: Iterator[SchedulingRequest], count: int
) -> list[float]:
    """Seconds of each request; overlays are made anew as often as the service would, and count where they are made."""
    rng = np.random.default_rng(1)
    requests = [next(stream) for _ in range(count)]
    samples = []
    gc.collect()
    gc.freeze()
    for number, request in enumerate(requests):
        began = time.perf_counter()
        if number % BATCH == 0 or len(request.instances) > 1:
            overlay = table.overlay()
        driver.decide(request, overlay, facts, rng)
        samples.append(time.perf_counter() - began)
    gc.unfreeze()
    return samples


def main() -> None:
    """Measure the named workloads at one size and print a JSON line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--workloads", required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    known = workloads.load()
    for name in options.workloads.split(","):
        workload = known[name]
        requests = max(3, workload.requests // (5 if options.quick else 1))
        found = (_growth if workload.guests_per_host else measure)(workload, options.hosts, requests)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()

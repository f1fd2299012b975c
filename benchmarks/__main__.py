"""``python -m benchmarks [--quick] [--only NAME …]``: measure, print the table, write results and plots.

Ends with 1 when a goal was missed, unless ``--quick``: its runs are too short to say so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

from rich.console import Console

from benchmarks import (
    compare_nova,
    engine,
    plots,
    profiles,
    service_latency,
    service_rate,
    service_start,
    trace,
    workloads,
)
from benchmarks.bed import Bed, bed
from benchmarks.results import OUT, Results

Measurement = Callable[[Results, Bed], None]

#: Rows of the whole service, in the order of measuring: later ones read earlier ones.
SERVICE: dict[str, Measurement] = {
    "rate": service_rate.queue_filled,
    "quorum": service_rate.quorum_queues,
    "idle": service_latency.idle,
    "half-rate": service_latency.half_rate,
    "large-request": service_latency.large_request,
    "start": service_start.start,
    "reports": service_latency.reports,
    "rivals": service_rate.rivals,
    "placed-before": service_rate.placed_before,
    "profile": profiles.profile,
}
QUICK = ("rate", "idle", "large-request", "start")


def main() -> int:
    """Run what was asked for; the exit code."""
    engine_names = list(workloads.load())
    groups = [*engine_names, "trace", "nova", *SERVICE]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer sizes, fewer repetitions: under three minutes"
    )
    parser.add_argument(
        "--only", action="append", choices=[*groups, "engine", "service"], help="one group of rows"
    )
    parser.add_argument("--trace", help="a CSV of VM requests with the columns of the Azure packing trace")
    parser.add_argument("--trace-hosts", help="a CSV of hosts with the columns of the openb cluster")
    options = parser.parse_args()
    wanted = _wanted(options.only, groups, engine_names, options.quick)
    console = Console(width=max(150, Console().width))
    results = Results(console=console)
    began = time.monotonic()
    engine.run(results, [name for name in engine_names if name in wanted], options.quick)
    if "trace" in wanted:
        trace.run(results, options.quick, options.trace, options.trace_hosts)
    if "nova" in wanted:
        compare_nova.measure(results, options.quick)
    service = [name for name in SERVICE if name in wanted]
    if service:
        with ExitStack() as stack:
            ground = stack.enter_context(bed(options.quick))
            for name in service:
                SERVICE[name](results, ground)
    results.print_table()
    results.write()
    plots.draw(results)
    _write_machine(options.quick, time.monotonic() - began)
    for row in results.missed:
        console.print(
            f"missed: {row.workload}, {row.subject}, {row.metric}: {row.median:g} {row.unit}, goal {row.goal}"
        )
    console.print(f"results and plots are in {OUT}")
    return 1 if results.missed and not options.quick else 0


def _wanted(only: list[str] | None, groups: list[str], engine_names: list[str], quick: bool) -> set[str]:
    if only is None:
        return {*engine_names, "trace", "nova", *QUICK} if quick else set(groups)
    wanted = set(only)
    if "engine" in wanted:
        wanted |= {*engine_names, "trace", "nova"}
    if "service" in wanted:
        wanted |= set(QUICK if quick else SERVICE)
    return wanted


def _write_machine(quick: bool, seconds: float) -> None:
    said = {
        "quick": quick,
        "seconds": round(seconds, 1),
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
    }
    (OUT / "machine.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

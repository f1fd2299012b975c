"""Quality on a trace: placements against the row-by-row oracle, and hosts in use against the lower bound by volume.

Plays the packing trace on the openb hosts where ``NOVA_SCHED_TRACES`` names the folder that has both, else the
synthetic twin on hosts of the same kind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.results import Results
from nova_sched.lab import report, trace, trace_fleet, trace_twin
from nova_sched.lab.policies import policy_driver
from nova_sched.lab.report import Contender
from nova_sched.lab.simulate import Simulation
from nova_sched.lab.trace import Trace
from nova_sched.lab.trace_fleet import Fleet
from nova_sched.plugins import registry
from nova_sched.settings import FilterSettings, SchedulerSettings, WeigherSettings
from nova_sched.testing.replaying import oracle_rows

TRACE = "vm_requests_azure_1pct.csv.gz"
HOSTS = "hosts_openb.csv"
#: (vCPUs, GB, share) of the kinds of hosts where the inventory is not there.
_KINDS = ((96, 384, 9), (104, 512, 6), (32, 256, 3), (16, 120, 2))
_ORACLE_REQUESTS, _ORACLE_QUICK = 10_000, 500
_PLAYED, _PLAYED_QUICK = 60_000, 8_000
#: Hosts that the trace fills to nine tenths.
_CROWDED = 520

FILTERS = FilterSettings(
    enabled=("RetryFilter", "AvailabilityZoneFilter", "RamFilter", "CoreFilter", "ComputeFilter"),
    cpu_allocation_ratio=1.0,
    ram_allocation_ratio=1.0,
)
SPREADING = SchedulerSettings(filters=FILTERS)
STACKING = SchedulerSettings(filters=FILTERS, weighers=WeigherSettings(ram_weight_multiplier=-1.0))


def run(results: Results, quick: bool) -> None:
    """Measure both; the metric names are those of ``goals.yaml``."""
    played, fleet = _sources()
    first = played.first(_ORACLE_QUICK if quick else _ORACLE_REQUESTS)
    engine = Simulation("engine", first, fleet, registry.load_driver(SPREADING), samples=0).run().rows
    same = sum(a == b for a, b in zip(engine, oracle_rows(first, fleet, SPREADING), strict=True))
    results.add("trace", len(fleet), "engine", "placements as the oracle's", same / len(engine), "ratio")
    crowded = fleet.of_size(_CROWDED)
    whole = played.first(_PLAYED_QUICK if quick else _PLAYED)
    drivers: Mapping[str, Any] = {
        "spreading": registry.load_driver(SPREADING),
        "stacking": registry.load_driver(STACKING),
        "best fit": policy_driver("best-fit", SPREADING),
    }
    for name, driver in drivers.items():
        begun = time.perf_counter()
        result = Simulation(name, whole, crowded, driver).run()
        found = report.summary(Contender(result, {}, time.perf_counter() - begun))
        results.add("trace", len(crowded), name, "hosts used / lower bound", found["packing"], "ratio")
        results.add("trace", len(crowded), name, "refused", float(found["refused"]), "guests")
        results.add("trace", len(crowded), name, "rate", found["per_second"], "instances/s")


def _sources() -> tuple[Trace, Fleet]:
    folder = Path(os.environ.get("NOVA_SCHED_TRACES", ""))
    if (folder / TRACE).is_file() and (folder / HOSTS).is_file():
        return trace.read(folder / TRACE), trace_fleet.read(folder / HOSTS)
    rows = [
        {"host": f"h{kind}-{number}", "vcpus": str(vcpus), "memory_mb": str(gb * 1024)}
        for number in range(76)
        for kind, (vcpus, gb, share) in enumerate(_KINDS)
        for _ in range(share)
    ]
    named = [{**row, "host": f"{row['host']}-{position}"} for position, row in enumerate(rows)]
    return trace_twin.twin(50_000), trace_fleet.of_rows("made-up", named)

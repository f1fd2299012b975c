"""The packing trace on the openb hosts, where both are at hand; what the synthetic twin stands for elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.lab import trace, trace_fleet
from nova_sched.lab.simulate import Simulation
from nova_sched.settings import FilterSettings, SchedulerSettings
from nova_sched.testing.replaying import oracle_rows

FOLDER = Path(os.environ.get("NOVA_SCHED_TRACES", ""))
TRACE, HOSTS = FOLDER / "vm_requests_azure_1pct.csv.gz", FOLDER / "hosts_openb.csv"
TIGHT = SchedulerSettings(
    filters=FilterSettings(
        enabled=("RamFilter", "CoreFilter", "ComputeFilter"),
        cpu_allocation_ratio=1.0,
        ram_allocation_ratio=1.0,
    )
)


@pytest.mark.skipif(
    not (TRACE.is_file() and HOSTS.is_file()),
    reason="NOVA_SCHED_TRACES does not name the folder with the packing trace and the openb hosts, which are not ours to copy",
)
def test_the_trace_is_placed_as_the_oracle_places_it() -> None:
    """The first guests on a twentieth of the hosts: crowded, so that some are refused."""
    played, fleet = trace.read(TRACE).first(1000), trace_fleet.read(HOSTS).of_size(60)
    found = Simulation("trace", played, fleet, FilterDriver.from_settings(TIGHT), samples=0).run()
    assert list(found.rows) == oracle_rows(played, fleet, TIGHT)
    assert 0 < found.placed < len(played.arrivals)

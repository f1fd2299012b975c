"""A trace played by the row-by-row oracle, to hold simulations against."""

from __future__ import annotations

import heapq

from nova_sched.lab.simulate import REFUSED, sized
from nova_sched.lab.trace import Trace
from nova_sched.lab.trace_fleet import NOW_SECONDS, Fleet
from nova_sched.model.request import Amounts, Caller, InstanceRef, SchedulingRequest
from nova_sched.settings import SchedulerSettings
from nova_sched.testing.oracle import Oracle


def oracle_rows(trace: Trace, fleet: Fleet, settings: SchedulerSettings) -> list[int]:
    """Host row per arrival, ``REFUSED`` where none fits, as plain Python decides one host at a time."""
    rows = [{**row, "id": number} for number, row in enumerate(fleet.rows, 1)]
    oracle = Oracle(settings, rows, fleet.aggregates, now_seconds=NOW_SECONDS)
    running: list[tuple[float, int, int, Amounts]] = []
    found: list[int] = []
    for number, arrival in enumerate(trace.arrivals):
        while running and running[0][0] <= arrival.start_seconds:
            _, _, row, amounts = heapq.heappop(running)
            _give_back(oracle, row, amounts)
        flavor, amounts = sized(arrival.vcpus, arrival.memory_mb, arrival.disk_gb)
        request = SchedulingRequest(
            method="run_instance",
            caller=Caller(project_id=arrival.tenant),
            instances=(InstanceRef(arrival.guest, 0),),
            flavor=flavor,
            amounts=amounts,
            project_id=arrival.tenant,
            instance_type_id=flavor.id,
        )
        chosen = oracle.schedule(request)[0].chosen
        if chosen is None:
            found.append(REFUSED)
            continue
        found.append(chosen - 1)
        heapq.heappush(running, (arrival.end_seconds, number, chosen - 1, amounts))
    return found


def _give_back(oracle: Oracle, row: int, amounts: Amounts) -> None:
    host = oracle.hosts[row]
    host["free_ram"] += amounts.memory_mb
    host["free_disk"] += amounts.disk_mb
    host["vcpus_used"] -= amounts.vcpus
    host["num_instances"] -= amounts.instances

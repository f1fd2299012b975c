"""Faults around the state of hosts, forced placement and aggregates. Named after their reports; they stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.hosts.schema import HOST_COLUMNS, HostDelta
from nova_sched.model.facts import NO_FACTS, Facts
from nova_sched.testing import builders
from nova_sched.testing.builders import NOW_SECONDS, aggregate, host, instance, request
from nova_sched.testing.deciding import decide, hosts_chosen, passing, settings

JUNO = settings(
    ["RetryFilter", "AvailabilityZoneFilter", "RamFilter", "ComputeFilter", "CoreFilter", "DiskFilter"]
)


@pytest.mark.parametrize(
    "column", ["free_ram_mb", "free_disk_gb", "vcpus", "memory_mb", "local_gb", "vcpus_used"]
)
def test_lp1610679_a_half_filled_row_costs_that_host_only(column):
    """A new row of NULLs is skipped where its number is needed; the others are scheduled on (also LP#1654102)."""
    decision = decide([host("new", **{column: None}), host("old")], request(), JUNO)
    assert hosts_chosen(decision) == ["old"]


@pytest.mark.parametrize("ratio", [0.0, None])
def test_lp1789654_a_reported_ratio_of_zero_means_default(ratio):
    """Not zero capacity; an explicit value per host survives refreshes (also LP#1742747)."""
    rows = [
        host("zero", vcpus=32, vcpus_used=32, cpu_allocation_ratio=ratio),
        host("own", vcpus_used=16, cpu_allocation_ratio=1.0),
    ]
    table = builders.table(*rows)
    assert passing("CoreFilter", table, request(vcpus=1)) == ["zero"]
    columns = {name: [row[name] for row in rows] for name in HOST_COLUMNS}
    table.apply(HostDelta({**columns, "id": [1, 2]}, NOW_SECONDS))
    assert passing("CoreFilter", table, request(vcpus=1)) == ["zero"]


def test_lp1553099_a_disabled_host_can_be_forced():
    """Only ComputeFilter leaves it out, and forcing asks no filter."""
    rows = [host("h1"), host("h2", disabled=True)]
    assert hosts_chosen(decide(rows, request(force_hosts=frozenset({"h2"})), JUNO)) == ["h2"]
    assert hosts_chosen(decide(rows[1:], request(), JUNO)) == []


def test_lp1087807_forced_and_ignored_hosts_are_names():
    """Each has the effect it says."""
    rows = [host("h1", free_ram_mb=9000), host("h2", free_ram_mb=5000)]
    assert hosts_chosen(decide(rows, request(ignore_hosts=frozenset({"h1"})), JUNO)) == ["h2"]
    assert hosts_chosen(decide(rows, request(force_hosts=frozenset({"h2"})), JUNO)) == ["h2"]


def test_lp1605804_what_a_deleted_aggregate_said_is_gone():
    """Zone, ratio and kept masks vanish with it, in a process that decided with them before."""
    rows = [host("h1", vcpus_used=20, vcpus=16), host("h2", vcpus_used=20, vcpus=16)]
    own = aggregate("north", ["h1", "h2"], {"availability_zone": "north", "cpu_allocation_ratio": "4"})
    table = builders.table(*rows, aggregates=[own])
    chosen = settings(
        ["AvailabilityZoneFilter", "AggregateCoreFilter"], options={"cpu_allocation_ratio": 1.0}
    )
    driver = FilterDriver.from_settings(chosen)

    def left(zone):
        rng = np.random.default_rng(1)
        return hosts_chosen(driver.decide(request(availability_zone=zone), table.overlay(), NO_FACTS, rng))

    assert left("north") == ["h1"]
    nothing = {name: [] for name in HOST_COLUMNS}
    table.apply(HostDelta(nothing, NOW_SECONDS, aggregates=[aggregate("north", ["h2"], own.metadata)]))
    assert left("north") == ["h2"]
    table.apply(HostDelta(nothing, NOW_SECONDS, aggregates=[]))
    assert left("north") == []
    assert left(None) == []


def test_lp1231963_limits_are_never_left_over():
    """A forced placement has none, whatever an earlier request on the same host had."""
    driver = FilterDriver.from_settings(JUNO)
    overlay = builders.table(host("h1")).overlay()
    rng = np.random.default_rng(1)
    first = driver.decide(request(memory_mb=64), overlay, NO_FACTS, rng)
    forced = driver.decide(request(force_hosts=frozenset({"h1"})), overlay, NO_FACTS, rng)
    assert first.placements[0].limits.memory_mb == 32768 * 1.5
    assert forced.placements[0].limits is None


@pytest.mark.parametrize("hint", ["uuid-1", ("uuid-1",)])
def test_lp1017988_one_id_may_stand_without_a_list(hint):
    """It is not read letter by letter."""
    facts = Facts(hinted_instances={"uuid-1": instance("uuid-1", "h2")})
    rows = [host("h1"), host("h2")]
    assert passing("SameHostFilter", rows, request(hints={"same_host": hint}), facts=facts) == ["h2"]
    assert passing("DifferentHostFilter", rows, request(hints={"different_host": hint}), facts=facts) == [
        "h1"
    ]


def test_lp1709260_host_names_compare_exactly():
    """One rule in all places: case counts, in aggregates, forced and ignored names (also LP#1793747)."""
    rows = [host("compute0")]
    own = [aggregate("a", ["COMPUTE0"], {"availability_zone": "north"})]
    assert passing("AvailabilityZoneFilter", rows, request(availability_zone="north"), aggregates=own) == []
    assert hosts_chosen(decide(rows, request(ignore_hosts=frozenset({"COMPUTE0"})), JUNO)) == ["compute0"]
    assert hosts_chosen(decide(rows, request(force_hosts=frozenset({"COMPUTE0"})), JUNO)) == []

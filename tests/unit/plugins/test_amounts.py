"""Room for a guest: Ram, Core, Disk, their Aggregate* and Exact* forms, IoOps and NumInstances."""

from __future__ import annotations

import pytest

from nova_sched.testing.builders import aggregate, host, request
from nova_sched.testing.deciding import decide, hosts_chosen, passing, reason_of, settings

AMOUNTS = {
    "RAM exactly fits": ("RamFilter", host(free_ram_mb=2048), {}, {"ram_allocation_ratio": 1.0}, True),
    "RAM is one short": ("RamFilter", host(free_ram_mb=2047), {}, {"ram_allocation_ratio": 1.0}, False),
    "RAM is overcommitted by default": ("RamFilter", host(free_ram_mb=0), {}, {}, True),
    "negative free RAM counts": (
        "RamFilter",
        host(free_ram_mb=-1),
        {"memory_mb": 0},
        {"ram_allocation_ratio": 1.0},
        False,
    ),
    "unknown free RAM fails": ("RamFilter", host(free_ram_mb=None), {}, {}, False),
    "unknown total RAM fails": ("RamFilter", host(memory_mb=None), {}, {}, False),
    "guest larger than the RAM": (
        "RamFilter",
        host(memory_mb=4000, free_ram_mb=4000),
        {"memory_mb": 4001},
        {},
        False,
    ),
    "ratio 0 lets nothing in": ("CoreFilter", host(), {}, {"cpu_allocation_ratio": 0.0}, False),
    "reported ratio 0 is the default": (
        "CoreFilter",
        host(vcpus_used=20, cpu_allocation_ratio=0.0),
        {},
        {},
        True,
    ),
    "reported ratio counts": ("CoreFilter", host(vcpus_used=20, cpu_allocation_ratio=1.25), {}, {}, False),
    "vCPUs exactly fit": ("CoreFilter", host(vcpus_used=14), {}, {"cpu_allocation_ratio": 1.0}, True),
    "vCPUs are one short": ("CoreFilter", host(vcpus_used=15), {}, {"cpu_allocation_ratio": 1.0}, False),
    "0 vCPUs means no limit": (
        "CoreFilter",
        host(vcpus=0, vcpus_used=99),
        {},
        {"cpu_allocation_ratio": 1.0},
        True,
    ),
    "unknown vCPUs fail": ("CoreFilter", host(vcpus=None), {}, {}, False),
    "guest with more vCPUs than the host": ("CoreFilter", host(vcpus=1), {}, {}, False),
    "disk exactly fits": ("DiskFilter", host(free_disk_gb=20), {}, {}, True),
    "swap counts in MB": ("DiskFilter", host(free_disk_gb=20), {"swap_mb": 1}, {}, False),
    "ephemeral counts in GB": ("DiskFilter", host(free_disk_gb=21), {"ephemeral_gb": 2}, {}, False),
    "disk overcommit": ("DiskFilter", host(free_disk_gb=0), {}, {"disk_allocation_ratio": 1.1}, True),
    "exact RAM": ("ExactRamFilter", host(free_ram_mb=2048), {}, {}, True),
    "more than exact RAM": ("ExactRamFilter", host(free_ram_mb=2049), {}, {}, False),
    "exact vCPUs": ("ExactCoreFilter", host(vcpus_used=14), {}, {}, True),
    "exact vCPUs of none": ("ExactCoreFilter", host(vcpus=0, vcpus_used=-2), {}, {}, False),
    "exact disk": ("ExactDiskFilter", host(free_disk_gb=20), {}, {}, True),
    "less than exact disk": ("ExactDiskFilter", host(free_disk_gb=19), {}, {}, False),
    "I/O below the maximum": ("IoOpsFilter", host(stats={"io_workload": 7}), {}, {}, True),
    "I/O at the maximum": ("IoOpsFilter", host(stats={"io_workload": 8}), {}, {}, False),
    "broken stats fail": ("IoOpsFilter", host(stats="{"), {}, {}, False),
    "NULL stats are empty": ("NumInstancesFilter", host(stats=None), {}, {}, True),
    "instances at the maximum": ("NumInstancesFilter", host(stats={"num_instances": "50"}), {}, {}, False),
}


@pytest.mark.parametrize("name, row, asked, options, passes", AMOUNTS.values(), ids=AMOUNTS)
def test_amount(name, row, asked, options, passes):
    """One host passes or not, to the last unit."""
    assert passing(name, [row], request(**asked), options=options) == (["alder"] if passes else [])


RATIOS = {
    "largest of one aggregate": ([{"ram_allocation_ratio": "2.0"}], 2.0),
    "numeric minimum, not the smallest text": (
        [{"ram_allocation_ratio": "10.0"}, {"ram_allocation_ratio": "9.0"}],
        9.0,
    ),
    "unparsable values are dropped": ([{"ram_allocation_ratio": "lots"}, {"ram_allocation_ratio": "3"}], 3.0),
    "none left is the option": ([{"ram_allocation_ratio": "lots"}], 1.5),
    "the empty text is no number": ([{"ram_allocation_ratio": ""}], 1.5),
    "nan is no number": ([{"ram_allocation_ratio": "nan"}], 1.5),
    "1_0 is no number": ([{"ram_allocation_ratio": "1_0"}], 1.5),
    "blanks around a number": ([{"ram_allocation_ratio": " 2 "}], 2.0),
    "other keys say nothing": ([{"cpu_allocation_ratio": "2.0"}], 1.5),
}


@pytest.mark.parametrize("metadata, ratio", RATIOS.values(), ids=RATIOS)
def test_aggregate_ratio_makes_the_limit(metadata, ratio):
    """The limit that travels is total x the ratio of the host's aggregates."""
    aggregates = [aggregate(f"g{number}", ["alder"], one) for number, one in enumerate(metadata)]
    decision = decide([host()], request(), settings(["AggregateRamFilter"]), aggregates=aggregates)
    assert decision.placements[0].limits.memory_mb == 32768 * ratio


def test_aggregate_ratio_goes_before_the_reported_one():
    """An operator's aggregate outranks what an agent reports; without one the report counts."""
    row = host(cpu_allocation_ratio=2.0)
    own = [aggregate("g", ["alder"], {"cpu_allocation_ratio": "4"})]
    chosen = settings(["AggregateCoreFilter"])
    assert decide([row], request(), chosen, aggregates=own).placements[0].limits.vcpu == 64
    assert decide([row], request(), chosen).placements[0].limits.vcpu == 32


@pytest.mark.parametrize("text, maximum", [("4", 4), ("9, 3", 8), ("4.5", 8), (" 5 ", 5), ("-1", -1)])
def test_aggregate_maximum_is_a_whole_number(text, maximum):
    """What is no whole number leaves the option (8) in force."""
    aggregates = [aggregate("g", ["alder"], {"max_io_ops_per_host": text})]
    for count in (maximum - 1, maximum):
        row = host(stats={"io_workload": count})
        found = passing("AggregateIoOpsFilter", [row], request(), aggregates=aggregates)
        assert (found == ["alder"]) == (count < maximum)


def test_limits_are_those_of_the_chosen_host():
    """Each resource filter gives its bound; disk in GB for the wire and in MB for the claim."""
    names = ["RamFilter", "CoreFilter", "DiskFilter", "IoOpsFilter", "NumInstancesFilter"]
    limits = decide([host(), host("birch", free_ram_mb=1)], request(), settings(names)).placements[0].limits
    assert (limits.memory_mb, limits.vcpu, limits.disk_gb, limits.disk_mb) == (49152, 256, 500, 512000)
    assert (limits.io_ops, limits.num_instances) == (8, 50)


def test_a_host_without_vcpus_gets_no_limit():
    """0 vCPUs means unknown: no bound travels."""
    assert decide([host(vcpus=0)], request(), settings(["CoreFilter"])).placements[0].limits.vcpu is None


def test_exact_filters_guard_the_whole_machine():
    """The claim of an exact placement is refused if anything changed meanwhile."""
    names = ["ExactRamFilter", "ExactCoreFilter", "ExactDiskFilter"]
    row = host(free_ram_mb=2048, vcpus=2, free_disk_gb=20)
    limits = decide([row], request(), settings(names)).placements[0].limits
    assert (limits.exact_memory, limits.exact_vcpu, limits.exact_disk) == (True, True, True)


def test_guests_of_one_request_consume():
    """Each guest takes its amounts before the next is filtered."""
    rows = [host(vcpus=4, free_ram_mb=20000), host("birch", vcpus=2, free_ram_mb=10000)]
    chosen = settings(["CoreFilter"], options={"cpu_allocation_ratio": 1.0})
    decision = decide(rows, request(count=4), chosen)
    assert hosts_chosen(decision) == ["alder", "alder", "birch"]
    assert "CoreFilter" in reason_of(decision)


def test_reason_has_wanted_and_found():
    """The summary gives the telling numbers and names no host; the explanation of a row gives its own."""
    decision = decide(
        [host(memory_mb=1000, free_ram_mb=-300)], request(memory_mb=400), settings(["RamFilter"])
    )
    assert "most usable 200 MB of 400 MB asked" in reason_of(decision)
    assert "alder" not in reason_of(decision)
    ((_, why),) = decision.explanation.rounds[0].steps[0].refused
    assert why == "asks for 400 MB, usable are 200 MB (total 1000 MB x 1.5 - 1300 used)"

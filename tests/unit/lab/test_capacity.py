"""Counting what fits: the quick ways give what the plain loop gives."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nova_sched.errors import ConfigurationError
from nova_sched.lab.capacity import built, by_halves, capacity, how, in_rounds, one_by_one
from nova_sched.testing import builders
from tests.unit.lab.clouds import host, scene

AMOUNTS = "RamFilter,CoreFilter,DiskFilter,NumInstancesFilter,ComputeFilter"


def random_hosts(seed: int) -> list[dict]:
    """Twelve hosts, some crowded, one of unknown RAM, one silent."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(12):
        ram = int(rng.integers(2, 64)) * 1024
        rows.append(
            host(
                f"h{number}",
                vcpus=int(rng.integers(2, 48)),
                memory_mb=ram,
                free_ram_mb=int(rng.integers(-2048, ram)),
                vcpus_used=int(rng.integers(0, 20)),
                free_disk_gb=int(rng.integers(0, 500)),
                stats=json.dumps({"num_instances": str(int(rng.integers(0, 12)))}),
            )
        )
    rows[3]["free_ram_mb"] = None
    rows[5]["service"] = {"host": "h5", "disabled": False, "updated_at": "2026-12-01T11:00:00"}
    return rows


@pytest.mark.parametrize("seed", range(8))
def test_every_way_counts_what_the_plain_loop_counts(seed: int) -> None:
    """Doubling and halving, one more everywhere, one by one: the same number on each host."""
    config = {"scheduler_default_filters": AMOUNTS, "max_instances_per_host": 20, "cpu_allocation_ratio": 2.0}
    rng = np.random.default_rng(seed)
    request = built(
        builders.request(vcpus=int(rng.integers(1, 4)), memory_mb=int(rng.integers(128, 4096)), root_gb=5)
    )
    found = []
    for way in (by_halves, in_rounds, one_by_one):
        made = scene(random_hosts(seed), config)
        filling = way(made, request, made.facts(request))
        assert filling is not None
        found.append(filling.counts.tolist())
    assert found[0] == found[1] == found[2]
    assert sum(found[0]) > 0


def test_amounts_are_counted_by_halves() -> None:
    """The filters of amounts refuse for good; nothing else is asked that changes."""
    made = scene([host("alder")], {"scheduler_default_filters": AMOUNTS})
    request = builders.request()
    assert how(made.driver.filters, request, made.facts(request)) is by_halves


def test_a_query_over_amounts_is_counted_in_rounds() -> None:
    """``free_ram_mb < 32000`` refuses the first guest only, so halving would go wrong."""
    made = scene([host("alder", free_ram_mb=31999)], {"scheduler_default_filters": "RamFilter,JsonFilter"})
    query = json.dumps([">", "$free_ram_mb", 20000])
    request = builders.request(memory_mb=1024, hints={"query": query})
    assert how(made.driver.filters, request, made.facts(request)) is in_rounds
    assert capacity(made, request).guests == 12


def test_members_of_a_group_are_counted_one_by_one() -> None:
    """Anti-affinity leaves room for one member on each host that has none."""
    group = {"uuid": "g-1", "name": "web", "policies": ["anti-affinity"], "members": ["i-1"]}
    guests = [{"uuid": "i-1", "host": "alder", "node": "alder.lab"}]
    made = scene([host("alder"), host("birch"), host("cedar")], server_groups=[group], instances=guests)
    found = capacity(made, builders.request(group="g-1"))
    assert found.guests == 2
    assert "ServerGroupAntiAffinityFilter" in found.reason
    assert {name: count for name, _, count in found.per_host} == {"alder": 0, "birch": 1, "cedar": 1}


def test_shares_per_zone_and_aggregate_name_what_closes_them() -> None:
    """A host counts in each of its aggregates, and in the default zone without one."""
    aggregates = [{"name": "north", "hosts": ["alder"], "metadata": {"availability_zone": "n"}}]
    made = scene(
        [host("alder"), host("birch", vcpus=4)],
        {
            "scheduler_default_filters": "RamFilter,CoreFilter",
            "cpu_allocation_ratio": 1.0,
            "ram_allocation_ratio": 1.0,
        },
        aggregates=aggregates,
    )
    found = capacity(made, builders.request(vcpus=1, memory_mb=4096))
    assert [(one.name, one.hosts, one.guests, dict(one.closed)) for one in found.zones] == [
        ("n", 1, 8, {"RamFilter": 1}),
        ("nova", 1, 4, {"CoreFilter": 1}),
    ]
    assert [(one.name, one.guests) for one in found.aggregates] == [("north", 8)]
    assert found.reason.startswith("2 hosts: 1 RamFilter")


def test_live_claims_take_their_room() -> None:
    """What is promised and not reported yet does not count as free."""
    claim = {
        "host": "alder",
        "node": "alder.lab",
        "vcpus": 1,
        "memory_mb": 16384,
        "disk_mb": 0,
        "instances": 1,
        "io_ops": 1,
    }
    config = {"scheduler_default_filters": "RamFilter", "ram_allocation_ratio": 1.0}
    without = capacity(scene([host("alder")], config), builders.request(memory_mb=4096)).guests
    with_claim = capacity(
        scene([host("alder")], config, claims=[claim]), builders.request(memory_mb=4096)
    ).guests
    assert (without, with_claim) == (8, 4)


def test_a_guest_that_nothing_limits_is_told_as_such() -> None:
    """No filter looks at amounts: there is no number to give."""
    assert (
        capacity(
            scene([host("alder")], {"scheduler_default_filters": "ComputeFilter"}), builders.request()
        ).guests
        is None
    )


def test_a_driver_without_filters_is_refused() -> None:
    """The chance driver has no idea of room."""
    with pytest.raises(ConfigurationError, match="scheduler_driver"):
        capacity(scene([host("alder")], {"scheduler_driver": "chance"}), builders.request())

"""Playing a trace: who is placed, who is refused, what is given back, and what is measured meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from nova_sched.drivers.chance import ChanceDriver
from nova_sched.drivers.filtering import FilterDriver
from nova_sched.lab import trace_fleet
from nova_sched.lab.policies import POLICIES, policy_driver
from nova_sched.lab.simulate import REFUSED, Result, Simulation, fewest_hosts
from nova_sched.lab.trace import Arrival, Trace, of
from nova_sched.lab.trace_fleet import Fleet
from nova_sched.lab.trace_twin import twin
from nova_sched.settings import FilterSettings, SchedulerSettings, WeigherSettings
from nova_sched.testing.replaying import oracle_rows

GB = 1024
TIGHT = SchedulerSettings(
    filters=FilterSettings(
        enabled=("RamFilter", "CoreFilter", "ComputeFilter"),
        cpu_allocation_ratio=1.0,
        ram_allocation_ratio=1.0,
    )
)


def fleet(*sizes: tuple[int, int]) -> Fleet:
    """Hosts of (vCPUs, GB)."""
    rows = [
        {"host": f"h{number}", "vcpus": str(vcpus), "memory_mb": str(ram * GB)}
        for number, (vcpus, ram) in enumerate(sizes)
    ]
    return trace_fleet.of_rows("fleet", rows)


def guests(*told: tuple[int, int, float, float]) -> Trace:
    """Guests of (vCPUs, GB, start, end)."""
    return of(
        "trace",
        [
            Arrival(f"g{n}", "t", vcpus, ram * GB, 0, start, end)
            for n, (vcpus, ram, start, end) in enumerate(told)
        ],
    )


def play(made: Trace, hosts: Fleet, driver: Any = None, **options: Any) -> Result:
    """Play with the spreading default."""
    return Simulation("test", made, hosts, driver or FilterDriver.from_settings(TIGHT), **options).run()


def test_a_guest_that_ends_gives_its_room_back() -> None:
    """The second is refused while the first runs; the third comes when the first has gone, in the very same second."""
    found = play(guests((4, 4, 0, 10), (4, 4, 5, 20), (4, 4, 10, 20)), fleet((4, 8)))
    assert found.rows == (0, REFUSED, 0)
    assert found.placed == 2
    assert [(one.by, one.count) for one in found.refused] == [("CoreFilter", 1)]
    assert "most usable 0 vCPUs of 4 vCPUs asked" in found.reasons[1]


def test_who_runs_at_the_begin_is_placed_first_and_can_end() -> None:
    """Negative starts are before everything else."""
    found = play(guests((4, 4, 5, math.inf), (4, 4, -1, 4)), fleet((4, 8)))
    assert found.rows == (0, 0)


def test_guests_of_a_host_are_counted_over_a_long_time() -> None:
    """A thousand guests one after the other leave the host as it was: nothing is lost or left over."""
    found = play(guests(*((2, 2, n, n + 1) for n in range(1000))), fleet((2, 2)))
    assert found.placed == 1000
    assert found.samples[-1].guests == 1


def test_samples_show_use_bound_and_largest_size() -> None:
    """Two of 4 vCPUs on two hosts of 8: spreading uses both where one would do, and 8 vCPUs fit no more."""
    made = guests((4, 4, 0, 100), (4, 4, 10, 100), (8, 8, 20, 30))
    found = play(made, fleet((8, 16), (8, 16)), samples=3)
    first, middle, last = found.samples
    assert [one.seconds for one in found.samples] == [0.0, 10.0, 20.0]
    assert (first.guests, first.hosts_used, first.hosts_bound, first.largest_vcpus) == (1, 1, 1, 8)
    assert (middle.hosts_used, middle.hosts_bound, middle.largest_vcpus) == (2, 1, 4)
    assert (last.refused, last.vcpu_share) == (1, 0.5)


def test_without_filters_nobody_knows_a_bound_or_the_largest_size() -> None:
    """The chance driver places anywhere; what cannot be told is None."""
    found = play(guests((4, 4, 0, math.inf)), fleet((2, 2)), ChanceDriver.from_settings(TIGHT))
    assert found.rows == (0,)
    assert (found.samples[-1].hosts_bound, found.samples[-1].largest_vcpus) == (None, None)


def rows_by(name: str, *told: tuple[int, int, float, float]) -> Sequence[int]:
    """Hosts that a policy takes of (8, 16), (16, 64), (8, 64)."""
    return play(guests(*told), fleet((8, 16), (16, 64), (8, 64)), policy_driver(name, TIGHT)).rows


def test_the_textbook_policies_take_the_textbooks_hosts() -> None:
    """For a guest of 4 vCPUs and 12 GB: first in order, tightest, emptiest, best aligned."""
    asked = (4, 12, 0.0, math.inf)
    assert rows_by("first-fit", asked) == (0,)
    assert rows_by("best-fit", asked) == (0,)
    assert rows_by("worst-fit", asked) == (1,)
    assert rows_by("dot-product", asked) == (0,)
    assert rows_by("best-fit", (4, 60, 0.0, math.inf)) == (2,)
    assert set(POLICIES) == {"first-fit", "best-fit", "worst-fit", "dot-product"}


def test_the_fewest_hosts_are_found_by_halving() -> None:
    """Five guests that fill a host each need five hosts of seven; eight do not fit."""
    hosts = fleet(*((4, 4) for _ in range(7)))
    full = [(4, 4, float(n), math.inf) for n in range(8)]
    make = lambda: FilterDriver.from_settings(TIGHT)  # noqa: E731
    assert fewest_hosts(guests(*full[:5]), hosts, make) == 5
    assert fewest_hosts(guests(*full), hosts, make) is None


def test_a_filter_that_looks_at_other_guests_sees_them_come_and_go() -> None:
    """TypeAffinityFilter keeps flavors apart: the second size waits until the first has left."""
    settings = SchedulerSettings(filters=FilterSettings(enabled=("TypeAffinityFilter",)))
    made = guests((1, 1, 0, 10), (2, 2, 5, 20), (2, 2, 10, 20))
    assert play(made, fleet((8, 8)), FilterDriver.from_settings(settings)).rows == (0, REFUSED, 0)


@pytest.mark.parametrize("multiplier", [1.0, -1.0], ids=["spreading", "stacking"])
def test_placements_are_those_of_the_row_by_row_oracle(multiplier: float) -> None:
    """The synthetic twin on a crowded fleet, host by host as plain Python decides it."""
    settings = SchedulerSettings(
        filters=TIGHT.filters, weighers=WeigherSettings(ram_weight_multiplier=multiplier)
    )
    made, hosts = twin(400, seed=5), fleet(*((16, 64), (32, 96), (8, 32)) * 8)
    found = play(made, hosts, FilterDriver.from_settings(settings), samples=0)
    assert list(found.rows) == oracle_rows(made, hosts, settings)
    assert REFUSED in found.rows

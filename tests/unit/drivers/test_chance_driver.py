"""The chance driver."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from nova_sched.drivers.chance import ChanceDriver
from nova_sched.model.decision import Decision
from nova_sched.model.facts import NO_FACTS
from nova_sched.settings import FilterSettings, SchedulerSettings
from nova_sched.testing.builders import host, request, table

ROWS = [
    host("alder"),
    host("birch", free_ram_mb=0),
    host("off", disabled=True),
    host("down", age_seconds=61.0),
    host("ahead", age_seconds=-61.0),
]


def decide(seed: int = 0, **fields: Any) -> Decision:
    driver = ChanceDriver.from_settings(
        SchedulerSettings(filters=FilterSettings(service_down_time_seconds=60))
    )
    return driver.decide(request(**fields), table(*ROWS).overlay(), NO_FACTS, np.random.default_rng(seed))


def test_every_host_that_is_up_and_enabled_is_as_likely_as_any_other() -> None:
    """Full hosts too; a disabled one, and one whose last sign of life is too far away, never."""
    drawn = Counter(decide(seed).placements[0].host for seed in range(400))
    assert drawn.keys() == {"alder", "birch"}
    assert abs(drawn["alder"] - 200) < 60


def test_neither_node_nor_limits_nor_weight_travel() -> None:
    """The compute host picks its node itself."""
    placement = decide().placements[0]
    assert (placement.node, placement.limits, placement.weight) == (None, None, None)


def test_the_same_seed_draws_the_same_hosts() -> None:
    """A decision can be repeated from its record."""
    assert [p.host for p in decide(7, count=5).placements] == [p.host for p in decide(7, count=5).placements]


def test_ignored_hosts_are_out_and_nobody_left_is_a_refusal() -> None:
    """No host is an answer for each instance."""
    assert {p.host for p in decide(count=9, ignore_hosts=frozenset({"alder"})).placements} == {"birch"}
    decision = decide(count=2, ignore_hosts=frozenset({"alder", "birch"}))
    assert len(decision.refusals) == 2
    assert decision.refusals[0].reason == "5 hosts: none is up, enabled and not ignored"

"""Faults around weights and the choice. Named after their reports; these tests stay as they are."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.model.facts import NO_FACTS, Facts
from nova_sched.model.states import IO_HEAVY_TASK_STATES
from nova_sched.settings import Settings
from nova_sched.testing import builders
from nova_sched.testing.builders import group, host, instance, request
from nova_sched.testing.deciding import decide, hosts_chosen, passing, settings, weights
from nova_sched.wire import inbound


def test_lp1870096_no_run_remembers_the_extremes_of_another():
    """Group B weighs the same whether or not group A was weighed before by the same weigher."""
    chosen = settings(
        weighers=["ServerGroupSoftAffinityWeigher"], weighing={"soft_affinity_weight_multiplier": 1.0}
    )
    driver = FilterDriver.from_settings(chosen)
    table = builders.table(host("h1"), host("h2"))
    many = Facts(group=group("soft-affinity", members={str(number): "h1" for number in range(10)}))
    few = Facts(group=group("soft-affinity", members={"a": "h1", "b": "h1"}))

    def run(facts):
        return driver.decide(request(), table.overlay(), facts, np.random.default_rng(1)).placements[0].weight

    assert (run(few), run(many), run(few)) == (1.0, 1.0, 1.0)


def test_lp1816360_weights_are_shown_with_their_parts():
    """Total, and per weigher the raw, normalised and multiplied number of each host."""
    rows = [host("h1", free_ram_mb=8000), host("h2", free_ram_mb=16000)]
    decision = decide(rows, request(), settings(weighing={"ram_weight_multiplier": 3.0}))
    best, worst = decision.explanation.rounds[0].weighed
    assert (best.host, best.weight, best.parts) == ("h2", 3.0, (("RAMWeigher", 16000.0, 1.0, 3.0),))
    assert (worst.host, worst.weight, worst.parts) == ("h1", 1.5, (("RAMWeigher", 8000.0, 0.5, 1.5),))


def asked_with(**properties):
    """A message with these instance_properties."""
    spec = {
        "instance_properties": {"memory_mb": 1, "vcpus": 1, **properties},
        "instance_type": {"memory_mb": 1, "vcpus": 1},
        "instance_uuids": [builders.instance_uuid(number) for number in range(2)],
    }
    args = {"request_spec": spec, "filter_properties": {}}
    return inbound.of("run_instance", {"project_id": "p"}, args, Settings())


@pytest.mark.parametrize("state", ["unshelving", "rescuing", "migrating", *sorted(IO_HEAVY_TASK_STATES)])
def test_lp1295558_every_io_heavy_state_counts_at_once(state):
    """A guest just picked counts for the next one of the batch (also df053b1172)."""
    rows = [host(stats={"io_workload": 7})]
    for properties in ({"vm_state": "active", "task_state": state}, {}):
        decision = decide(rows, asked_with(**properties), settings(["IoOpsFilter"]))
        assert (len(decision.placements), len(decision.refusals)) == (1, 1)


def test_lp1834691_a_row_without_counter_weighs_like_zero():
    """failed_builds NULL is no failure."""
    weighing = {"build_failure_weight_multiplier": 1000000.0}
    rows = [host("failing", failed_builds=3), host("fresh", failed_builds=None)]
    assert hosts_chosen(
        decide(rows, request(), settings(weighers=["BuildFailureWeigher"], weighing=weighing))
    ) == ["fresh"]


def test_lp1742102_failed_builds_never_take_a_host_out():
    """They lower its weight; the only host is still used."""
    weighing = {"build_failure_weight_multiplier": 1000000.0}
    chosen = settings(weighers=["BuildFailureWeigher"], weighing=weighing)
    assert hosts_chosen(decide([host(failed_builds=99)], request(), chosen)) == ["alder"]


@pytest.mark.parametrize("column", [None, "", "[]", "null", [{"name": "cpu.percent"}]])
def test_lp1499271_missing_metrics_crash_nothing(column):
    """Required: refused with the metric's name; not required: weight_of_unavailable (also LP#1493680, LP#1485082)."""
    weighing = {"metrics_weight_setting": ("cpu.percent=-1.0",)}
    rows = [host(metrics=column)]
    refused = decide(rows, request(), settings(weighers=["MetricsWeigher"], weighing=weighing))
    assert "cpu.percent" in refused.refusals[0].reason
    weighing["metrics_required"] = False
    assert hosts_chosen(
        decide(rows, request(), settings(weighers=["MetricsWeigher"], weighing=weighing))
    ) == ["alder"]
    assert passing("MetricsFilter", rows, request(), weighing=weighing) == []


def test_lp1711184_ties_may_be_shuffled():
    """Off: the first of the table each time. On: any of the equal best, and no other."""
    rows = [host("h1"), host("h2"), host("h3"), host("poor", free_ram_mb=9000)]
    table = builders.table(*rows)

    def winners(**options):
        driver = FilterDriver.from_settings(settings(**options))
        found = (
            driver.decide(request(), table.overlay(), NO_FACTS, np.random.default_rng(seed))
            for seed in range(60)
        )
        return Counter(decision.placements[0].host for decision in found)

    assert winners() == {"h1": 60}
    assert set(winners(shuffle_best_same_weighed_hosts=True)) == {"h1", "h2", "h3"}


@pytest.mark.parametrize(
    "multiplier, order", [(1.0, ["big", "big", "small"]), (-1.0, ["small", "small", "small"])]
)
def test_lp965732_positive_spreads_and_negative_stacks(multiplier, order):
    """The sign of ram_weight_multiplier, shown by the order of three guests (also LP#1023827)."""
    rows = [host("big", free_ram_mb=12000), host("small", free_ram_mb=9000)]
    decision = decide(rows, request(count=3), settings(weighing={"ram_weight_multiplier": multiplier}))
    assert hosts_chosen(decision) == order


def test_lp2125935_guests_of_every_tenant_count():
    """What runs on a host is a fact, not a question of who asks (also LP#2125052)."""
    others = tuple(
        instance(str(number), "h1", project_id="project-9", instance_type_id=9) for number in range(5)
    )
    facts = Facts(instances_by_host={"h1": others})
    assert passing("TypeAffinityFilter", [host("h1"), host("h2")], request(), facts=facts) == ["h2"]


def test_equal_requests_have_equal_weights():
    """Identical hosts and request: identical weights, whatever ran before."""
    rows = [host("h1", free_ram_mb=100), host("h2", free_ram_mb=300)]
    assert weights(decide(rows, request(), settings())) == weights(decide(rows, request(), settings()))

"""Weighers: direction, multipliers per option and per aggregate, unknown amounts."""

from __future__ import annotations

import numpy as np
import pytest

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.hosts.schema import Aggregate, HostDelta
from nova_sched.model.facts import NO_FACTS
from nova_sched.testing.builders import NOW_SECONDS, aggregate, host, request, table
from nova_sched.testing.deciding import decide, hosts_chosen, reason_of, settings, weights

LOW = host(
    "low",
    vcpus_used=200,
    free_disk_gb=100,
    stats={"io_workload": 5, "num_instances": 9},
    failed_builds=4,
    free_ram_mb=0,
)
HIGH = host(
    "high",
    vcpus_used=0,
    free_disk_gb=400,
    stats={"io_workload": 1, "num_instances": 2},
    failed_builds=0,
    free_ram_mb=24000,
)

WEIGHERS = {
    "free RAM": ("RAMWeigher", "ram_weight_multiplier", "high"),
    "free vCPUs": ("CPUWeigher", "cpu_weight_multiplier", "high"),
    "free disk": ("DiskWeigher", "disk_weight_multiplier", "high"),
    "I/O operations": ("IoOpsWeigher", "io_ops_weight_multiplier", "low"),
    "instances": ("NumInstancesWeigher", "num_instances_weight_multiplier", "low"),
    "failed builds, turned": ("BuildFailureWeigher", "build_failure_weight_multiplier", "high"),
}


@pytest.mark.parametrize("name, option, best", WEIGHERS.values(), ids=WEIGHERS)
def test_direction(name, option, best):
    """A positive multiplier prefers one, a negative one the other, 0 the first of the table."""
    other = "low" if best == "high" else "high"
    for multiplier, first in ((2.0, best), (-2.0, other), (0.0, "low")):
        decision = decide([LOW, HIGH], request(), settings(weighers=[name], weighing={option: multiplier}))
        assert hosts_chosen(decision) == [first]


@pytest.mark.parametrize("name, option, best", WEIGHERS.values(), ids=WEIGHERS)
def test_aggregates_set_the_multiplier(name, option, best):
    """The numeric minimum of a host's aggregates; what does not parse is dropped."""
    own = [
        aggregate("a", ["low", "high"], {option: "10"}),
        aggregate("b", ["low", "high"], {option: "9"}),
        aggregate("c", ["low"], {option: "many"}),
    ]
    decision = decide(
        [LOW, HIGH], request(), settings(weighers=[name], weighing={option: 0.0}), aggregates=own
    )
    spread = weights(decision)
    assert hosts_chosen(decision) == [best]
    assert max(spread.values()) - min(spread.values()) == 9.0


def test_all_weighers_leave_juno_as_it_was():
    """With every weigher loaded and no option set, only RAM counts."""
    everything = decide([LOW, HIGH], request(), settings(weighers=["nova.scheduler.weights.all_weighers"]))
    assert weights(everything) == {"high": 1.0, "low": 0.0}


def test_ram_scale_begins_at_zero_or_below():
    """Negative free RAM stretches the scale downwards."""
    rows = [host("deep", free_ram_mb=-3000), host("mild", free_ram_mb=-1000)]
    assert weights(decide(rows, request(), settings())) == {"mild": 1.0, "deep": 0.0}


@pytest.mark.parametrize("multiplier", [1.0, -1.0, 0.0])
def test_unknown_free_ram_never_wins(multiplier):
    """It counts as 0 and ranks after every host whose free RAM is known."""
    rows = [host("nul", free_ram_mb=None), host("full", free_ram_mb=-500)]
    decision = decide(rows, request(), settings(weighing={"ram_weight_multiplier": multiplier}))
    assert hosts_chosen(decision) == ["full"]


def metrics(**values):
    """A metrics column."""
    return [
        {"name": name, "value": value, "source": "lab", "timestamp": "t"} for name, value in values.items()
    ]


M1 = host("m1", metrics=metrics(cpu=0.2, net=10))
M2 = host("m2", metrics=metrics(cpu=0.9, net=30))
M3 = host("m3", metrics=metrics(cpu=0.5))


def weighed(*rows, setting=("cpu=1.0",), filters=("AllHostsFilter",), **options):
    """Decision of MetricsWeigher alone."""
    weighing = {
        "metrics_weight_setting": setting,
        **{f"metrics_{key}": value for key, value in options.items()},
    }
    return decide(rows, request(), settings(filters, weighers=["MetricsWeigher"], weighing=weighing))


def test_metrics_are_summed_by_ratio():
    """cpu - net/100 is 0.1 and 0.6."""
    assert weights(weighed(M1, M2, setting=("cpu=1.0", "net=-0.01"))) == pytest.approx({"m2": 1.0, "m1": 0.0})


def test_settings_that_are_none_are_dropped():
    """Names and values are trimmed; what is not name=number is no metric."""
    found = weighed(
        M1, M2, M3, setting=("cpu=1.0", "broken", "net=abc", "=3", "x=", "net=nan", "net=inf", " cpu = 1 ")
    )
    assert weights(found) == pytest.approx({"m2": 1.0, "m3": 3 / 7, "m1": 0.0})


def test_a_metric_of_ratio_zero_is_required_all_the_same():
    """It weighs nothing where it is optional; required, a host without it refuses the request or is filtered out."""
    setting = ("cpu=1.0", "net=0")
    optional = weights(weighed(M1, M2, M3, setting=setting, required=False))
    assert optional == pytest.approx({"m2": 1.0, "m3": 3 / 7, "m1": 0.0})
    assert "required metric net is missing on host m3" in reason_of(weighed(M1, M2, M3, setting=setting))
    assert set(weights(weighed(M1, M2, M3, setting=setting, filters=("MetricsFilter",)))) == {"m1", "m2"}


def test_required_metric_that_is_missing_refuses_the_request():
    """The reason names metric and host."""
    reason = reason_of(weighed(M1, M3, setting=("net=1.0",)))
    assert reason.startswith("MetricsWeigher: ")
    assert "net" in reason
    assert "m3" in reason


def test_metrics_filter_leaves_hosts_without_the_metric_out():
    """So that nothing is refused."""
    assert set(weights(weighed(M1, M2, M3, setting=("net=1.0",), filters=("MetricsFilter",)))) == {"m1", "m2"}


def test_unavailable_metric_has_its_own_weight():
    """Not required: weight_of_unavailable takes part in the scale."""
    found = weights(weighed(M1, M2, M3, setting=("net=1.0",), required=False, weight_of_unavailable=0.0))
    assert found == pytest.approx({"m2": 1.0, "m1": 1 / 3, "m3": 0.0})


@pytest.mark.parametrize(
    "column",
    [
        None,
        "[",
        "{}",
        [{"name": "cpu", "value": 1}],
        [{"name": "cpu", "value": "1", "source": "s", "timestamp": "t"}],
        [{"name": "", "value": 1, "source": "s", "timestamp": "t"}],
        ["cpu"],
    ],
)
def test_broken_metric_is_unavailable(column):
    """An entry that lacks a field or has a text value is as none; the neighbour is unharmed."""
    found = weights(weighed(host("bad", metrics=column), M1, required=False, weight_of_unavailable=-5.0))
    assert found == {"m1": 1.0, "bad": 0.0}


def test_a_multiplier_of_an_aggregate_made_later_counts_from_the_next_decision():
    """Plain multipliers are kept while the table stays as it is, and no longer."""
    chosen = settings(weighers=["RAMWeigher"])
    driver = FilterDriver.from_settings(chosen)
    made = table(LOW, HIGH)

    def best() -> str:
        decision = driver.decide(request(), made.overlay(), NO_FACTS, np.random.default_rng(1))
        return decision.placements[0].host

    assert best() == "high"
    stacked = Aggregate(1, "stacked", frozenset({"low", "high"}), {"ram_weight_multiplier": "-1"})
    made.apply(HostDelta({}, NOW_SECONDS, aggregates=[stacked]))
    assert best() == "low"
    made.apply(HostDelta({}, NOW_SECONDS, aggregates=[]))
    assert best() == "high"

"""A decision told host by host, and the difference that another configuration makes."""

from __future__ import annotations

from nova_sched.db.decisions import describe
from nova_sched.lab.explain import differences, retell, tell
from nova_sched.testing import builders
from tests.unit.lab.clouds import host, scene

SMALL = {"free_ram_mb": 1024, "memory_mb": 4096}


def test_each_host_is_passed_refused_or_chosen() -> None:
    """The refused one carries its filter and numbers, the passed ones their weights, the best one is chosen."""
    made = scene([host("alder", **SMALL), host("birch"), host("cedar", free_ram_mb=16384)])
    told = tell(made.explain(builders.request(memory_mb=4096)))["rounds"][0]
    lines = {line["host"]: line for line in told["hosts"]}
    assert told["chosen"] == ["birch", "birch.lab"]
    assert lines["alder"]["refused_by"] == "RamFilter"
    assert "asks for 4096 MB, usable are 3072 MB" in lines["alder"]["reason"]
    assert (lines["birch"]["weight"], lines["cedar"]["weight"]) == (1.0, 0.5)
    assert [part["name"] for part in lines["birch"]["weights"]] == ["MetricsWeigher", "RAMWeigher"]


def test_asking_consumes_nothing() -> None:
    """The same question gets the same answer."""
    made = scene([host("alder"), host("birch")])
    request = builders.request(count=2)
    assert tell(made.explain(request)) == tell(made.explain(request))


def test_the_services_answer_tells_the_same() -> None:
    """A record in its plain form, as it travels, has the same verdict on each host."""
    record = scene([host("alder", **SMALL), host("birch")]).explain(builders.request(memory_mb=4096))
    here, there = tell(record), retell(describe(record))
    assert differences(here, there) == []
    assert here["rounds"][0]["filters"] == there["rounds"][0]["filters"]


def test_more_hosts_than_may_be_told_are_counted() -> None:
    """A telling is bounded; what passed comes first."""
    made = scene([host(f"h{number}") for number in range(5)] + [host("alder", **SMALL)])
    told = tell(made.explain(builders.request(memory_mb=4096)), hosts_max=2)["rounds"][0]
    assert told["hosts_omitted"] == 4
    assert [line["refused_by"] for line in told["hosts"]] == [None, None]


def test_another_ratio_differs_on_the_hosts_it_changes_only() -> None:
    """alder is refused at 1.0 and passes at 2.0; birch's weight and choice stay."""
    hosts, request = [host("alder", free_ram_mb=1024), host("birch")], builders.request(memory_mb=2048)
    tight = tell(scene(hosts, {"ram_allocation_ratio": 1.0}).explain(request))
    loose = tell(scene(hosts, {"ram_allocation_ratio": 2.0}).explain(request))
    found = differences(tight, loose)
    assert [one.host for one in found] == ["alder"]
    assert found[0].here.startswith("refused by RamFilter")
    assert found[0].there.startswith("passed")


def test_a_mistake_in_the_request_is_told_without_rounds() -> None:
    """An unknown group is refused before any host is looked at."""
    told = tell(scene([host("alder")]).explain(builders.request(group="nobody")))
    assert told["rounds"] == []
    assert "could not be found" in told["refused"]

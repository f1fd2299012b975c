"""Server groups: hard policies as filters, soft ones as weighers."""

from __future__ import annotations

import pytest

from nova_sched.model.facts import Facts
from nova_sched.testing.builders import group, host, request
from nova_sched.testing.deciding import decide, hosts_chosen, passing, reason_of, settings, weights

HOSTS = [host("alder", free_ram_mb=24000), host("birch", free_ram_mb=16000), host("cedar", free_ram_mb=8000)]
ALL = ["alder", "birch", "cedar"]
BOTH = ["ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"]

FILTERS = {
    "apart": ("ServerGroupAntiAffinityFilter", "anti-affinity", ["birch", "cedar"]),
    "together": ("ServerGroupAffinityFilter", "affinity", ["alder"]),
    "legacy apart": ("GroupAntiAffinityFilter", "legacy", ["birch", "cedar"]),
    "legacy together": ("GroupAffinityFilter", "legacy", ["alder"]),
    "not this policy": ("GroupAffinityFilter", "other", ALL),
    "unknown policy": ("ServerGroupAffinityFilter", "soft", ALL),
}


@pytest.mark.parametrize("name, policy, names", FILTERS.values(), ids=FILTERS)
def test_policy(name, policy, names):
    """One member runs on alder."""
    facts = Facts(group=group(policy, members={"u1": "alder"}))
    assert passing(name, HOSTS, request(), facts=facts) == names


def test_no_group_no_policy():
    """Requests outside of groups pass."""
    assert passing("ServerGroupAntiAffinityFilter", HOSTS, request()) == ALL


def test_group_hosts_of_an_older_caller_count():
    """filter_properties.group_hosts and group_policies, without a group of ours."""
    asked = request(legacy_group_hosts=("birch",), legacy_group_policies=("anti-affinity",))
    assert passing("ServerGroupAntiAffinityFilter", HOSTS, asked) == ["alder", "cedar"]


def test_members_of_one_request_stay_apart():
    """Three members, one host taken: two find a host, the third does not."""
    facts = Facts(group=group("anti-affinity", members={"u1": "alder"}))
    decision = decide(HOSTS, request(count=3), settings(BOTH), facts=facts)
    assert hosts_chosen(decision) == ["birch", "cedar"]
    assert "ServerGroupAntiAffinityFilter" in reason_of(decision)


def test_first_member_decides_for_the_rest():
    """An empty affinity group gathers where its first member goes."""
    decision = decide(HOSTS, request(count=3), settings(BOTH), facts=Facts(group=group("affinity")))
    assert hosts_chosen(decision) == ["alder"] * 3


def test_soft_affinity_prefers_hosts_with_members():
    """The weigher outweighs RAM when its multiplier does."""
    facts = Facts(group=group("soft-affinity", members={"u1": "cedar", "u2": "cedar", "u3": "birch"}))
    chosen = settings(
        weighers=["ServerGroupSoftAffinityWeigher"], weighing={"soft_affinity_weight_multiplier": 1.0}
    )
    decision = decide(HOSTS, request(), chosen, facts=facts)
    assert weights(decision) == {"cedar": 1.0, "birch": 0.5, "alder": 0.0}


def test_soft_anti_affinity_spreads_one_request():
    """Each placement counts for the next one."""
    facts = Facts(group=group("soft-anti-affinity"))
    chosen = settings(
        weighers=["ServerGroupSoftAntiAffinityWeigher", "RAMWeigher"],
        weighing={"soft_anti_affinity_weight_multiplier": 10.0},
    )
    assert hosts_chosen(decide(HOSTS, request(count=4), chosen, facts=facts)) == [
        "alder",
        "birch",
        "cedar",
        "alder",
    ]


def test_soft_weigher_ignores_other_policies():
    """A group with another soft policy weighs 0 everywhere."""
    facts = Facts(group=group("soft-anti-affinity", members={"u1": "cedar"}))
    chosen = settings(
        weighers=["ServerGroupSoftAffinityWeigher"], weighing={"soft_affinity_weight_multiplier": 1.0}
    )
    assert set(weights(decide(HOSTS, request(), chosen, facts=facts)).values()) == {0.0}

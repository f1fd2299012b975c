"""Faults around server groups. Named after their reports; these tests stay as they are."""

from __future__ import annotations

import pytest

from nova_sched.db.admin import GroupAdmin
from nova_sched.db.engine import Database
from nova_sched.db.facts import SqlFactSource
from nova_sched.errors import StoreUnavailable
from nova_sched.model.facts import Fact, Facts
from nova_sched.settings import DatabaseSettings, Settings
from nova_sched.testing import builders
from nova_sched.testing.builders import group, host
from nova_sched.testing.deciding import decide, hosts_chosen, reason_of, settings
from nova_sched.wire import inbound
from tests.integration.db.worlds import SqlWorld, placed, request, uuid_of

HOSTS = [host("h1", free_ram_mb=24000), host("h2", free_ram_mb=16000)]
POLICIES = settings(["RetryFilter", "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"])


@pytest.fixture
def world(tmp_path):
    """A database of two hosts."""
    opened = SqlWorld(f"sqlite:///{tmp_path / 'sched.sqlite'}")
    opened.add_host()
    opened.add_host()
    yield opened
    opened.database.close()


def test_lp1218878_a_reschedule_keeps_the_policy():
    """The second attempt, after a failure on h2, may not go where a member is (also LP#1206502)."""
    facts = Facts(group=group("anti-affinity", members={"u1": "h1"}))
    asked = builders.request(attempt=2, tried=(("h2", "h2.lab"),))
    assert "ServerGroupAntiAffinityFilter" in reason_of(decide(HOSTS, asked, POLICIES, facts=facts))


@pytest.mark.parametrize("rows, chosen", [(HOSTS, ["h1", "h2"]), (HOSTS[:1], ["h1"])])
def test_lp1781710_members_of_one_batch_see_each_other(rows, chosen):
    """Each pick counts for the next one, though h1 weighs more."""
    decision = decide(rows, builders.request(count=2), POLICIES, facts=Facts(group=group("anti-affinity")))
    assert hosts_chosen(decision) == chosen
    assert len(decision.refusals) == 2 - len(chosen)


def test_lp1379451_the_group_is_found_by_membership(world):
    """A message without the hint: the database says that u2 is a member, and where u1 is."""
    world.store.commit([placed(request(1), 1)])
    world.add_group("bbbb", "ring", "anti-affinity", members=[uuid_of(1), uuid_of(2)])
    (facts,) = world.facts.load([request(2)], frozenset({Fact.GROUP}))
    assert facts.group.hosts == {"h1"}
    assert hosts_chosen(decide(HOSTS, request(2), POLICIES, facts=facts)) == ["h2"]


def test_lp1301982_group_hosts_come_as_a_list():
    """JSON turns sets into lists; they are a set again on arrival, and grow."""
    spec = {
        "instance_properties": {"memory_mb": 1, "vcpus": 1},
        "instance_type": {"memory_mb": 1, "vcpus": 1},
        "instance_uuids": [uuid_of(1)],
    }
    given = {"group_hosts": ["h1", "h1"], "group_policies": ["anti-affinity"]}
    args = {"request_spec": spec, "filter_properties": given}
    asked = inbound.of("run_instance", {"project_id": "p"}, args, Settings())
    facts = Facts(group=group("anti-affinity", members={"u9": "h9"}))
    assert hosts_chosen(decide(HOSTS, asked, POLICIES, facts=facts)) == ["h2"]
    assert hosts_chosen(decide(HOSTS, asked, POLICIES)) == ["h2"]


def test_lp1746863_members_that_cannot_be_read_are_not_taken_for_none():
    """A database that is away fails the look-up; nobody decides on an empty answer."""
    away = DatabaseSettings(
        connection="sqlite:////no/such/folder/sched.sqlite", max_retries=1, retry_interval_seconds=0.01
    )
    with pytest.raises(StoreUnavailable):
        SqlFactSource(Database(away)).load([request(1)], frozenset({Fact.GROUP}))


@pytest.mark.parametrize("hint", ["ring", "bbbb"])
def test_lp1303360_a_hint_is_a_name_or_a_uuid(world, hint):
    """Both find the group."""
    GroupAdmin(world.database).create("ring", ["anti-affinity"], "bbbb", [])
    (facts,) = world.facts.load([request(1, group=hint)], frozenset({Fact.GROUP}))
    assert facts.group.uuid == "bbbb"


def test_lp1303360_an_unknown_group_is_a_clear_error(world):
    """Refused before any host is looked at, naming the group."""
    (facts,) = world.facts.load([request(1, group="nope")], frozenset({Fact.GROUP}))
    assert "nope" in reason_of(decide(HOSTS, request(1, group="nope"), POLICIES, facts=facts))


def test_lp1302238_a_policy_whose_filter_is_off_is_refused():
    """Not ignored: users believe their guests are apart."""
    facts = Facts(group=group("anti-affinity", members={"u1": "h1"}))
    reason = reason_of(decide(HOSTS, builders.request(), settings(["RamFilter"]), facts=facts))
    assert "ServerGroupAntiAffinityFilter" in reason


def test_lp1107156_deleted_instances_are_no_facts(world):
    """Neither hinted nor members."""
    world.store.commit([placed(request(1), 1)])
    world.add_group("bbbb", "ring", "anti-affinity", members=[uuid_of(1)])
    asked = request(2, group="ring", hints={"different_host": (uuid_of(1),)})
    needs = frozenset({Fact.GROUP, Fact.HINTED_INSTANCES, Fact.INSTANCES_BY_HOST})
    (before,) = world.facts.load([asked], needs)
    assert (before.group.hosts, set(before.hinted_instances)) == ({"h1"}, {uuid_of(1)})
    world.delete(uuid_of(1))
    (after,) = world.facts.load([asked], needs)
    assert (after.group.hosts, after.hinted_instances, after.instances_by_host) == (frozenset(), {}, {})

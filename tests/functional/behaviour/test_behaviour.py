"""What a caller sees of the service, whatever bus and database it stands on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from nova_sched.errors import InstanceNotFound, MalformedMessage, NoValidHost
from tests.functional.behaviour.cloud import HOSTS, MEMORY_MB, Cloud, Request, until

OWN = "tests.functional.behaviour.own_drivers"


def test_an_instance_is_built_on_a_host_and_said_so(cloud: Cloud) -> None:
    """One cast ends as an active guest on the host that its notification names."""
    request = Request()
    (found,) = cloud.booted(request)
    (uuid,) = request.uuids
    assert (found["vm_state"], found["attempt"], found["fault"]) == ("active", 1, None)
    assert found["node"] == f"{found['host']}.lab"
    told = cloud.told(uuid, "scheduler.run_instance.scheduled")
    assert told["payload"]["weighted_host"]["host"] == found["host"]
    cloud.told(uuid, "scheduler.run_instance.start")
    cloud.told(uuid, "scheduler.run_instance.end")
    assert uuid in cloud.agents[found["host"]].manager._hypervisor.report()[1]


def test_a_batch_is_spread_by_weight(cloud: Cloud) -> None:
    """A request for six is decided as a whole, each instance after the ones before it."""
    request = Request(count=6)
    found = cloud.booted(request)
    assert {one["vm_state"] for one in found} == {"active"}
    assert Counter(one["host"] for one in found) == dict.fromkeys(HOSTS, 2)


def test_a_batch_with_room_for_some_builds_those(cloud: Cloud) -> None:
    """Six of eight large ones fit; the other two end in ERROR, each with its own fault and notification."""
    request = Request(count=8, memory_mb=40_000)
    found = cloud.booted(request)
    assert Counter(one["vm_state"] for one in found) == {"active": 6, "error": 2}
    assert Counter(one["host"] for one in found if one["host"]) == dict.fromkeys(HOSTS, 2)
    for one in found:
        if one["vm_state"] == "error":
            assert "RAM" in one["fault"]["message"]
            told = cloud.told(one["uuid"], "scheduler.run_instance")
            assert told["priority"] == "ERROR"
            assert told["payload"]["state"] == "error"
    cloud.empty()


def test_deleted_guests_give_their_room_back(cloud: Cloud) -> None:
    """A deleted instance is a tombstone, its guest ends on the host, and nothing is claimed for it any more."""
    request = Request(memory_mb=30_000)
    (found,) = cloud.booted(request)
    cloud.empty()
    assert cloud.instance(request.uuids[0])["vm_state"] == "deleted"
    assert cloud.agents[found["host"]].manager._hypervisor.usage().memory_mb == 0
    cloud.boot(request)
    again = cloud.booted(Request())
    assert again[0]["vm_state"] == "active"
    assert cloud.instance(request.uuids[0])["vm_state"] == "deleted", "a repeat does not revive it"


def test_no_host_is_an_error_that_explains_itself(cloud: Cloud) -> None:
    """Too large for every host: ERROR with a fault that counts hosts and names none of them."""
    request = Request(memory_mb=MEMORY_MB * 10)
    (found,) = cloud.booted(request)
    assert (found["vm_state"], found["task_state"], found["host"]) == ("error", None, None)
    message = found["fault"]["message"]
    assert "3 hosts" in message
    assert not any(host in message for host in HOSTS)
    assert cloud.told(request.uuids[0], "compute.instance.update")["payload"]["state"] == "error"
    reason = cloud.told(request.uuids[0], "scheduler.run_instance")["payload"]["reason"]
    assert "3 hosts" in reason


def test_a_failed_build_is_tried_on_another_host(cloud: Cloud) -> None:
    """The first build fails, the agent sends it back, and the second attempt goes elsewhere."""
    request = Request(metadata={"fail_attempts": "1"})
    (found,) = cloud.booted(request)
    assert (found["vm_state"], found["attempt"]) == ("active", 2)


def test_retries_end(cloud: Cloud) -> None:
    """A build that fails everywhere ends in ERROR after three attempts, the last real error in its fault."""
    request = Request(metadata={"fail_attempts": "9"})
    (found,) = cloud.booted(request)
    assert (found["vm_state"], found["attempt"]) == ("error", 3)
    assert "simulated failure" in found["fault"]["message"]


@pytest.mark.parametrize("force", [{"force_hosts": ["node-2"]}, {"force_nodes": ["node-2.lab"]}])
def test_forced_hosts_are_taken_unfiltered(cloud: Cloud, force: dict[str, list[str]]) -> None:
    """The host asked for gets the guest, and a failure there is final."""
    (found,) = cloud.booted(Request(**force))
    assert (found["vm_state"], found["host"]) == ("active", "node-2")
    (failed,) = cloud.booted(Request(metadata={"fail_attempts": "1"}, **force))
    assert (failed["vm_state"], failed["attempt"]) == ("error", 1)


def test_ignored_hosts_are_not_taken(cloud: Cloud) -> None:
    """``ignore_hosts`` leaves the third one."""
    (found,) = cloud.booted(Request(ignore_hosts=["node-1", "node-3"]))
    assert found["host"] == "node-2"


def test_members_of_an_anti_affinity_group_keep_apart(cloud: Cloud) -> None:
    """Four members in one request and three hosts: three apart, one in ERROR; a failed build keeps the rule."""
    cloud.groups.create("apart", ["anti-affinity"])
    request = Request(count=4, scheduler_hints={"group": "apart"})
    found = cloud.booted(request)
    assert sorted(one["host"] for one in found if one["vm_state"] == "active") == list(HOSTS)
    assert Counter(one["vm_state"] for one in found) == {"active": 3, "error": 1}
    cloud.groups.delete("apart")


def test_select_destinations_answers_in_order_or_not_at_all(cloud: Cloud) -> None:
    """One destination per instance with its limits; NoValidHost when one of them fits nowhere."""
    request = Request(count=2)
    found = cloud.api.select_destinations(request.context, request.spec, request.filter_properties)
    assert len(found) == 2
    assert all(one["nodename"] == f"{one['host']}.lab" for one in found)
    assert all(one["limits"]["memory_mb"] == MEMORY_MB * 1.5 for one in found)
    huge = Request(count=2, memory_mb=MEMORY_MB + 1)
    with pytest.raises(NoValidHost, match="3 hosts"):
        cloud.api.select_destinations(huge.context, huge.spec, huge.filter_properties)
    assert all(cloud.instance(uuid) is None for uuid in huge.uuids)
    cloud.told(huge.uuids[0], "scheduler.select_destinations.start")
    cloud.told(huge.uuids[0], "scheduler.select_destinations.end")


def test_a_resize_is_prepared_on_a_host(cloud: Cloud) -> None:
    """``prep_resize`` casts to one host; without any the instance keeps its state and an ERROR event says why."""
    request = Request()
    (found,) = cloud.booted(request)
    (uuid,) = request.uuids
    instance = {"uuid": uuid, "host": found["host"], "vm_state": "active", "task_state": "resize_prep"}
    sizes = {**request.spec["instance_type"], "memory_mb": 1024}
    spec = {**request.spec, "instance_type": sizes}
    elsewhere = {"ignore_hosts": [found["host"]], "instance_type": sizes}
    cloud.api.prep_resize(request.context, instance, sizes, {}, spec, elsewhere, [])
    until(
        lambda: [
            name for name, agent in cloud.agents.items() if uuid in agent.manager._hypervisor.report()[1]
        ],
        "the guest is made",
    )
    other = Request()
    cloud.booted(other)
    huge = {**sizes, "memory_mb": MEMORY_MB * 10}
    instance = {"uuid": other.uuids[0], "vm_state": "active", "task_state": "resize_prep"}
    cloud.api.prep_resize(
        other.context, instance, huge, {}, {**other.spec, "instance_type": huge}, {"instance_type": huge}, []
    )
    told = cloud.told(other.uuids[0], "scheduler.prep_resize")
    assert told["payload"]["state"] == "active"
    assert cloud.instance(other.uuids[0])["vm_state"] == "active"


def test_explain_decides_and_leaves_no_trace(cloud: Cloud) -> None:
    """The record of a dry run counts hosts per filter and names a choice; nothing is claimed."""
    before = cloud.taken_mb()
    request = Request()
    record = cloud.api.explain(request.context, request.spec, request.filter_properties)
    explained = record["explanation"]
    assert (explained["driver"], explained["hosts_total"]) == ("filter_scheduler", len(HOSTS))
    (first,) = explained["rounds"]
    assert first["steps"][-1][0] == "ServerGroupAffinityFilter"
    assert first["chosen"][0] in HOSTS
    assert cloud.instance(request.uuids[0]) is None
    assert cloud.taken_mb() == before


def test_a_repeat_is_not_decided_twice(cloud: Cloud) -> None:
    """The same message again, at any time, changes nothing."""
    request = Request()
    (found,) = cloud.booted(request)
    cloud.boot(request)
    cloud.booted(Request())
    assert cloud.instance(request.uuids[0]) == found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"memory_mb": -1}, "memory_mb"),
        ({"memory_mb": 2**31}, "memory_mb"),
        ({"vcpus": "two"}, "vcpus"),
        ({"root_gb": 1.5}, "root_gb"),
        ({"memory_mb": True}, "memory_mb"),
    ],
)
def test_absurd_sizes_end_as_an_error_with_a_reason(cloud: Cloud, change: dict, expected: str) -> None:
    """Every instance that a broken request names ends in ERROR, and the fault names the field."""
    request = Request(count=2)
    request.spec["instance_type"].update(change)
    request.spec["instance_properties"].update(change)
    for one in cloud.booted(request):
        assert one["vm_state"] == "error"
        assert expected in one["fault"]["message"]


def test_too_many_instances_are_refused_whole(cloud: Cloud) -> None:
    """One more than may be asked for: each of the 1,001 is ERROR, and service goes on."""
    request = Request(count=1001)
    found = cloud.booted(request)
    assert {one["vm_state"] for one in found} == {"error"}
    assert "1001 instances in one request, at most 1000" in found[0]["fault"]["message"]
    (next_one,) = cloud.booted(Request())
    assert next_one["vm_state"] == "active"


@pytest.mark.parametrize("broken", [None, [], "text", {"instance_uuids": 7}, {"instance_uuids": [None]}, {}])
def test_a_message_that_names_nobody_does_not_stop_the_service(cloud: Cloud, broken: object) -> None:
    """It is put aside once, and the next request is served."""
    request = Request()
    request.spec = broken  # type: ignore[assignment]
    cloud.boot(request)
    (found,) = cloud.booted(Request())
    assert found["vm_state"] == "active"


def test_calls_with_broken_arguments_are_answered(cloud: Cloud) -> None:
    """A caller is told what is wrong instead of waiting for its time-out."""
    with pytest.raises(MalformedMessage):
        cloud.api.select_destinations({}, [], {})  # type: ignore[arg-type]
    with pytest.raises(InstanceNotFound):
        cloud.api.get_instance({}, "00000000-0000-4000-8000-000000000000")
    with pytest.raises(MalformedMessage, match="limit"):
        cloud.api.get_hosts({}, limit=-1)
    assert [row["host"] for row in cloud.api.get_hosts({})] == list(HOSTS)
    assert cloud.api.ping({}, "x") == {"service": "scheduler", "arg": "x"}


@pytest.mark.parametrize(
    "driver",
    [
        "chance",
        "filter",
        "caching",
        "nova.scheduler.chance.ChanceScheduler",
        "nova.scheduler.filter_scheduler.FilterScheduler",
        "nova.scheduler.caching_scheduler.CachingScheduler",
    ],
)
def test_each_driver_places(cloud: Cloud, driver: str) -> None:
    """The three drivers, by our names and by Nova's, build what is asked and give the same events."""
    with cloud.configured(driver=driver):
        request = Request(count=2)
        found = cloud.booted(request)
        assert {one["vm_state"] for one in found} == {"active"}
        for uuid in request.uuids:
            cloud.told(uuid, "scheduler.run_instance.scheduled")
        cloud.told(request.uuids[0], "scheduler.run_instance.end")


def test_a_users_own_driver_decides(cloud: Cloud) -> None:
    """By dotted path: one that changes ours, one that knows only the protocol."""
    with cloud.configured(driver=f"{OWN}.NotTheFirst"):
        found = cloud.booted(Request(count=4))
        assert {one["host"] for one in found} == {"node-2", "node-3"}
    with cloud.configured(driver=f"{OWN}.AlwaysTheLast"):
        found = cloud.booted(Request(count=3))
        assert {one["host"] for one in found} == {"node-3"}


def test_an_unknown_driver_is_refused_and_the_old_one_goes_on(cloud: Cloud) -> None:
    """A reload with a name that nobody knows changes nothing and lists the known ones."""
    unknown = replace(cloud.settings, scheduler=replace(cloud.settings.scheduler, driver="does.not.Exist"))
    with pytest.raises(Exception, match="chance"):
        cloud.worker.reload(unknown)
    (found,) = cloud.booted(Request())
    assert found["vm_state"] == "active"

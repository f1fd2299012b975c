"""What leaves: casts, events and answers, without secrets and the same for the same outcome."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from nova_sched.errors import ConfigurationError
from nova_sched.model.decision import Placement
from nova_sched.model.facts import GroupFact
from nova_sched.model.limits import Limits, NumaLimits
from nova_sched.model.numa import HostCell, HostTopology, InstanceCell, InstanceTopology
from nova_sched.model.request import InstanceRef
from nova_sched.settings import BusSettings, Settings
from nova_sched.wire import inbound, validate
from nova_sched.wire.outbound import MESSAGE_IDS, Outbound, RequestMessages, message_id
from nova_sched.wire.units import gb_to_mb
from nova_sched.wire.versions import compute_version

BUS = BusSettings()
NOW = datetime(2026, 12, 1, 12, 0, 0, 5, tzinfo=UTC)
UUIDS = ["u-1", "u-2", "u-3"]
CANARIES = (
    "canary-token",
    "canary-admin",
    "canary-file",
    "canary-user-data",
    "canary-catalog",
    "canary-iscsi",
)
CONTEXT = {
    "request_id": "req-1",
    "user_id": "user-1",
    "project_id": "project-1",
    "auth_token": "canary-token",
    "service_catalog": [{"password": "canary-catalog"}],
    "some_new_token": "canary-token",
    "roles": ["member"],
    "is_admin": False,
}


def arguments(method: str = "run_instance", **filter_properties: Any) -> dict[str, Any]:
    """Arguments with a secret in every place that can hold one."""
    properties = {
        "uuid": "u-1",
        "vm_state": "building",
        "task_state": "scheduling",
        "memory_mb": 512,
        "user_data": "canary-user-data",
        "metadata": {"purpose": "lab"},
        "numa_topology": None,
    }
    spec = {
        "instance_uuids": list(UUIDS),
        "instance_properties": properties,
        "instance_type": {"memory_mb": 512},
        "block_device_mapping": [{"connection_info": {"auth_password": "canary-iscsi"}}],
    }
    args = {
        "request_spec": spec,
        "filter_properties": filter_properties,
        "admin_password": "canary-admin",
        "injected_files": [["/etc/motd", "canary-file"]],
    }
    if method == "prep_resize":
        instance = {**properties, "vm_state": "stopped"}
        args |= {
            "instance": instance,
            "image": {"id": "i"},
            "instance_type": {"memory_mb": 512},
            "reservations": ["r"],
        }
    return args


def messages(
    method: str = "run_instance", bus: BusSettings = BUS, **filter_properties: Any
) -> RequestMessages:
    """Messages of such a request."""
    request = inbound.of(method, CONTEXT, arguments(method, **filter_properties), Settings())
    return Outbound(bus).of(request)


def placement(index: int = 0, **values: Any) -> Placement:
    """The instance of that index, placed."""
    return Placement(
        **{
            "instance": InstanceRef(UUIDS[index], index),
            "host_id": 1,
            "host": "h1",
            "node": "n1",
            "weight": 1.0,
            "limits": Limits(memory_mb=1024.0, disk_mb=4096.0, disk_gb=4.0, num_instances=3),
            **values,
        }
    )


def every_event(made: RequestMessages) -> list[Any]:
    """One of each kind of event."""
    instance = InstanceRef("u-1", 0)
    return [
        made.start(NOW),
        made.scheduled(placement(), NOW),
        made.end(NOW),
        made.error(instance, "no room", NOW),
        made.update(instance, "error", NOW),
    ]


@pytest.mark.parametrize("method", ["run_instance", "prep_resize"])
def test_no_secret_is_in_any_event(method):
    """Tokens, passwords, files, user data and connection secrets stay out, wherever they stood."""
    for event in every_event(messages(method)):
        text = json.dumps([event.payload, dict(event.context)])
        assert not [canary for canary in CANARIES if canary in text], event.event_type


def test_the_compute_gets_what_the_caller_sent():
    """The cast carries the caller's own context and all secrets (LP#1072205)."""
    cast = messages().cast(placement(), NOW)
    assert cast.context == CONTEXT
    assert cast.arguments["admin_password"] == "canary-admin"
    assert cast.arguments["injected_files"] == [["/etc/motd", "canary-file"]]
    assert cast.arguments["instance"]["user_data"] == "canary-user-data"


def test_a_cast_does_not_print_its_secrets():
    """Values are safe to log."""
    assert not [canary for canary in CANARIES if canary in repr(messages().cast(placement(), NOW))]


def test_start_and_end_name_all_instances_and_scheduled_names_its_own():
    """Juno's shared dictionary named the last one everywhere."""
    made = messages()
    for event in (made.start(NOW), made.end(NOW), made.error(InstanceRef("u-2", 1), "no", NOW)):
        assert event.payload["request_spec"]["instance_uuids"] == UUIDS
    assert made.scheduled(placement(1), NOW).payload["request_spec"]["instance_uuids"] == ["u-2"]


def test_an_empty_reason_is_never_sent():
    """Consumers rely on a text that says something."""
    assert messages().error(InstanceRef("u-1", 0), " ", NOW).payload["reason"] == "unknown error"


def test_message_ids_tell_repeats_from_news():
    """Same instance, attempt and event: same id at any time; another of the three: another id."""
    made, later = messages(), NOW + timedelta(hours=1)
    first = [event.message_id for event in every_event(made)]
    assert first == [event.message_id for event in every_event(messages())]
    assert len(set(first)) == len(first)
    assert made.cast(placement(), NOW).message_id == made.cast(placement(), later).message_id
    assert made.cast(placement(), NOW).message_id != made.cast(placement(host="h2"), NOW).message_id
    again = messages(retry={"num_attempts": 1, "hosts": []})
    assert not set(first) & {event.message_id for event in every_event(again)}


def test_requests_without_id_and_uuids_are_told_apart_by_what_they_ask():
    """Two anonymous calls are not taken for one."""
    ids = set()
    for memory_mb in (1, 2):
        args = {"request_spec": {"num_instances": 1, "instance_type": {"memory_mb": memory_mb}}}
        request = inbound.select_destinations({}, args, Settings())
        ids.add(Outbound(BusSettings()).of(request).start(NOW).message_id)
    assert len(ids) == 2


def test_instances_share_nothing_that_is_their_own():
    """Each cast has its own uuid, launch_index and retry; earlier tried hosts go with the first only (case 078)."""
    made = messages(retry={"num_attempts": 1, "hosts": [["h0", "n0"]]})
    first, second = (made.cast(placement(index), NOW).arguments for index in (0, 1))
    assert first["filter_properties"]["retry"] == {"num_attempts": 2, "hosts": [["h0", "n0"], ["h1", "n1"]]}
    assert second["filter_properties"]["retry"] == {"num_attempts": 2, "hosts": [["h1", "n1"]]}
    assert [args["instance"]["uuid"] for args in (first, second)] == ["u-1", "u-2"]
    assert [args["instance"]["launch_index"] for args in (first, second)] == [0, 1]
    assert [args["request_spec"]["instance_uuids"] for args in (first, second)] == [["u-1"], ["u-2"]]
    assert second["request_spec"]["instance_properties"]["launch_index"] == 1
    assert second["instance"]["metadata"][0]["instance_uuid"] == "u-2"


def test_a_lone_instance_that_comes_again_keeps_its_launch_index():
    """The second of a boot stays the second when its build is rescheduled by itself."""
    args = arguments(retry={"num_attempts": 1, "hosts": []})
    args["request_spec"]["instance_uuids"] = ["u-2"]
    args["request_spec"]["instance_properties"]["launch_index"] = 1
    made = Outbound(BUS).of(inbound.run_instance(CONTEXT, args, Settings()))
    sent = made.cast(placement(instance=InstanceRef("u-2", 0)), NOW).arguments
    assert sent["instance"]["launch_index"] == 1
    assert sent["request_spec"]["instance_properties"]["launch_index"] == 1


def test_limits_travel_by_junos_names_without_those_that_only_guard():
    """Disk in GB; number of instances and MB stay home."""
    sent = messages().filter_properties(placement())
    assert sent["limits"] == {"memory_mb": 1024.0, "disk_gb": 4.0}
    assert messages().filter_properties(placement(limits=Limits()))["limits"] == {}


def test_forced_hosts_send_no_limits_and_forced_nodes_empty_ones():
    """As Juno did; limits of an earlier attempt do not linger (LP#1231963)."""
    stale = {"memory_mb": 1}
    assert "limits" not in messages(force_hosts=["h1"], limits=stale).filter_properties(
        placement(limits=None)
    )
    assert (
        messages(force_nodes=["n1"], limits=stale).filter_properties(placement(limits=None))["limits"] == {}
    )


def test_a_choice_by_chance_has_retry_data_but_no_limits():
    """So a failed build can be rescheduled."""
    sent = messages().filter_properties(placement(limits=None, node=None, weight=None))
    assert "limits" not in sent
    assert sent["retry"]["hosts"] == [["h1", None]]


def test_what_the_scheduler_put_in_for_itself_does_not_travel():
    """context, config_options and request_spec in filter_properties stay here (LP#933584)."""
    sent = messages(context={"a": 1}, config_options={}, request_spec={}, pci_requests=[]).filter_properties(
        placement()
    )
    assert not {"context", "config_options", "request_spec"} & set(sent)
    assert sent["pci_requests"] == []


def test_numa_fit_and_limits_travel_as_json_text():
    """The fit of the chosen host replaces what was asked (case 293)."""
    fit = InstanceTopology((InstanceCell(1, frozenset({0, 1}), 4096),))
    host = HostTopology((HostCell(0, frozenset({0, 1, 2, 3}), 8192),))
    cast = messages().cast(placement(numa_fit=fit, limits=Limits(numa=NumaLimits(host, 1.5, 1.0))), NOW)
    wanted = {"cells": [{"id": 1, "cpus": "0,1", "mem": {"total": 4096}}]}
    assert json.loads(cast.arguments["instance"]["numa_topology"]) == wanted
    assert json.loads(cast.arguments["request_spec"]["instance_properties"]["numa_topology"]) == wanted
    assert json.loads(cast.arguments["filter_properties"]["limits"]["numa_topology"]) == {
        "cells": [{"id": 0, "cpus": "0,1,2,3", "cpu_limit": 6.0, "mem": {"total": 8192, "limit": 8192}}]
    }


def test_group_hosts_and_policies_are_those_after_the_request():
    """Hosts that the caller knew of stay; a policy that Juno did not know adds nothing (case 249)."""
    group = GroupFact("g", "ring", frozenset({"anti-affinity"}), {"u-0": "h0", "u-1": "h1"})
    sent = messages(group_hosts=["h7"]).filter_properties(placement(), group)
    assert sent["group_hosts"] == ["h0", "h1", "h7"]
    assert sent["group_policies"] == ["anti-affinity"]
    unknown = GroupFact("g", "ring", frozenset({"soft"}), {})
    assert "group_policies" not in messages().filter_properties(placement(), unknown)


def test_a_resize_is_one_cast_with_its_arguments_passed_through():
    """prep_resize of compute's API, the chosen node added."""
    cast = messages("prep_resize").cast(placement(), NOW, 60.0)
    assert (cast.method, cast.version, cast.topic, cast.server) == ("prep_resize", "3.0", "compute", "h1")
    assert cast.expiration_seconds == 60.0
    assert set(cast.arguments) == {
        "image", "instance", "instance_type", "reservations", "request_spec", "filter_properties", "node",
    }  # fmt: skip
    assert cast.arguments["reservations"] == ["r"]
    assert cast.arguments["filter_properties"]["limits"]["memory_mb"] == 1024.0


def test_a_refused_resize_leaves_the_instance_as_it_was():
    """Its vm_state is the given one, active if none was given; a build ends in error."""
    made = messages("prep_resize")
    assert made.refused_vm_state() == "stopped"
    event = made.error(InstanceRef("u-1", 0), "no room", NOW)
    assert (event.event_type, event.payload["state"], event.payload["method"]) == (
        "scheduler.prep_resize",
        "stopped",
        "prep_resize",
    )
    assert messages().refused_vm_state() == "error"


@pytest.mark.parametrize(
    ("wanted", "method", "expected"),
    [
        (None, "run_instance", False),
        ("vm_state", "run_instance", True),
        ("vm_state", "prep_resize", False),
        ("vm_and_task_state", "prep_resize", True),
    ],
)
def test_updates_are_sent_as_notify_on_state_change_asks(wanted, method, expected):
    """A resize that is refused changes the task only."""
    made = messages(method, BusSettings(notify_on_state_change=wanted))
    update = made.update(InstanceRef("u-1", 0), made.refused_vm_state(), NOW)
    assert (update is not None) is expected


def test_the_answer_for_forced_hosts_has_empty_limits_and_by_chance_none():
    """Case 324; Juno's chance scheduler answered null."""
    unlimited = [placement(limits=None)]
    assert messages("select_destinations", force_hosts=["h1"]).destinations(unlimited)[0]["limits"] == {}
    assert messages("select_destinations").destinations(unlimited)[0]["limits"] is None


@pytest.mark.parametrize(
    ("cap", "version"),
    [
        (None, "3.27"),
        ("auto", "3.27"),
        ("juno", "3.27"),
        ("3.27", "3.27"),
        ("icehouse", "3.0"),
        ("3.26", "3.0"),
    ],
)
def test_older_computes_get_the_older_version(cap, version):
    """[upgrade_levels] compute, as alias or number (LP#1309334)."""
    assert messages(bus=BusSettings(compute_version_cap=cap)).cast(placement(), NOW).version == version


@pytest.mark.parametrize("cap", ["havana!", "2.43", "4.0", "3", ""])
def test_a_cap_that_nothing_fits_is_a_configuration_error(cap):
    """Said at the start, not per request."""
    with pytest.raises(ConfigurationError):
        compute_version("run_instance", cap)


def test_refused_requests_of_any_shape_give_sendable_events():
    """What made the request absurd is not repeated in the ERROR about it."""
    args = arguments()
    args["request_spec"]["instance_properties"] |= {
        "root_gb": "x",
        "memory_mb": float("nan"),
        "metadata": "\ud800",
    }
    request = inbound.run_instance(CONTEXT, args, Settings())
    made = Outbound(BusSettings()).of(request)
    instance = InstanceRef("u-1", 0)
    for event in (
        made.start(NOW),
        made.end(NOW),
        made.error(instance, request.error, NOW),
        made.update(instance, "error", NOW),
    ):
        text = json.dumps(event.payload, allow_nan=False)
        assert text.encode()
        assert validate.insane(event.payload) is None


def test_a_deleted_guest_is_ended_by_a_cast_to_its_host():
    """terminate_instance of compute's API."""
    cast = Outbound(BusSettings(compute_topic="compute")).terminate("h1", "u-1", {})
    assert (cast.server, cast.method) == ("h1", "terminate_instance")
    assert validate.fault("terminate_instance", dict(cast.arguments)) is None


@pytest.mark.parametrize(("size_gb", "size_mb"), [(0, 0), (1, 1024), (-3, -3072)])
def test_gb_become_mb_in_one_place(size_gb, size_mb):
    """Negative free space of a full host stays negative."""
    assert gb_to_mb(size_gb) == size_mb


def test_a_message_id_is_the_uuid5_of_its_key_attempt_and_kind() -> None:
    for key in ("5a6e0000-0000-4000-8000-000000000001", "req-1/é", ""):
        expected = str(uuid.uuid5(MESSAGE_IDS, f"{key} 2 scheduler.run_instance.end"))
        assert message_id(key, 2, "scheduler.run_instance.end") == expected


@pytest.mark.parametrize("retry", [{}, None, {"num_attempts": 4, "hosts": [["a", "b"]]}])
def test_retry_data_travels_as_received_where_attempts_are_not_counted(retry):
    """A forced placement has no retry of its own, and Juno leaves what it was given."""
    args = arguments(force_hosts=["h1"], retry=retry)
    made = Outbound(BUS).of(inbound.run_instance(CONTEXT, args, Settings()))
    assert made.filter_properties(placement())["retry"] == (
        retry if not retry else {**retry, "hosts": [["a", "b"], ["h1", "n1"]]}
    )

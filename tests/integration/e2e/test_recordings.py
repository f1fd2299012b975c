"""Recorded requests of Juno's clients over a real broker to the real daemon, and its answers against the recording.

What is compared and what is free stands in ``tests/unit/wire/test_captures.py``. Order is compared within each queue:
notifications leave on a connection of their own, so that they never hold a build back, and no consumer sees the order
of messages in two queues.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from nova_sched.testing.servers import RabbitServer
from nova_sched.testing.servers.process import ServerProcess
from tests.integration.e2e.deployment import Deployment, report, until
from tests.integration.e2e.desk import PROPERTIES, Desk, Taken
from tests.unit.wire.test_captures import (
    CAPTURES,
    CONTEXT,
    FREE,
    FREE_OF_SECOND,
    as_wanted,
    assert_same,
    recording,
)

SCENARIOS = sorted(path.stem for path in CAPTURES.glob("*.json"))
HOSTS = ("node-1", "node-2", "node-3")
BROKEN = "tests.integration.e2e.plugins.Broken"
BROKEN_TOO = f"nova.scheduler.filters.all_filters,{BROKEN}"
QUEUES = ("notifications.info", "notifications.error", *(f"compute.{host}" for host in HOSTS))
FREE_ON_THE_BUS = FREE | {"message_id", "timestamp", "_unique_id"}


class World:
    """The recorded cloud: three hosts of 64 GB, nobody but us behind their queues."""

    def __init__(self, deployment: Deployment, daemon: ServerProcess, desk: Desk) -> None:
        self.deployment = deployment
        self.daemon = daemon
        self.desk = desk
        self._sequence = itertools.count(1)

    def prefer(self, hosts: list[str]) -> None:
        """Report numbers by which these hosts are the best, in this order."""
        order = [*hosts, *(host for host in HOSTS if host not in hosts)]
        free = {host: 65536 - 1024 * place for place, host in enumerate(order)}
        sequence = next(self._sequence)
        for host in HOSTS:
            self.deployment.reports.report_state({}, *report(int(host[-1]), free[host], sequence))

        def is_seen() -> bool:
            rows = self.deployment.hosts()
            known = {name: row["free_ram_mb"] for name, row in rows.items()}
            return known == free and not any(row["claimed_memory_mb"] for row in rows.values())

        until(is_seen, "the hosts' numbers are in SQL, and nothing is claimed")

    def reload(self, **scheduler: str) -> None:
        """Other options of ``[DEFAULT]``, by SIGHUP; they hold when the workers have said so."""
        told = "deciding with the new settings"
        before = self.deployment.log(self.daemon).count(told)
        self.deployment.write("nova-sched.conf", {"DEFAULT": scheduler})
        os.kill(self.daemon.pid or 0, signal.SIGHUP)
        until(
            lambda: self.deployment.log(self.daemon).count(told) > before,
            lambda: f"the reload:\n{self.daemon.log_tail()}",
        )


@pytest.fixture(scope="module")
def world(rabbit: RabbitServer) -> Iterator[World]:
    """The daemon over RabbitMQ and SQLite."""
    with (
        rabbit.vhost() as vhost,
        Deployment(rabbit.transport_url(vhost), options={"DEFAULT": {"service_down_time": 60}}) as deployment,
    ):
        deployment.sync()
        daemon = deployment.daemon()
        with Desk(rabbit.port, vhost) as desk:
            for queue in QUEUES:
                desk.queue(queue)
            desk.listen(QUEUES)
            yield World(deployment, daemon, desk)


def wanted_of(scenario: str) -> list[dict[str, Any]]:
    """The recorded answers with the wanted deviations: also an ``.end`` for every ``.start``."""
    first, *others = recording(scenario)
    wanted = [
        {
            **one,
            "message": one["message"]
            if "_msg_id" in one["message"]
            else as_wanted(one["message"], first["message"]),
        }
        for one in others
    ]
    starts = [one for one in wanted if one["message"].get("event_type", "").endswith(".start")]
    if starts and not any(one["message"].get("event_type", "").endswith(".end") for one in wanted):
        (start,) = starts
        end = json.loads(json.dumps(start))
        end["message"]["event_type"] = start["message"]["event_type"].replace(".start", ".end")
        wanted.append(end)
    return wanted


def in_order_of(queue: str, messages: list[Taken]) -> list[Taken]:
    """Those of one queue."""
    return [one for one in messages if one.queue == queue]


def assert_answer(ours: Taken, wanted: dict[str, Any]) -> None:
    """A reply is as recorded; of a failure the class and module, that there is text, and no traceback is compared."""
    theirs = wanted["message"]
    assert set(ours.message) == set(theirs)
    if not theirs.get("failure"):
        assert_same(dict(ours.message), theirs, "reply", {"_unique_id"})
        return
    failure, recorded = json.loads(ours.message["failure"]), json.loads(theirs["failure"])
    assert set(failure) == set(recorded)
    assert {key: type(value) for key, value in failure.items()} == {
        key: type(value) for key, value in recorded.items()
    }
    assert (failure["module"], failure["class"]) == NAMES.get(
        recorded["class"], (recorded["module"], recorded["class"])
    )
    assert set(failure["kwargs"]) == set(recorded["kwargs"])
    if recorded["class"] != "KeyError":
        assert failure["message"].startswith(recorded["message"].strip())


#: Where the names of the recorded libraries have moved since, what is sent today.
NAMES = {
    "NoSuchMethod": ("oslo_messaging.rpc.dispatcher", "NoSuchMethod"),
    "UnsupportedVersion": ("oslo_messaging.rpc.dispatcher", "UnsupportedVersion"),
    "KeyError": ("nova_sched.errors", "PluginError"),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_leaves_for_a_recorded_request_is_as_recorded(world: World, scenario: str) -> None:
    """Fed byte by byte as recorded, answered key by key and type by type as recorded.

    Juno broke on a request without ``os_type``, which is served here: for its unexpected errors a filter breaks instead.
    """
    first = recording(scenario)[0]
    wanted = wanted_of(scenario)
    world.prefer(chosen_of(scenario))
    if scenario.endswith("unexpected_error"):
        world.reload(
            scheduler_default_filters=f"RetryFilter,{BROKEN}", scheduler_available_filters=BROKEN_TOO
        )
    reply_queue = first["message"].get("_reply_q")
    if reply_queue:
        world.desk.queue(reply_queue, exchange=None)
        world.desk.listen([reply_queue])
    properties = {**first["properties"], "application_headers": first["properties"]["headers"]}
    properties.pop("headers")
    world.desk.put(first["body"], first["routing_key"], **properties)
    try:
        taken = world.desk.take(len(wanted))
        assert world.desk.drain(0.2) == []
    finally:
        for uuid in first["message"].get("args", {}).get("request_spec", {}).get("instance_uuids", []):
            world.deployment.api.delete_instance({}, uuid)
        if scenario.endswith("unexpected_error"):
            world.reload()

    for queue in {one["routing_key"] for one in wanted}:
        expected = [one for one in wanted if one["routing_key"] == queue]
        ours = in_order_of(queue, taken)
        assert [name_of(one) for one in expected] == [one.name for one in ours], queue
        for one, other in zip(ours, expected, strict=True):
            assert {key: one.properties.get(key) for key in PROPERTIES} == {
                key: other["properties"].get(key) for key in PROPERTIES
            }
            if "_msg_id" in other["message"]:
                assert_answer(one, other)
            else:
                second = other["message"].get("args", {}).get("instance", {}).get("launch_index")
                assert_same(
                    dict(one.message),
                    other["message"],
                    one.name,
                    FREE_ON_THE_BUS | (FREE_OF_SECOND if second else set()),
                )


def name_of(recorded: dict[str, Any]) -> str:
    """As ``Taken.name``."""
    return Taken("", {}, "", recorded["message"]).name


def chosen_of(scenario: str) -> list[str]:
    """Hosts of the recording, in the order in which they were chosen."""
    _, *others = recording(scenario)
    hosts = [
        one["routing_key"].removeprefix("compute.")
        for one in others
        if one["routing_key"].startswith("compute.")
    ]
    for one in others:
        result = one["message"].get("result")
        hosts += [place["host"] for place in result] if isinstance(result, list) else []
    return hosts


def test_the_callers_context_goes_on_whole_to_compute_only(world: World) -> None:
    """Keys of any release travel on, the token with them; notifications carry neither token nor catalogue."""
    first = recording("run_instance_one")[0]
    body = json.loads(first["body"])
    message = json.loads(body["oslo.message"])
    uuid = "5a6e0000-0000-4000-8000-00000000c0de"
    message["args"]["request_spec"]["instance_uuids"] = [uuid]
    message["_unique_id"] = "c0de"
    message["_context_key_of_a_later_release"] = {"a": [1]}
    body["oslo.message"] = json.dumps(message)
    world.prefer(["node-1"])
    world.desk.put(json.dumps(body), content_encoding="utf-8")
    taken = world.desk.take(4)
    (cast,) = in_order_of("compute.node-1", taken)
    assert {key: value for key, value in cast.message.items() if key.startswith(CONTEXT)} == {
        key: value for key, value in message.items() if key.startswith(CONTEXT)
    }
    for event in in_order_of("notifications.info", taken):
        assert event.message["_context_auth_token"] is None
        assert "_context_key_of_a_later_release" not in event.message
    world.deployment.api.delete_instance({}, uuid)

"""The endpoints, called the way the bus calls them."""

from __future__ import annotations

from typing import Any

import oslo_messaging
import pytest
from oslo_messaging.rpc.dispatcher import ExplicitRPCAccessPolicy, RPCDispatcher

from nova_sched.db.decisions import describe
from nova_sched.errors import (
    BusUnavailable,
    InstanceNotFound,
    MalformedMessage,
    NoValidHost,
    StoreUnavailable,
)
from nova_sched.manager import BaseAPI, NovaSchedAPI, ReportManager, SchedulerManager
from nova_sched.rpc.deferred import Deferred
from tests.unit.service.world import CONTEXT, SETTINGS, World, message, uuid_of


class Incoming:
    """What oslo.messaging's dispatcher reads of a message."""

    client_timeout = None

    def __init__(self, content: dict[str, Any]) -> None:
        self.ctxt = CONTEXT
        self.message = content


class Directory:
    """Instances and hosts by name."""

    def __init__(self, world: World) -> None:
        self._world = world

    def get_instance(self, uuid: str) -> dict[str, Any]:
        found = self._world.db.instances.get(uuid)
        if found is None:
            raise InstanceNotFound(uuid)
        return {"uuid": uuid, "vm_state": found.vm_state}

    def delete_instance(self, uuid: str) -> None:
        self._world.db.delete_instance(uuid)

    def get_hosts(self, marker: str | None, limit: int) -> list[dict[str, Any]]:
        names = sorted(row["host"] for row in self._world.db.hosts.values())
        return [{"host": name} for name in names if marker is None or name > marker][:limit]


class Endpoints:
    """A world behind a dispatcher that lets only exposed methods through."""

    def __init__(self, hosts: int = 3) -> None:
        self.world = World(hosts)
        self.manager = SchedulerManager(self.world.batch, SETTINGS)
        own = NovaSchedAPI(self.world.batch, Directory(self.world), describe, SETTINGS)
        self._dispatcher = RPCDispatcher([self.manager, BaseAPI(), own], None, ExplicitRPCAccessPolicy)

    def dispatch(
        self, method: str, namespace: str | None = None, version: str = "1.0", **arguments: Any
    ) -> Any:
        """One message, without the end of its batch."""
        content = {"method": method, "args": arguments, "version": version, "namespace": namespace}
        return self._dispatcher.dispatch(Incoming(content))

    def call(self, method: str, namespace: str | None = None, version: str = "1.0", **arguments: Any) -> Any:
        """One message as a batch of its own; the answer."""
        answer = self.dispatch(method, namespace, version, **arguments)
        self.manager.end_batch()
        return answer.result() if isinstance(answer, Deferred) else answer


def test_run_instance_is_answered_when_its_batch_has_ended():
    endpoints = Endpoints()
    answer = endpoints.dispatch("run_instance", version="3.0", **message(1))
    assert isinstance(answer, Deferred)
    assert not answer.done
    endpoints.manager.end_batch()
    assert answer.result() is None
    assert endpoints.world.host_of(1)


def test_select_destinations_replies_hosts_or_raises_for_the_caller():
    endpoints = Endpoints(hosts=1)
    arguments = {key: message(1)[key] for key in ("request_spec", "filter_properties")}
    assert endpoints.call("select_destinations", version="3.0", **arguments)[0]["host"] == "h1"
    large = message(2, memory_mb=10**6)
    with pytest.raises(NoValidHost):
        endpoints.call(
            "select_destinations", version="3.0",
            request_spec=large["request_spec"], filter_properties=large["filter_properties"],
        )  # fmt: skip


def test_arguments_of_later_releases_do_no_harm():
    endpoints = Endpoints()
    endpoints.call("run_instance", version="3.0", context="odd", **message(1), block_device_mapping=[])
    assert endpoints.world.host_of(1)


def test_missing_arguments_end_the_named_instances_in_error_with_a_reason():
    endpoints = Endpoints()
    endpoints.call("run_instance", version="3.0", request_spec={"instance_uuids": [uuid_of(1)], "image": 7})
    assert endpoints.world.db.instances[uuid_of(1)].vm_state == "error"
    assert "Invalid request" in endpoints.world.db.faults[0][1]


def test_a_message_that_names_nobody_is_malformed():
    endpoints = Endpoints()
    with pytest.raises(MalformedMessage):
        endpoints.call("run_instance", version="3.0", request_spec=None)


@pytest.mark.parametrize(
    "method", ["end_batch", "refuse", "_submit", "__init__", "target", "_batch", "settings", "nothing"]
)
def test_only_exposed_methods_can_be_called(method):
    with pytest.raises(oslo_messaging.NoSuchMethod):
        Endpoints().dispatch(method, version="3.0")


def test_a_version_beyond_ours_is_refused():
    with pytest.raises(oslo_messaging.UnsupportedVersion):
        Endpoints().dispatch("run_instance", version="9.0")


def test_ping_returns_its_argument():
    assert Endpoints().call("ping", "baseapi", "1.0", arg="x") == {"service": "scheduler", "arg": "x"}


def test_explain_answers_the_record_and_claims_nothing():
    endpoints = Endpoints()
    arguments = {key: message(1)[key] for key in ("request_spec", "filter_properties")}
    record = endpoints.call("explain", "nova_sched", **arguments)
    assert record["explanation"]["driver"] == "filter_scheduler"
    assert record["explanation"]["rounds"][0]["chosen"] == ["h1", "h1.node"]
    assert endpoints.world.db.claims == {}


def test_explain_says_why_each_host_was_refused():
    endpoints = Endpoints()
    large = message(1, memory_mb=17000)
    record = endpoints.call(
        "explain",
        "nova_sched",
        request_spec=large["request_spec"],
        filter_properties=large["filter_properties"],
    )
    refused = {
        host: reason for (host, _), reason in record["explanation"]["rounds"][0]["refused"]["RamFilter"]
    }
    assert set(refused) == {"h3"}
    assert "17000" in refused["h3"]


def test_instances_are_read_and_deleted_by_uuid():
    endpoints = Endpoints()
    with pytest.raises(InstanceNotFound):
        endpoints.call("get_instance", "nova_sched", uuid=uuid_of(1))
    endpoints.call("delete_instance", "nova_sched", uuid=uuid_of(1))
    endpoints.call("run_instance", version="3.0", **message(1))
    assert endpoints.call("get_instance", "nova_sched", uuid=uuid_of(1))["vm_state"] == "deleted"
    assert endpoints.world.bus.published == []


@pytest.mark.parametrize("away", [False, True])
def test_the_agent_of_a_deleted_guest_is_told_at_once_where_the_bus_lets_us(away):
    """An agent that nobody told would run the guest until its next full report."""
    told = []

    class OneGuest(Directory):
        def delete_instance(self, uuid: str) -> list[tuple[str, str]]:
            return [("h1", uuid)]

    def terminate(host: str, uuid: str) -> None:
        told.append((host, uuid))
        if away:
            raise BusUnavailable("no broker")

    world = World(1)
    api = NovaSchedAPI(world.batch, OneGuest(world), describe, SETTINGS, terminate)
    api.delete_instance(CONTEXT, uuid=uuid_of(1))
    assert told == [("h1", uuid_of(1))]


@pytest.mark.parametrize("uuid", [None, "", 7, "x" * 300, "a\x00b", ["u"]])
def test_a_uuid_that_is_none_is_malformed(uuid):
    for method in ("get_instance", "delete_instance"):
        with pytest.raises(MalformedMessage):
            Endpoints().call(method, "nova_sched", uuid=uuid)


def test_hosts_come_in_pages():
    endpoints = Endpoints()
    first = endpoints.call("get_hosts", "nova_sched", limit=2)
    rest = endpoints.call("get_hosts", "nova_sched", marker=first[-1]["host"])
    assert [row["host"] for row in (*first, *rest)] == ["h1", "h2", "h3"]
    for limit in (0, -1, True, "2", 1.5):
        with pytest.raises(MalformedMessage):
            endpoints.call("get_hosts", "nova_sched", limit=limit)


def test_a_message_put_aside_ends_the_instances_it_names():
    endpoints = Endpoints()
    content = {"method": "run_instance", "args": message(1, 2, attempt=2), "version": "3.0"}
    endpoints.manager.refuse(content, "given up after 5 deliveries")
    for number in (1, 2):
        row = endpoints.world.db.instances[uuid_of(number)]
        assert (row.vm_state, row.attempt, row.fault) == ("error", 2, "given up after 5 deliveries")
    assert endpoints.world.bus.published == []


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        {"method": "run_instance"},
        {"method": "run_instance", "args": []},
        {"method": "run_instance", "args": {"request_spec": {"instance_uuids": "x"}}},
        {
            "method": "run_instance",
            "args": {"request_spec": {"instance_uuids": [None, 5, "", "\x00", "é", "x" * 99]}},
        },
        {"method": "select_destinations", "args": {"request_spec": {"instance_uuids": ["u"]}}},
        {"method": "prep_resize", "args": {"instance": 5}},
    ],
)
def test_a_message_put_aside_that_names_nobody_changes_nothing(content):
    endpoints = Endpoints()
    endpoints.manager.refuse(content, "broken")
    assert endpoints.world.db.instances == {}


def test_an_outage_passes_through_so_that_the_server_holds_the_batch():
    endpoints = Endpoints()
    endpoints.world.store.away = {"commit"}
    with pytest.raises(StoreUnavailable):
        endpoints.call("run_instance", version="3.0", **message(1))


def test_reports_are_queued_and_written_with_their_batch():
    class Sink:
        def __init__(self) -> None:
            self.queued: list[Any] = []
            self.written: list[Any] = []

        def report_state(self, service: Any, nodes: Any, age_seconds: float | None = None) -> None:
            self.queued.append((service, nodes, age_seconds))

        def update_instance(self, **update: Any) -> None:
            self.queued.append(update)

        def apply(self) -> None:
            self.written, self.queued = self.queued, []

    sink = Sink()
    reports = ReportManager(sink, lambda: 7.5)
    dispatcher = RPCDispatcher([reports], None, ExplicitRPCAccessPolicy)
    for method, arguments in (
        ("report_state", {"service": {"host": "h1"}, "nodes": []}),
        ("update_instance", {"uuid": "u", "attempt": 1, "state": "active"}),
    ):
        dispatcher.dispatch(Incoming({"method": method, "args": arguments, "version": "1.0"}))
    assert sink.written == []
    reports.end_batch()
    assert sink.written == [({"host": "h1"}, [], 7.5), {"uuid": "u", "attempt": 1, "state": "active"}]

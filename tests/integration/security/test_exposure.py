"""What can be reached from outside: methods, classes, sizes, ports."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import psutil
import pytest

from nova_sched.rpc import transport as transports
from nova_sched.rpcapi import SchedulerAPI
from nova_sched.testing.servers import RabbitServer, free_port
from tests.functional.behaviour.cloud import Request
from tests.integration.e2e.deployment import Deployment, report, until
from tests.integration.e2e.desk import Desk
from tests.integration.e2e.test_stock_clients import stock_client, stock_conf
from tests.integration.security.canaries import body

PRIVATE = (
    "_submit",
    "__init__",
    "__class__",
    "end_batch",
    "refuse",
    "settings",
    "target",
    "_batch",
    "run",
    "",
    "a b",
)


class Site:
    """A daemon with one host, its health port on, and a desk."""

    def __init__(self, deployment: Deployment, rabbit: RabbitServer, vhost: str, desk: Desk) -> None:
        self.deployment, self.rabbit, self.vhost, self.desk = deployment, rabbit, vhost, desk
        self.daemon = deployment.daemon()
        deployment.reports.report_state({}, *report(1, 65536, 1))
        until(lambda: deployment.hosts(), "the host is known")

    def serves(self) -> None:
        """The next request is answered."""
        request = Request()
        assert self.deployment.api.select_destinations(
            request.context, request.spec, request.filter_properties
        )

    def letters(self) -> int:
        """Messages put aside so far."""
        return int(self.rabbit.queues(self.vhost).get("scheduler.dead_letter", {"messages": 0})["messages"])


@pytest.fixture(scope="module")
def site(rabbit: RabbitServer) -> Iterator[Site]:
    """See Site."""
    options = {"DEFAULT": {"service_down_time": 60}, "health": {"enabled": "true", "port": free_port()}}
    with rabbit.vhost() as vhost, Deployment(rabbit.transport_url(vhost), options=options) as deployment:
        deployment.sync()
        with Desk(rabbit.port, vhost) as desk:
            yield Site(deployment, rabbit, vhost, desk)


@pytest.mark.parametrize("namespace", [None, "baseapi", "nova_sched"])
def test_methods_that_are_not_meant_for_the_bus_do_not_exist_there(site: Site, namespace: str | None) -> None:
    """Private names, helpers and attributes are answered as unknown methods."""
    version = "3.0" if namespace is None else "1.0"
    with stock_client(site.deployment.transport_url, True) as client:
        asking = client.prepare(version=version, namespace=namespace, timeout=10)
        for method in PRIVATE:
            with pytest.raises(oslo_messaging.RemoteError) as refused:
                asking.call({}, method)
            assert refused.value.exc_type == "NoSuchMethod"
    site.serves()


def test_no_class_that_an_answer_names_is_made(rabbit: RabbitServer) -> None:
    """A reply with the failure ``os.system`` (or any other class) stays a remote error with that text."""
    with rabbit.vhost() as vhost, Desk(rabbit.port, vhost) as desk:
        desk.queue("scheduler")
        desk.listen(["scheduler"])
        transport = transports.get_transport(stock_conf(True), rabbit.transport_url(vhost))
        failure = {
            "module": "os",
            "class": "system",
            "args": ["touch /tmp/canary"],
            "kwargs": {},
            "message": "m",
            "tb": ["t"],
        }
        answers: list[BaseException] = []

        def ask() -> None:
            try:
                SchedulerAPI(transport, timeout_seconds=10).ping({}, "x")
            except Exception as error:
                answers.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        (call,) = desk.take(1)
        content = {
            "result": None,
            "failure": json.dumps(failure),
            "_msg_id": call.message["_msg_id"],
            "_unique_id": uuid.uuid4().hex,
        }
        desk.put(
            body({**content, "ending": True}), call.message["_reply_q"], exchange="", content_encoding="utf-8"
        )
        asking.join(15)
        transport.cleanup()
    (error,) = answers
    assert isinstance(error, oslo_messaging.RemoteError)
    assert error.exc_type == "system"


def _hints(value: Any) -> dict[str, Any]:
    return {"scheduler_hints": value}


@pytest.mark.parametrize(
    ("properties", "bound"),
    [
        (_hints({"same_host": [str(number) for number in range(10_001)]}), "10000"),
        (_hints({"query": "x" * 65_536}), "65535"),
        (_hints({f"hint-{number}": "x" for number in range(257)}), "256"),
        ({"ignore_hosts": [str(number) for number in range(10_001)]}, "10000"),
        ({"force_hosts": [str(number) for number in range(10_001)]}, "10000"),
        ({"retry": {"num_attempts": 1, "hosts": [["h", str(number)] for number in range(1001)]}}, "1000"),
    ],
)
def test_lists_and_hints_are_bounded(site: Site, properties: dict[str, Any], bound: str) -> None:
    """CVE-2012-3371: a hint of ten thousand ids ends in ERROR with the bound in its fault."""
    request = Request(**properties)
    api = site.deployment.api
    api.run_instance(request.context, request.spec, "pass", [], None, True, request.filter_properties, False)
    until(
        lambda: site.deployment.instances().get(request.uuids[0], {}).get("vm_state") == "error",
        "it is refused",
    )
    fault = site.deployment.directory.get_instance(request.uuids[0])["fault"]
    assert bound in fault["message"].replace(",", "")


def test_doubles_in_hints_and_batches_count_once(site: Site) -> None:
    """The same id ten thousand times is one id; the same instance twice is one instance."""
    request = Request(**_hints({"different_host": ["5a6e0000-0000-4000-8000-0000000000ff"] * 10_000}))
    request.spec["instance_uuids"] *= 5
    api = site.deployment.api
    api.run_instance(request.context, request.spec, "pass", [], None, True, request.filter_properties, False)
    until(lambda: site.deployment.instances().get(request.uuids[0]), "it is decided")
    stored = site.deployment.run("nova-sched", "decision", "list", "-f", "json")
    (newest, *_) = json.loads(stored.stdout)
    shown = site.deployment.run("nova-sched", "decision", "show", str(newest["ID"]), "-f", "json").stdout
    assert shown.count("0000000000ff") <= 1


@pytest.mark.parametrize(
    "absurd",
    [
        body({"method": "run_instance", "version": "3.0", "args": {"x": "y" * (4 << 20)}}),
        "[" * 100_000,
        body({"method": "run_instance", "args": json.loads("[" * 150 + "]" * 150)}),
    ],
    ids=["too large", "deep and broken", "too deep"],
)
def test_absurd_bodies_are_put_aside_unparsed(site: Site, absurd: str) -> None:
    """One dead letter each, and the next request is served."""
    before = site.letters()
    site.desk.put(absurd, content_encoding="utf-8")
    until(lambda: site.letters() == before + 1, "it is put aside")
    site.serves()


def test_a_crowd_of_instances_ends_as_errors_of_a_bounded_size(site: Site) -> None:
    """20,000 uuids in one message: it is put aside, the first 10,000 are ERROR, and nothing waits for minutes."""
    crowd = Request()
    crowd.spec["instance_uuids"] = [f"{number:032x}" for number in range(20_000)]
    before = site.letters()
    api = site.deployment.api
    api.run_instance(crowd.context, crowd.spec, "pass", [], None, True, crowd.filter_properties, False)
    until(lambda: site.letters() == before + 1, "it is put aside", 40.0)
    site.serves()
    found = site.deployment.instances()
    assert (
        sum(found.get(uuid_, {}).get("vm_state") == "error" for uuid_ in crowd.spec["instance_uuids"])
        == 10_000
    )


def test_the_health_port_listens_on_loopback_only(site: Site) -> None:
    """No socket of the daemon listens anywhere else."""
    processes = [psutil.Process(site.daemon.pid), *site.deployment.workers(site.daemon)]
    listening = {
        connection.laddr.ip
        for process in processes
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}

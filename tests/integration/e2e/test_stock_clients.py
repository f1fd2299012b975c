"""Peers that know oslo.messaging and nothing of us: clients with durable queues on and off, notification listeners."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from nova_sched.rpc import transport as transports
from nova_sched.testing.servers import RabbitServer
from tests.functional.behaviour.cloud import Request
from tests.integration.e2e.deployment import Deployment, report, until
from tests.integration.e2e.desk import Desk

DRIVERS = {"driver": "messaging\ndriver = messagingv2"}


def stock_conf(durable: bool) -> cfg.ConfigOpts:
    """A client's configuration: the library's own defaults but for durability and the exchange."""
    conf = cfg.ConfigOpts()
    transports.register_options(conf, durable=durable)
    conf([], project="client", default_config_files=[], default_config_dirs=[])
    conf.set_override("rpc_response_timeout", 10)
    conf.set_override("kombu_reconnect_delay", 0.1, group="oslo_messaging_rabbit")
    return conf


@contextmanager
def stock_client(url: str, durable: bool) -> Iterator[Any]:
    """A stock RPC client of the scheduler topic."""
    transport = oslo_messaging.get_rpc_transport(stock_conf(durable), url)
    target = oslo_messaging.Target(topic="scheduler", version="3.0")
    try:
        yield oslo_messaging.get_rpc_client(transport, target, retry=1)
    finally:
        transport.cleanup()


class Service:
    """A daemon with three hosts that nobody stands behind, and the queues of two of them."""

    def __init__(self, deployment: Deployment, rabbit: RabbitServer, vhost: str, durable: bool) -> None:
        self.deployment, self.rabbit, self.vhost, self.durable = deployment, rabbit, vhost, durable


@pytest.fixture(scope="module", params=[True, False], ids=["durable", "transient"])
def service(request: pytest.FixtureRequest, rabbit: RabbitServer) -> Iterator[Service]:
    """The daemon with durable queues on and off; it sends both forms of notifications."""
    options = {
        "DEFAULT": {"service_down_time": 60},
        "delivery": {"durable_queues": request.param},
        "oslo_messaging_notifications": DRIVERS,
    }
    with rabbit.vhost() as vhost, Deployment(rabbit.transport_url(vhost), options=options) as deployment:
        deployment.sync()
        deployment.daemon()
        deployment.reports.report_state({}, *report(1, 60000, 1))
        until(lambda: len(deployment.hosts()) == 1, "the host is in SQL")
        yield Service(deployment, rabbit, vhost, request.param)


def call(service: Service, durable: bool) -> Any:
    """``select_destinations`` by a stock client."""
    asked = Request()
    with stock_client(service.deployment.transport_url, durable) as client:
        return client.call(
            asked.context,
            "select_destinations",
            request_spec=asked.spec,
            filter_properties=asked.filter_properties,
        )


def test_a_stock_client_of_the_same_durability_is_served(service: Service) -> None:
    """A call is answered, a cast is done, and NoValidHost arrives under Nova's name."""
    (found,) = call(service, service.durable)
    assert (found["host"], found["nodename"]) == ("node-1", "node-1.lab")
    huge = Request(memory_mb=10**6)
    arguments = {"request_spec": huge.spec, "filter_properties": huge.filter_properties}
    with stock_client(service.deployment.transport_url, service.durable) as client:
        with pytest.raises(oslo_messaging.RemoteError) as refused:
            client.call(huge.context, "select_destinations", **arguments)
        assert refused.value.exc_type == "NoValidHost"
        assert "Traceback" not in str(refused.value)
        client.cast(
            huge.context, "run_instance", admin_password=None, injected_files=None, requested_networks=None,
            is_first_time=True, legacy_bdm_in_spec=False, **arguments,
        )  # fmt: skip
    until(
        lambda: service.deployment.instances().get(huge.uuids[0], {}).get("vm_state") == "error",
        "it is decided",
    )


def test_a_stock_client_of_the_other_durability_is_told_why(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """A transient client of durable topics fails at once with the broker's words in one line; the other way it works."""
    if service.durable:
        with pytest.raises(oslo_messaging.MessageDeliveryFailure) as refused:
            call(service, durable=False)
        text = str(refused.value)
    else:
        assert call(service, durable=True)
        text = caplog.text
    assert text.strip().count("\n") == 0
    assert "durable" in text
    assert "exchange" in text
    assert call(service, service.durable), "the service goes on"


def test_the_daemon_of_the_other_durability_is_told_why(service: Service) -> None:
    """It does not fall back: it ends with status 2 and one line that names queue or exchange and the options."""
    path = service.deployment.write("other.conf", {"delivery": {"durable_queues": not service.durable}})
    done = service.deployment.run("nova-sched-scheduler", config=path)
    assert done.returncode == 2
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "exists in the broker" in line]
    assert len(lines) == 1
    assert "durable_queues" in lines[0]
    assert "Traceback" not in done.stdout + done.stderr


class Ear:
    """Endpoint of a stock notification listener."""

    def __init__(self) -> None:
        self.heard: queue.SimpleQueue[tuple[str, str, Any, Any]] = queue.SimpleQueue()

    def info(self, context: Any, publisher: str, event_type: str, payload: Any, metadata: Any) -> None:
        """Take it."""
        self.heard.put((event_type, publisher, payload, {**metadata, "context": context}))

    error = info


def test_a_stock_listener_hears_both_forms(service: Service) -> None:
    """Bare JSON (messaging) and the envelope (messagingv2) both reach a stock listener, with the same message id."""
    asked = Request(memory_mb=10**6)
    conf = stock_conf(service.durable)
    transport = oslo_messaging.get_notification_transport(conf, service.deployment.transport_url)
    ear = Ear()
    listener = oslo_messaging.get_notification_listener(
        transport, [oslo_messaging.Target(topic="notifications")], [ear], executor="threading"
    )
    listener.start()
    try:
        service.deployment.api.run_instance(
            asked.context, asked.spec, "pass", [], None, True, asked.filter_properties, False
        )
        heard: list[Any] = []

        def mine() -> list[Any]:
            while not ear.heard.empty():
                heard.append(ear.heard.get())
            return [
                one for one in heard if one[3]["context"].get("request_id") == asked.context["request_id"]
            ]

        until(lambda: len(mine()) == 8, lambda: f"four events in two forms, not {[one[0] for one in mine()]}")
    finally:
        listener.stop()
        listener.wait()
        transport.cleanup()
    kinds = sorted(one[0] for one in mine())
    assert kinds == sorted(
        2
        * [
            "compute.instance.update",
            "scheduler.run_instance",
            "scheduler.run_instance.end",
            "scheduler.run_instance.start",
        ]
    )
    for kind in set(kinds):
        first, second = (one for one in mine() if one[0] == kind)
        assert first[1] == second[1] == "scheduler.sched-1"
        assert first[2] == second[2]
        assert first[3]["message_id"] == second[3]["message_id"]
        assert uuid.UUID(first[3]["message_id"])


def test_both_forms_are_what_their_names_say(service: Service) -> None:
    """On the queue itself: one body with the payload at its top, one with ``oslo.message`` around it."""
    if not service.durable:
        return
    asked = Request(memory_mb=10**6)
    with Desk(service.rabbit.port, service.vhost) as desk:
        desk.listen(["notifications.error"])
        desk.drain()
        service.deployment.api.run_instance(
            asked.context, asked.spec, "pass", [], None, True, asked.filter_properties, False
        )
        bodies = [one.body for one in desk.take(2)]
    assert sorted("oslo.message" in body for body in bodies) == [False, True]

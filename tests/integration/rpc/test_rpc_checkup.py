"""The doctor's look at a real broker: what is missing, mismatched, forbidden or waiting, and nothing made by looking."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nova_sched.model.symptom import State, Symptom
from nova_sched.rpc import Target
from nova_sched.rpc import transport as transports
from nova_sched.rpc.bus.confirms import ConfirmedSender
from nova_sched.rpc.bus.driver import rabbit_driver
from nova_sched.rpc.bus.frames import Outgoing
from nova_sched.rpc.bus.server import BusServer
from nova_sched.rpc.checkup import check_bus
from nova_sched.rpc.dead_letters import letter_queue
from nova_sched.settings import BusSettings, DeliverySettings
from nova_sched.testing.servers import RabbitServer
from tests.integration.rpc.conftest import make_conf

BUS = BusSettings(host="sched-1")


def look(url: str, **rabbit_options: object) -> dict[str, Symptom]:
    transport = transports.get_transport(make_conf(**rabbit_options), url)
    try:
        return {one.check: one for one in check_bus(transport, BUS)}
    finally:
        transport.cleanup()


def wrongs(found: dict[str, Symptom]) -> set[str]:
    return {name for name, one in found.items() if one.state is State.WRONG}


@pytest.fixture
def serve(transport_url: str) -> Iterator[Callable[[], None]]:
    """Starts consumers of both topics, as a scheduler has them."""
    transport = transports.get_transport(make_conf(), transport_url)
    servers: list[BusServer] = []

    def start() -> None:
        for topic in (BUS.scheduler_topic, BUS.report_topic):
            server = BusServer(
                transport, Target(topic=topic, server=BUS.host), [], on_batch_end=lambda: None,
                delivery=DeliverySettings(),
            )  # fmt: skip
            servers.append(server)
            server.start()

    yield start
    for server in servers:
        server.stop(5)
    transport.cleanup()


def put(url: str, *messages: Outgoing) -> None:
    transport = transports.get_transport(make_conf(), url)
    driver = rabbit_driver(transport)
    assert driver is not None
    sender = ConfirmedSender(driver.link_settings, "test")
    sender.send(list(messages), 10)
    sender.close()
    transport.cleanup()


def test_a_broker_without_a_scheduler_is_said_and_left_as_it_is(
    rabbit: RabbitServer, rabbit_vhost: str, transport_url: str
) -> None:
    """What is missing is not made by looking for it."""
    found = look(transport_url)
    assert wrongs(found) == {"exchange nova", "queue scheduler", "queue scheduler_report", "publishing"}
    assert "start nova-sched-scheduler" in found["queue scheduler"].remedy
    assert rabbit.queues(rabbit_vhost) == {}
    assert "nova" not in rabbit.exchanges(rabbit_vhost)


def test_nothing_is_wrong_while_a_scheduler_consumes(transport_url: str, serve: Callable[[], None]) -> None:
    """Every line is fine, and the consumers are counted."""
    serve()
    found = look(transport_url)
    assert wrongs(found) == set()
    assert found["scheduler consumers"].found == "0 messages wait, 1 workers consume"


def test_other_properties_than_configured_are_named(transport_url: str, serve: Callable[[], None]) -> None:
    """A durable exchange met with a configuration that wants a transient one."""
    serve()
    found = look(transport_url, amqp_durable_queues=False)
    assert {"exchange nova", "queue scheduler", "queue scheduler_report"} <= wrongs(found)
    assert "durable" in found["exchange nova"].found


def test_nobody_consuming_and_dead_letters_are_wrong(
    rabbit: RabbitServer, rabbit_vhost: str, transport_url: str, serve: Callable[[], None]
) -> None:
    """Messages that wait for nobody, and messages that were given up."""
    transport = transports.get_transport(make_conf(), transport_url)
    driver = rabbit_driver(transport)
    assert driver is not None
    letters = letter_queue(BUS.dead_letter_queue, driver.topology())
    put(transport_url, Outgoing("", letters.name, b"{}", "1", True, None, {}, True, (letters,)))
    serve()
    assert wrongs(look(transport_url)) == {"dead letters"}
    rabbit.close_connections(rabbit_vhost)
    transport.cleanup()


def test_a_user_without_the_right_to_write_is_told_which_rights_to_give(
    rabbit: RabbitServer, rabbit_vhost: str, transport_url: str, serve: Callable[[], None]
) -> None:
    """The broker's word, and the remedy; another password is another line."""
    serve()
    rabbit.add_user("reader", "secret")
    rabbit.set_permissions("reader", rabbit_vhost, ".*", "^$", ".*")
    found = look(rabbit.transport_url(rabbit_vhost, "reader", "secret"))
    assert "publishing" in wrongs(found)
    assert "security guide" in found["publishing"].remedy
    refused = look(rabbit.transport_url(rabbit_vhost, "reader", "another"))
    assert wrongs(refused) == {"broker"}
    assert "another" not in refused["broker"].found
    assert wrongs(look("rabbit://guest:guest@127.0.0.1:1/")) == {"broker"}


def test_another_transport_is_odd_not_wrong() -> None:
    """There is nothing to look at, and what that means is said."""
    found = look("fake://")
    assert found["broker"].state is State.ODD

"""Casts, notifications and dead letters on a real broker: every message answered, none lost, nobody blocked for ever."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import amqp
import oslo_messaging
import pytest

from nova_sched.errors import BusUnavailable, MalformedMessage, QueueMismatch
from nova_sched.model.messages import Cast, Delivery, Event
from nova_sched.rpc import Target
from nova_sched.rpc import transport as transports
from nova_sched.rpc.bus.envelope import encode_message
from nova_sched.rpc.bus.publisher import Publisher
from nova_sched.rpc.factory import make_notifier, make_publisher
from nova_sched.rpc.notifications import NotificationSettings, Notifier
from nova_sched.rpcapi import SchedulerAPI
from nova_sched.testing.servers import RabbitServer, make_tls_files
from tests.integration.rpc.conftest import Bus, make_conf, until


def cast(number: int, server: str | None = "h1", **options: Any) -> Cast:
    return Cast(
        str(uuid.uuid5(uuid.NAMESPACE_OID, f"{number}")), "compute", server, "run_instance", "3.27",
        {"n": number, "big": "x" * 3000}, {"request_id": "req-1", "roles": ["member"]}, **options,
    )  # fmt: skip


def event(number: int, priority: str = "INFO") -> Event:
    return Event(
        str(uuid.uuid5(uuid.NAMESPACE_URL, f"{number}")), "scheduler.s1", "scheduler.run_instance.start", priority,
        {"n": number}, "2026-12-01 12:00:00.000000", {"request_id": "req-1"},
    )  # fmt: skip


@pytest.fixture
def publisher(bus: Bus) -> Iterator[Publisher]:
    """A publisher with a notifier on the same broker; patient for 10 s."""
    notifier = make_notifier(
        transports.get_notification_transport(bus.conf, bus.url), NotificationSettings(), "t"
    )
    publisher = make_publisher(bus.transport, notifier, "t", timeout_seconds=10)
    yield publisher
    publisher.close()
    publisher.close()


def declare(bus: Bus, *queues: str) -> None:
    """The queues of compute hosts, as their agents would make them."""
    with bus.raw() as connection:
        channel = connection.channel()
        channel.exchange_declare("nova", "topic", durable=True, auto_delete=False)
        for queue in queues:
            channel.queue_declare(queue, durable=True, auto_delete=False)
            channel.queue_bind(queue, "nova", queue)


def read(bus: Bus, queue: str) -> list[amqp.Message]:
    """Everything in a queue."""
    with bus.raw() as connection:
        channel = connection.channel()
        got = []
        while (message := channel.basic_get(queue, no_ack=True)) is not None:
            got.append(message)
        return got


def content(message: amqp.Message) -> dict[str, Any]:
    body = json.loads(message.body)
    decoded: dict[str, Any] = json.loads(body["oslo.message"]) if "oslo.message" in body else body
    return decoded


def test_a_stock_server_takes_our_casts(bus: Bus, publisher: Publisher) -> None:
    """oslo.messaging's own RPC server sees method, arguments, version and context as from its own client."""
    got: list[tuple[dict[str, Any], dict[str, Any]]] = []

    class Compute:
        target = oslo_messaging.Target(version="3.27")

        def run_instance(self, context: dict[str, Any], **arguments: Any) -> None:
            got.append((context, arguments))

    transport = oslo_messaging.get_rpc_transport(make_conf(), bus.url)
    server = oslo_messaging.get_rpc_server(
        transport, Target(topic="compute", server="h1"), [Compute()], executor="threading"
    )
    server.start()
    assert publisher.publish([cast(number) for number in range(50)]) == [Delivery.CONFIRMED] * 50
    until(lambda: len(got) == 50)
    server.stop()
    server.wait()
    transport.cleanup()
    assert [arguments["n"] for _, arguments in got] == list(range(50))
    assert got[0][0]["request_id"] == "req-1"


def test_the_message_is_what_the_librarys_own_client_sends(bus: Bus, publisher: Publisher) -> None:
    """Body keys and properties equal those of a stock cast, but for ids and expiration."""
    declare(bus, "compute.h1")
    publisher.publish([cast(1, expiration_seconds=150.0)])
    ours = read(bus, "compute.h1")[0]
    transport = oslo_messaging.get_rpc_transport(make_conf(), bus.url)
    client = oslo_messaging.get_rpc_client(transport, Target(topic="compute", server="h1", version="3.27"))
    client.cast(dict(cast(1).context), "run_instance", **cast(1).arguments)
    theirs = read(bus, "compute.h1")[0]
    transport.cleanup()
    mine, other = content(ours), content(theirs)
    mine["_unique_id"] = other["_unique_id"]
    assert mine == other
    assert ours.properties["expiration"] == "150000"
    for name in ("content_type", "content_encoding", "delivery_mode", "priority"):
        assert ours.properties[name] == theirs.properties[name]
    assert ours.properties["message_id"] == cast(1).message_id


def test_undeliverable_casts_are_told_from_the_others(bus: Bus, publisher: Publisher) -> None:
    """A host without a queue: its cast comes back, those around it are confirmed, in order (LP#1338732)."""
    declare(bus, "compute.h1")
    batch = [cast(number, "h1" if number % 3 else "gone") for number in range(60)]
    answers = publisher.publish(batch)
    assert answers == [Delivery.CONFIRMED if number % 3 else Delivery.UNDELIVERABLE for number in range(60)]
    assert publisher.publish([cast(99, "gone", mandatory=False)]) == [Delivery.CONFIRMED]


def test_publishing_survives_connections_cut_in_the_middle(bus: Bus, publisher: Publisher) -> None:
    """Everything is confirmed and everything is there, whatever happens to the connections; repeats carry the same id."""
    declare(bus, "compute.h1")
    stop = threading.Event()

    def cut() -> None:
        while not stop.wait(0.05):
            bus.rabbit.drop_connections(bus.vhost)

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        for start in range(0, 1500, 100):
            answers = publisher.publish([cast(number) for number in range(start, start + 100)])
            assert answers == [Delivery.CONFIRMED] * 100
    finally:
        stop.set()
        cutter.join()
    got = [content(message)["args"]["n"] for message in read(bus, "compute.h1")]
    assert set(got) == set(range(1500))


def test_many_threads_share_one_publisher(bus: Bus, publisher: Publisher) -> None:
    """Answers go to whoever asked."""
    declare(bus, "compute.h1")
    answers: dict[int, list[Delivery]] = {}

    def work(worker: int) -> None:
        server = "h1" if worker % 2 else "gone"
        answers[worker] = publisher.publish([cast(worker * 100 + n, server) for n in range(50)])

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    for worker in range(6):
        assert answers[worker] == [Delivery.CONFIRMED if worker % 2 else Delivery.UNDELIVERABLE] * 50


def test_a_blocked_broker_is_said_bounded_and_survived(
    bus: Bus, publisher: Publisher, caplog: pytest.LogCaptureFixture
) -> None:
    """LP#1454449, celery#2689: the reason is logged, publish raises in time, and works again after the alarm."""
    declare(bus, "compute.h1")
    publisher._timeout_seconds = 1.5
    assert publisher.publish([cast(0)]) == [Delivery.CONFIRMED]
    with bus.rabbit.blocked():
        began = time.monotonic()
        with pytest.raises(BusUnavailable, match="blocks publishers"):
            publisher.publish([cast(number) for number in range(1, 400)])
        assert time.monotonic() - began < 4
        assert any("blocks publishing" in line for line in caplog.messages)
    publisher._timeout_seconds = 10
    assert publisher.publish([cast(400)]) == [Delivery.CONFIRMED]


def test_a_missing_broker_is_an_answer_in_time(bus: Bus) -> None:
    """BusUnavailable within the time-out, not a hang."""
    notifier = Notifier(_NoWire(), NotificationSettings(("noop",)))
    transport = transports.get_transport(
        make_conf(), "rabbit://guest:guest@127.0.0.1:1,guest:guest@127.0.0.1:2/"
    )
    publisher = make_publisher(transport, notifier, "t", timeout_seconds=1)
    began = time.monotonic()
    with pytest.raises(BusUnavailable, match="refused"):
        publisher.publish([cast(1)])
    assert time.monotonic() - began < 3
    publisher.close()


class _NoWire:
    def send(self, events: Any, timeout_seconds: float) -> list[Delivery]:
        raise BusUnavailable("never used")

    def close(self) -> None:
        """Nothing to leave."""


def test_dead_hosts_of_the_url_are_passed_by(bus: Bus) -> None:
    """LP#1519851, LP#1261631: round robin, at most one try each before the living one."""
    dead = "guest:guest@127.0.0.1:1"
    url = f"rabbit://{dead},{dead},guest:guest@127.0.0.1:{bus.rabbit.port}/{bus.vhost}"
    declare(bus, "compute.h1")
    notifier = Notifier(_NoWire(), NotificationSettings(("noop",)))
    publisher = make_publisher(transports.get_transport(make_conf(), url), notifier, "t", timeout_seconds=5)
    began = time.monotonic()
    assert publisher.publish([cast(1)]) == [Delivery.CONFIRMED]
    assert time.monotonic() - began < 3
    publisher.close()


def test_publishing_passes_its_crash_points(bus: Bus) -> None:
    """Where fault tests kill a worker: before the first byte, after the last confirm."""
    declare(bus, "compute.h1")
    passed: list[str] = []
    notifier = Notifier(_NoWire(), NotificationSettings(("noop",)))
    publisher = make_publisher(bus.transport, notifier, "t", crash_point=passed.append)
    publisher.publish([cast(1), cast(2)])
    publisher.close()
    assert passed == ["before_publish", "after_confirm"]


def test_an_exchange_with_other_properties_is_refused(bus: Bus, publisher: Publisher) -> None:
    """QueueMismatch, not a retry for ever."""
    with bus.raw() as connection:
        connection.channel().exchange_declare("nova", "topic", durable=False, auto_delete=False)
    with pytest.raises(QueueMismatch, match="nova"):
        publisher.publish([cast(1)])


def test_an_idle_connection_lives_and_a_lost_one_is_opened_again(bus: Bus) -> None:
    """Heartbeats while idle; a connection that the broker closed meanwhile costs nothing but a moment."""
    declare(bus, "compute.h1")
    transport = transports.get_transport(make_conf(heartbeat_timeout_threshold=1), bus.url)
    publisher = make_publisher(transport, Notifier(_NoWire(), NotificationSettings(("noop",))), "t", 5)
    publisher.publish([cast(1)])
    before = bus.rabbit.connection_count(bus.vhost)
    time.sleep(3)
    assert bus.rabbit.connection_count(bus.vhost) == before
    bus.rabbit.close_connections(bus.vhost)
    assert publisher.publish([cast(2)]) == [Delivery.CONFIRMED]
    publisher.close()


@pytest.mark.parametrize("driver", ["messaging", "messagingv2"])
def test_a_stock_listener_hears_our_notifications(bus: Bus, driver: str) -> None:
    """Both forms; queues exist and keep events before anybody listens; INFO and ERROR apart."""
    transport = transports.get_notification_transport(bus.conf, bus.url)
    notifier = make_notifier(transport, NotificationSettings((driver,)), "t")
    publisher = make_publisher(bus.transport, notifier, "t")
    assert publisher.publish([event(1), event(2, "ERROR"), event(3)]) == [Delivery.CONFIRMED] * 3
    until(lambda: bus.rabbit.queues(bus.vhost).get("notifications.info", {}).get("ready") == 2)
    assert bus.depth("notifications.error") == 1
    heard: list[tuple[str, str, str, Any, str]] = []

    class Listener:
        def info(self, context: Any, publisher_id: str, event_type: str, payload: Any, metadata: Any) -> None:
            heard.append(("info", publisher_id, event_type, payload, metadata["message_id"]))

        def error(
            self, context: Any, publisher_id: str, event_type: str, payload: Any, metadata: Any
        ) -> None:
            heard.append(("error", publisher_id, event_type, payload, metadata["message_id"]))

    listener = oslo_messaging.get_notification_listener(
        oslo_messaging.get_notification_transport(make_conf(), bus.url),
        [Target(topic="notifications", exchange="nova")], [Listener()], executor="threading",
    )  # fmt: skip
    listener.start()
    until(lambda: len(heard) == 3)
    listener.stop()
    listener.wait()
    publisher.close()
    assert sorted(entry[0] for entry in heard) == ["error", "info", "info"]
    assert ("error", "scheduler.s1", "scheduler.run_instance.start", {"n": 2}, event(2).message_id) in heard


def test_a_deleted_notification_queue_is_made_again(bus: Bus, publisher: Publisher) -> None:
    """The event is not lost with the queue somebody deleted."""
    assert publisher.publish([event(1, "ERROR")]) == [Delivery.CONFIRMED]
    bus.rabbit.delete_queue(bus.vhost, "notifications.error")
    assert publisher.publish([event(2, "ERROR")]) == [Delivery.CONFIRMED]
    assert [content(message)["payload"] for message in read(bus, "notifications.error")] == [{"n": 2}]


def test_casts_do_not_wait_for_a_notification_bus_that_is_down(bus: Bus) -> None:
    """A separate notification bus away: casts at full speed, INFO dropped, ERROR answered UNKNOWN (the outbox keeps it)."""
    declare(bus, "compute.h1")
    away = transports.get_notification_transport(make_conf(), "rabbit://guest:guest@127.0.0.1:1/")
    notifier = make_notifier(away, NotificationSettings(timeout_seconds=0.5, retry=0), "t")
    publisher = make_publisher(bus.transport, notifier, "t")
    publisher.publish([cast(0)])
    began = time.monotonic()
    for number in range(1, 21):
        assert publisher.publish([cast(number), event(number)]) == [Delivery.CONFIRMED] * 2
    assert time.monotonic() - began < 2
    assert publisher.publish([cast(99), event(99, "ERROR")]) == [Delivery.CONFIRMED, Delivery.UNKNOWN]
    notifier.close(timeout_seconds=0.1)
    publisher.close()


SECRET = {
    "method": "run_instance", "version": "3.0", "_unique_id": "dead-1", "_context_auth_token": "gAAAAA",
    "args": {"request_spec": {"instance_properties": {"user_data": "cloud"}}, "admin_password": "pw1", "injected_files": [["a", "b"]],
             "filter_properties": {"retry": {"num_attempts": 1, "hosts": [["h", "n"]]}}},
}  # fmt: skip


def test_dead_letters_are_listed_shown_masked_and_put_back(bus: Bus) -> None:
    """Whole inside, masked outside; requeued to where it came from, as a new attempt by flag (rule 11)."""
    server = bus.server()
    bad = {**SECRET, "version": "9.0", "_unique_id": "dead-2"}
    bus.send_raw(encode_message(bad), b"rubbish")
    reader = bus.reader
    assert reader is not None
    until(lambda: len(reader.list()) == 2)
    shown = json.dumps(reader.show("dead-2"))
    assert "run_instance" in shown
    for secret in ("pw1", "cloud", "gAAAAA", '"b"'):
        assert secret not in shown
    assert "9.0" in shown
    with pytest.raises(MalformedMessage, match="no dead letter"):
        reader.requeue("nobody")
    server.stop()
    reader.requeue("dead-2", new_attempt=True)
    assert [letter.message_id for letter in reader.list()] != ["dead-2"]
    assert len(reader.list()) == 1
    back = content(read(bus, "scheduler")[0])
    assert back["args"]["admin_password"] == "pw1"
    assert back["args"]["filter_properties"]["retry"] == {"num_attempts": 2, "hosts": [["h", "n"]]}
    assert back["_unique_id"] != "dead-2"
    rubbish = reader.list()[0]
    with pytest.raises(MalformedMessage, match="new attempt"):
        reader.requeue(rubbish.message_id, new_attempt=True)
    reader.requeue(rubbish.message_id)
    assert read(bus, "scheduler")[0].body == "rubbish"
    assert reader.list() == []


def test_threads_and_connections_do_not_grow(bus: Bus) -> None:
    """Thirty lives of a server and a publisher leave nothing behind."""
    declare(bus, "compute.h1")
    baseline = threading.active_count()
    for _ in range(30):
        server = bus.server()
        publisher = make_publisher(bus.transport, Notifier(_NoWire(), NotificationSettings(("noop",))), "t")
        publisher.publish([cast(1)])
        publisher.close()
        assert server.stop()
    assert threading.active_count() <= baseline + 1
    until(lambda: bus.rabbit.connection_count(bus.vhost) == 0)


def test_tls_is_verified_and_works_in_both_directions(tmp_path: Path) -> None:
    """LP#2150316: right authority and host name get in, a wrong name or an unknown authority do not; large bodies pass."""
    with RabbitServer(tls=make_tls_files(tmp_path)) as rabbit:
        good = make_conf(ssl=True, ssl_ca_file=str(tmp_path / "ca.pem"))
        bus = Bus(rabbit, "/", transports.get_transport(good, rabbit.tls_transport_url()))
        declare(bus, "compute.h1")
        bus.server()
        publisher = make_publisher(
            bus.transport, Notifier(_NoWire(), NotificationSettings(("noop",))), "t", 10
        )
        large = dataclasses.replace(cast(1), arguments={"big": "x" * 1_000_000})
        assert publisher.publish([large] * 3 + [cast(2, "gone")]) == [Delivery.CONFIRMED] * 3 + [
            Delivery.UNDELIVERABLE
        ]
        api = SchedulerAPI(bus.transport, timeout_seconds=5)
        assert api.select_destinations({}, {"big": "x" * 1_000_000}, {})[0]["host"] == "h1"
        publisher.close()
        bus.close()
        for conf, host in ((good, "127.0.0.1"), (make_conf(ssl=True), "localhost")):
            transport = transports.get_transport(conf, rabbit.tls_transport_url(host=host))
            refused = make_publisher(
                transport, Notifier(_NoWire(), NotificationSettings(("noop",))), "t", 0.5
            )
            with pytest.raises(BusUnavailable, match="certificate verify failed"):
                refused.publish([cast(1)])
            refused.close()

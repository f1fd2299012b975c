"""The server loop and the ways out over oslo.messaging's in-process transports."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from nova_sched.errors import InstanceNotFound, MalformedMessage, NoValidHost, StoreUnavailable
from nova_sched.model.messages import Cast, Delivery, Event
from nova_sched.rpc import Target, expose
from nova_sched.rpc import transport as transports
from nova_sched.rpc.bus.judge import DeadLetter
from nova_sched.rpc.bus.server import BusServer
from nova_sched.rpc.deferred import Deferred
from nova_sched.rpc.factory import make_notifier, make_publisher
from nova_sched.rpc.notifications import NotificationSettings
from nova_sched.rpcapi import SchedulerAPI


def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    """Wait for a condition, or fail."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


class Scheduler:
    """An endpoint that answers at the end of its batch, as the service's manager does."""

    target = Target(version="3.0")

    def __init__(self) -> None:
        self.waiting: list[tuple[Deferred, dict[str, Any]]] = []
        self.seen: list[dict[str, Any]] = []
        self.batches: list[int] = []
        self.outages = 0
        self.break_on: Any = None

    @expose
    def run_instance(self, context: Mapping[str, Any], **arguments: Any) -> Deferred:
        answer = Deferred()
        self.waiting.append((answer, arguments))
        return answer

    @expose
    def select_destinations(
        self, context: Mapping[str, Any], request_spec: Any, filter_properties: Any
    ) -> Deferred:
        answer = Deferred()
        self.waiting.append((answer, {"request_spec": request_spec, **context}))
        return answer

    def not_exposed(self, context: Mapping[str, Any]) -> str:
        return "reached"

    def end(self) -> None:
        waiting, self.waiting = self.waiting, []
        if self.outages:
            self.outages -= 1
            raise StoreUnavailable("database away")
        for answer, arguments in waiting:
            if self.break_on is not None and arguments.get("request_spec") == self.break_on:
                raise ZeroDivisionError("a bug")
            if arguments.get("request_spec") == "forget":
                continue
            self.seen.append(arguments)
            if arguments.get("request_spec") == "full":
                answer.set_exception(NoValidHost("no host has room"))
            elif arguments.get("request_spec") == "odd":
                answer.set_exception(MalformedMessage("odd"))
            else:
                answer.set_result([{"host": "h"}])
        self.batches.append(len(waiting))


class Base:
    target = Target(version="1.0", namespace="nova_sched")

    @expose
    def get_instance(self, context: Mapping[str, Any], uuid: str) -> dict[str, Any]:
        raise InstanceNotFound(uuid)

    @expose
    def get_hosts(self, context: Mapping[str, Any], marker: Any, limit: int) -> None:
        return None


class Letters:
    def __init__(self) -> None:
        self.put_: list[DeadLetter] = []

    def put(self, dead: DeadLetter) -> None:
        self.put_.append(dead)


class House:
    """A server with everything recorded."""

    def __init__(self, url: str) -> None:
        conf = cfg.ConfigOpts()
        # The in-process bus is one for the whole interpreter: an exchange of its own keeps tests apart.
        self.exchange = f"nova-{uuid.uuid4().hex}"
        transports.register_options(conf, exchange=self.exchange)
        conf([], project="test")
        self.conf = conf
        self.transport = transports.get_transport(conf, url)
        self.scheduler = Scheduler()
        self.letters = Letters()
        self.poisoned: list[tuple[Any, str]] = []
        self.server = BusServer(
            self.transport,
            Target(topic="scheduler", server="s1"),
            [self.scheduler, Base()],
            on_batch_end=self.scheduler.end,
            dead_letters=self.letters,
            on_poison=lambda message, reason: self.poisoned.append((message, reason)),
        )
        self.api = SchedulerAPI(self.transport, timeout_seconds=5)

    def select(self, spec: Any, **context: Any) -> list[dict[str, Any]]:
        return self.api.select_destinations(context, spec, {})

    def boot(self, spec: Any) -> None:
        self.api.run_instance({"request_id": "r"}, spec, "pw", [], None, True, {}, False)


@pytest.fixture(params=["fake://", "kombu+memory:////"])
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    house = House(request.param)
    house.server.start()
    yield house
    house.server.stop()
    transports.close_transport(house.transport)


def test_casts_and_calls_are_answered_at_the_end_of_their_batch(house: House) -> None:
    """What a deferred answer is set to is what the caller gets."""
    house.boot("a")
    assert house.select("b", request_id="r9") == [{"host": "h"}]
    until(lambda: len(house.scheduler.seen) == 2)
    assert {"request_spec": "b", "request_id": "r9"} in house.scheduler.seen
    assert house.api.get_hosts({}) is None
    assert house.letters.put_ == []


def test_failures_arrive_as_our_classes(house: House) -> None:
    """NoValidHost and InstanceNotFound keep class and text."""
    with pytest.raises(NoValidHost) as refused:
        house.select("full")
    assert refused.value.reason == "no host has room"
    with pytest.raises(InstanceNotFound) as missing:
        house.api.get_instance({}, "5a6e")
    assert missing.value.uuid == "5a6e"


def test_only_exposed_methods_can_be_called(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """Private and unexposed methods do not exist on the bus (LP#1194279); told once with what would work."""
    client = oslo_messaging.get_rpc_client(
        house.transport, Target(topic="scheduler", version="3.0"), timeout=5
    )
    for method in ("not_exposed", "__init__", "end", "target", "no_such"):
        for _ in range(2):
            with pytest.raises((oslo_messaging.RemoteError, oslo_messaging.rpc.NoSuchMethod), match=method):
                client.call({}, method)
    with pytest.raises((oslo_messaging.RemoteError, oslo_messaging.rpc.UnsupportedVersion)):
        client.prepare(version="9.0").call({}, "run_instance")
    complaints = [line for line in caplog.messages if "a message asks for" in line]
    assert len(complaints) == 6
    assert "version 9.0" in complaints[-1]
    assert "nova_sched 1.0 to 1.0" in complaints[-1]


def test_an_outage_holds_the_batch_and_loses_nothing(house: House) -> None:
    """The same requests are dispatched again until SQL is back; nothing goes to the dead letters."""
    house.scheduler.outages = 3
    house.boot("a")
    until(lambda: house.server.held is not None)
    until(lambda: house.scheduler.seen)
    assert house.server.held is None
    assert [arguments["request_spec"] for arguments in house.scheduler.seen] == ["a"]
    assert house.letters.put_ == []


def test_casts_that_cannot_be_processed_become_dead_letters(house: House) -> None:
    """Missing arguments, refused contents, unknown methods: once each, with the reason, and the loop goes on."""
    client = oslo_messaging.get_rpc_client(house.transport, Target(topic="scheduler", version="3.0"))
    client.cast({}, "select_destinations", request_spec=1)
    client.cast({}, "no_such")
    house.boot("odd")
    house.boot("full")
    house.boot("fine")
    until(lambda: len(house.letters.put_) == 3 and len(house.scheduler.seen) == 3)
    reasons = sorted(letter.reason for letter in house.letters.put_)
    assert "NoSuchMethod" in reasons[0]
    assert "filter_properties" in reasons[1]
    assert reasons[2] == "odd"
    assert len(house.poisoned) == 3
    assert all(b"oslo" in letter.body or b"method" in letter.body for letter in house.letters.put_)


def test_one_message_that_breaks_the_batch_is_found(house: House) -> None:
    """A bug hit by one message takes no other down: each is tried alone, the culprit is given up."""
    house.scheduler.break_on = "bug"
    house.boot("a")
    house.boot("bug")
    house.boot("b")
    until(lambda: {arguments["request_spec"] for arguments in house.scheduler.seen} == {"a", "b"})
    until(lambda: house.letters.put_)
    assert [letter.reason for letter in house.letters.put_] == ["ZeroDivisionError: a bug"]


def test_an_endpoint_that_forgets_an_answer_is_a_fault(house: House) -> None:
    """Unanswered is not done: a caller is told, a cast becomes a dead letter."""
    house.boot("forget")
    until(lambda: house.letters.put_)
    assert "without an answer" in house.letters.put_[0].reason


def test_stop_is_idempotent_quick_and_safe_before_start(house: House) -> None:
    """Any order of start and stop ends; a stopped server does not start."""
    began = time.monotonic()
    other = House("fake://")
    assert other.server.stop()
    other.server.start()
    assert not other.server.consuming
    assert house.server.stop()
    assert house.server.stop()
    assert time.monotonic() - began < 3


def test_stop_ends_a_hold(house: House) -> None:
    """A server that waits for SQL can be stopped at once."""
    house.scheduler.outages = 10**6
    house.boot("a")
    until(lambda: house.server.held is not None)
    began = time.monotonic()
    assert house.server.stop()
    assert time.monotonic() - began < 3


def test_at_most_once_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever runs without RabbitMQ is told what that means."""
    house = House("fake://")
    house.server.start()
    house.server.stop()
    assert any("at most once" in line for line in caplog.messages)


def test_casts_and_events_leave_over_the_same_protocol(house: House) -> None:
    """The publisher reaches a stock server and a stock notification listener on any transport."""
    got: list[Any] = []
    heard: list[Any] = []
    ready = threading.Event()

    class Compute:
        target = oslo_messaging.Target(version="3.27")

        def run_instance(self, context: Any, **arguments: Any) -> None:
            got.append((context, arguments))
            ready.set()

    class Listener:
        def info(self, context: Any, publisher: str, event_type: str, payload: Any, metadata: Any) -> None:
            heard.append((publisher, event_type, payload, metadata["message_id"]))

        error = info

    compute = oslo_messaging.get_rpc_server(
        house.transport, Target(topic="compute", server="h1"), [Compute()], executor="threading"
    )
    compute.start()
    events_transport = transports.get_notification_transport(house.conf, "fake://")
    listener = oslo_messaging.get_notification_listener(
        events_transport,
        [Target(topic="notifications", exchange=house.exchange)],
        [Listener()],
        executor="threading",
    )
    listener.start()
    notifier = make_notifier(events_transport, NotificationSettings(), "test")
    publisher = make_publisher(house.transport, notifier, "test")
    cast = Cast(
        "5f0c1d5e-6f3b-5a62-9d53-000000000001",
        "compute",
        "h1",
        "run_instance",
        "3.27",
        {"x": (1, 2)},
        {"a": 1},
    )
    info = Event(
        "5f0c1d5e-6f3b-5a62-9d53-000000000002", "scheduler.s", "e.start", "INFO", {"p": 1}, "2026-12-01", {}
    )
    error = Event(
        "5f0c1d5e-6f3b-5a62-9d53-000000000003", "scheduler.s", "e", "ERROR", {"p": 2}, "2026-12-01", {}
    )
    assert publisher.publish([cast, info, error]) == [Delivery.CONFIRMED] * 3
    assert ready.wait(5)
    until(lambda: len(heard) == 2)
    publisher.close()
    listener.stop()
    listener.wait()
    compute.stop()
    compute.wait()
    assert got[0][1] == {"x": [1, 2]}
    assert got[0][0]["a"] == 1
    assert ("scheduler.s", "e.start", {"p": 1}, info.message_id) in heard

"""A server with everything recorded, on the test's own virtual host of a real RabbitMQ."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import amqp
import pytest
from oslo_config import cfg

from nova_sched.errors import NoValidHost
from nova_sched.rpc import Target, expose
from nova_sched.rpc import transport as transports
from nova_sched.rpc.bus.server import BusServer
from nova_sched.rpc.deferred import Deferred
from nova_sched.rpc.factory import make_dead_letter_reader, make_dead_letters
from nova_sched.settings import BusSettings, DeliverySettings
from nova_sched.testing.servers import RabbitServer


def until(condition: Callable[[], Any], seconds: float = 15.0) -> None:
    """Wait for a condition, or fail."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def make_conf(**rabbit_options: Any) -> cfg.ConfigOpts:
    """A private ConfigOpts, as tests and embedders have it."""
    conf = cfg.ConfigOpts()
    transports.register_options(conf)
    conf([], project="test")
    conf.set_override("kombu_reconnect_delay", 0.1, group="oslo_messaging_rabbit")
    conf.set_override("kombu_reconnect_splay", 0.1, group="oslo_messaging_rabbit")
    for name, value in rabbit_options.items():
        conf.set_override(name, value, group="oslo_messaging_rabbit")
    return conf


class Scheduler:
    """Answers at the end of the batch; ``gate`` holds the end of a batch while it is cleared."""

    target = Target(version="3.0")

    def __init__(self) -> None:
        self.waiting: list[tuple[Deferred, Any]] = []
        self.done: list[Any] = []
        self.batches: list[list[Any]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.failure: Exception | None = None

    @expose
    def run_instance(self, context: Mapping[str, Any], request_spec: Any, **rest: Any) -> Deferred:
        return self._submit(request_spec)

    @expose
    def select_destinations(
        self, context: Mapping[str, Any], request_spec: Any, filter_properties: Any
    ) -> Deferred:
        return self._submit(request_spec)

    @expose
    def nothing(self, context: Mapping[str, Any]) -> None:
        return None

    def _submit(self, what: Any) -> Deferred:
        answer = Deferred()
        self.waiting.append((answer, what))
        return answer

    def end(self) -> None:
        waiting, self.waiting = self.waiting, []
        self.entered.set()
        self.gate.wait(30)
        if self.failure is not None:
            raise self.failure
        self.batches.append([what for _, what in waiting])
        for answer, what in waiting:
            self.done.append(what)
            if what == "full":
                answer.set_exception(NoValidHost("no host has room"))
            else:
                answer.set_result([{"host": "h1", "nodename": "n1", "limits": {}}])


class Counts:
    """``bus.judge.Deliveries`` in memory."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.forgiven: list[str] = []

    def count(self, message_id: str) -> int:
        self.counts[message_id] += 1
        return self.counts[message_id]

    def forgive(self, message_id: str) -> None:
        self.forgiven.append(message_id)
        self.counts[message_id] -= 1


class Bus:
    """Makes servers and clients of one virtual host; closes what it made."""

    def __init__(self, rabbit: RabbitServer, vhost: str, transport: Any = None) -> None:
        self.rabbit, self.vhost = rabbit, vhost
        self.url = rabbit.transport_url(vhost)
        self.conf = make_conf()
        self.transport = transport or transports.get_transport(self.conf, self.url)
        self.scheduler = Scheduler()
        self.counts = Counts()
        self.poisoned: list[tuple[Any, str]] = []
        self.letters = make_dead_letters(self.transport, BusSettings(), DeliverySettings())
        self.reader = make_dead_letter_reader(self.transport, BusSettings())
        self._servers: list[BusServer] = []

    def server(self, scheduler: Scheduler | None = None, start: bool = True, **options: Any) -> BusServer:
        """A server of the topic, host ``s1``."""
        scheduler = scheduler or self.scheduler
        delivery = options.pop("delivery", DeliverySettings(watchdog_interval_seconds=0.3))
        server = BusServer(
            options.pop("transport", self.transport),
            Target(topic="scheduler", server=options.pop("host", "s1")),
            [scheduler],
            on_batch_end=scheduler.end,
            delivery=delivery,
            dead_letters=self.letters,
            deliveries=self.counts,
            on_poison=lambda message, reason: self.poisoned.append((message, reason)),
            **options,
        )
        self._servers.append(server)
        if start:
            server.start()
        return server

    def raw(self) -> amqp.Connection:
        """A bare connection, for what no library would send."""
        connection = amqp.Connection(
            f"127.0.0.1:{self.rabbit.port}", virtual_host=self.vhost, login_method="PLAIN"
        )
        connection.connect()
        return connection

    def send_raw(self, *bodies: bytes) -> None:
        """Put bodies into the scheduler's queue as they are."""
        with self.raw() as connection:
            channel = connection.channel()
            channel.confirm_select()
            for body in bodies:
                channel.basic_publish_confirm(
                    amqp.Message(body, content_encoding="binary", delivery_mode=2), "nova", "scheduler"
                )

    def depth(self, queue: str = "scheduler") -> int:
        """Messages in a queue, unacknowledged ones included."""
        return int(self.rabbit.queues(self.vhost)[queue]["messages"])

    def close(self) -> None:
        self.scheduler.gate.set()
        for server in self._servers:
            server.stop(5)
        self.letters.close()  # type: ignore[attr-defined]
        self.transport.cleanup()


@pytest.fixture
def bus(rabbit: RabbitServer, rabbit_vhost: str) -> Iterator[Bus]:
    """A bus of the test's own."""
    bus = Bus(rabbit, rabbit_vhost)
    yield bus
    bus.close()

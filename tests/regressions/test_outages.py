"""What is away must not hold up what is not."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import amqp
import pytest

from nova_sched.errors import BusUnavailable
from nova_sched.model.messages import Cast, Delivery, Event
from nova_sched.rpc.bus.confirms import ConfirmedSender
from nova_sched.rpc.bus.frames import Outgoing
from nova_sched.rpc.bus.link import Link
from nova_sched.rpc.bus.publisher import Publisher
from nova_sched.rpc.bus.settings import LinkSettings
from nova_sched.rpc.notifications import NotificationSettings, Notifier


class _Casts:
    blocked = False

    def send(self, casts: Sequence[Cast], timeout_seconds: float) -> list[Delivery]:
        return [Delivery.CONFIRMED] * len(casts)

    def close(self) -> None:
        return None


class _SilentEvents:
    """A notification bus that never answers: each try takes all the time it is given."""

    def __init__(self) -> None:
        self.tries = 0
        self.closed = threading.Event()

    def send(self, events: Sequence[tuple[Event, str, str]], timeout_seconds: float) -> list[Delivery]:
        self.tries += 1
        self.closed.wait(timeout_seconds if threading.current_thread().name == "notifier" else 0.05)
        raise BusUnavailable("no answer")

    def close(self) -> None:
        self.closed.set()


def _event(number: int, priority: str) -> Event:
    return Event(f"event-{number}", "scheduler.s1", "scheduler.run_instance", priority, {}, "2026-12-01", {})


def test_an_error_event_does_not_hold_the_casts_of_its_batch_while_the_notification_bus_is_away() -> None:
    """LP#1917645: one refused request raised out of publish and had the whole batch held until the bus was back."""
    wire = _SilentEvents()
    notifier = Notifier(wire, NotificationSettings())
    publisher = Publisher(_Casts(), notifier)
    cast = Cast("cast-1", "compute", "h1", "run_instance", "3.0", {}, {})
    began = time.monotonic()
    for number in range(50):
        messages = [_event(number, "INFO"), cast, _event(number, "ERROR")]
        assert publisher.publish(messages) == [Delivery.CONFIRMED, Delivery.CONFIRMED, Delivery.UNKNOWN]
    assert time.monotonic() - began < 2, "only the first one waits for a bus that is known to be away"
    assert wire.tries <= 4
    wire.closed.set()
    notifier.close(0.1)


class _ClosedChannel:
    """What py-amqp leaves of a channel once the broker's connection.close was read."""

    channel_id = None


def test_a_channel_that_the_broker_closed_is_an_outage_and_not_a_fault_of_the_message() -> None:
    """Publishing on it raised struct.error, which no reconnection caught: a batch met by it ended in ERROR."""
    link = Link(LinkSettings(), "test")
    link._channel = _ClosedChannel()  # type: ignore[assignment]
    with pytest.raises(BusUnavailable, match="closed"):
        _ = link.channel


def test_a_publisher_comes_back_after_an_outage_whose_pauses_are_longer_than_its_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each send waited for the reconnection pause anew, opened when its time was over, and gave up: for ever."""
    settings = LinkSettings(reconnect_delay_seconds=0.6, reconnect_splay_seconds=0.0)
    sender = ConfirmedSender(settings, "test")
    link = sender._link
    reachable = False
    opened: list[float] = []

    def connect(self: amqp.Connection, *_: object) -> None:
        if not reachable:
            raise ConnectionRefusedError("down")
        opened.append(time.monotonic())
        raise ConnectionRefusedError("enough seen")

    monkeypatch.setattr(amqp.Connection, "connect", connect)
    message = Outgoing("nova", "scheduler", b"{}", "message-1")
    for _ in range(3):
        with pytest.raises(BusUnavailable):
            sender.send([message], 0.2)
    reachable = True
    until = time.monotonic() + 10
    while not opened and time.monotonic() < until:
        began = time.monotonic()
        with pytest.raises(BusUnavailable):
            sender.send([message], 0.2)
    assert opened, "it never tried again"
    assert opened[0] < began + 0.2, "it tried when its time was over"
    assert link.retry_delay_seconds > 0
    sender.close()


def test_what_a_synchronous_method_read_counts_as_a_sign_of_life() -> None:
    """The watchdog's questions kept the broker from sending heartbeats, and their answers were not heard: an idle
    consumer took its connection for dead every two minutes."""
    link = Link(LinkSettings(), "test")
    connection = _Connection()
    link._connection = connection  # type: ignore[assignment]
    link._next_beat = time.monotonic() + 60
    link._last_heard = time.monotonic() - 60
    connection.bytes_recv += 1
    link.beat()
    link._last_heard = time.monotonic() - 60
    with pytest.raises(ConnectionAbortedError, match="nothing heard"):
        link.beat()


class _Connection:
    heartbeat = 2
    bytes_recv = 0


def test_a_refused_message_is_sent_again_on_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A channel that met a quorum queue without a leader refuses every message for ever; a fresh one works at once."""
    sender = ConfirmedSender(LinkSettings(reconnect_delay_seconds=0.01, reconnect_splay_seconds=0.0), "test")
    attempts: list[int] = []

    def open_(deadline: float) -> None:
        sender._forget_connection()

    def attempt(deadline: float) -> None:
        attempts.append(len([one for one in sender._verdicts if one is None]))
        for tag, index in enumerate(at for at, one in enumerate(sender._verdicts) if one is None):
            sender._waiting[tag + 1] = index
        sender._on_ack(1, False)
        sender._on_nack(len(sender._waiting) + 1, True)

    monkeypatch.setattr(sender, "_ensure_open", open_)
    monkeypatch.setattr(sender, "_attempt", attempt)
    batch = [Outgoing("nova", "compute.h1", b"{}", f"message-{number}") for number in range(3)]
    assert sender.send(batch, 5.0) == [Delivery.CONFIRMED] * 3
    assert attempts == [3, 2, 1]

"""Notifications never stand in the way, whatever their bus does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence

import pytest

from nova_sched.errors import BusUnavailable, ConfigurationError
from nova_sched.model.messages import Delivery, Event
from nova_sched.rpc.bus.render import BARE, ENVELOPE, render_event
from nova_sched.rpc.bus.settings import Topology
from nova_sched.rpc.notifications import NotificationSettings, Notifier


def event(number: int = 1, priority: str = "INFO") -> Event:
    return Event(
        f"5f0c1d5e-6f3b-5a62-9d53-{number:012d}", "scheduler.h", "scheduler.run_instance.start", priority,
        {"request_spec": {"instance_uuids": ["u"]}}, "2026-12-01 12:00:00.000000", {"request_id": "req-1"},
    )  # fmt: skip


class Wire:
    """Records; down while ``down``, slow by ``delay``."""

    def __init__(self) -> None:
        self.sent: list[tuple[Event, str, str]] = []
        self.down = False
        self.calls = 0
        self.answer = Delivery.CONFIRMED
        self.arrived = threading.Event()
        self.closed = False

    def send(self, events: Sequence[tuple[Event, str, str]], timeout_seconds: float) -> list[Delivery]:
        self.calls += 1
        if self.down:
            raise BusUnavailable("down")
        self.sent += events
        self.arrived.set()
        return [self.answer] * len(events)

    def close(self) -> None:
        self.closed = True


def test_each_topic_and_form_gets_each_event() -> None:
    """Two topics, both drivers of the bus: four messages."""
    wire = Wire()
    notifier = Notifier(wire, NotificationSettings((BARE, ENVELOPE), ("a", "b")))
    assert notifier.publish_confirmed([event()]) == [Delivery.CONFIRMED]
    assert [(topic, form) for _, topic, form in wire.sent] == [
        ("a", BARE),
        ("a", ENVELOPE),
        ("b", BARE),
        ("b", ENVELOPE),
    ]
    notifier.close()


def test_an_event_is_confirmed_only_when_all_its_copies_are() -> None:
    """The outbox keeps what one topic did not get."""
    wire = Wire()
    wire.answer = Delivery.UNDELIVERABLE
    notifier = Notifier(wire, NotificationSettings())
    assert notifier.publish_confirmed([event(1), event(2)]) == [Delivery.UNDELIVERABLE] * 2
    notifier.close()


def test_emit_returns_at_once_when_the_bus_is_down_and_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    """LP#1917645: events are dropped after the retries, scheduling never waits, one warning per outage."""
    wire = Wire()
    wire.down = True
    notifier = Notifier(wire, NotificationSettings(retry=0, queue_max=50))
    began = time.monotonic()
    for number in range(500):
        notifier.emit([event(number)])
    assert time.monotonic() - began < 0.5
    notifier.close(timeout_seconds=0.1)
    assert notifier.dropped == 500
    assert sum("notifications are dropped" in line for line in caplog.messages) == 1
    assert wire.closed


def test_events_are_sent_when_the_bus_comes_back() -> None:
    """Within the retries nothing is lost."""
    wire = Wire()
    wire.down = True
    notifier = Notifier(wire, NotificationSettings(retry=-1))
    notifier.emit([event()])
    while wire.calls < 1:
        time.sleep(0.01)
    wire.down = False
    assert wire.arrived.wait(5)
    notifier.close()
    assert notifier.dropped == 0


def test_what_is_queued_leaves_before_the_end() -> None:
    """A clean stop sends what is there."""
    wire = Wire()
    notifier = Notifier(wire, NotificationSettings())
    notifier.emit([event(number) for number in range(1000)])
    notifier.close()
    notifier.close()
    assert len(wire.sent) == 1000


def test_noop_and_log_send_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """``log`` writes the event, neither touches the bus; the outbox may forget its row."""
    caplog.set_level("INFO")
    wire = Wire()
    notifier = Notifier(wire, NotificationSettings(("noop", "log")))
    notifier.emit([event()])
    assert notifier.publish_confirmed([event(2, "ERROR")]) == [Delivery.CONFIRMED]
    notifier.close()
    assert wire.calls == 0
    assert [record.levelname for record in caplog.records if "scheduler.run_instance" in record.message] == [
        "INFO",
        "ERROR",
    ]


def test_an_unknown_driver_stops_the_start() -> None:
    """The option, the value and what would be accepted."""
    with pytest.raises(ConfigurationError, match="messagingv2"):
        Notifier(Wire(), NotificationSettings(("rooting",)))


def test_bare_and_enveloped_form() -> None:
    """Juno's consumers read bare JSON, today's the envelope; the same keys in both, on ``<topic>.<priority>``."""
    bare = render_event(event(priority="ERROR"), "notifications", BARE, Topology())
    wrapped = render_event(event(priority="ERROR"), "notifications", ENVELOPE, Topology())
    message = json.loads(bare.body)
    enveloped = json.loads(json.loads(wrapped.body)["oslo.message"])
    assert {**message, "_unique_id": None} == {**enveloped, "_unique_id": None}
    assert bare.routing_key == "notifications.error"
    assert bare.exchange == "nova"
    assert set(message) == {
        "_context_request_id", "_unique_id", "event_type", "message_id", "payload", "priority", "publisher_id", "timestamp",
    }  # fmt: skip
    assert message["priority"] == "ERROR"

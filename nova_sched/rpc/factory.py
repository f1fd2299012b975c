"""Publisher, notifier and dead letters for a transport: ours over RabbitMQ, the stock forms over any other."""

from __future__ import annotations

from typing import Any

from nova_sched.errors import BusUnavailable
from nova_sched.rpc.bus.confirms import ConfirmedSender
from nova_sched.rpc.bus.crash import CrashPoint, no_crash
from nova_sched.rpc.bus.driver import rabbit_driver
from nova_sched.rpc.bus.judge import DeadLetterSink, LoggedDeadLetters
from nova_sched.rpc.bus.link import Link
from nova_sched.rpc.bus.publisher import CastWire, Publisher, RabbitCasts
from nova_sched.rpc.bus.stock import StockCasts, StockEvents
from nova_sched.rpc.dead_letters import DeadLetterBox, DeadLetterReader, letter_queue
from nova_sched.rpc.notifications import EventWire, NotificationSettings, Notifier, RabbitEvents
from nova_sched.service.ports import Observer
from nova_sched.settings import BusSettings, DeliverySettings


def make_notifier(
    transport: Any, settings: NotificationSettings, name: str, observer: Observer | None = None
) -> Notifier:
    """Notifier over a notification transport; ``name`` tells its connection in the broker's pages."""
    driver = rabbit_driver(transport)
    wire: EventWire
    if driver is not None:
        sender = ConfirmedSender(driver.link_settings, f"nova-sched {name} notifications")
        wire = RabbitEvents(sender, driver.topology())
    else:
        wire = StockEvents(transport)
    return Notifier(wire, settings, observer)


def make_publisher(
    transport: Any,
    notifier: Notifier,
    name: str,
    timeout_seconds: float = 30.0,
    crash_point: CrashPoint = no_crash,
    observer: Observer | None = None,
) -> Publisher:
    """Publisher of casts over an RPC transport. Make it after a fork; it connects at its first use."""
    driver = rabbit_driver(transport)
    wire: CastWire
    if driver is not None:
        sender = ConfirmedSender(driver.link_settings, f"nova-sched {name} casts", crash_point)
        wire = RabbitCasts(sender, driver.topology())
    else:
        wire = StockCasts(transport)
    return Publisher(wire, notifier, timeout_seconds, observer)


def make_dead_letters(transport: Any, bus: BusSettings, delivery: DeliverySettings) -> DeadLetterSink:
    """Where this transport's dead letters go: a queue on RabbitMQ, the log elsewhere."""
    driver = rabbit_driver(transport)
    if driver is None:
        return LoggedDeadLetters()
    queue = letter_queue(bus.dead_letter_queue, driver.topology())
    sender = ConfirmedSender(driver.link_settings, "nova-sched dead letters")
    return DeadLetterBox(sender, queue, delivery.dead_letter_ttl_seconds)


def make_dead_letter_reader(transport: Any, bus: BusSettings) -> DeadLetterReader | None:
    """The operator's side of the dead-letter queue; None where the transport has none."""
    driver = rabbit_driver(transport)
    if driver is None:
        return None
    topology = driver.topology()
    return DeadLetterReader(driver.link_settings, letter_queue(bus.dead_letter_queue, topology), topology)


def ensure_reachable(transport: Any) -> None:
    """Try each host of the broker once. The library's client would try for ever, before any time-out of a call counts.

    :raises BusUnavailable: none can be reached, or all refuse us.
    """
    driver = rabbit_driver(transport)
    if driver is None:
        return
    link = Link(driver.link_settings, "nova-sched look")
    for left in reversed(range(len(driver.link_settings.hosts))):
        try:
            link.open()
        except BusUnavailable:
            if not left:
                raise
        else:
            link.farewell()
            return

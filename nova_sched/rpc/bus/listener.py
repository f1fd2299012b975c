"""The consuming side of RabbitMQ: a thread that owns one connection, reads, acknowledges and keeps it alive.

The server loop takes what was read and says what is done; it never touches the connection, so heartbeats go on however
long a batch is held, and every acknowledgement leaves from the thread that reads. Any error but a time-out drops the
connection: it is opened again (next host, jitter), everything is declared and consumed anew, and the broker delivers
what was unacknowledged once more (see ``taken.Ledger``).
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import amqp

from nova_sched.errors import BusUnavailable, QueueMismatch
from nova_sched.rpc.bus.crash import CrashPoint, no_crash
from nova_sched.rpc.bus.envelope import BodyLimits
from nova_sched.rpc.bus.inbox import read_delivery
from nova_sched.rpc.bus.link import LINK_ERRORS, Link, WakePipe
from nova_sched.rpc.bus.settings import LinkSettings, Topology
from nova_sched.rpc.bus.taken import Arrival, Ledger, Taken
from nova_sched.rpc.bus.topology import fanout_queue, lasting_queue
from nova_sched.service.ports import NullObserver, Observer

LOG = logging.getLogger(__name__)

_MISMATCH_PAUSE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Subscription:
    """What is consumed: the queues ``topic`` and ``topic.server`` and a private one on the fanout of ``topic``."""

    topic: str
    server: str
    prefetch: int = 200
    limits: BodyLimits = field(default_factory=BodyLimits)
    watchdog_interval_seconds: float = 10.0
    give_back_after_seconds: float = 1200.0
    """Well before the 30 minutes after which RabbitMQ closes the channel of a message without an answer."""


class RabbitListener:
    """See the module; ``open`` starts the thread, ``close`` ends it."""

    def __init__(
        self,
        settings: LinkSettings,
        topology: Topology,
        subscription: Subscription,
        crash_point: CrashPoint = no_crash,
        observer: Observer | None = None,
    ) -> None:
        self.subscription = subscription
        self._observer = observer or NullObserver()
        self._topology = topology
        self._crash_point = crash_point
        self._link = Link(settings, f"nova-sched {subscription.topic}.{subscription.server} consumer")
        self._fanout_name = f"{subscription.topic}_fanout_{uuid.uuid4().hex}"
        self._queues = [subscription.topic, f"{subscription.topic}.{subscription.server}"]
        self._ledger = Ledger()
        self._ready: deque[Taken] = deque()
        self._change = threading.Condition()
        self._done: deque[tuple[Sequence[Taken], bool, bool]] = deque()
        self._wake = WakePipe()
        self._thread: threading.Thread | None = None
        self._stop_taking = False
        self._ending = threading.Event()
        self._consuming = threading.Event()
        self._failure: QueueMismatch | None = None
        self._tags: list[str] = []
        self._last_delivery = 0.0
        self._next_watch = 0.0
        self._suspicious = False
        self.reopened_by_watchdog = 0

    # Called by the server loop

    def open(self) -> None:
        """Start, and return when messages are consumed, or after ``close``.

        :raises QueueMismatch: a queue or exchange exists with other properties.
        """
        thread = threading.Thread(target=self._run, name=f"bus-{self.subscription.topic}", daemon=True)
        with self._change:
            if self._ending.is_set():
                return
            thread.start()
            self._thread = thread
            self._change.wait_for(
                lambda: (
                    self._consuming.is_set() or self._failure or self._ending.is_set() or self._stop_taking
                )
            )
        if self._failure is not None:
            thread.join()
            raise self._failure

    @property
    def consuming(self) -> bool:
        """Connected and subscribed, as far as is known."""
        return self._consuming.is_set()

    @property
    def pending(self) -> int:
        """Messages of this connection that are not acknowledged yet."""
        return self._ledger.outstanding

    def take(self, limit: int, timeout_seconds: float) -> list[Taken]:
        """Up to ``limit`` messages that are there; waits for the first, never for company. Empty after time or wake."""
        with self._change:
            if not self._ready and not self._stop_taking:
                self._change.wait(timeout_seconds)
            if self._stop_taking:
                return []
            return [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]

    def acknowledge(self, batch: Sequence[Taken]) -> None:
        """These are done."""
        self._finish(batch, True, False)

    def give_back(self, batch: Sequence[Taken], suspected: bool) -> None:
        """These go back to the queue; ``suspected``: one of them may be what killed the attempt."""
        self._finish(batch, False, suspected)

    def stop_taking(self) -> None:
        """Consume no more and give back what nobody took; ``take`` returns at once. Idempotent, from any thread."""
        with self._change:
            self._stop_taking = True
            self._change.notify_all()
        self._wake.wake()

    def close(self, timeout_seconds: float) -> None:
        """Write the acknowledgements that wait, drop the private queue, leave. Idempotent."""
        self.stop_taking()
        with self._change:
            self._ending.set()
            thread = self._thread
        self._wake.wake()
        if thread is not None:
            thread.join(timeout_seconds)
            if thread.is_alive():
                LOG.warning("the connection of %s did not close within %.0f s", thread.name, timeout_seconds)
                return
            self._thread = None
            self._wake.close()

    def _finish(self, batch: Sequence[Taken], done: bool, suspected: bool) -> None:
        if batch:
            self._done.append((batch, done, suspected))
            self._wake.wake()

    # The I/O thread

    def _run(self) -> None:
        lost_since: float | None = None
        while not self._ending.is_set():
            try:
                self._connect()
                if lost_since is not None:
                    LOG.info(
                        "consuming from %s again after %.1f s", self._queues, time.monotonic() - lost_since
                    )
                    lost_since = None
                self._serve()
                self._leave()
                return
            except QueueMismatch as error:
                if not self._last_delivery:
                    self._fail(error)
                    return
                LOG.error("%s", error)
                self._ending.wait(_MISMATCH_PAUSE_SECONDS)
            except BusUnavailable as error:
                if lost_since is None:
                    LOG.warning("the broker cannot be reached, trying again: %s", error)
            except LINK_ERRORS as error:
                if not self._ending.is_set():
                    LOG.warning("the connection to the broker was lost: %s", _one_line(error))
            if lost_since is None:
                lost_since = time.monotonic()
            self._lost()
            self._pause(self._link.retry_delay_seconds)

    def _connect(self) -> None:
        link, subscription = self._link, self.subscription
        link.open()
        self._ledger.connected()
        channel = link.channel
        channel.basic_qos(0, subscription.prefetch, False)
        queues = [lasting_queue(self._topology, name) for name in self._queues]
        queues.append(fanout_queue(self._topology, subscription.topic, self._fanout_name))
        for queue in queues:
            queue.declare(channel)
        self._last_delivery = time.monotonic()
        self._tags = [queue.name for queue in queues]
        for name in self._tags:
            channel.basic_consume(name, consumer_tag=name, callback=self._on_message)
        self._next_watch = time.monotonic() + subscription.watchdog_interval_seconds
        self._suspicious = False
        with self._change:
            self._consuming.set()
            self._change.notify_all()

    def _serve(self) -> None:
        link = self._link
        while not self._ending.is_set():
            self._flush()
            if self._stop_taking and self._tags:
                self._unsubscribe()
            link.beat()
            self._watch()
            pause = min(link.tick_seconds, self.subscription.watchdog_interval_seconds)
            if link.wait(pause, self._wake.reader) and link.read():
                link.settled()
            self._wake.clear()

    def _on_message(self, message: amqp.Message) -> None:
        self._crash_point("before_decode")
        self._last_delivery = time.monotonic()
        self._suspicious = False
        taken = read_delivery(message, self.subscription.limits)
        arrival = self._ledger.arrive(taken)
        if arrival is Arrival.FINISHED:
            self._acknowledge([taken])
        elif arrival is Arrival.NEW:
            with self._change:
                self._ready.append(taken)
                self._change.notify()

    def _flush(self) -> None:
        """Write the answers that the server loop has left."""
        done: list[Taken] = []
        while self._done:
            batch, finished, suspected = self._done.popleft()
            if finished:
                done += batch
                continue
            if not suspected:
                self._ledger.untouched(batch)
            self._return(batch)
        if done:
            self._crash_point("before_ack")
            self._acknowledge(done)
            self._crash_point("after_ack")
        self._return_stale()

    def _acknowledge(self, batch: Sequence[Taken]) -> None:
        channel = self._link.channel
        for tag, multiple in self._ledger.finished(batch):
            channel.basic_ack(tag, multiple)

    def _return(self, batch: Sequence[Taken]) -> None:
        channel = self._link.channel
        for tag in self._ledger.returned(batch):
            channel.basic_reject(tag, requeue=True)

    def _return_stale(self) -> None:
        """Messages nobody took for so long that the broker would soon close the channel go round once more."""
        oldest = self._ready[0].taken_at if self._ready else None
        if oldest is not None and time.monotonic() - oldest > self.subscription.give_back_after_seconds:
            self._return_ready()

    def _return_ready(self) -> None:
        with self._change:
            batch = list(self._ready)
            self._ready.clear()
        self._ledger.untouched(batch)
        self._return(batch)

    def _unsubscribe(self) -> None:
        self._link.synchronise()
        for tag in self._tags:
            self._link.channel.basic_cancel(tag)
        self._tags = []
        self._consuming.clear()
        self._return_ready()

    def _watch(self) -> None:
        """Connected, nothing in hand, nothing arriving, yet the queue is not empty twice in a row: we are deaf."""
        now = time.monotonic()
        interval = self.subscription.watchdog_interval_seconds
        if now < self._next_watch or not self._tags:
            return
        self._next_watch = now + interval
        if self._ledger.outstanding or now - self._last_delivery < interval:
            return
        self._link.synchronise()
        ready = 0
        for queue in self._queues:
            ready += int(self._link.channel.queue_declare(queue, passive=True).message_count)
        if ready and self._suspicious:
            self.reopened_by_watchdog += 1
            raise ConnectionResetError(
                f"{ready} messages wait but none arrives; the watchdog opens the consumer again"
            )
        self._suspicious = bool(ready)

    def _leave(self) -> None:
        self._flush()
        if self._tags:
            self._unsubscribe()
        self._link.channel.queue_delete(self._fanout_name, nowait=True)
        self._consuming.clear()
        self._link.farewell()

    def _lost(self) -> None:
        if self._consuming.is_set():
            self._observer.count("connections_lost", topic=self.subscription.topic)
        self._consuming.clear()
        self._link.close()
        with self._change:
            batch = list(self._ready)
            self._ready.clear()
        self._ledger.untouched(batch)

    def _fail(self, error: QueueMismatch) -> None:
        self._link.close()
        with self._change:
            self._failure = error
            self._change.notify_all()

    def _pause(self, seconds: float) -> None:
        """Wait before reconnecting; meanwhile stop and close are obeyed at once."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._ending.is_set():
            self._ending.wait(min(0.2, deadline - time.monotonic()))


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())

"""Publishing with pipelined confirms: a batch is written at once, then the broker's word on each message is awaited.

A message is answered by a confirm; one that no queue took comes back (``basic.return``) before its confirm, matched by
its ``message_id``. When the connection breaks, or the broker refuses a message, what is unconfirmed is sent again in
order on the next connection. Repeats are therefore possible and receivers must know them by their ids; losses are not.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence

import amqp

from nova_sched.errors import BusUnavailable, QueueMismatch
from nova_sched.model.messages import Delivery
from nova_sched.rpc.bus.crash import CrashPoint, no_crash
from nova_sched.rpc.bus.frames import Outgoing, publish_frames
from nova_sched.rpc.bus.link import LINK_ERRORS, Link
from nova_sched.rpc.bus.settings import LinkSettings
from nova_sched.rpc.bus.topology import Declaration

LOG = logging.getLogger(__name__)

_WRITE_BYTES = 1 << 18
_TLS_WRITE_BYTES = 1 << 14
_BLOCKED_TICK_SECONDS = 1.0


class ConfirmedSender:
    """Thread-safe; connects at the first use, keeps the idle connection alive with a thread of its own.

    :param name: name of the connection and of the thread.
    :param crash_point: see ``bus.crash``.
    """

    def __init__(self, settings: LinkSettings, name: str, crash_point: CrashPoint = no_crash) -> None:
        self._link = Link(settings, name, self._on_blocked)
        self._refusal = "the broker cannot be reached"
        self._name = name
        self._crash_point = crash_point
        self._lock = threading.Lock()
        self._keeper: threading.Thread | None = None
        self._closing = threading.Event()
        self._blocked = False
        self._declared: set[Declaration] = set()
        self._out = bytearray()
        self._next_tag = 1
        self._waiting: OrderedDict[int, int] = OrderedDict()
        self._returned: set[str] = set()
        self._verdicts: list[Delivery | None] = []
        self._batch: Sequence[Outgoing] = ()

    @property
    def blocked(self) -> bool:
        """The broker does not take messages (memory or disk alarm)."""
        return self._blocked

    @property
    def connected(self) -> bool:
        """A connection is open as far as is known."""
        return self._link.is_open

    def send(self, batch: Sequence[Outgoing], timeout_seconds: float) -> list[Delivery]:
        """Publish all and wait for the broker's word on each; the answers are in the order given.

        :raises BusUnavailable: not one message could be confirmed within ``timeout_seconds``.
        :raises QueueMismatch: an exchange or queue of a message exists with other properties.
        """
        if not batch:
            return []
        deadline = time.monotonic() + timeout_seconds
        if not self._lock.acquire(timeout=max(0.0, timeout_seconds)):
            raise BusUnavailable("another thread holds the publishing connection; the broker does not answer")
        try:
            return self._send(batch, deadline)
        finally:
            self._lock.release()

    def forget_declarations(self) -> None:
        """Declare everything again before the next message that needs it: somebody deleted a queue."""
        with self._lock:
            self._declared.clear()

    def close(self) -> None:
        """Close the connection; idempotent. Later sends open it again only until the process ends."""
        self._closing.set()
        keeper = self._keeper
        if keeper is not None and keeper is not threading.current_thread():
            keeper.join(timeout=5)
        with self._lock:
            self._keeper = None
            self._link.farewell()
            self._forget_connection()

    def _send(self, batch: Sequence[Outgoing], deadline: float) -> list[Delivery]:
        self._batch = batch
        self._verdicts = [None] * len(batch)
        self._returned.clear()
        reason = "the broker did not confirm in time"
        self._crash_point("before_publish")
        while True:
            try:
                self._ensure_open(deadline)
                self._attempt(deadline)
            except QueueMismatch:
                self._drop()
                raise
            except BusUnavailable as error:
                reason = str(error)
            except LINK_ERRORS as error:
                reason = f"{type(error).__name__}: {error}"
                LOG.warning(
                    "publishing on %s was interrupted (%s); what is unconfirmed is sent again",
                    self._name,
                    reason,
                )
            if None not in self._verdicts:
                self._link.settled()
                self._crash_point("after_confirm")
                return [verdict or Delivery.UNKNOWN for verdict in self._verdicts]
            if self._blocked:
                reason = "the broker blocks publishers (memory or disk alarm)"
            self._drop()
            if time.monotonic() >= deadline or self._closing.is_set():
                break
        if all(verdict is None for verdict in self._verdicts):
            raise BusUnavailable(f"nothing could be published: {' '.join(reason.split())}")
        return [verdict or Delivery.UNKNOWN for verdict in self._verdicts]

    def _attempt(self, deadline: float) -> None:
        """Write what has no verdict yet on the open connection and wait; returns at the deadline at the latest."""
        while self._blocked:
            if time.monotonic() >= deadline:
                return
            self._pump(min(deadline, time.monotonic() + _BLOCKED_TICK_SECONDS))
        pieces: list[bytes] = []
        frame_max = self._link.frame_max
        self._declare_missing([need for message in self._batch for need in message.needs])
        channel_id = self._link.channel.channel_id
        for index, message in enumerate(self._batch):
            if self._verdicts[index] is None:
                pieces += publish_frames(channel_id, message, frame_max)
                self._waiting[self._next_tag] = index
                self._next_tag += 1
        self._out += b"".join(pieces)
        while self._waiting and time.monotonic() < deadline:
            self._pump(deadline)

    def _pump(self, until: float) -> None:
        """Write as much as the socket takes, read what came, keep the heartbeat."""
        link = self._link
        pause = min(until - time.monotonic(), link.tick_seconds)
        readable = link.wait(pause, writable=bool(self._out))
        if self._out:
            self._write()
        if readable:
            link.read()
        if not self._out:
            link.beat()

    def _write(self) -> None:
        sock = self._link.sock
        secure = isinstance(sock, ssl.SSLSocket)
        step = _TLS_WRITE_BYTES if secure else _WRITE_BYTES
        previous = sock.gettimeout()
        sock.settimeout(0)
        try:
            sent = sock.send(memoryview(self._out)[:step].tobytes())
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        finally:
            sock.settimeout(previous)
        del self._out[:sent]

    def _ensure_open(self, deadline: float) -> None:
        link = self._link
        while not link.is_open:
            pause = link.retry_delay_seconds
            left = deadline - time.monotonic()
            if self._closing.wait(min(pause, max(0.0, left))):
                raise BusUnavailable("closed")
            if pause > left:
                raise BusUnavailable(self._refusal)
            try:
                link.open()
                self._prepare(link.channel)
            except BusUnavailable as error:
                self._refusal = str(error)
                if time.monotonic() >= deadline:
                    raise
        if self._keeper is None:
            self._closing.clear()
            self._keeper = threading.Thread(target=self._keep, name=f"{self._name}-keeper", daemon=True)
            self._keeper.start()

    def _prepare(self, channel: amqp.Channel) -> None:
        self._forget_connection()
        channel.confirm_select()
        channel.events["basic_ack"].add(self._on_ack)
        channel.events["basic_nack"].add(self._on_nack)
        channel.events["basic_return"].add(self._on_return)

    def _declare_missing(self, declarations: Sequence[Declaration]) -> None:
        missing = [one for one in dict.fromkeys(declarations) if one not in self._declared]
        if not missing:
            return
        self._link.synchronise()
        for one in missing:
            one.declare(self._link.channel)
            self._declared.add(one)

    def _on_return(
        self, error: amqp.AMQPError, exchange: str, routing_key: str, message: amqp.Message
    ) -> None:
        self._returned.add(message.properties.get("message_id", ""))

    def _on_ack(self, tag: int, multiple: bool) -> None:
        self._settle(tag, multiple, accepted=True)

    def _on_nack(self, tag: int, multiple: bool) -> None:
        self._settle(tag, multiple, accepted=False)

    def _settle(self, tag: int, multiple: bool, accepted: bool) -> None:
        waiting = self._waiting
        if multiple:
            tags = []
            for one in waiting:
                if one > tag:
                    break
                tags.append(one)
        else:
            tags = [tag]
        for one in tags:
            index = waiting.pop(one, None)
            if index is None:
                continue
            if not accepted:
                continue  # sent again: a channel that met a quorum queue without a leader refuses for ever
            if self._batch[index].message_id in self._returned:
                self._verdicts[index] = Delivery.UNDELIVERABLE
            else:
                self._verdicts[index] = Delivery.CONFIRMED

    def _on_blocked(self, blocked: bool) -> None:
        self._blocked = blocked

    def _drop(self) -> None:
        self._link.close()
        self._forget_connection()

    def _forget_connection(self) -> None:
        self._declared.clear()
        self._out.clear()
        self._waiting.clear()
        self._next_tag = 1

    def _keep(self) -> None:
        """Heartbeats and the broker's announcements while nobody publishes."""
        while True:
            pause = _BLOCKED_TICK_SECONDS if self._blocked else self._link.tick_seconds
            if self._closing.wait(pause):
                return
            if not self._lock.acquire(blocking=False):
                continue  # a sender is at work and does this itself
            try:
                if self._link.is_open:
                    while self._link.wait(0):
                        self._link.read()
                    self._link.beat()
            except LINK_ERRORS as error:
                LOG.info(
                    "the idle connection %s was lost (%s); it is opened again when needed", self._name, error
                )
                self._drop()
            finally:
                self._lock.release()

"""One AMQP connection with one channel: hosts in turn, TLS, heartbeats on an own clock, whole reads.

py-amqp does the handshake and interprets what arrives. Bytes are read here, many frames at once, and handed to it frame
by frame: ``drain_events`` does not return on heartbeat frames and costs several system calls per message.
"""

from __future__ import annotations

import logging
import os
import random
import select
import socket
import ssl
import time
from collections.abc import Callable

import amqp

from nova_sched.errors import BusUnavailable
from nova_sched.rpc.bus.frames import FrameReader
from nova_sched.rpc.bus.settings import LinkSettings

LOG = logging.getLogger(__name__)

LINK_ERRORS = (OSError, amqp.AMQPError, ssl.SSLError, ValueError, KeyError, AttributeError, TypeError)
"""What py-amqp raises, directly or from its insides, once a connection is broken or was closed by the broker."""

_RECEIVE_BYTES = 1 << 18
_CHANNEL_ID = 1


class Link:
    """Not thread-safe: one thread at a time drives it.

    :param name: shown by the broker's management pages.
    :param on_blocked: called with True when the broker blocks this connection (memory or disk alarm), False later.
    """

    def __init__(
        self, settings: LinkSettings, name: str, on_blocked: Callable[[bool], None] | None = None
    ) -> None:
        self.settings = settings
        self.name = name
        self._on_blocked = on_blocked or (lambda blocked: None)
        self._hosts = list(settings.hosts)
        self._spread = random.Random()  # nosec B311  # jitter
        self._spread.shuffle(self._hosts)
        self._cursor = 0
        self._failures = 0
        self._connection: amqp.Connection | None = None
        self._channel: amqp.Channel | None = None
        self._sock: socket.socket | None = None
        self._reader = FrameReader()
        self._next_beat = 0.0
        self._last_heard = 0.0
        self._frames_heard = 0
        self._retry_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Connected as far as is known."""
        return self._connection is not None

    @property
    def channel(self) -> amqp.Channel:
        """The channel; raises BusUnavailable when not connected, or when the broker has closed it meanwhile."""
        if self._channel is None:
            raise BusUnavailable("not connected to the broker")
        if self._channel.channel_id is None:  # what py-amqp leaves of a channel whose connection was closed
            raise BusUnavailable("the broker has closed the connection")
        return self._channel

    @property
    def sock(self) -> socket.socket:
        """The connected socket; raises BusUnavailable when not connected."""
        if self._sock is None:
            raise BusUnavailable("not connected to the broker")
        return self._sock

    @property
    def frame_max(self) -> int:
        """Negotiated size of a frame in bytes."""
        return int(self._connection.frame_max) if self._connection is not None else 0

    @property
    def retry_delay_seconds(self) -> float:
        """How long to wait from now on before the next ``open``; grows with failures in a row, with jitter.

        Counted from the first time it was asked for after an ``open``, so that callers whose own time is shorter than
        the delay get there together.
        """
        now = time.monotonic()
        if self._retry_at is None:
            self._retry_at = now + self.settings.delay_seconds(self._failures, self._spread)
        return max(0.0, self._retry_at - now)

    def open(self) -> None:
        """Connect to the next host of the URL, once.

        :raises BusUnavailable: that host cannot be reached or refuses us; call again for the next one.
        """
        self.close()
        host = self._hosts[self._cursor % len(self._hosts)]
        self._cursor += 1
        self._failures += 1
        self._retry_at = None
        address = f"[{host.hostname}]" if ":" in host.hostname else host.hostname
        settings = self.settings
        connection = amqp.Connection(
            host=f"{address}:{host.port}",
            userid=host.username,
            password=host.password,
            login_method=settings.login_method,
            virtual_host=settings.virtual_host,
            ssl=settings.tls.for_host(host.hostname) if settings.tls else False,
            connect_timeout=settings.connect_timeout_seconds,
            heartbeat=settings.heartbeat_seconds,
            socket_settings={socket.TCP_USER_TIMEOUT: int(settings.tcp_user_timeout_seconds * 1000)},
            on_blocked=self._blocked,
            on_unblocked=self._unblocked,
            client_properties={
                "connection_name": self.name,
                "capabilities": {
                    "connection.blocked": True,
                    "consumer_cancel_notify": True,
                    "authentication_failure_close": True,
                },
            },
        )
        try:
            connection.connect()
            sock = connection.transport.sock
            sock.settimeout(settings.write_timeout_seconds)
            channel = connection.channel(_CHANNEL_ID)
            channel.auto_decode = False  # bodies stay bytes: most are never a text of ours
        except LINK_ERRORS as error:
            _discard(connection)
            raise BusUnavailable(f"{host.hostname}:{host.port}: {_one_line(error)}") from error
        self._connection, self._channel, self._sock = connection, channel, sock
        self._reader = FrameReader()
        now = time.monotonic()
        self._last_heard = now
        self._frames_heard = connection.bytes_recv
        self._next_beat = now + self._beat_interval

    def settled(self) -> None:
        """The connection proved useful: after the next loss the delays start short again, at the next host."""
        self._failures = 0

    def close(self) -> None:
        """Drop the connection at once; unacknowledged messages go back to their queues."""
        connection, self._connection, self._channel, self._sock = self._connection, None, None, None
        if connection is not None:
            _discard(connection)
            self._on_blocked(False)

    def farewell(self) -> None:
        """Close in order, so that the broker has read what was written; never raises."""
        if self._connection is not None:
            try:
                self._connection.close()
            except LINK_ERRORS:
                LOG.debug("closing the connection %s failed", self.name, exc_info=True)
        self.close()

    def wait(self, timeout_seconds: float, wake: int | None = None, writable: bool = False) -> bool:
        """Sleep until something can be read (or written, or ``wake`` is readable); True if the socket is readable."""
        sock = self.sock
        if isinstance(sock, ssl.SSLSocket) and sock.pending():
            return True
        readers: list[socket.socket | int] = [sock] if wake is None else [sock, wake]
        readable, _, _ = select.select(readers, [sock] if writable else [], [], max(0.0, timeout_seconds))
        return sock in readable

    def read(self) -> int:
        """Read what is there (call when ``wait`` said so) and let py-amqp act on it; returns the number of frames.

        :raises LINK_ERRORS: the connection or the channel is gone.
        """
        connection, sock, seen = self._connection, self.sock, 0
        while True:
            data = sock.recv(_RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            self._last_heard = time.monotonic()
            for frame in self._reader.feed(data):
                seen += 1
                connection.on_inbound_frame(frame)  # type: ignore[union-attr]
            if not (isinstance(sock, ssl.SSLSocket) and sock.pending()):
                return seen

    def synchronise(self) -> None:
        """Read until no frame is half read: py-amqp's synchronous methods read the socket themselves."""
        while self._reader:
            self.wait(self.settings.write_timeout_seconds)
            self.read()

    def beat(self) -> None:
        """Send a heartbeat when due; notice a broker that went silent.

        :raises ConnectionError: nothing was heard for two intervals.
        """
        if self._connection is None or not self._connection.heartbeat:
            return
        now = time.monotonic()
        # py-amqp counts frames under this name, those of synchronous methods, which it reads itself, included.
        if self._connection.bytes_recv != self._frames_heard:
            self._frames_heard, self._last_heard = self._connection.bytes_recv, now
        if now - self._last_heard > 2 * self._connection.heartbeat:
            raise ConnectionAbortedError(f"nothing heard from the broker for {now - self._last_heard:.0f} s")
        if now >= self._next_beat:
            self._connection.send_heartbeat()
            self._next_beat = now + self._beat_interval

    @property
    def _beat_interval(self) -> float:
        heartbeat = self._connection.heartbeat if self._connection is not None else 0
        return max(0.5, heartbeat / 3) if heartbeat else 60.0

    @property
    def tick_seconds(self) -> float:
        """How often ``beat`` wants to be called."""
        return min(self._beat_interval / 2, 10.0)

    def _blocked(self, reason: str) -> None:
        LOG.warning("the broker blocks publishing on %s: %s", self.name, reason)
        self._on_blocked(True)

    def _unblocked(self) -> None:
        LOG.info("the broker takes messages on %s again", self.name)
        self._on_blocked(False)


class WakePipe:
    """Lets one thread interrupt another one's ``Link.wait``."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)

    def wake(self) -> None:
        """Make the reader readable."""
        try:
            os.write(self._writer, b"\0")
        except (BlockingIOError, OSError):
            return  # full: it is awake already; closed: nobody sleeps any more

    def clear(self) -> None:
        """Swallow what was written."""
        try:
            os.read(self.reader, 4096)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Give both descriptors back."""
        os.close(self.reader)
        os.close(self._writer)


def _discard(connection: amqp.Connection) -> None:
    try:
        connection.collect()
    except LINK_ERRORS:
        LOG.debug("discarding a broken connection", exc_info=True)


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())

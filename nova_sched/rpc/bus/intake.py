"""Where the server loop takes messages from: our RabbitMQ listener, or any other transport of oslo.messaging."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import orjson
import oslo_messaging

from nova_sched.rpc import errors
from nova_sched.rpc.bus.envelope import dump_json, shape_problem
from nova_sched.rpc.bus.listener import RabbitListener
from nova_sched.rpc.bus.replies import Reply, ReplyDesk
from nova_sched.rpc.bus.taken import Taken

LOG = logging.getLogger(__name__)

_NOT_CONTEXT = frozenset({"msg_id", "reply_q", "client_timeout"})
"""Addresses that the library's AMQP drivers mix into the context."""


class Intake(Protocol):
    """What the loop needs of a transport. All calls but ``stop_taking`` come from one thread."""

    def open(self) -> None:
        """Start consuming; raises QueueMismatch."""
        ...

    @property
    def consuming(self) -> bool:
        """Messages arrive, as far as is known."""
        ...

    @property
    def pending(self) -> int:
        """Messages taken from the transport and not done yet."""
        ...

    def take(self, limit: int, timeout_seconds: float) -> list[Taken]:
        """What is there, at most ``limit``; waits for the first one only."""
        ...

    def acknowledge(self, batch: Sequence[Taken]) -> None:
        """These are done."""
        ...

    def give_back(self, batch: Sequence[Taken], suspected: bool) -> None:
        """These go back to their queue."""
        ...

    def reply(self, replies: Sequence[Reply]) -> None:
        """Answer calls."""
        ...

    def keep_waiting(self, batch: Sequence[Taken]) -> None:
        """Ask callers for patience."""
        ...

    def idle(self) -> None:
        """Small chores while nothing is there."""
        ...

    def stop_taking(self) -> None:
        """Consume no more; from any thread."""
        ...

    def close(self, timeout_seconds: float) -> None:
        """Leave the transport."""
        ...


class RabbitIntake:
    """RabbitMQ: at least once, acknowledged late."""

    def __init__(self, listener: RabbitListener, desk: ReplyDesk) -> None:
        self._listener = listener
        self._desk = desk
        self.open = listener.open
        self.take = listener.take
        self.acknowledge = listener.acknowledge
        self.give_back = listener.give_back
        self.stop_taking = listener.stop_taking
        self.reply = desk.send
        self.keep_waiting = desk.keep_waiting
        self.idle = desk.retry

    @property
    def listener(self) -> RabbitListener:
        """For counters and tests."""
        return self._listener

    @property
    def consuming(self) -> bool:
        """See Intake."""
        return self._listener.consuming

    @property
    def pending(self) -> int:
        """See Intake."""
        return self._listener.pending

    def close(self, timeout_seconds: float) -> None:
        """See Intake."""
        self._listener.close(timeout_seconds)
        self._desk.close()


class StockIntake:
    """Any other transport (``fake://``, ``kombu+memory://``): at most once, since it acknowledges before we see it."""

    def __init__(self, transport: oslo_messaging.Transport, target: oslo_messaging.Target) -> None:
        self._transport = transport
        self._target = target
        self._queue: queue.SimpleQueue[Taken | None] = queue.SimpleQueue()
        self._listener: Any = None
        self._stopped = threading.Event()
        self._life = threading.Lock()

    @property
    def consuming(self) -> bool:
        """See Intake."""
        return self._listener is not None and not self._stopped.is_set()

    @property
    def pending(self) -> int:
        """See Intake."""
        return self._queue.qsize()

    def open(self) -> None:
        """See Intake."""
        LOG.warning(
            "the transport of topic %s delivers at most once: what is in work is lost when this process dies; "
            "use rabbit:// for late acknowledgement",
            self._target.topic,
        )
        with self._life:
            if not self._stopped.is_set():
                self._listener = self._transport._listen(self._target, 1, None)
                self._listener.start(self._arrived)

    def take(self, limit: int, timeout_seconds: float) -> list[Taken]:
        """See Intake."""
        batch: list[Taken] = []
        try:
            while len(batch) < limit and not self._stopped.is_set():
                taken = self._queue.get(timeout=timeout_seconds) if not batch else self._queue.get_nowait()
                if taken is not None:
                    batch.append(taken)
                elif not batch:
                    return []
        except queue.Empty:
            return batch
        return batch

    def acknowledge(self, batch: Sequence[Taken]) -> None:
        """Done by the transport before."""

    def give_back(self, batch: Sequence[Taken], suspected: bool) -> None:
        """See Intake; a transport that cannot is told in the log."""
        for taken in batch:
            LOG.warning("a %s message is dropped, its transport cannot take it back", taken.method)

    def reply(self, replies: Sequence[Reply]) -> None:
        """See Intake."""
        for reply in replies:
            failure = None
            if reply.error is not None:
                wire = (
                    reply.error
                    if isinstance(reply.error, oslo_messaging.RPCDispatcherError)
                    else (errors.to_wire(reply.error).as_exception())
                )
                failure = (type(wire), wire, reply.error.__traceback__)
            reply.taken.native.reply(reply.result, failure)

    def keep_waiting(self, batch: Sequence[Taken]) -> None:
        """See Intake."""
        for taken in batch:
            if taken.monitor_timeout_seconds:
                taken.native.heartbeat()

    def idle(self) -> None:
        """Nothing to do."""

    def stop_taking(self) -> None:
        """See Intake."""
        self._stopped.set()
        self._queue.put(None)

    def close(self, timeout_seconds: float) -> None:
        """See Intake."""
        self.stop_taking()
        with self._life:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()
            listener.cleanup()

    def _arrived(self, incoming: Sequence[Any]) -> None:
        for native in incoming:
            native.acknowledge()
            # As bytes and back: an in-process transport hands out the sender's own objects.
            body = dump_json(native.message)
            message = orjson.loads(body)
            timeout = getattr(native, "client_timeout", None)
            self._queue.put(
                Taken(
                    message=message if isinstance(message, dict) else {},
                    ctxt={key: value for key, value in native.ctxt.items() if key not in _NOT_CONTEXT},
                    unique_id=getattr(native, "unique_id", None),
                    body=body,
                    routing_key=self._target.topic,
                    poison=shape_problem(message),
                    monitor_timeout_seconds=float(timeout) if timeout else None,
                    # The fake driver and the AMQP ones name the caller's queue differently.
                    wants_reply=bool(getattr(native, "_reply_q", None) or getattr(native, "reply_q", None)),
                    native=native,
                )
            )

"""Answers to calls: two messages as every generation of oslo.messaging expects them, one for a null result.

An old client takes the result from the first message and waits for ``ending`` in a second one; a new one takes
``ending`` wherever it is. A caller that is gone must not hold anybody up: an answer without a queue is kept a few
seconds (the caller may be reconnecting), tried again while the loop is idle, then dropped with a line in the log.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nova_sched.errors import BusUnavailable
from nova_sched.model.messages import Delivery
from nova_sched.rpc import errors
from nova_sched.rpc.bus.confirms import ConfirmedSender
from nova_sched.rpc.bus.envelope import UNIQUE_ID, encode_message
from nova_sched.rpc.bus.frames import Outgoing
from nova_sched.rpc.bus.taken import Taken

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one call: a result, or the exception that takes its place."""

    taken: Taken
    result: Any = None
    error: BaseException | None = None


@dataclass(slots=True)
class _Kept:
    messages: list[Outgoing]
    until: float


class ReplyDesk:
    """Sends answers over a connection of its own; used by the server loop only.

    :param patience_seconds: how long an answer waits for the queue of its caller to come back.
    """

    def __init__(
        self,
        sender: ConfirmedSender,
        timeout_seconds: float = 10.0,
        patience_seconds: float = 10.0,
        keep: int = 200,
    ) -> None:
        self._sender = sender
        self._timeout_seconds = timeout_seconds
        self._patience_seconds = patience_seconds
        self._kept: deque[_Kept] = deque(maxlen=keep)

    def send(self, replies: Sequence[Reply]) -> None:
        """Answer these calls; an answer that cannot be delivered is logged, the work stands. Never raises."""
        until = time.monotonic() + self._patience_seconds
        self._deliver([_Kept(render_reply(reply), until) for reply in replies])

    def retry(self) -> None:
        """Try again what found no queue; call it when idle."""
        if self._kept:
            kept = list(self._kept)
            self._kept.clear()
            self._deliver(kept)

    def keep_waiting(self, batch: Sequence[Taken]) -> None:
        """Tell callers that asked to be told that their calls are still being worked on."""
        signs = [
            _message(taken, {"result": None, "failure": None, "ending": False})
            for taken in batch
            if taken.monitor_timeout_seconds and taken.reply_q and taken.msg_id
        ]
        if signs:
            self._publish(signs)

    def close(self) -> None:
        """Give up what is kept and close the connection."""
        self._kept.clear()
        self._sender.close()

    def _deliver(self, kept: list[_Kept]) -> None:
        answers = self._publish([message for one in kept for message in one.messages])
        position = 0
        for one in kept:
            words = answers[position : position + len(one.messages)]
            position += len(one.messages)
            if Delivery.UNDELIVERABLE not in words:
                continue
            if time.monotonic() < one.until:
                self._kept.append(one)
            else:
                LOG.warning(
                    "the caller behind %s is gone, its answer is dropped", one.messages[0].routing_key
                )

    def _publish(self, messages: list[Outgoing]) -> list[Delivery]:
        try:
            return self._sender.send(messages, self._timeout_seconds)
        except BusUnavailable as error:
            LOG.warning("%d answers could not be sent: %s", len(messages), error)
            return [Delivery.UNKNOWN] * len(messages)


def render_reply(reply: Reply) -> list[Outgoing]:
    """The messages of one answer."""
    failure = None
    if reply.error is not None:
        failure = errors.to_wire(reply.error).as_json(reply.error, not errors.is_expected(reply.error))
    first: dict[str, Any] = {"result": None if failure else reply.result, "failure": failure}
    ending = {"result": None, "failure": None, "ending": True}
    if failure is None and reply.result is None:
        return [_message(reply.taken, ending)]
    try:
        rendered = _message(reply.taken, first)
    except TypeError as error:
        LOG.error("the result of %s has no JSON form: %s", reply.taken.method, error)
        return render_reply(Reply(reply.taken, error=error))
    return [rendered, _message(reply.taken, ending)]


def _message(taken: Taken, content: dict[str, Any]) -> Outgoing:
    unique_id = uuid.uuid4().hex
    body = encode_message({**content, "_msg_id": taken.msg_id, UNIQUE_ID: unique_id})
    return Outgoing("", taken.reply_q or "", body, unique_id)

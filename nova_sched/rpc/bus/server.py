"""The server loop: take what is there, dispatch it, end the batch, answer, acknowledge. One thread per topic.

Nothing is acknowledged before ``on_batch_end`` returned, that is, before the outcome is committed and its casts are
confirmed. When SQL or the broker is away the batch is held and dispatched again after a pause: to endpoints that looks
like a redelivery, so they must know a repeat by its key. A message that was delivered before and never finished is
processed alone, so that one that kills the process takes no others with it, and is given up after
``max_deliveries`` attempts.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import oslo_messaging

from nova_sched.errors import BusUnavailable, MalformedMessage, StoreUnavailable
from nova_sched.rpc.bus.crash import CrashPoint, no_crash
from nova_sched.rpc.bus.dispatch import Dispatch, is_answer, settled
from nova_sched.rpc.bus.driver import open_intake
from nova_sched.rpc.bus.envelope import BodyLimits
from nova_sched.rpc.bus.judge import (
    BatchEnd,
    DeadLetterSink,
    Deliveries,
    LoggedDeadLetters,
    Poisoned,
    PoisonHook,
    letter,
)
from nova_sched.rpc.bus.listener import Subscription
from nova_sched.rpc.bus.replies import Reply
from nova_sched.rpc.bus.taken import Taken
from nova_sched.service.ports import NullObserver, Observer
from nova_sched.settings import DeliverySettings

LOG = logging.getLogger(__name__)

OUTAGES = (StoreUnavailable, BusUnavailable)
_IDLE_SECONDS = 2.0
_HOLD_PAUSE_SECONDS = (0.1, 5.0)
_GIVE_WAY_STEP_SECONDS = 0.01


class BusServer:
    """Consumes one topic; see the module for what it promises.

    :param target: topic and server (host name) to listen as.
    :param endpoints: objects with a ``target`` (namespace, version) whose methods carry ``rpc.expose``. A method takes
        (context mapping, **arguments) and returns a result, or a Deferred that ``on_batch_end`` resolves.
    :param on_batch_end: called after each batch of dispatches, in the loop's thread. Raises StoreUnavailable or
        BusUnavailable to have the batch held; it must leave nothing behind when it raises.
    :param dead_letters: where messages go that cannot be processed; default: only the log.
    :param deliveries: how often a suspected message was tried, committed by SQL; None: never counted, never alone.
    :param on_poison: told of each dead letter (message as far as readable, reason), so that instances end in ERROR.
    :param on_idle: called in the loop's thread when nothing came for a while; an outage it meets is not reported.
    :param batch_max: default ``delivery.batch_max``; ``prefetch`` likewise.
    :param give_way_to: another server whose batches go first: this one waits up to ``give_way_seconds`` for it.
    """

    def __init__(
        self,
        transport: oslo_messaging.Transport,
        target: oslo_messaging.Target,
        endpoints: Sequence[Any],
        *,
        on_batch_end: BatchEnd,
        delivery: DeliverySettings | None = None,
        dead_letters: DeadLetterSink | None = None,
        deliveries: Deliveries | None = None,
        on_poison: PoisonHook | None = None,
        on_idle: Callable[[], None] | None = None,
        batch_max: int | None = None,
        prefetch: int | None = None,
        give_way_to: BusServer | None = None,
        give_way_seconds: float = 0.25,
        give_back_after_seconds: float = 1200.0,
        observer: Observer | None = None,
        crash_point: CrashPoint = no_crash,
    ) -> None:
        delivery = delivery or DeliverySettings()
        self._target = target
        self._dispatch = Dispatch(endpoints)
        self._on_batch_end = on_batch_end
        self._dead_letters = dead_letters or LoggedDeadLetters()
        self._deliveries = deliveries
        self._max_deliveries = delivery.max_deliveries
        self._on_poison = on_poison or (lambda message, reason: None)
        self._on_idle = on_idle or (lambda: None)
        self._batch_max = batch_max or delivery.batch_max
        self._give_way_to = give_way_to
        self._give_way_seconds = give_way_seconds
        self._give_back_after_seconds = give_back_after_seconds
        self._observer = observer or NullObserver()
        self._crash_point = crash_point
        self._intake = open_intake(
            transport,
            target,
            Subscription(
                target.topic,
                target.server,
                prefetch or delivery.prefetch,
                BodyLimits(delivery.max_message_bytes, delivery.max_message_depth),
                delivery.watchdog_interval_seconds,
                give_back_after_seconds,
            ),
            crash_point,
            self._observer,
        )
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._life = threading.Lock()
        self._busy = False
        self._held: str | None = None
        self._submitted_taken_at = 0.0

    # Life cycle and health

    def start(self) -> None:
        """Consume. Waits (with back-off, one line in the log) for a broker that is away; returns early on ``stop``.

        :raises QueueMismatch: a queue or exchange exists with other properties.
        """
        with self._life:
            if self._thread is not None or self._stopping.is_set():
                return
            self._thread = threading.Thread(
                target=self._run, name=f"server-{self._target.topic}", daemon=True
            )
        self._intake.open()
        if not self._stopping.is_set():
            self._thread.start()

    def stop(self, timeout_seconds: float = 30.0) -> bool:
        """Stop consuming, finish what is in hand, give back the rest, acknowledge, leave.

        Idempotent, safe before ``start`` and from any thread. True if all was finished within the limit; what was not
        goes back to the queue when the connection closes.
        """
        until = time.monotonic() + timeout_seconds
        self._stopping.set()
        self._intake.stop_taking()
        thread, finished = self._thread, True
        if thread is not None and thread.ident is not None and thread is not threading.current_thread():
            thread.join(timeout_seconds)
            finished = not thread.is_alive()
            if not finished:
                LOG.warning(
                    "topic %s: the batch in hand did not end in %.0f s", self._target.topic, timeout_seconds
                )
        self._intake.close(max(1.0, until - time.monotonic()))
        return finished

    @property
    def busy(self) -> bool:
        """A batch is in work."""
        return self._busy

    @property
    def consuming(self) -> bool:
        """Connected and subscribed, as far as is known."""
        return self._intake.consuming

    @property
    def pending(self) -> int:
        """Messages taken from the broker and not acknowledged yet."""
        return self._intake.pending

    @property
    def held(self) -> str | None:
        """Why the batch in hand is held (SQL or broker away), or None."""
        return self._held

    @property
    def age_seconds(self) -> float:
        """For how long the message that an endpoint is given just now has been in this process's hands."""
        return time.monotonic() - self._submitted_taken_at

    # The loop

    def _run(self) -> None:
        while not self._stopping.is_set():
            batch = self._intake.take(self._batch_max, _IDLE_SECONDS)
            if not batch:
                self._intake.idle()
                self._rest()
                continue
            self._crash_point("after_take")
            self._give_way()
            self._busy = True
            try:
                self._process(batch)
            except Exception:  # the loop outlives whatever escaped; the messages come again, alone
                LOG.exception("topic %s: the server loop failed, its messages go back", self._target.topic)
                self._intake.give_back(batch, suspected=True)
            finally:
                self._busy = False

    def _rest(self) -> None:
        try:
            self._on_idle()
        except OUTAGES as error:
            LOG.debug("topic %s: idle work met an outage: %s", self._target.topic, error)
        except Exception:
            LOG.exception("topic %s: idle work failed", self._target.topic)

    def _give_way(self) -> None:
        other = self._give_way_to
        if other is not None:
            until = time.monotonic() + self._give_way_seconds
            while other.busy and time.monotonic() < until:
                time.sleep(_GIVE_WAY_STEP_SECONDS)

    def _process(self, batch: list[Taken]) -> None:
        self._observer.count("bus_messages", len(batch), topic=self._target.topic)
        groups = list(self._groups(batch))
        for position, group in enumerate(groups):
            if self._stopping.is_set():
                for rest in groups[position:]:
                    self._intake.give_back(rest, suspected=False)
                return
            self._work(group)

    def _groups(self, batch: list[Taken]) -> Iterator[list[Taken]]:
        """Runs of fresh messages together, each suspected or unreadable one alone, in their order."""
        together: list[Taken] = []
        for taken in batch:
            if taken.poison or (taken.redelivered and self._deliveries is not None):
                if together:
                    yield together
                together = []
                yield [taken]
            else:
                together.append(taken)
        if together:
            yield together

    def _work(self, group: list[Taken]) -> None:
        first = group[0]
        if first.poison:
            self._refuse([Poisoned(first, MalformedMessage(first.poison))])
            return
        counted = first.redelivered and self._deliveries is not None
        if counted:
            attempts: list[int] = []
            if not self._hold(group, lambda: attempts.append(self._count(first)), counted=False):
                return
            if attempts[-1] > self._max_deliveries:
                text = f"given up after {attempts[-1] - 1} deliveries that were never finished"
                self._refuse([Poisoned(first, MalformedMessage(text))])
                return
        replies: list[Reply] = []
        poisoned: list[Poisoned] = []
        broken: Exception | None = None
        try:
            if not self._hold(group, lambda: self._decide(group, replies, poisoned), counted=counted):
                return
        except Exception as error:
            broken = error
        if broken is not None:
            self._suspect(group, broken)
            return
        if poisoned and not self._hold(group, lambda: self._bury(poisoned), counted=counted):
            return
        self._finish(group, replies)

    def _suspect(self, group: list[Taken], error: Exception) -> None:
        """The end of the batch broke, not an outage: find the culprit by working one by one."""
        if len(group) == 1:
            LOG.error("processing %s failed: %s", group[0].method, error, exc_info=error)
            self._refuse([Poisoned(group[0], error)])
            return
        LOG.error("a batch of %d messages failed, each is tried alone: %s", len(group), error, exc_info=error)
        for taken in group:
            if self._stopping.is_set():
                self._intake.give_back([taken], suspected=True)
            else:
                self._work([taken])

    def _count(self, taken: Taken) -> int:
        self._observer.count("bus_redelivered", topic=self._target.topic)
        return self._deliveries.count(taken.message_id) if self._deliveries is not None else 0

    def _submit(self, taken: Taken) -> Any:
        self._submitted_taken_at = taken.taken_at
        return self._dispatch.submit(taken)

    def _decide(self, group: list[Taken], replies: list[Reply], poisoned: list[Poisoned]) -> None:
        replies.clear()
        poisoned.clear()
        promised = [self._submit(taken) for taken in group]
        self._on_batch_end()
        for taken, promise in zip(group, promised, strict=True):
            answer = settled(promise)
            if not isinstance(answer, BaseException):
                if taken.wants_reply:
                    replies.append(Reply(taken, answer))
                continue
            if isinstance(answer, OUTAGES) and not taken.wants_reply:
                raise answer
            self._dispatch.report(taken, answer)
            if taken.wants_reply:
                replies.append(Reply(taken, error=answer))
            elif not is_answer(answer):
                poisoned.append(Poisoned(taken, answer))

    # Endings

    def _refuse(self, poisoned: list[Poisoned]) -> None:
        group = [one.taken for one in poisoned]
        if self._hold(group, lambda: self._bury(poisoned), counted=False):
            self._finish(
                group, [Reply(one.taken, error=one.error) for one in poisoned if one.taken.wants_reply]
            )

    def _bury(self, poisoned: list[Poisoned]) -> None:
        """Instances to ERROR, then the dead letter; both before the acknowledgement. Calls get their answer instead."""
        for one in poisoned:
            if one.buried:
                continue
            reason = one.reason
            LOG.error(
                "a message is refused: %s (method %s, id %s)", reason, one.taken.method, one.taken.message_id
            )
            self._observer.count("bus_poison", topic=self._target.topic)
            if not one.taken.wants_reply:
                try:
                    self._on_poison(one.taken.message or None, reason)
                except OUTAGES:
                    raise
                except Exception:
                    LOG.exception("recording the fault of a refused message failed")
                self._dead_letters.put(letter(one.taken, reason))
            one.buried = True

    def _finish(self, group: list[Taken], replies: list[Reply]) -> None:
        if replies:
            self._crash_point("before_reply")
            self._intake.reply(replies)
        self._intake.acknowledge(group)
        now = time.monotonic()
        for taken in group:
            self._observer.observe("message_duration", now - taken.taken_at, topic=self._target.topic)

    def _hold(self, group: list[Taken], step: Callable[[], None], counted: bool) -> bool:
        """Run ``step`` until no outage stops it. False: the group was given back (stopping, or held too long)."""
        pause, most = _HOLD_PAUSE_SECONDS
        while True:
            try:
                step()
            except OUTAGES as error:
                if self._held is None:
                    LOG.warning("topic %s is held, nothing is lost: %s", self._target.topic, error)
                self._held = str(error)
                self._observer.count("bus_held", topic=self._target.topic)
            else:
                if self._held is not None:
                    LOG.info("topic %s goes on", self._target.topic)
                    self._held = None
                return True
            too_long = time.monotonic() - group[0].taken_at > self._give_back_after_seconds
            if too_long or self._stopping.wait(pause + random.uniform(0, pause)):  # nosec B311  # jitter
                self._release(group, counted)
                return False
            self._intake.keep_waiting(group)
            pause = min(pause * 2, most)

    def _release(self, group: list[Taken], counted: bool) -> None:
        """Give a held group back before the broker takes it; an outage is nobody's fault and does not count."""
        if counted and self._deliveries is not None:
            try:
                self._deliveries.forgive(group[0].message_id)
            except OUTAGES:
                LOG.warning("a delivery that ended in an outage stays counted: SQL is away")
        self._intake.give_back(group, suspected=False)
        self._held = None
        if not self._stopping.is_set():
            self._stopping.wait(min(_HOLD_PAUSE_SECONDS[1], self._give_back_after_seconds))

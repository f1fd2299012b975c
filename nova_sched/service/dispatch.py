"""Carries out what is committed: casts and events in Juno's order, and the broker's word on each."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from nova_sched.errors import BusUnavailable, StoreUnavailable
from nova_sched.model.messages import Cast, Delivery, Event
from nova_sched.model.states import ClaimState
from nova_sched.service.ports import Clock, CrashPoint, MessageBus, Observer, OutcomeStore, PriorClaim
from nova_sched.service.tickets import CastOf, Job, Outgoing

LOG = logging.getLogger(__name__)


class Dispatcher:
    """Publishes the outgoing messages of jobs. One per batch loop; keeps nothing between calls."""

    def __init__(
        self, store: OutcomeStore, bus: MessageBus, clock: Clock, observer: Observer, crash_point: CrashPoint
    ) -> None:
        self._store = store
        self._bus = bus
        self._clock = clock
        self._observer = observer
        self._crash_point = crash_point

    def send(self, jobs: Sequence[Job]) -> list[tuple[Job, CastOf]]:
        """Publish everything that ``jobs`` have in hand and wait; the casts that no queue took come back.

        Raises BusUnavailable when the fate of a cast is unknown, and StoreUnavailable.
        """
        self._reread_late_claims(jobs)
        messages: list[Cast | Event] = []
        owners: list[tuple[Job, Outgoing] | None] = []
        now = self._clock.utcnow()
        for job in jobs:
            if job.announces and not job.started:
                messages.append(job.messages.start(now))
                owners.append(None)
                job.started = True
            for item in job.outgoing:
                if item.before is not None:
                    messages.append(item.before)
                    owners.append(None)
                messages.append(item.message)
                owners.append((job, item))
            job.outgoing = []
        if not messages:
            return []
        self._crash_point("before_publish")
        answers = self._bus.publish(messages)
        self._crash_point("after_publish")
        return self._sort(owners, answers)

    def finish(self, jobs: Sequence[Job]) -> None:
        """Send the .end of every job that was started. They may be lost; nothing waits for them."""
        now = self._clock.utcnow()
        ends: list[Cast | Event] = [job.messages.end(now) for job in jobs if job.started]
        if not ends:
            return
        try:
            self._bus.publish(ends)
        except BusUnavailable as gone:
            LOG.warning("%d .end notifications were not sent: %s", len(ends), gone)

    def _sort(
        self, owners: Sequence[tuple[Job, Outgoing] | None], answers: Sequence[Delivery]
    ) -> list[tuple[Job, CastOf]]:
        undeliverable: list[tuple[Job, CastOf]] = []
        confirmed_rows: list[int] = []
        unknown = 0
        for owner, answer in zip(owners, answers, strict=True):
            if owner is None:
                continue
            job, item = owner
            if isinstance(item, CastOf):
                if answer is Delivery.UNDELIVERABLE:
                    undeliverable.append((job, item))
                elif answer is Delivery.UNKNOWN:
                    unknown += 1
            elif answer is Delivery.CONFIRMED and item.outbox_id is not None:
                confirmed_rows.append(item.outbox_id)
        self._forget(confirmed_rows)
        if unknown:
            raise BusUnavailable(f"the broker did not answer for {unknown} of {len(answers)} messages")
        self._crash_point("after_confirm")
        return undeliverable

    def _forget(self, outbox_ids: list[int]) -> None:
        if not outbox_ids:
            return
        try:
            self._store.sent(outbox_ids)
        except StoreUnavailable as gone:
            LOG.warning("%d events stay in the outbox and will be sent once more: %s", len(outbox_ids), gone)
        self._crash_point("after_sent")

    def _reread_late_claims(self, jobs: Sequence[Job]) -> None:
        """A cast may not leave when half of its claim's life has passed: read the claim again, keep what still lives.

        Half of what is left of the life is for publishing, the other half for waiting in the compute's queue, so no
        cast arrives after its claim has expired.
        """
        while True:
            now = self._clock.monotonic()
            late = [
                item
                for job in jobs
                for item in job.outgoing
                if isinstance(item, CastOf) and now > item.deadline
            ]
            if not late:
                return
            found = self._store.prior([item.uuid for item in late])
            renewed: dict[int, CastOf | None] = {}
            for item in late:
                prior = found.get(item.uuid)
                claim = prior.claim if prior is not None and prior.attempt == item.attempt else None
                renewed[id(item)] = _renewed(item, claim, now)
            for job in jobs:
                kept = [renewed.get(id(item), item) for item in job.outgoing]
                job.outgoing = [item for item in kept if item is not None]
            gone = sum(item is None for item in renewed.values())
            self._observer.count("late_claims", len(late))
            LOG.warning(
                "%d claims outlived half of their life before their cast, %d of them ended", len(late), gone
            )


def half_life_seconds(claim: PriorClaim) -> float:
    """Half of what is left of a claim's life; not positive once it has expired."""
    return (claim.ttl_seconds - claim.age_seconds) / 2


def _renewed(item: CastOf, claim: PriorClaim | None, now: float) -> CastOf | None:
    if claim is None or claim.state is not ClaimState.CLAIMED or claim.host_id != item.placement.host_id:
        return None
    left = half_life_seconds(claim)
    if left <= 0:
        return None
    return replace(item, message=replace(item.message, expiration_seconds=left), deadline=now + left)

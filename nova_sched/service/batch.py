"""The only loop: what was submitted is looked up, decided, claimed, committed, published and answered, in this order.

::

    submit ──► wave ──► prior ──► decide ──► commit ──► publish ──► answer
                 ▲                  ▲  lost guard │           │ undeliverable
                 │                  └─────────────┘◄──────────┘
                 └── SQL or broker away: nothing more is answered, the messages are submitted again

A wave is what can be decided together: every instance occurs in it once. Tickets are answered only when their outcome
is committed and the broker has confirmed their casts. Nothing is remembered from a run that was held: its requests are
submitted again and meet what the database says by then. Used by one thread.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from nova_sched.drivers.api import SchedulerDriver
from nova_sched.errors import BusUnavailable, NoValidHost, StoreUnavailable
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.guard import PluginGuard
from nova_sched.service.dispatch import Dispatcher
from nova_sched.service.planning import Planner
from nova_sched.service.ports import (
    Clock,
    CrashPoint,
    FactSource,
    MessageBus,
    Messages,
    NullObserver,
    Observer,
    OutcomeStore,
    no_crash,
)
from nova_sched.service.refresh import HostRefresher
from nova_sched.service.settling import Settler
from nova_sched.service.shadow import Shadow
from nova_sched.service.sorting import Sorter
from nova_sched.service.tickets import Answer, CastOf, Job, Ticket
from nova_sched.settings import DeliverySettings

LOG = logging.getLogger(__name__)


class Batch:
    """Takes requests with :meth:`submit` and brings all of them to their end with :meth:`run`."""

    def __init__(
        self,
        *,
        driver: SchedulerDriver,
        hosts: HostRefresher,
        facts: FactSource,
        store: OutcomeStore,
        bus: MessageBus,
        messages: Messages,
        delivery: DeliverySettings | None = None,
        observer: Observer | None = None,
        clock: Clock | None = None,
        crash_point: CrashPoint = no_crash,
        shadow: Shadow | None = None,
    ) -> None:
        self._pending: list[Ticket] = []
        self._hosts = hosts
        self._facts = facts
        self._store = store
        self._observer = observer or NullObserver()
        self._clock = clock or Clock()
        self._crash_point = crash_point
        self._dispatcher = Dispatcher(store, bus, self._clock, self._observer, crash_point)
        self.configure(driver, messages, delivery or DeliverySettings(), shadow)

    def configure(
        self,
        driver: SchedulerDriver,
        messages: Messages,
        delivery: DeliverySettings,
        shadow: Shadow | None = None,
    ) -> None:
        """Use another driver and other settings from the next run on (a reload, between batches)."""
        self.shadow = shadow
        self._retries_max = delivery.claim_retries_max
        self._hosts.period_seconds = driver.refresh_period_seconds
        shared = (self._clock, self._observer, self._crash_point)
        self._planner = Planner(driver, delivery, self._clock, self._observer)
        self._sorter = Sorter(self._planner, messages, self._facts, self._store, *shared)
        self._settler = Settler(
            self._planner, self._sorter, self._hosts, self._facts, self._store, delivery, *shared, shadow
        )

    @property
    def guard(self) -> PluginGuard:
        """What plugin code runs now, for the watchdog."""
        return self._planner.guard

    @property
    def waiting(self) -> int:
        """Tickets without an answer."""
        return len(self._pending)

    def submit(self, request: SchedulingRequest, answer: Answer | None = None) -> Ticket:
        """Queue a request for the next run; its ticket (and ``answer``) is answered by it."""
        return self._add(Ticket(request, answer))

    def explain(self, request: SchedulingRequest, answer: Answer | None = None) -> Ticket:
        """Queue a dry run, answered with its :class:`DecisionRecord`; nothing is claimed, written or sent."""
        return self._add(Ticket(request, answer, explains=True))

    def _add(self, ticket: Ticket) -> Ticket:
        self._pending.append(ticket)
        self._observer.count("requests", method=ticket.request.method)
        return ticket

    def idle(self) -> None:
        """Nothing is waiting: read ahead what the next request would have to wait for. Raises StoreUnavailable."""
        self._hosts.idle()

    def run(self) -> None:
        """Bring every waiting ticket to its answer.

        Raises StoreUnavailable or BusUnavailable when SQL or the broker is away: tickets without an answer are dropped,
        their messages may not be acknowledged but have to be submitted again.
        """
        waiting, self._pending = self._pending, []
        began = self._clock.monotonic()
        try:
            while waiting:
                self._run_or_split(_next_wave(waiting))
                waiting = [ticket for ticket in waiting if not ticket.done]
        except (StoreUnavailable, BusUnavailable) as gone:
            cause = "store" if isinstance(gone, StoreUnavailable) else "bus"
            self._observer.count("held_batches", cause=cause)
            raise
        self._observer.observe("batch", self._clock.monotonic() - began)

    def refuse(self, request: SchedulingRequest, reason: str) -> None:
        """End a request's instances in ERROR without deciding: its message is given up and goes to the dead letters.

        Instances that are past the scheduler already stay as they are. Raises StoreUnavailable.
        """
        job = self._sorter.sort([Ticket(request)])[0]
        self._settler.give_up(job, reason)

    def _run_or_split(self, wave: Sequence[Ticket]) -> None:
        """A fault that the planner could not pin on one request: run one by one, so that it meets only its own."""
        try:
            self._run_wave(wave)
        except (StoreUnavailable, BusUnavailable):
            raise
        except Exception as fault:
            LOG.exception("a batch of %d requests failed", len(wave))
            if len(wave) == 1:
                self._give_up(wave[0], fault)
                return
            for ticket in wave:
                if not ticket.done:
                    self._run_or_split([ticket])

    def _run_wave(self, tickets: Sequence[Ticket]) -> None:
        taken = self._clock.monotonic()
        jobs = self._sorter.sort(tickets)
        self._settler.settle(jobs)
        began = self._clock.monotonic()
        while undeliverable := self._dispatcher.send(jobs):
            self._turn_away(undeliverable)
            self._settler.settle(jobs)
        self._dispatcher.finish(jobs)
        ended = self._clock.monotonic()
        self._observer.observe("stage", ended - began, stage="publish")
        for job in jobs:
            self._answer(job)
            self._observer.observe("scheduling_attempt_duration", ended - taken, result=_result(job))

    def _turn_away(self, undeliverable: Sequence[tuple[Job, CastOf]]) -> None:
        """No queue took these casts: their claims give way to the next host, which is never the same one again."""
        self._observer.count("undeliverable_casts", len(undeliverable))
        for job, cast in undeliverable:
            placement = cast.placement
            LOG.warning("no compute takes builds for %s, %s tries another host", placement.host, cast.uuid)
            if placement.destination not in job.request.excluded:
                job.exclude(placement.destination)
            job.replaces[cast.uuid] = placement.host_id
            job.todo.append(placement.instance)
        for job in {id(job): job for job, _ in undeliverable}.values():
            job.undeliverable += 1
            if job.undeliverable > self._retries_max:
                job.exhausted = (
                    f"No host could be reached: builds came back undeliverable {job.undeliverable} times."
                )

    def _answer(self, job: Job) -> None:
        ticket = job.ticket
        if ticket.explains:
            self._explain(job)
        elif job.failure is not None:
            ticket.reject(job.failure)
        elif ticket.is_call:
            ticket.resolve(job.messages.destinations([job.placements[at] for at in sorted(job.placements)]))
        else:
            ticket.resolve()

    def _explain(self, job: Job) -> None:
        try:
            job.ticket.resolve(self._settler.explain(job))
        except StoreUnavailable:
            raise
        except Exception as fault:
            LOG.exception("a dry run failed")
            job.ticket.reject(fault)

    def _give_up(self, ticket: Ticket, fault: Exception) -> None:
        """The loop itself failed over one request: its instances end in ERROR, or its message is put aside."""
        if ticket.is_call:
            ticket.reject(fault)
            return
        try:
            self._settler.give_up(self._sorter.sort([ticket])[0], fault)
            ticket.resolve()
        except (StoreUnavailable, BusUnavailable):
            raise
        except Exception:
            LOG.exception("the instances of %s cannot be set to ERROR", ticket.request.caller.request_id)
            ticket.reject(fault)


def _result(job: Job) -> str:
    """How an attempt ended, in kube-scheduler's words."""
    if job.failed or isinstance(job.failure, NoValidHost):
        return "unschedulable"
    return "error" if job.failure is not None else "scheduled"


def _next_wave(waiting: Sequence[Ticket]) -> list[Ticket]:
    """Tickets that may be decided together: no instance twice, no hint at an instance placed by the same wave."""
    taken: set[str] = set()
    wave: list[Ticket] = []
    for ticket in waiting:
        request = ticket.request
        uuids = () if ticket.explains else request.uuids
        if taken.isdisjoint(uuids) and not (request.hints and _hints_at(request, taken)):
            wave.append(ticket)
        taken.update(uuids)
    return wave


def _hints_at(request: SchedulingRequest, uuids: set[str]) -> bool:
    for value in request.hints.values():
        if isinstance(value, str):
            if value in uuids:
                return True
        elif isinstance(value, tuple) and any(isinstance(item, str) and item in uuids for item in value):
            return True
    return False

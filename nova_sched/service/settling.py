"""Decide and commit, again and again, until every instance of a wave has an outcome in the database."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nova_sched.errors import MalformedMessage, NoValidHost
from nova_sched.model.facts import NO_FACTS, Facts
from nova_sched.model.request import HostNode, InstanceRef
from nova_sched.model.states import EndReason
from nova_sched.service.planning import Plan, Planner, WaveFacts
from nova_sched.service.ports import (
    Clock,
    CrashPoint,
    DecisionRecord,
    FactSource,
    Failed,
    Observer,
    Outcome,
    OutcomeStore,
    Placed,
    Prior,
    Verdict,
    VerdictKind,
)
from nova_sched.service.refresh import HostRefresher
from nova_sched.service.shadow import Shadow
from nova_sched.service.sorting import Sorter
from nova_sched.service.tickets import CastOf, ErrorOf, Job
from nova_sched.settings import DeliverySettings

LOG = logging.getLogger(__name__)

#: Rounds in a row in which a host's guard may refuse a request before other hosts are preferred to it.
REFUSALS_MAX = 3
UNWRITABLE = "Invalid request: it holds a value that the database cannot take."
_PAUSE_SECONDS = 0.002
_PAUSE_MAX_SECONDS = 0.05

Repeat = tuple[Job, InstanceRef, Prior | None]


class Settler:
    """Brings the ``todo`` of jobs to nothing: what is committed stands in their ``outgoing`` or ``placements``."""

    def __init__(
        self,
        planner: Planner,
        sorter: Sorter,
        hosts: HostRefresher,
        facts: FactSource,
        store: OutcomeStore,
        delivery: DeliverySettings,
        clock: Clock,
        observer: Observer,
        crash_point: CrashPoint,
        shadow: Shadow | None = None,
    ) -> None:
        self._planner = planner
        self._shadow = shadow
        self._sorter = sorter
        self._hosts = hosts
        self._facts = facts
        self._store = store
        self._retries_max = delivery.claim_retries_max
        self._clock = clock
        self._observer = observer
        self._crash_point = crash_point
        self._spread = random.Random()

    def settle(self, jobs: Sequence[Job]) -> None:
        """Raises StoreUnavailable; what was committed until then is found again by the next look at what is known."""
        waiting = [job for job in jobs if job.todo]
        lost: set[int] = set()
        while waiting:
            plans = self._plan(waiting, lost)
            began = self._clock.monotonic()
            lost = self._apply(plans, self._commit(plans), began)
            waiting = [job for job in waiting if job.todo]
            if waiting:
                self._pause(max(job.stalled for job in waiting))

    def explain(self, job: Job) -> DecisionRecord:
        """What would be decided for this job now. Raises StoreUnavailable and what the driver raises."""
        overlay = self._hosts.refresh().overlay()
        return self._planner.explain(job, overlay, WaveFacts(self._load([job])))

    def give_up(self, job: Job, fault: Exception | str) -> None:
        """End every instance of the job that is not past the scheduler in ERROR. Raises StoreUnavailable.

        ``fault``: what broke, or the reason. The events are left to the outbox.
        """
        for item in job.outgoing:
            if isinstance(item, CastOf):
                job.replaces[item.uuid] = item.placement.host_id
                job.todo.append(item.placement.instance)
        job.outgoing = []
        if job.todo:
            request = job.remaining()
            if isinstance(fault, str):
                plan = self._planner.failed(job, request, fault)
            else:
                plan = self._planner.broken(job, request, fault)
            self._store.commit(plan.outcomes, [plan.record])

    def _plan(self, waiting: Sequence[Job], lost: Iterable[int]) -> list[Plan]:
        began = self._clock.monotonic()
        table = self._hosts.refresh()
        self._hosts.reread(set(lost))
        loaded = self._load(waiting)
        self._crash_point("before_decide")
        read = self._clock.monotonic()
        self._observer.observe("stage", read - began, stage="refresh")
        stages = {"refresh": read - began}
        overlay, facts = table.overlay(), WaveFacts(loaded)
        plans = [self._planner.plan(job, overlay, facts, stages) for job in waiting]
        self._planner.say()
        decided = self._clock.monotonic()
        self._observer.observe("stage", decided - read, stage="decide")
        if self._shadow is not None:
            self._shadow.look(plans, table.overlay(), WaveFacts(loaded))
            self._observer.observe("stage", self._clock.monotonic() - decided, stage="shadow")
        return plans

    def _load(self, jobs: Sequence[Job]) -> dict[int, Facts]:
        needs = self._planner.driver.needs
        if self._shadow is not None:
            needs |= self._shadow.needs
        if not needs:
            return {id(job): NO_FACTS for job in jobs}
        loaded = self._facts.load([job.request for job in jobs], needs)
        return {id(job): facts for job, facts in zip(jobs, loaded, strict=True)}

    def _commit(self, plans: Sequence[Plan]) -> Sequence[Verdict]:
        outcomes: list[Outcome] = [outcome for plan in plans for outcome in plan.outcomes]
        records = [plan.record for plan in plans]
        self._crash_point("before_commit")
        began = self._clock.monotonic()
        verdicts = self._store.commit(outcomes, records)
        self._observer.observe("stage", self._clock.monotonic() - began, stage="commit")
        self._crash_point("after_commit")
        return verdicts

    def _apply(self, plans: Sequence[Plan], verdicts: Sequence[Verdict], began: float) -> set[int]:
        """Take the verdicts of the commit that began then in; the ids of the hosts that refused."""
        progress = any(verdict.kind is VerdictKind.COMMITTED for verdict in verdicts)
        refused = {v.host_id for v in verdicts if v.kind is VerdictKind.LOST and v.host_id is not None}
        repeats: list[Repeat] = []
        counts: Counter[str] = Counter()
        touched: list[int] = []
        at = 0
        for plan in plans:
            part = verdicts[at : at + len(plan.outcomes)]
            at += len(plan.outcomes)
            plan.job.todo = []
            touched += [outcome.placement.host_id for outcome in plan.outcomes if isinstance(outcome, Placed)]
            apply = self._apply_call if plan.job.ticket.is_call else self._apply_cast
            repeats += apply(plan, part, counts)
            self._note_refusals(plan, part, progress)
        self._hosts.committed(touched)
        for outcome, amount in counts.items():
            self._observer.count("instances", amount, outcome=outcome)
        if repeats:
            self._sorter.sort_again(repeats, began)
        return refused

    def _apply_cast(self, plan: Plan, verdicts: Sequence[Verdict], counts: Counter[str]) -> list[Repeat]:
        repeats: list[Repeat] = []
        job = plan.job
        for outcome, item, verdict in zip(plan.outcomes, plan.outgoing, verdicts, strict=True):
            instance = _instance(outcome)
            if verdict.kind is VerdictKind.COMMITTED:
                job.replaces.pop(job.claim_uuid(instance), None)
                counts["placed" if isinstance(outcome, Placed) else "failed"] += 1
                job.failed += isinstance(outcome, Failed)
                if isinstance(item, ErrorOf):
                    item = replace(item, outbox_id=verdict.outbox_id)
                if item is not None:
                    job.outgoing.append(item)
            elif verdict.kind is VerdictKind.LOST:
                job.todo.append(instance)
            elif verdict.kind is VerdictKind.GONE:
                counts["deleted"] += 1
            elif verdict.kind is VerdictKind.BROKEN:
                self._unwritable(job, outcome)
            elif job.exhausted is not None:
                LOG.warning("%s ended elsewhere while no host could be claimed for it", instance.uuid)
                counts["past"] += 1
            else:
                self._stall(job)
                repeats.append((job, instance, verdict.prior))
        return repeats

    def _apply_call(self, plan: Plan, verdicts: Sequence[Verdict], counts: Counter[str]) -> list[Repeat]:
        """All or nothing: with one claim refused the others are given back, and all of them are decided again."""
        job = plan.job
        if plan.refusal is not None:
            job.failure = plan.refusal
            return []
        placed = [outcome for outcome in plan.outcomes if isinstance(outcome, Placed)]
        if all(verdict.kind is VerdictKind.COMMITTED for verdict in verdicts):
            job.placements.update({p.placement.instance.launch_index: p.placement for p in placed})
            counts["placed"] += len(placed)
            return []
        repeats: list[Repeat] = []
        for outcome, verdict in zip(placed, verdicts, strict=True):
            instance = outcome.placement.instance
            if verdict.kind is VerdictKind.COMMITTED:
                self._store.end_claim(*outcome.key, outcome.placement.host_id, EndReason.RELEASED)
            if verdict.kind is VerdictKind.GONE:
                job.failure = NoValidHost(f"Instance {instance.uuid} was deleted meanwhile.")
            elif verdict.kind is VerdictKind.BROKEN:
                job.failure = MalformedMessage(UNWRITABLE)
            elif verdict.kind is VerdictKind.REPEAT:
                self._stall(job)
                repeats.append((job, instance, verdict.prior))
            else:
                job.todo.append(instance)
        if job.failure is not None:
            job.todo = []
            return []
        return repeats

    def _unwritable(self, job: Job, outcome: Outcome) -> None:
        """A placement ends in ERROR instead; when not even that can be written, the message is put aside."""
        if isinstance(outcome, Failed):
            job.failure = MalformedMessage(UNWRITABLE)
        else:
            job.exhausted = UNWRITABLE
            job.todo.append(outcome.placement.instance)

    def _note_refusals(self, plan: Plan, verdicts: Sequence[Verdict], progress: bool) -> None:
        """Count rounds without progress, and prefer other hosts to one whose guard keeps refusing this request."""
        job = plan.job
        lost = [
            (outcome.placement.destination, verdict)
            for outcome, verdict in zip(plan.outcomes, verdicts, strict=True)
            if verdict.kind is VerdictKind.LOST and isinstance(outcome, Placed)
        ]
        if not lost:
            return
        self._observer.count(
            "claims_lost", len(lost), guard="group" if lost[0][1].host_id is None else "host"
        )
        hosts: set[HostNode] = {host for host, verdict in lost if verdict.host_id is not None}
        for host in hosts:
            job.refused[host] += 1
            if job.refused[host] >= REFUSALS_MAX:
                job.avoided.add(host)
        if progress:
            job.stalled = 0
        else:
            self._stall(job)

    def _stall(self, job: Job) -> None:
        job.stalled += 1
        if job.stalled > self._retries_max:
            job.exhausted = f"No host could be claimed: {job.stalled} attempts in a row came too late, others were faster."

    def _pause(self, stalled: int) -> None:
        """Step aside for rivals after a second refusal, a little longer each time."""
        if stalled > 1:
            most = min(_PAUSE_MAX_SECONDS, _PAUSE_SECONDS * 2**stalled)
            self._clock.sleep(self._spread.uniform(0, most))


def _instance(outcome: Outcome) -> InstanceRef:
    return outcome.instance if isinstance(outcome, Failed) else outcome.placement.instance

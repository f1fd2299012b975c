"""First step of a wave: what is known of each instance already, and so what is left to do for it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence

from nova_sched.model.decision import Placement
from nova_sched.model.facts import NO_FACTS, Fact, Facts, GroupFact
from nova_sched.model.request import InstanceRef
from nova_sched.service.dispatch import half_life_seconds
from nova_sched.service.planning import Planner
from nova_sched.service.ports import (
    Clock,
    CrashPoint,
    FactSource,
    Messages,
    Observer,
    OutcomeStore,
    Prior,
    PriorClaim,
)
from nova_sched.service.standing import (
    Standing,
    answers_again,
    claims_the_build,
    fresh_key,
    move_key,
    standing,
    standing_of_move,
)
from nova_sched.service.tickets import Job, Ticket

LOG = logging.getLogger(__name__)


class Sorter:
    """Makes jobs of tickets."""

    def __init__(
        self,
        planner: Planner,
        messages: Messages,
        facts: FactSource,
        store: OutcomeStore,
        clock: Clock,
        observer: Observer,
        crash_point: CrashPoint,
    ) -> None:
        self._planner = planner
        self._messages = messages
        self._facts = facts
        self._store = store
        self._clock = clock
        self._observer = observer
        self._crash_point = crash_point

    def sort(self, tickets: Sequence[Ticket]) -> list[Job]:
        """One job per ticket, with what is left to decide and the casts to repeat. Raises StoreUnavailable."""
        jobs = [self._job(ticket) for ticket in tickets]
        uuids = dict.fromkeys(uuid for job in jobs for uuid in _asked(job))
        self._crash_point("before_prior")
        since = self._clock.monotonic()
        priors = self._store.prior(list(uuids)) if uuids else {}
        self._observer.observe("stage", self._clock.monotonic() - since, stage="prior")
        self._sort(jobs, priors, since)
        return jobs

    def sort_again(self, repeats: Sequence[tuple[Job, InstanceRef, Prior | None]], since: float) -> None:
        """Look again at instances that another worker got hold of first. Raises StoreUnavailable.

        ``since``: monotonic second before the priors given were read.
        """
        unread = [(job, instance) for job, instance, prior in repeats if prior is None]
        priors: dict[str, Prior] = {}
        if unread:
            asked = {
                uuid for job, instance in unread for uuid in (job.claim_uuid(instance), instance.uuid) if uuid
            }
            priors.update(self._store.prior(sorted(asked)))
        for job, instance, prior in repeats:
            found = dict(priors)
            if prior is not None:
                found[prior.uuid] = prior
            self._sort_instances(job, [instance], found, since, Counter())

    def _job(self, ticket: Ticket) -> Job:
        job = Job(ticket, ticket.request, self._messages.of(ticket.request))
        if job.is_move:
            for instance in ticket.request.instances:
                job.claim_uuids[instance.launch_index] = move_key(ticket.request, instance)
        return job

    def _sort(self, jobs: Sequence[Job], priors: Mapping[str, Prior], since: float) -> None:
        outcomes: Counter[Standing] = Counter()
        for job in jobs:
            if job.ticket.explains:
                continue
            job.announces = False
            self._sort_instances(job, job.request.instances, priors, since, outcomes)
        for outcome, amount in outcomes.items():
            if outcome is not Standing.DECIDE:
                self._observer.count("instances", amount, outcome=outcome.value)

    def _sort_instances(
        self,
        job: Job,
        instances: Sequence[InstanceRef],
        priors: Mapping[str, Prior],
        since: float,
        outcomes: Counter[Standing],
    ) -> None:
        if job.ticket.is_call:
            job.announces = True
            for instance in instances:
                self._sort_call(job, instance, priors.get(instance.uuid) if instance.uuid else None)
            return
        again: list[tuple[InstanceRef, PriorClaim]] = []
        for instance in instances:
            assert instance.uuid is not None
            prior = priors.get(instance.uuid)
            if job.is_move:
                prior, own = priors.get(job.claim_uuid(instance)), prior
                found = standing_of_move(own, prior)
            else:
                found = standing(job.request.attempt, prior)
            outcomes[found] += 1
            if found is Standing.DECIDE:
                job.todo.append(instance)
                job.announces = True
            elif found is Standing.CAST_AGAIN:
                assert prior is not None
                assert prior.claim is not None
                again.append((instance, prior.claim))
            else:
                LOG.debug(
                    "%s: nothing to do for %s, it is %s", job.request.method, instance.uuid, found.value
                )
        if again:
            self._cast_again(job, again, since)

    def _sort_call(self, job: Job, instance: InstanceRef, prior: Prior | None) -> None:
        claim = answers_again(job.request, prior) if instance.uuid else None
        if claim is not None:
            job.placements[instance.launch_index] = _placement(instance, claim)
            return
        if instance.uuid is None or not claims_the_build(job.request, prior):
            job.claim_uuids[instance.launch_index] = fresh_key()
        job.todo.append(instance)

    def _cast_again(self, job: Job, claims: Sequence[tuple[InstanceRef, PriorClaim]], since: float) -> None:
        """The same cast to the claim's own host, unless the claim is about to expire (upkeep ends it then)."""
        now = self._clock.utcnow()
        group = self._group(job)
        for instance, claim in claims:
            left = half_life_seconds(claim)
            if left <= 0:
                self._observer.count("late_claims")
                continue
            job.announces = True
            try:
                job.outgoing.append(
                    self._planner.cast_of(job, _placement(instance, claim), left, since, group, now)
                )
            except Exception as fault:
                LOG.exception("the cast of %s cannot be made", instance.uuid)
                job.replaces[job.claim_uuid(instance)] = claim.host_id
                job.exhausted = f"{type(fault).__name__}: {fault}"
                job.todo.append(instance)

    def _group(self, job: Job) -> GroupFact | None:
        if Fact.GROUP not in self._planner.driver.needs:
            return None
        facts: Facts = (self._facts.load([job.request], frozenset({Fact.GROUP})) or [NO_FACTS])[0]
        return facts.group


def _asked(job: Job) -> list[str]:
    if job.ticket.explains:
        return []
    return [*job.request.uuids, *job.claim_uuids.values()]


def _placement(instance: InstanceRef, claim: PriorClaim) -> Placement:
    return Placement(
        instance=instance,
        host_id=claim.host_id,
        host=claim.host,
        node=claim.node,
        weight=None,
        limits=claim.limits,
        numa_fit=claim.numa_fit,
    )

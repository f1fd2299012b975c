"""From requests to outcomes: asks the driver, keeps a wave's facts up to date, renders what will be sent.

Everything that a broken request could break happens here, before anything is written, so that it fails alone.
"""

from __future__ import annotations

import hashlib
import logging
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
from oslo_utils import strutils

from nova_sched.drivers.api import SchedulerDriver
from nova_sched.errors import NoValidHost, PluginError, RequestRefused
from nova_sched.hosts.overlay import Overlay
from nova_sched.model.decision import Decision, Placement, Refusal
from nova_sched.model.explanation import Detail, Explanation
from nova_sched.model.facts import Facts, GroupFact, InstanceFact
from nova_sched.model.request import InstanceRef, SchedulingRequest
from nova_sched.model.secrets import secrets_in, secrets_of_context, without
from nova_sched.model.states import ERROR, ClaimKind
from nova_sched.plugins.guard import PluginGuard
from nova_sched.service.ports import Clock, DecisionRecord, Failed, Observer, Outcome, Placed
from nova_sched.service.sentence import sentence
from nova_sched.service.tickets import CastOf, ErrorOf, Job, Outgoing
from nova_sched.settings import DeliverySettings

LOG = logging.getLogger(__name__)
REASON_MAX = 500

#: For drivers that say they never draw: seeding a generator takes longer than some decisions.
_UNUSED = np.random.default_rng(0)

#: One decision of so many is measured plugin by plugin.
PLUGINS_TIMED_EVERY = 32


def seed_of(request: SchedulingRequest, round_number: int) -> int:
    """Seed of a decision's randomness: the same for a replay, another one for each new try. Fits JSON's integers."""
    first = request.instances[0].uuid if request.instances else None
    text = f"{request.caller.request_id}/{first}/{request.attempt}/{round_number}"
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).digest())


@dataclass(slots=True)
class Plan:
    """What one job is about to commit.

    ``outgoing`` is parallel to ``outcomes``: what to send once that outcome is committed, None for calls.
    ``refusal``: why a call gets no host, or a cast's common reason.
    """

    job: Job
    record: DecisionRecord
    outcomes: list[Outcome] = field(default_factory=list)
    outgoing: list[Outgoing | None] = field(default_factory=list)
    refusal: Exception | None = None


class WaveFacts:
    """Facts of the requests of a wave, kept up with what the wave itself places: members of one group meet here."""

    def __init__(self, loaded: Mapping[int, Facts]) -> None:
        self._loaded = loaded
        self._groups: dict[str, GroupFact] = {}
        self._by_host: Mapping[str, tuple[InstanceFact, ...]] | None = None

    def of(self, job: Job) -> Facts:
        """Facts of this job as they are now."""
        facts = self._loaded[id(job)]
        if facts.group is not None and facts.group.uuid in self._groups:
            facts = replace(facts, group=self._groups[facts.group.uuid])
        if self._by_host is not None and facts.instances_by_host:
            facts = replace(facts, instances_by_host=self._by_host)
        return facts

    def placed(self, facts: Facts, request: SchedulingRequest, placements: Sequence[Placement]) -> Facts:
        """Take these placements in; the facts of the request that made them, afterwards."""
        if facts.group is None and not facts.instances_by_host:
            return facts
        for placement in placements:
            if placement.instance.uuid is not None:
                facts = facts.placed(
                    InstanceFact(
                        placement.instance.uuid,
                        placement.host,
                        placement.node,
                        request.project_id,
                        request.instance_type_id,
                    )
                )
        if facts.group is not None:
            self._groups[facts.group.uuid] = facts.group
        if facts.instances_by_host:
            self._by_host = facts.instances_by_host
        return facts


class Planner:
    """Asks the driver about jobs, one after the other on one overlay, and turns its answers into outcomes.

    ``guard``: says what plugin code runs now. A driver without a guard of its own is guarded as a whole.
    """

    def __init__(
        self, driver: SchedulerDriver, delivery: DeliverySettings, clock: Clock, observer: Observer
    ) -> None:
        self.driver = driver
        guard: PluginGuard | None = getattr(driver, "guard", None)
        self._guarded = guard is not None
        self._draws: bool = getattr(driver, "draws", True)
        self._made: list[tuple[Decision, float]] = []
        self.guard = guard or PluginGuard()
        self._delivery = delivery
        self._clock = clock
        self._observer = observer
        self._decisions = 0

    def plan(self, job: Job, overlay: Overlay, facts: WaveFacts, stages: Mapping[str, float]) -> Plan:
        """Decide what ``job`` has to do. Never raises because of the request; a fault becomes the plan's outcomes."""
        mark = overlay.mark
        request = job.remaining()
        now = self._clock.utcnow()
        try:
            if job.exhausted is not None:
                decision = _refused(self.driver, request, job.exhausted)
                return self._render(job, decision, decision.explanation, None, now)
            decision, explanation, after = self._decide(job, request, overlay, facts, stages)
            return self._render(job, decision, explanation, after.group, now)
        except Exception as raised:
            overlay.rollback(mark)
            fault = raised
        # Outside of the handler: the log appends an exception that is being handled, with whatever it quotes.
        return self.broken(job, request, fault)

    def say(self) -> None:
        """Count and log the decisions made since the last time, together: one by one this costs as much as some filters.

        The log gets one record with a line for each.
        """
        made, self._made = self._made, []
        for decision, seconds in made:
            self._observer.decided(decision, seconds)
        if made and LOG.isEnabledFor(logging.INFO):
            LOG.info("%s", "\n".join([sentence(decision) for decision, _ in made]))

    def explain(self, job: Job, overlay: Overlay, facts: WaveFacts) -> DecisionRecord:
        """A dry run: the record of what would be decided now. Raises what the driver raises."""
        mark = overlay.mark
        seed = seed_of(job.request, 0)
        try:
            decision = self._ask(job.request, overlay, facts.of(job), seed, Detail.FULL)
        finally:
            overlay.rollback(mark)
        return DecisionRecord(decision.request, replace(decision.explanation, seed=seed), _answers(decision))

    def _decide(
        self,
        job: Job,
        request: SchedulingRequest,
        overlay: Overlay,
        wave: WaveFacts,
        stages: Mapping[str, float],
    ) -> tuple[Decision, Explanation, Facts]:
        started = self._clock.monotonic()
        facts = wave.of(job)
        seed = seed_of(job.request, job.rounds)
        job.rounds += 1
        mark = overlay.mark
        self._decisions += 1
        timed = self._decisions % PLUGINS_TIMED_EVERY == 1
        if timed:
            self.guard.spent.clear()
            self.guard.stopwatch = self._clock.monotonic
        try:
            decision = self._ask(
                request.excluding(*job.avoided) if job.avoided else request,
                overlay,
                facts,
                seed,
                Detail.COUNTS,
            )
        finally:
            self.guard.stopwatch = None
        if decision.refusals and job.avoided:
            overlay.rollback(mark)
            job.avoided.clear()
            decision = self._ask(request, overlay, facts, seed, Detail.COUNTS)
        spent = self._clock.monotonic() - started
        self._made.append((decision, spent))
        if timed:
            for plugin, seconds in self.guard.spent.items():
                self._observer.observe("plugin_execution_duration", seconds, plugin=plugin)
        explanation = replace(decision.explanation, seed=seed, stage_seconds={**stages, "decide": spent})
        if request.forced and decision.placements:
            _audit(request, decision.placements)
        return decision, explanation, wave.placed(facts, request, decision.placements)

    def _ask(
        self, request: SchedulingRequest, overlay: Overlay, facts: Facts, seed: int, detail: Detail
    ) -> Decision:
        if request.error is not None:
            return _refused(self.driver, request, request.error)
        rng = np.random.default_rng(seed) if self._draws else _UNUSED
        try:
            if self._guarded:
                decision = self.driver.decide(request, overlay, facts, rng, detail)
            else:
                decision = self.guard.call(
                    self.driver.name, self.driver.decide, request, overlay, facts, rng, detail
                )
        except RequestRefused as refused:
            return _refused(self.driver, request, str(refused))
        if len(decision.answers) != len(request.instances):
            found = f"{len(decision.answers)} answers for {len(request.instances)} instances"
            raise PluginError(self.driver.name, found)
        return decision

    def _render(
        self, job: Job, decision: Decision, explanation: Explanation, group: GroupFact | None, now: datetime
    ) -> Plan:
        plan = Plan(job, DecisionRecord(decision.request, explanation, _answers(decision)))
        if job.ticket.is_call:
            self._render_call(job, decision, plan)
            return plan
        for answer in decision.answers:
            if isinstance(answer, Placement):
                self._render_placed(job, answer, group, now, plan)
            else:
                state = job.messages.refused_vm_state()
                self._render_failed(job, answer.instance, answer.reason, now, plan, state)
        return plan

    def _render_call(self, job: Job, decision: Decision, plan: Plan) -> None:
        if decision.refusals:
            plan.refusal = NoValidHost(decision.refusals[0].reason)
            return
        for placement in decision.placements:
            own = job.claim_uuids.get(placement.instance.launch_index)
            kind = ClaimKind.BUILD if own is None else ClaimKind.MOVE
            ttl = self._delivery.select_claim_ttl_seconds
            plan.outcomes.append(Placed(plan.record.request, placement, kind, ttl, claim_uuid=own))
            plan.outgoing.append(None)

    def _render_placed(
        self, job: Job, placement: Placement, group: GroupFact | None, now: datetime, plan: Plan
    ) -> None:
        moves = job.is_move
        ttl = self._delivery.select_claim_ttl_seconds if moves else self._delivery.claim_ttl_seconds
        key = job.claim_uuid(placement.instance)
        placed = Placed(
            plan.record.request,
            placement,
            ClaimKind.MOVE if moves else ClaimKind.BUILD,
            ttl,
            replaces_host_id=job.replaces.get(key),
            claim_uuid=key if moves else None,
        )
        cast = self.cast_of(job, placement, ttl / 2, self._clock.monotonic(), group, now)
        plan.outcomes.append(placed)
        plan.outgoing.append(cast)

    def cast_of(
        self,
        job: Job,
        placement: Placement,
        half_life_seconds: float,
        since: float,
        group: GroupFact | None,
        now: datetime,
    ) -> CastOf:
        """The cast to a claimed host, good for ``half_life_seconds`` from the monotonic second ``since`` on."""
        messages = job.messages
        return CastOf(
            message=messages.cast(placement, now, half_life_seconds, group),
            before=None if job.is_move else messages.scheduled(placement, now),
            placement=placement,
            uuid=job.claim_uuid(placement.instance),
            attempt=job.request.attempt,
            deadline=since + half_life_seconds,
        )

    def _render_failed(
        self,
        job: Job,
        instance: InstanceRef,
        reason: str,
        now: datetime,
        plan: Plan,
        vm_state: str,
        trace: str | None = None,
    ) -> None:
        event = job.messages.error(instance, reason, now, vm_state)
        plan.outcomes.append(
            Failed(
                plan.record.request,
                instance,
                reason,
                event,
                vm_state,
                traceback=trace,
                ends_host_id=job.replaces.get(job.claim_uuid(instance)),
            )
        )
        plan.outgoing.append(ErrorOf(event, job.messages.update(instance, vm_state, now), None))

    def broken(self, job: Job, request: SchedulingRequest, fault: Exception) -> Plan:
        """Plan of a request that broke the driver or could not be rendered: ERROR, or the call's exception."""
        uuids = ", ".join(request.uuids[:4])
        given = request.passthrough
        secrets = secrets_in(given.arguments, given.request_spec, given.filter_properties)
        secrets |= secrets_of_context(request.caller.wire)
        trace = without("".join(traceback.format_exception(fault)), secrets)
        LOG.error("%s %s of %s broke: %s", request.method, request.caller.request_id, uuids, trace.rstrip())
        self._observer.count("plugin_errors", plugin=_culprit(fault))
        self._observer.count("schedule_attempts", max(1, len(request.instances)), result="error")
        named = str(fault) if isinstance(fault, PluginError) else f"{type(fault).__name__}: {fault}"
        told = without(named, secrets)
        plan = self.failed(
            job, request, strutils.mask_password(told)[:REASON_MAX], strutils.mask_password(trace)
        )
        plan.refusal = fault if told == named else PluginError(_culprit(fault), told)
        return plan

    def failed(self, job: Job, request: SchedulingRequest, reason: str, trace: str | None = None) -> Plan:
        """Plan of a request whose instances end in ERROR, whatever a driver would say."""
        decision = _refused(self.driver, request, reason)
        plan = Plan(job, DecisionRecord(request, decision.explanation, _answers(decision)))
        now = self._clock.utcnow()
        if not job.ticket.is_call:
            for instance in request.instances:
                self._render_failed(job, instance, reason, now, plan, ERROR, trace)
        return plan


def _culprit(fault: Exception) -> str:
    return str(getattr(fault, "plugin", type(fault).__name__))


def _refused(driver: SchedulerDriver, request: SchedulingRequest, reason: str) -> Decision:
    answers = tuple(Refusal(instance, reason) for instance in request.instances)
    return Decision(request, answers, Explanation(driver=driver.name, hosts_total=0, refused=reason))


def _answers(decision: Decision) -> dict[str, str]:
    found = {}
    for answer in decision.answers:
        name = answer.instance.uuid or str(answer.instance.launch_index)
        if isinstance(answer, Placement):
            found[name] = f"{answer.host}/{answer.node}" if answer.node else answer.host
        else:
            found[name] = answer.reason
    return found


def _audit(request: SchedulingRequest, placements: Sequence[Placement]) -> None:
    """Forced placement passes by every check: who, what and where is said at a level nobody turns off."""
    LOG.warning(
        "audit: forced placement by user %s of project %s (%s): %s",
        request.caller.user_id,
        request.caller.project_id,
        request.caller.request_id,
        ", ".join(f"{p.instance.uuid} on {p.host}/{p.node}" for p in placements[:20]),
    )

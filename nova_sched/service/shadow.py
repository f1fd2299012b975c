"""A second configuration that decides the live requests as well, without effect, and says where it would differ.

It sees the same table and the same facts as the live driver, on an overlay of its own that follows its own choices
within a wave, and the same seed. Its record of a difference travels with the live decision's; whatever breaks in it is
counted and logged and touches nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nova_sched.drivers.api import SchedulerDriver
from nova_sched.hosts.overlay import Overlay
from nova_sched.model.decision import Decision, Placement
from nova_sched.model.explanation import Detail
from nova_sched.model.facts import Fact, Facts
from nova_sched.plugins.guard import PluginGuard
from nova_sched.service.planning import Plan, WaveFacts, seed_of
from nova_sched.service.ports import Observer, Placed

LOG = logging.getLogger(__name__)

#: Kinds of difference, by request.
ELSEWHERE, ONLY_LIVE, ONLY_SHADOW = "elsewhere", "only live", "only shadow"
OUTCOMES_KEPT = 16


class Shadow:
    """One shadow configuration. Used by the loop's thread.

    :param source: file it comes from, for records and logs.
    :param off: asked before each wave; True once the shadow hung some worker.
    """

    def __init__(
        self,
        driver: SchedulerDriver,
        source: str,
        observer: Observer,
        off: Callable[[], bool] = lambda: False,
    ) -> None:
        self._driver = driver
        self.source = source
        guard: PluginGuard | None = getattr(driver, "guard", None)
        self._guarded = guard is not None
        self.guard = guard or PluginGuard()
        self._observer = observer
        self._off = off
        self._broken: str | None = None

    @property
    def needs(self) -> frozenset[Fact]:
        """Facts to load for it."""
        return self._driver.needs

    def look(self, plans: Sequence[Plan], overlay: Overlay, wave: WaveFacts) -> None:
        """Decide what was planned for the first time as well, and attach what differs to the records. Never raises."""
        if self._off():
            return
        for plan in plans:
            if plan.job.rounds == 1 and plan.record.request.error is None:
                result, difference = self._compare(plan, overlay, wave)
                self._observer.count("shadow_decisions", result=result)
                if difference is not None:
                    plan.record = replace(plan.record, shadow=difference)

    def _compare(self, plan: Plan, overlay: Overlay, wave: WaveFacts) -> tuple[str, Mapping[str, Any] | None]:
        request = plan.record.request
        mark = overlay.mark
        try:
            facts = wave.of(plan.job)
            decision = self._decide(plan, overlay, facts)
            wave.placed(facts, request, decision.placements)
            difference = _difference(plan, decision)
        except Exception as fault:
            overlay.rollback(mark)
            self._tell(fault)
            return "failed", None
        if difference is None:
            return "same", None
        LOG.info(
            "shadow %s: %s, %s", request.caller.request_id or "-", difference["kind"], difference["reason"]
        )
        return "differs", {"source": self.source, "driver": self._driver.name, **difference}

    def _decide(self, plan: Plan, overlay: Overlay, facts: Facts) -> Decision:
        rng = np.random.default_rng(seed_of(plan.job.request, 0))
        arguments = (plan.record.request, overlay, facts, rng, Detail.COUNTS)
        if self._guarded:
            return self._driver.decide(*arguments)
        return self.guard.call(self._driver.name, self._driver.decide, *arguments)

    def _tell(self, fault: Exception) -> None:
        """Once per kind of fault, since it may meet every request."""
        text = f"{type(fault).__name__}: {fault}"
        if text != self._broken:
            self._broken = text
            LOG.error("the shadow configuration %s failed: %s", self.source, text, exc_info=fault)


def _difference(plan: Plan, decision: Decision) -> Mapping[str, Any] | None:
    """What the shadow would have done otherwise: kind, its outcomes and one sentence; None when it agrees."""
    live = _live(plan)
    shadow = {
        answer.instance.launch_index: answer.destination if isinstance(answer, Placement) else None
        for answer in decision.answers
    }
    names = {instance.launch_index: instance.uuid for instance in plan.record.request.instances}
    differing = [index for index in shadow if not _same(live.get(index), shadow[index])]
    if not differing:
        return None
    index = differing[0]
    kind = ONLY_SHADOW if live.get(index) is None else ONLY_LIVE if shadow[index] is None else ELSEWHERE
    refusal = decision.refusals[0].reason if decision.refusals else None
    reason = (
        refusal
        if kind == ONLY_LIVE and refusal
        else f"{_name(shadow[index])} instead of {_name(live.get(index))}"
    )
    outcomes = {names[i] or str(i): _name(shadow[i]) for i in differing[:OUTCOMES_KEPT]}
    return {"kind": kind, "instances": len(differing), "outcomes": outcomes, "reason": reason}


def _live(plan: Plan) -> dict[int, tuple[str, str | None] | None]:
    return {
        outcome.placement.instance.launch_index: outcome.placement.destination
        for outcome in plan.outcomes
        if isinstance(outcome, Placed)
    }


def _same(live: tuple[str, str | None] | None, shadow: tuple[str, str | None] | None) -> bool:
    """Same host; the node counts where both name one (the chance driver names none)."""
    if live is None or shadow is None:
        return live is shadow
    return live[0] == shadow[0] and (live[1] == shadow[1] or live[1] is None or shadow[1] is None)


def _name(host: tuple[str, str | None] | None) -> str:
    if host is None:
        return "no host"
    return f"{host[0]}/{host[1]}" if host[1] and host[1] != host[0] else host[0]

"""A case's hosts under a configuration, ready to be asked: the offline counterpart of a running worker."""

from __future__ import annotations

from typing import Any

import numpy as np

from nova_sched.hosts.overlay import Overlay
from nova_sched.lab.case import Case, CaseRequest
from nova_sched.lab.world import World
from nova_sched.model.explanation import Detail
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins import registry
from nova_sched.service.ports import DecisionRecord
from nova_sched.settings import Settings

#: Nothing happens before a question.
_QUESTION = CaseRequest("explain", {}, {})
_SEED = 0


class Scene:
    """Hosts, claims and facts of a case, and the driver of ``settings``. Raises UnknownPlugin, ConfigurationError.

    Decisions are repeatable: where chance has a say, its seed is always the same.
    """

    def __init__(self, case: Case, settings: Settings) -> None:
        self.settings = settings
        self.driver: Any = registry.load_driver(settings.scheduler)
        self._world = World(case)
        self.overlay: Overlay = self._world.before(_QUESTION)

    def facts(self, request: SchedulingRequest) -> Facts:
        """What a plugin could ask for."""
        return self._world.facts(request)

    def explain(self, request: SchedulingRequest) -> DecisionRecord:
        """What would be decided now, in full; nothing stays consumed. Raises PluginError."""
        mark = self.overlay.mark
        try:
            decision = self.driver.decide(
                request, self.overlay, self.facts(request), np.random.default_rng(_SEED), Detail.FULL
            )
        finally:
            self.overlay.rollback(mark)
        outcomes = {one.instance.uuid or "": f"{one.host}/{one.node}" for one in decision.placements}
        outcomes |= {one.instance.uuid or "": one.reason for one in decision.refusals}
        return DecisionRecord(decision.request, decision.explanation, outcomes)

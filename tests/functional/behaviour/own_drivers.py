"""Drivers as a user would write them: one on top of ours, one from nothing but the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.hosts.overlay import Overlay
from nova_sched.model.decision import Decision, Placement, Refusal
from nova_sched.model.explanation import Detail, Explanation
from nova_sched.model.facts import Fact, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.settings import SchedulerSettings


class NotTheFirst(FilterDriver):
    """The filter driver, but for one host that it never takes."""

    name = "not_the_first"

    def decide(
        self,
        request: SchedulingRequest,
        overlay: Overlay,
        facts: Facts,
        rng: np.random.Generator,
        detail: Detail = Detail.COUNTS,
    ) -> Decision:
        """As the filter driver decides for a request that may not go to ``node-1``."""
        return super().decide(request.excluding(("node-1", "node-1.lab")), overlay, facts, rng, detail)


class AlwaysTheLast:
    """Everything goes to the last host of the table."""

    name = "always_the_last"
    needs: frozenset[Fact] = frozenset()
    refresh_period_seconds = 0.0

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        """Nothing to set."""
        return cls()

    def plugins(self) -> Sequence[str]:
        """None."""
        return ()

    def decide(
        self,
        request: SchedulingRequest,
        overlay: Overlay,
        facts: Facts,
        rng: np.random.Generator,
        detail: Detail = Detail.COUNTS,
    ) -> Decision:
        """See the protocol."""
        view = overlay.view
        row = len(view) - 1
        answers: list[Placement | Refusal] = []
        for instance in request.instances:
            host, node = view.hosts[row], view.nodes[row]
            answers.append(Placement(instance, int(view.ids[row]), host, node, None, None))
            overlay.consume(row, request.amounts)
        return Decision(request, tuple(answers), Explanation(driver=self.name, hosts_total=len(view)))

"""The chance driver: any host that is up, enabled and not ignored, each as likely as any other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from nova_sched.drivers.candidates import candidates
from nova_sched.hosts.overlay import Overlay
from nova_sched.hosts.view import HostView
from nova_sched.model.decision import Decision, Placement, Refusal
from nova_sched.model.explanation import Detail, Explanation, FilterStep, Round
from nova_sched.model.facts import Fact, Facts
from nova_sched.model.request import InstanceRef, SchedulingRequest
from nova_sched.plugins.api import Mask
from nova_sched.settings import SchedulerSettings


class ChanceDriver:
    """Draws; asks no filter and no weigher, sends no node and no limits."""

    name: str = "chance_scheduler"
    needs: frozenset[Fact] = frozenset()
    refresh_period_seconds: float = 0.0

    def __init__(self, service_down_time_seconds: float = 60.0) -> None:
        self._down_time_seconds = service_down_time_seconds

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        """Only ``service_down_time`` matters."""
        return cls(settings.filters.service_down_time_seconds)

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
        """As :class:`~nova_sched.drivers.api.SchedulerDriver` says; all instances draw from the same hosts."""
        view = overlay.view
        left, taken_out = candidates(view, request)
        up = self._up(view)
        rows = np.flatnonzero(up if left is None else up & left)
        step = FilterStep("up", len(view) if left is None else int(np.count_nonzero(left)), len(rows))
        answers: list[Placement | Refusal] = []
        rounds: list[Round] = []
        for index, instance in enumerate(request.instances):
            if request.error is not None or not len(rows):
                reason = request.error or f"{len(view)} hosts: none is up, enabled and not ignored"
                answers.append(Refusal(instance, reason))
                continue
            row = int(rows[rng.integers(len(rows))])
            answers.append(_placement(view, instance, row))
            overlay.consume(row, request.amounts)
            if index == 0 or detail is Detail.FULL:
                chosen = (view.hosts[row], None)
                rounds.append(Round(index, instance, len(view), (step,), chosen=chosen))
        explanation = Explanation(
            driver=self.name,
            hosts_total=len(view),
            rounds=tuple(rounds),
            before=taken_out,
            forced=request.forced,
            refused=request.error,
            generation=view.generation,
        )
        return Decision(request, tuple(answers), explanation)

    def _up(self, view: HostView) -> Mask:
        age = np.abs(view.now_seconds - view.heartbeat_seconds)
        up: Mask = (age <= self._down_time_seconds) & ~view.disabled
        return up


def _placement(view: HostView, instance: InstanceRef, row: int) -> Placement:
    return Placement(
        instance=instance,
        host_id=int(view.ids[row]),
        host=view.hosts[row],
        node=None,
        weight=None,
        limits=None,
        host_generation=int(view.allocation_generation[row]),
    )

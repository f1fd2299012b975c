"""Turns what the engine did into the record of a decision: names and sentences, only as many as somebody reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np

from nova_sched.hosts.overlay import Overlay
from nova_sched.hosts.view import HostView, Rows
from nova_sched.model.explanation import REFUSED_MAX, FilterStep, WeighedHost
from nova_sched.model.facts import Facts
from nova_sched.model.request import HostNode, SchedulingRequest
from nova_sched.plugins.guard import PluginGuard
from nova_sched.plugins.pipeline import Sieve, Step
from nova_sched.plugins.scores import Scores

REASON_MAX = 400
#: Hosts that the record of a failure names for each filter, with the reason of each.
TELLING_MAX = 8


class Narrator:
    """Words for one request on one overlay."""

    def __init__(self, overlay: Overlay, request: SchedulingRequest, guard: PluginGuard) -> None:
        self._overlay = overlay
        self._view: HostView = overlay.view
        self._request = request
        self._guard = guard

    def names(self, rows: Rows) -> tuple[HostNode, ...]:
        """(host, node) of these rows, sorted."""
        found = zip(self._view.hosts[rows].tolist(), self._view.nodes[rows].tolist(), strict=True)
        return tuple(sorted(found, key=lambda name: (name[0], name[1] or "")))

    def name(self, row: int) -> HostNode:
        """(host, node) of one row."""
        return self._view.hosts[row], self._view.nodes[row]

    def counted(self, steps: Sequence[Step]) -> tuple[FilterStep, ...]:
        """Steps with their counts only."""
        return tuple(FilterStep(step.filter.name, step.hosts_in, step.hosts_out) for step in steps)

    def telling(self, steps: Sequence[Step], facts: Facts) -> tuple[FilterStep, ...]:
        """Steps of a round that found no host: what each filter that refused says, and some of the hosts it refused."""
        return tuple(
            FilterStep(step.filter.name, step.hosts_in, step.hosts_out)
            if step.hosts_in == step.hosts_out
            else self._refusing(step, facts, TELLING_MAX)
            for step in steps
        )

    def named(self, steps: Sequence[Step], facts: Facts) -> tuple[FilterStep, ...]:
        """Steps with the hosts left, and those refused with the reason of each."""
        return tuple(
            replace(self._refusing(step, facts, REFUSED_MAX), hosts=self.names(np.flatnonzero(step.after)))
            for step in steps
        )

    def _refusing(self, step: Step, facts: Facts, hosts_max: int) -> FilterStep:
        refused = step.refused()
        return FilterStep(
            step.filter.name,
            step.hosts_in,
            step.hosts_out,
            self._summary(step, refused, facts) if len(refused) else None,
            None,
            tuple(
                (
                    self.name(row),
                    self._guard.call(
                        step.filter.name, step.filter.explain, self._view, row, self._request, facts
                    ),
                )
                for row in refused[:hosts_max].tolist()
            ),
        )

    def _summary(self, step: Step, refused: Rows, facts: Facts) -> str:
        return self._guard.call(
            step.filter.name, step.filter.summary, self._view, refused, self._request, facts
        )

    def weighed(self, scores: Scores, positions: Sequence[int]) -> tuple[WeighedHost, ...]:
        """These candidates with the parts of their weights, in the order given."""
        rows = scores.rows[positions]
        parts = [
            zip(
                repeat(part.name),
                part.raw[positions].tolist(),
                part.normalised[positions].tolist(),
                part.weighted[positions].tolist(),
                strict=False,
            )
            for part in scores.parts
        ]
        found = zip(
            self._view.hosts[rows].tolist(),
            self._view.nodes[rows].tolist(),
            scores.weights[positions].tolist(),
            zip(*parts, strict=True) if parts else repeat(()),
            strict=False,
        )
        return tuple(WeighedHost(*one) for one in found)

    def after(self, row: int) -> Mapping[str, Any]:
        """State of a row as it is now; cells and pools where the host has any."""
        state: dict[str, Any] = dict(self._overlay.state(row))
        if (topology := self._overlay.topology(row)) is not None:
            state["numa_topology"] = topology
        if pools := self._overlay.pools(row):
            state["pci_pools"] = pools
        return state

    def no_host(self, sieve: Sieve, taken_out: Mapping[str, int], facts: Facts) -> str:
        """Why no host is left: how many each filter refused and its telling numbers; bounded, names no host."""
        total = len(self._view)
        if not total:
            return "no hosts are known"
        said = [f"{count} {why}" for why, count in taken_out.items()]
        for refusing, rows in sieve.removed():
            summary = self._guard.call(
                refusing.name, refusing.summary, self._view, rows, self._request, facts
            )
            said.append(f"{len(rows)} {refusing.name} ({summary})")
        text = f"{total} host{'s' if total > 1 else ''}: " + (", ".join(said) or "none passed")
        return text if len(text) <= REASON_MAX else text[: REASON_MAX - 1] + "…"

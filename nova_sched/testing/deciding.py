"""Decisions of the real filter driver over hosts of a test, and what is usually asked of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.hosts.schema import Aggregate
from nova_sched.hosts.table import HostTable
from nova_sched.model.decision import Decision
from nova_sched.model.explanation import Detail
from nova_sched.model.facts import NO_FACTS, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.settings import FilterSettings, PluginSettings, SchedulerSettings, WeigherSettings
from nova_sched.testing import builders

#: What a test gives as hosts: rows of ``builders.host``, or a table.
Hosts = Sequence[Mapping[str, Any]] | HostTable


def settings(
    filters: Iterable[str] = ("AllHostsFilter",),
    *,
    weighers: Iterable[str] = ("RAMWeigher",),
    options: Mapping[str, Any] | None = None,
    weighing: Mapping[str, Any] | None = None,
    available: Iterable[str] = FilterSettings().available,
    nova_imports: bool = False,
    **scheduler: Any,
) -> SchedulerSettings:
    """Settings with these plugins. ``options``: of :class:`FilterSettings`; ``weighing``: of :class:`WeigherSettings`."""
    return SchedulerSettings(
        filters=FilterSettings(enabled=tuple(filters), available=tuple(available), **(options or {})),
        weighers=WeigherSettings(classes=tuple(weighers), **(weighing or {})),
        plugins=PluginSettings(nova_imports=nova_imports),
        **scheduler,
    )


def decide(
    hosts: Hosts,
    request: SchedulingRequest,
    chosen: SchedulerSettings,
    *,
    aggregates: Iterable[Aggregate] = (),
    facts: Facts = NO_FACTS,
) -> Decision:
    """The decision of the filter driver on a fresh overlay, with everything explained. Raises PluginError."""
    table = hosts if isinstance(hosts, HostTable) else builders.table(*hosts, aggregates=aggregates)
    driver = FilterDriver.from_settings(chosen)
    return driver.decide(request, table.overlay(), facts, np.random.default_rng(1), Detail.FULL)


def passing(
    name: str,
    hosts: Hosts,
    request: SchedulingRequest,
    *,
    options: Mapping[str, Any] | None = None,
    weighing: Mapping[str, Any] | None = None,
    aggregates: Iterable[Aggregate] = (),
    facts: Facts = NO_FACTS,
) -> list[str]:
    """Names of the hosts that one filter passes in the first round, sorted."""
    chosen = settings([name], options=options, weighing=weighing, weighers=())
    decision = decide(hosts, request, chosen, aggregates=aggregates, facts=facts)
    rounds = decision.explanation.rounds
    if not rounds:
        return []
    return sorted(host for host, _ in rounds[0].steps[0].hosts or ())


def hosts_chosen(decision: Decision) -> list[str]:
    """Host of each placement, in order."""
    return [placement.host for placement in decision.placements]


def reason_of(decision: Decision) -> str:
    """Why the first instance without a host has none. Raises IndexError when all have one."""
    return decision.refusals[0].reason


def weights(decision: Decision, round_number: int = 0) -> dict[str, float]:
    """Total weight by host of one round, best first; without negative zeros."""
    return {one.host: one.weight + 0.0 for one in decision.explanation.rounds[round_number].weighed}

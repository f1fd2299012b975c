"""Checks of what a workload's answers must be; a time counts only after they held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks import fleets
from benchmarks.workloads import Workload
from nova_sched.hosts.schema import Aggregate
from nova_sched.model.decision import Decision
from nova_sched.model.facts import Facts
from nova_sched.testing import builders
from nova_sched.testing.oracle import FILTERS, Oracle

#: Rows the oracle is asked about per workload: it needs some microseconds for each.
ROWS_MAX = 30_000


class WrongOutcome(AssertionError):
    """A workload was answered wrongly; its times are worth nothing."""


def check(workload: Workload, rows: Sequence[Mapping[str, Any]], decisions: Sequence[Decision]) -> None:
    """Hold the answers against what the workload expects. Raises WrongOutcome."""
    expect = workload.expect
    placements = [placement for decision in decisions for placement in decision.placements]
    asked = sum(len(decision.answers) for decision in decisions)
    share = len(placements) / asked
    _hold(
        abs(share - expect["placed"]) < 0.01,
        f"{share:.3f} of the instances were placed, not {expect['placed']}",
    )
    by_name = {row["host"]: row for row in rows}
    names = [placement.host for placement in placements]
    if "only_hosts" in expect:
        _hold(set(names) <= set(expect["only_hosts"]), "a host that was not asked for")
    if "in_zone" in expect:
        zone = int(expect["in_zone"].rpartition("-")[2])
        _hold(all(int(name.rpartition("-")[2]) % workload.zones == zone for name in names), "another zone")
    if "hypervisor_at_least" in expect:
        least = expect["hypervisor_at_least"]
        _hold(all(by_name[name]["hypervisor_version"] >= least for name in names), "an older hypervisor")
    for decision in decisions:
        chosen = [placement.host for placement in decision.placements]
        if expect.get("distinct_hosts"):
            members = set(decision.group.member_hosts.values()) if decision.group else set()
            _hold(len(set(chosen)) == len(chosen) and set(chosen) <= members, "two of a group share a host")
        if expect.get("not_tried"):
            _hold(
                not {(p.host, p.node) for p in decision.placements} & set(decision.request.tried),
                "a tried host",
            )
    if expect.get("not_over") and workload.churn is None:
        memory = decisions[0].request.flavor.memory_mb
        ratio = workload.settings.filters.ram_allocation_ratio
        for name, count in Counter(names).items():
            _hold(fleets.fits(by_name[name], count, memory, ratio), f"{name} was given more than it has")


def check_with_oracle(
    workload: Workload, rows: Sequence[Mapping[str, Any]], decisions: Sequence[Decision], facts: Facts
) -> int:
    """Compare the first decisions with a row-by-row statement of the rules; how many placements were. Raises WrongOutcome.

    Filters that the oracle leaves out must pass every host of the workload; where they do not, nothing is compared.
    """
    enabled = workload.settings.filters.enabled
    known = tuple(name for name in enabled if name in FILTERS)
    if decisions[0].request.flavor.extra_specs or workload.guests_per_host:
        return 0
    settings = replace(workload.settings, filters=replace(workload.settings.filters, enabled=known))
    numbered = [
        Aggregate(number, one.name, one.hosts, one.metadata)
        for number, one in enumerate(fleets.zones(workload.zones, len(rows)), 1)
    ]
    group = facts.group
    compared = 0
    oracle = Oracle(
        settings, rows, numbered, now_seconds=builders.NOW_SECONDS, policies=group.policies if group else ()
    )
    for decision in decisions:
        budget = max(1, ROWS_MAX // len(rows)) - compared
        if budget <= 0:
            break
        if group is not None:
            oracle.member_hosts = list(group.member_hosts.values())
        request = decision.request.only(decision.request.instances[:budget])
        chosen = [one.chosen for one in oracle.schedule(request)]
        found = [getattr(answer, "host_id", None) for answer in decision.answers[:budget]]
        _hold(chosen == found[: len(chosen)], f"the oracle chose {chosen[:5]}, the engine {found[:5]}")
        compared += len(chosen)
        if len(request.instances) < len(decision.request.instances):
            break
    return compared


def _hold(condition: bool, text: str) -> None:
    if not condition:
        raise WrongOutcome(text)

"""Running filters: kept masks, narrowed rows, later rounds."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.errors import RequestRefused
from nova_sched.hosts.schema import HOST_COLUMNS, HostDelta
from nova_sched.hosts.table import HostTable
from nova_sched.hosts.view import HostView
from nova_sched.model.facts import NO_FACTS, Fact, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.guard import PluginGuard
from nova_sched.plugins.masks import MaskCache
from nova_sched.testing.builders import NOW_SECONDS, group, host, request, table
from nova_sched.testing.deciding import hosts_chosen


class Asked(HostFilter):
    """Passes hosts of hypervisor type QEMU and remembers how many rows it was asked about."""

    name = "Asked"
    reason = "not QEMU"

    def __init__(self, *, kept: bool = True) -> None:
        self.rows: list[int] = []
        self._kept = kept

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        return request.flavor.name if self._kept else None

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        self.rows.append(len(view))
        return view.coded("hypervisor_type").spread(lambda kind: kind == "QEMU")


def change(made: HostTable, *rows: dict[str, Any], removed: tuple[int, ...] = ()) -> None:
    columns = {column: [row[column] for row in rows] for column in HOST_COLUMNS}
    made.apply(HostDelta(columns, NOW_SECONDS, removed=removed))


def ten() -> HostTable:
    return table(*(host(f"h{number}") for number in range(10)))


def decide(driver: FilterDriver, made: HostTable, **fields: Any) -> list[str]:
    rng = np.random.default_rng(0)
    return hosts_chosen(driver.decide(request(**fields), made.overlay(), NO_FACTS, rng))


def test_a_kept_mask_is_asked_for_once() -> None:
    """LP#1223450 and LP#1189557: static filters cost one evaluation, however many requests come."""
    asked = Asked()
    driver, made = FilterDriver([asked], []), ten()
    for _ in range(5):
        decide(driver, made)
    assert asked.rows == [10]


def test_a_kept_mask_is_updated_for_changed_rows_only() -> None:
    """One host that turns to another hypervisor costs one row; the answer follows it."""
    asked = Asked()
    driver, made = FilterDriver([asked], []), ten()
    decide(driver, made)
    change(made, replace_row(host("h0", hypervisor_type="xen"), 1))
    assert decide(driver, made) == ["h1"]
    assert asked.rows == [10, 1]


def replace_row(row: dict[str, Any], host_id: int) -> dict[str, Any]:
    return {**row, "id": host_id}


def test_a_report_of_usage_leaves_kept_masks_alone() -> None:
    """Amounts and heartbeats are not static."""
    asked = Asked()
    driver, made = FilterDriver([asked], []), ten()
    decide(driver, made)
    change(made, replace_row(host("h3", free_ram_mb=5), 4))
    decide(driver, made)
    assert asked.rows == [10]


def test_rows_that_come_and_go_are_asked_for() -> None:
    """A new host costs one row; a removed one moves rows, so all are asked again."""
    asked = Asked()
    driver, made = FilterDriver([asked], []), ten()
    decide(driver, made)
    change(made, replace_row(host("new"), 11))
    decide(driver, made)
    assert asked.rows == [10, 1]
    change(made, removed=(1,))
    assert decide(driver, made) == ["h1"]
    assert asked.rows == [10, 1, 10]


def test_a_mask_belongs_to_its_table() -> None:
    """The same driver over another table never reuses what it kept of the first."""
    asked = Asked()
    driver = FilterDriver([asked], [])
    decide(driver, ten())
    other = table(*(host(f"x{number}", hypervisor_type="xen") for number in range(10)))
    assert decide(driver, other) == []


def test_the_number_of_kept_masks_is_bounded() -> None:
    """Keys come from requests; the least recently used mask goes first."""
    asked, made = Asked(), ten()
    cache = MaskCache(PluginGuard(), capacity=3)
    for name in ("a", "b", "c", "a", "d"):
        one = request(flavor_name=name)
        cache.get(0, asked, asked.cache_key(one), made.view(), one, NO_FACTS)
    assert len(cache) == 3
    assert cache.has(0, "a")
    assert not cache.has(0, "b")


class Expensive(Asked):
    """Costs time per host."""

    name = "Expensive"
    per_row = True


class OnlyFirstHosts(HostFilter):
    """Passes the first two hosts."""

    name = "OnlyFirstHosts"
    reason = "not first"

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        return view.on_hosts(["h0", "h1"])


def test_expensive_filters_see_only_what_earlier_filters_left() -> None:
    """A filter that works host by host is handed the narrowed rows."""
    expensive = Expensive(kept=False)
    assert decide(FilterDriver([OnlyFirstHosts(), expensive], []), ten()) == ["h0"]
    assert expensive.rows == [2]


def test_later_rounds_ask_about_consumed_rows_only() -> None:
    """After a choice only the changed row is computed again."""
    asked = Asked(kept=False)
    driver = FilterDriver([asked], [])
    decide(driver, ten(), count=4)
    assert asked.rows == [10, 1, 1, 1]


class OncePerRequest(Asked):
    """Does not depend on what was taken."""

    name = "OncePerRequest"
    run_once_per_request = True


def test_filters_that_run_once_are_not_asked_again() -> None:
    """Their hosts stay out in later rounds without asking."""
    once = OncePerRequest(kept=False)
    decide(FilterDriver([once], []), ten(), count=3)
    assert once.rows == [10]


class WantsGroup(Asked):
    """Depends on where the group's members are."""

    name = "WantsGroup"
    needs = frozenset({Fact.GROUP})


def test_filters_whose_facts_move_are_asked_about_all_hosts_left() -> None:
    """LP#1218878: the group changes with each placement, so every host's answer may."""
    wants = WantsGroup(kept=False)
    driver = FilterDriver([wants], [])
    facts = Facts(group=group("soft-affinity"))
    driver.decide(request(count=3), ten().overlay(), facts, np.random.default_rng(0))
    assert wants.rows == [10, 10, 10]


class Refuses(HostFilter):
    """Finds the request broken, if there is a host to ask; only ``concerned`` hosts would meet the broken part."""

    name = "Refuses"
    reason = "never"

    def __init__(self, *concerned: str) -> None:
        self._concerned = frozenset(concerned or (f"h{number}" for number in range(10)))

    def check(self, request: SchedulingRequest) -> None:
        raise RequestRefused(self.name, f"bad {request.flavor.name}")

    def concerns(self, view: HostView, request: SchedulingRequest) -> bool:
        return bool(view.on_hosts(self._concerned).any())

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        return ~view.on_hosts(self._concerned)


class Nobody(HostFilter):
    """Leaves no host."""

    name = "Nobody"
    reason = "nobody passes"

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        return np.zeros(len(view), dtype=np.bool_)


def test_a_broken_request_is_refused_by_the_filter_that_would_have_to_answer_it() -> None:
    """All instances get the reason that names filter and value."""
    driver = FilterDriver([Asked(kept=False), Refuses()], [])
    decision = driver.decide(request(count=2), ten().overlay(), NO_FACTS, np.random.default_rng(0))
    assert [one.reason for one in decision.refusals] == ["Refuses: bad lab.small"] * 2


def test_a_broken_part_that_no_host_reaches_refuses_nothing() -> None:
    """As in Nova: where earlier filters leave no host, their verdict is the answer, with its trace."""
    driver = FilterDriver([Nobody(), Refuses()], [])
    decision = driver.decide(request(), ten().overlay(), NO_FACTS, np.random.default_rng(0))
    assert "Nobody (nobody passes)" in decision.refusals[0].reason
    assert [step.name for step in decision.explanation.rounds[0].steps] == ["Nobody"]


def test_a_broken_part_that_no_host_left_meets_refuses_nothing() -> None:
    """Only the hosts left are asked whether they would meet it, and the filter answers for those alone."""
    hosts = ten()
    driver = FilterDriver([OnlyFirstHosts(), Refuses("h9")], [])
    decision = driver.decide(request(), hosts.overlay(), NO_FACTS, np.random.default_rng(0))
    assert decision.refusals == ()


def test_a_forced_request_is_not_checked_by_filters() -> None:
    """Filters are skipped whole for forced hosts."""
    driver = FilterDriver([Refuses()], [])
    forced = replace(request(), force_hosts=frozenset({"h4"}))
    decision = driver.decide(forced, ten().overlay(), NO_FACTS, np.random.default_rng(0))
    assert hosts_chosen(decision) == ["h4"]


@pytest.mark.parametrize("count", [1, 3])
def test_views_handed_to_plugins_cannot_be_written(count: int) -> None:
    """Columns gathered for narrowed rows are read-only as well."""

    class Writes(Asked):
        name = "Writes"

        def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
            assert not view.free_ram_mb.flags.writeable
            return np.ones(len(view), dtype=np.bool_)

    assert len(decide(FilterDriver([OnlyFirstHosts(), Writes(kept=False)], []), ten(), count=count)) == count

"""The filter driver: who may be used at all, rounds, all or nothing, refusals, records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nova_sched.drivers.caching import CachingDriver
from nova_sched.drivers.filtering import ROUNDS_KEPT, FilterDriver
from nova_sched.errors import PluginError
from nova_sched.hosts.view import HostView
from nova_sched.model.decision import Decision
from nova_sched.model.explanation import Detail
from nova_sched.model.facts import NO_FACTS, Facts
from nova_sched.model.pci import PciRequest
from nova_sched.model.request import InstanceRef, SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.testing.builders import group, host, request, table
from nova_sched.testing.deciding import decide, hosts_chosen, reason_of, settings

RAM = settings(["RamFilter"])


def three() -> list[Mapping[str, Any]]:
    """alder, birch and cedar with 8, 4 and 2 GB free."""
    return [
        host("alder", free_ram_mb=8192),
        host("birch", free_ram_mb=4096),
        host("cedar", free_ram_mb=2048),
    ]


def asked(**fields: Any) -> Decision:
    return decide(three(), request(**fields), RAM)


def test_the_emptiest_host_wins_and_the_rest_follows_from_what_was_taken() -> None:
    """Each instance of a request sees what the earlier ones took."""
    assert hosts_chosen(asked(count=4)) == ["alder", "alder", "alder", "birch"]


def test_ignored_hosts_are_out() -> None:
    """ignore_hosts compares names (LP#1087807)."""
    decision = asked(ignore_hosts=frozenset({"alder"}))
    assert hosts_chosen(decision) == ["birch"]
    assert decision.explanation.before == {"ignored": 1}


def test_ignoring_all_hosts_leaves_none() -> None:
    """The reason says how many were ignored, and names none."""
    decision = asked(ignore_hosts=frozenset({"alder", "birch", "cedar"}))
    assert reason_of(decision) == "3 hosts: 3 ignored"


def test_excluded_pairs_are_out_and_other_nodes_of_the_host_are_not() -> None:
    """A cast that came back undeliverable takes out that node only."""
    rows = [host("twin", "one", free_ram_mb=8192), host("twin", "two", free_ram_mb=4096)]
    decision = decide(rows, request().excluding(("twin", "one")), RAM)
    assert [placement.node for placement in decision.placements] == ["two"]


def test_a_forced_host_skips_the_filters_and_carries_no_limits() -> None:
    """LP#1231963 and LP#1553099: full, disabled or down, whatever was there before."""
    rows = [host("alder"), host("full", free_ram_mb=0, disabled=True, age_seconds=1e6)]
    decision = decide(
        rows, request(force_hosts=frozenset({"full"})), settings(["RamFilter", "ComputeFilter"])
    )
    assert hosts_chosen(decision) == ["full"]
    assert decision.placements[0].limits is None
    assert decision.explanation.forced
    assert decision.explanation.rounds[0].steps == ()


def test_several_forced_hosts_are_weighed() -> None:
    """The emptier one of those named."""
    assert hosts_chosen(asked(force_hosts=frozenset({"cedar", "birch"}))) == ["birch"]


def test_a_forced_host_that_is_ignored_as_well_is_out() -> None:
    """Ignoring is stronger, as in Juno."""
    names = frozenset({"birch"})
    assert asked(force_hosts=names, ignore_hosts=names).placements == ()


def test_a_forced_name_that_nobody_has_finds_no_host() -> None:
    """An unknown forced name is an answer, not an exception."""
    assert reason_of(asked(force_hosts=frozenset({"nosuch"}))) == "3 hosts: 3 not forced"


def test_run_instance_is_answered_in_part() -> None:
    """Those that fit are placed, the others refused with the numbers that tell why."""
    decision = decide(
        [host("alder", memory_mb=4096, free_ram_mb=4096)],
        request(count=3),
        settings(["RamFilter"], options={"ram_allocation_ratio": 1.0}),
    )
    assert len(decision.placements) == 2
    assert reason_of(decision) == "1 host: 1 RamFilter (not enough RAM, most usable 0 MB of 2048 MB asked)"


@pytest.mark.parametrize("method", ["select_destinations", "prep_resize"])
def test_other_methods_place_all_or_nothing(method: str) -> None:
    """One refusal leaves nothing consumed and refuses every instance (case 019)."""
    rows = table(host("alder", memory_mb=4096, free_ram_mb=4096))
    driver = FilterDriver.from_settings(settings(["RamFilter"], options={"ram_allocation_ratio": 1.0}))
    overlay = rows.overlay()
    decision = driver.decide(request(count=3, method=method), overlay, NO_FACTS, np.random.default_rng(0))
    assert decision.placements == ()
    assert len(decision.refusals) == 3
    assert overlay.mark == 0
    assert overlay.view.free_ram_mb[0] == 4096


def test_no_hosts_at_all_is_said() -> None:
    """An empty cloud refuses with a sentence."""
    assert reason_of(decide([], request(), RAM)) == "no hosts are known"


def test_an_unknown_group_is_refused_by_name() -> None:
    """LP#1303360 and case 248: the group asked for is named, no host is looked at."""
    decision = asked(group="nosuch")
    assert "nosuch" in reason_of(decision)
    assert decision.explanation.rounds == ()


def test_a_group_without_its_filter_is_refused_not_ignored() -> None:
    """LP#1302238: users must not believe their guests apart when nobody keeps them apart."""
    decision = decide(three(), request(), RAM, facts=Facts(group=group("anti-affinity")))
    assert reason_of(decision) == (
        "ServerGroupAntiAffinityFilter: not enabled, but the server group asks for anti-affinity"
    )


def test_members_of_one_request_keep_apart() -> None:
    """LP#1781710: each pick counts for the next one; the third of two hosts' worth fails."""
    rows = [host("alder"), host("birch")]
    decision = decide(
        rows,
        request(count=3),
        settings(["ServerGroupAntiAffinityFilter"]),
        facts=Facts(group=group("anti-affinity")),
    )
    assert hosts_chosen(decision) == ["alder", "birch"]
    assert decision.group is not None
    assert decision.group.hosts == {"alder", "birch"}


def test_members_without_uuids_keep_apart_as_well() -> None:
    """A select_destinations that only gives a number places each guest on a host of its own."""
    asked_for = request(method="select_destinations", count=2)
    unnamed = replace(asked_for, instances=(InstanceRef(None, 0), InstanceRef(None, 1)))
    decision = decide(
        [host("alder"), host("birch")],
        unnamed,
        settings(["ServerGroupAntiAffinityFilter"]),
        facts=Facts(group=group("anti-affinity")),
    )
    assert hosts_chosen(decision) == ["alder", "birch"]


def test_devices_without_their_filter_are_refused() -> None:
    """Case 287: a request for PCI devices that nobody would look at ends with the filter's name."""
    decision = asked(pci_requests=(PciRequest(1, ({"vendor_id": "8086"},)),))
    assert reason_of(decision).startswith("PciPassthroughFilter")


def test_a_mistake_found_at_the_edge_is_the_reason() -> None:
    """What the translation refused is told as it is."""
    assert "absurd" in reason_of(asked(error="absurd amounts"))


class Breaks(HostFilter):
    """Raises on every call."""

    name = "Breaks"
    reason = "broken"

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        raise KeyError("oops")


class LiesAboutLength(HostFilter):
    """Answers for one host whatever it was asked."""

    name = "LiesAboutLength"
    reason = "broken"

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        return np.ones(1, dtype=np.bool_)


class BreaksLater(HostFilter):
    """Works until a guest was placed."""

    name = "BreaksLater"
    reason = "broken"

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        if (view.num_io_ops > 0).any():
            raise ValueError("second round")
        return np.ones(len(view), dtype=np.bool_)


@pytest.mark.parametrize("broken", [Breaks(), LiesAboutLength(), BreaksLater()], ids=lambda one: one.name)
def test_a_filter_that_breaks_is_named_and_consumes_nothing(broken: HostFilter) -> None:
    """A fault is never "no host": the exception names the plugin and the overlay is as before."""
    overlay = table(host("alder"), host("birch")).overlay()
    driver = FilterDriver([broken], [])
    with pytest.raises(PluginError, match=broken.name):
        driver.decide(request(count=2), overlay, NO_FACTS, np.random.default_rng(0))
    assert overlay.mark == 0
    assert driver.guard.current is None


class Watches(HostFilter):
    """Notes what the guard says while it runs."""

    name = "Watches"
    reason = "never"

    def __init__(self) -> None:
        self.seen: list[str | None] = []
        self.driver: FilterDriver | None = None

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        assert self.driver is not None
        self.seen.append(self.driver.guard.current)
        return np.ones(len(view), dtype=np.bool_)


def test_a_watchdog_can_name_the_plugin_that_runs() -> None:
    """While a plugin runs, the guard knows its name."""
    watches = Watches()
    watches.driver = FilterDriver([watches], [])
    watches.driver.decide(request(), table(host()).overlay(), NO_FACTS, np.random.default_rng(0))
    assert watches.seen == ["Watches"]


def test_a_large_request_keeps_a_bounded_record() -> None:
    """The record of 100 placements holds the first rounds only; one that failed is always there."""
    rows = table(host("alder", memory_mb=262144, free_ram_mb=262144))
    driver = FilterDriver.from_settings(RAM)
    rng = np.random.default_rng(0)
    decision = driver.decide(request(count=100, memory_mb=1024), rows.overlay(), NO_FACTS, rng)
    assert len(decision.placements) == 100
    assert len(decision.explanation.rounds) == ROUNDS_KEPT
    failed = driver.decide(request(count=500, memory_mb=1024), rows.overlay(), NO_FACTS, rng)
    assert failed.explanation.rounds[-1].chosen is None


def test_full_detail_names_each_refused_host_with_its_reason() -> None:
    """Explaining a decision says of each host which filter refused it, and with which numbers."""
    rows = [host("alder"), host("full", memory_mb=1024, free_ram_mb=512)]
    step = decide(rows, request(), RAM).explanation.rounds[0].steps[0]
    assert [name for name, _ in step.refused] == [("full", "full.lab")]
    assert "1024 MB" in step.refused[0][1]


def test_counts_detail_has_weights_of_the_best_hosts_only() -> None:
    """LP#1816360: the record tells total and per-weigher numbers, for the top few."""
    rows = table(*(host(f"h{number}", free_ram_mb=1024 * number) for number in range(1, 200)))
    driver = FilterDriver.from_settings(settings(["AllHostsFilter"], explanation_top_hosts=3))
    decision = driver.decide(request(), rows.overlay(), NO_FACTS, np.random.default_rng(0), Detail.COUNTS)
    weighed = decision.explanation.rounds[0].weighed
    assert [one.host for one in weighed] == ["h199", "h198", "h197"]
    assert weighed[0].parts == (("RAMWeigher", 199 * 1024.0, 1.0, 1.0),)


def test_the_caching_driver_is_the_same_engine_with_a_refresh_period() -> None:
    """Only how old the table may be differs."""
    driver = CachingDriver.from_settings(settings(["RamFilter"], driver_task_period_seconds=30))
    assert driver.refresh_period_seconds == 30.0
    decision = driver.decide(request(), table(*three()).overlay(), NO_FACTS, np.random.default_rng(0))
    assert hosts_chosen(decision) == ["alder"]
    assert decision.explanation.driver == "caching_scheduler"


def test_lp1482019_a_forced_host_without_the_devices_is_refused_and_consumes_nothing():
    """Forcing skips the filter, not the devices: all instances are refused and the overlay is as before."""
    overlay = table(host("alder", pci_stats="[]")).overlay()
    driver = FilterDriver.from_settings(settings(["PciPassthroughFilter"]))
    devices = (PciRequest(1, ({"vendor_id": "8086"},)),)
    forced = request(count=2, force_hosts=frozenset({"alder"}), pci_requests=devices)
    decision = driver.decide(forced, overlay, NO_FACTS, np.random.default_rng(1))
    assert len(decision.refusals) == 2
    assert "PciPassthroughFilter" in decision.refusals[0].reason
    assert overlay.mark == 0

"""A shadow configuration decides the same requests, says where it differs, and can do no harm."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.service.shadow import ELSEWHERE, ONLY_LIVE, ONLY_SHADOW, Shadow
from nova_sched.settings import BusSettings, SchedulerSettings
from nova_sched.wire.outbound import Outbound
from tests.unit.service.world import SCHEDULER, World, build, select


def with_shadow(world: World, settings: SchedulerSettings, off=lambda: False) -> list:
    """Give the world's batch a shadow; the list of records that get committed."""
    shadow = Shadow(FilterDriver.from_settings(settings), "shadow.conf", world.observer, off)
    world.batch.configure(world.driver, Outbound(BusSettings(host="sched-1")), world.delivery, shadow)
    records: list = []
    commit = world.db.commit
    world.db.commit = lambda outcomes, more=(): records.extend(more) or commit(outcomes, more)  # type: ignore[method-assign]
    return records


def changed(**filters) -> SchedulerSettings:
    return dataclasses.replace(SCHEDULER, filters=dataclasses.replace(SCHEDULER.filters, **filters))


STACKING = dataclasses.replace(
    SCHEDULER, weighers=dataclasses.replace(SCHEDULER.weighers, ram_weight_multiplier=-1.0)
)


def test_a_shadow_that_agrees_leaves_no_trace_but_a_count():
    world = World()
    records = with_shadow(world, SCHEDULER)
    world.run(build(1), build(2), select(3))
    assert world.counted("shadow_decisions", "same") == 3
    assert all(record.shadow is None for record in records)


def test_another_host_is_told_in_the_record_and_the_live_choice_stands(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    world = World()
    records = with_shadow(world, STACKING)
    world.run(build(1))
    assert world.host_of(1) == "h1"
    (record,) = records
    assert record.shadow["kind"] == ELSEWHERE
    assert record.shadow["reason"] == "h3/h3.node instead of h1/h1.node"
    assert world.counted("shadow_decisions", "differs") == 1
    assert "shadow req-1: elsewhere, h3/h3.node instead of h1/h1.node" in caplog.text


@pytest.mark.parametrize(("ratio", "kind"), [(2.0, ONLY_SHADOW), (0.1, ONLY_LIVE)])
def test_a_host_that_only_one_of_both_finds_is_told_with_the_reason(ratio: float, kind: str):
    world = World()
    records = with_shadow(world, changed(ram_allocation_ratio=ratio))
    for number in (1, 2, 3):
        world.run(build(number, memory_mb=12_000 if kind == ONLY_SHADOW else 64))
    world.run(build(4, memory_mb=8192))
    assert records[-1].shadow["kind"] == kind
    if kind == ONLY_LIVE:
        assert "3 RamFilter" in records[-1].shadow["reason"]


def test_within_a_wave_each_configuration_follows_its_own_choices():
    world = World(hosts=2)
    records = with_shadow(world, STACKING)
    world.run(*(build(number, memory_mb=8192) for number in range(1, 5)))
    names = [next(iter(record.shadow["outcomes"].values())) for record in records if record.shadow]
    # Live spreads h1 h2 h1 h2; the shadow fills h2 first and then has h1 left.
    assert [world.host_of(number) for number in range(1, 5)] == ["h1", "h2", "h1", "h2"]
    assert names[0].startswith("h2")
    assert world.counted("shadow_decisions", "differs") == 2


class Broken(FilterDriver):
    """Consumes, then breaks."""

    def decide(self, request, overlay, facts, rng, detail=0):
        super().decide(request, overlay, facts, rng, detail)
        raise ZeroDivisionError("shadow")


def test_a_shadow_that_breaks_touches_nothing_and_is_told_once(caplog: pytest.LogCaptureFixture):
    world = World()
    shadow = Shadow(Broken.from_settings(SCHEDULER), "shadow.conf", world.observer)
    world.batch.configure(world.driver, Outbound(BusSettings(host="sched-1")), world.delivery, shadow)
    world.run(build(1), build(2))
    assert world.host_of(1)
    assert world.host_of(2)
    assert world.counted("shadow_decisions", "failed") == 2
    assert world.counted("plugin_errors", "ZeroDivisionError") == 0
    assert [r.levelname for r in caplog.records if "shadow configuration" in r.message] == ["ERROR"]


def test_a_shadow_that_hung_some_worker_is_not_asked_any_more():
    world = World()
    with_shadow(world, STACKING, off=lambda: True)
    world.run(build(1))
    assert not [key for key in world.observer.counts if key[0] == "shadow_decisions"]


def test_a_claim_that_was_lost_is_not_compared_a_second_time():
    world = World()
    with_shadow(world, SCHEDULER)
    world.run(build(1))
    world.store.lost["h2"] = 1
    world.run(build(2, memory_mb=8192))
    assert world.counted("claims_lost", "host") == 1
    assert world.counted("shadow_decisions", "same") == 2

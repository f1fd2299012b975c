"""Every crash, repeat and race of the delivery contract that concerns the loop; the number is the contract's row."""

from __future__ import annotations

import logging

import pytest

from nova_sched.errors import BusUnavailable, StoreUnavailable
from nova_sched.model.states import ClaimState, EndReason
from nova_sched.service.ports import CRASH_POINTS, Verdict, VerdictKind
from nova_sched.settings import BusSettings, DeliverySettings
from nova_sched.testing.fakes import Crashed
from nova_sched.wire.outbound import Outbound
from tests.unit.service.world import World, build, chance, resize, select, uuid_of

BEFORE_COMMIT = ("before_prior", "before_decide", "before_commit")
AFTER_COMMIT = ("after_commit", "before_publish", "after_publish", "after_confirm")


def crash(world: World, point: str, *requests) -> None:
    """Run until the process dies at that point, then start another."""
    world.crash.arm(point)
    with pytest.raises(Crashed):
        world.run(*requests)
    world.start_process()


@pytest.mark.parametrize("point", BEFORE_COMMIT)
def test_1_a_crash_before_the_commit_leaves_nothing_and_the_repeat_decides_anew(point):
    world = World()
    crash(world, point, build(1))
    assert world.db.claims == {}
    assert world.bus.published == []
    world.run(build(1))
    assert len(world.casts_of(1)) == 1


def test_2_a_commit_of_unknown_outcome_is_held_and_its_repeat_reads_the_key_first():
    world = World(driver=chance(), hosts=20)
    world.store.forgets = True
    with pytest.raises(StoreUnavailable):
        world.run(build(1))
    assert world.bus.published == []
    claimed = world.host_of(1)
    world.run(build(1))
    assert [cast.server for cast in world.casts_of(1)] == [claimed]
    assert world.counted("instances", "cast_again") == 1


@pytest.mark.parametrize("point", AFTER_COMMIT)
def test_3_4_a_crash_after_the_commit_repeats_the_same_cast_to_the_claim_s_own_host(point):
    world = World()
    crash(world, point, build(1))
    claimed = world.host_of(1)
    limits = world.db.live(uuid_of(1))[0].limits
    world.add_host("bigger", memory_mb=2**20)
    world.run(build(1))
    casts = world.casts_of(1)
    assert casts
    assert {cast.server for cast in casts} == {claimed}
    assert {cast.message_id for cast in casts} == {casts[0].message_id}
    assert casts[-1].arguments["filter_properties"]["limits"]["memory_mb"] == limits.memory_mb
    assert len(world.db.claims) == 1


def test_4_a_claim_past_claimed_gets_no_cast_and_its_message_is_done():
    for state in (ClaimState.BUILDING, ClaimState.HELD):
        world = World()
        crash(world, "after_confirm", build(1))
        world.db.say(uuid_of(1), 1, state)
        world.bus.published.clear()
        (ticket,) = world.run(build(1))
        assert ticket.result() is None
        assert world.bus.published == []
        assert world.counted("instances", "past") == 1


def test_4_a_guest_that_came_and_went_is_not_built_again():
    world = World()
    world.run(build(1))
    claim = world.db.live(uuid_of(1))[0].row
    claim.state, claim.ended_reason = ClaimState.ENDED, EndReason.OPERATOR
    world.run(build(1))
    assert len(world.casts_of(1)) == 1


@pytest.mark.parametrize("end", ["error", "delete", "expiry"])
def test_5_final_states_win_over_a_repeat(end):
    world = World()
    if end == "error":
        world.run(build(1, memory_mb=10**6))
    else:
        crash(world, "after_commit", build(1))
        world.db.delete_instance(uuid_of(1)) if end == "delete" else world.db.expire(uuid_of(1), 1)
    world.bus.published.clear()
    faults = len(world.db.faults)
    (ticket,) = world.run(build(1))
    assert ticket.done
    assert world.bus.published == []
    assert len(world.db.faults) == faults
    assert world.counted("instances", "deleted" if end == "delete" else "final") == 1


def stalls_after_commit(world: World, seconds: float) -> None:
    """The worker stops between its commit and its casts."""
    commit = world.db.commit

    def slow(*arguments):
        verdicts = commit(*arguments)
        world.time.advance(seconds)
        return verdicts

    world.db.commit = slow  # type: ignore[method-assign]


def test_6_a_worker_that_slept_reads_the_claim_again_and_casts_with_half_of_what_is_left():
    world = World()
    stalls_after_commit(world, 200.0)
    world.run(build(1))
    (cast,) = world.casts_of(1)
    assert cast.expiration_seconds == pytest.approx((300.0 - 200.0) / 2)
    assert world.counted("late_claims") == 1


def test_6_a_worker_that_slept_over_the_claim_s_end_casts_nothing():
    world = World()
    stalls_after_commit(world, 301.0)
    commit = world.db.commit

    def expired(*arguments):
        verdicts = commit(*arguments)
        world.db.expire(uuid_of(1), 1)
        return verdicts

    world.db.commit = expired  # type: ignore[method-assign]
    (ticket,) = world.run(build(1))
    assert ticket.done
    assert world.bus.casts == []
    assert world.host_of(1) is None


def test_6_a_repeat_after_half_of_the_life_has_a_cast_that_cannot_outlive_its_claim():
    world = World()
    crash(world, "after_commit", build(1))
    world.time.advance(250.0)
    world.run(build(1))
    assert world.casts_of(1)[0].expiration_seconds == pytest.approx(25.0)


def test_6_a_claim_out_of_life_is_left_to_upkeep():
    world = World()
    crash(world, "after_commit", build(1))
    world.time.advance(301.0)
    (ticket,) = world.run(build(1))
    assert ticket.done
    assert world.bus.casts == []


def test_7_of_two_workers_with_the_same_message_the_loser_casts_to_the_winner_s_host():
    world = World(hosts=20, driver=chance())
    rival = World(hosts=0, driver=chance())
    rival.db, rival.store, rival.bus = world.db, world.store, world.bus
    rival.start_process()
    prior = world.db.prior

    def both_at_once(uuids):
        world.db.prior = prior  # type: ignore[method-assign]
        found = prior(uuids)
        rival.run(build(1))
        return found

    world.db.prior = both_at_once  # type: ignore[method-assign]
    world.run(build(1))
    assert {cast.server for cast in world.casts_of(1)} == {world.host_of(1)}
    assert len(world.casts_of(1)) == 2
    assert len(world.db.claims) == 1


def test_7_the_same_message_twice_in_one_batch_is_one_build():
    world = World()
    tickets = world.run(build(1), build(1), build(1))
    assert all(ticket.done for ticket in tickets)
    assert {cast.server for cast in world.casts_of(1)} == {world.host_of(1)}
    assert len(world.db.claims) == 1


def test_8_an_undeliverable_cast_ends_its_claim_and_goes_to_the_next_ranked_host():
    world = World()
    world.bus.dead_hosts = {"h1", "h2"}
    world.run(build(1))
    assert [cast.server for cast in world.casts_of(1)] == ["h3"]
    assert world.host_of(1) == "h3"
    assert [claim.row.ended_reason for claim in world.db.ended] == [EndReason.UNDELIVERABLE] * 2
    assert world.db.claimed_mb("h1") == 0
    types = world.bus.event_types()
    assert types[0].endswith(".start")
    assert types[-1].endswith(".end")
    assert types.count("scheduler.run_instance.end") == 1


def test_8_with_every_host_undeliverable_the_instance_ends_in_error_and_no_claim_is_left():
    world = World()
    world.bus.dead_hosts = {"h1", "h2", "h3"}
    world.run(build(1))
    assert world.casts_of(1) == []
    assert world.host_of(1) is None
    assert world.db.instances[uuid_of(1)].vm_state == "error"
    assert all(world.db.claimed_mb(f"h{number}") == 0 for number in (1, 2, 3))
    assert world.bus.event_types()[-1] == "scheduler.run_instance.end"


def test_8_undeliverable_casts_are_tried_a_bounded_number_of_times():
    world = World(hosts=30, delivery=DeliverySettings(claim_retries_max=3))
    world.bus.dead_hosts = {f"h{number}" for number in range(1, 31)}
    world.run(build(1))
    assert world.counted("undeliverable_casts") == 4
    assert world.db.instances[uuid_of(1)].vm_state == "error"


def test_8_a_repeated_cast_that_is_undeliverable_moves_on_too():
    world = World()
    crash(world, "after_commit", build(1))
    world.bus.dead_hosts = {"h1"}
    world.run(build(1))
    assert [cast.server for cast in world.casts_of(1)] == ["h2"]
    assert world.host_of(1) == "h2"


def test_8_the_other_instances_of_the_request_are_not_disturbed():
    world = World()
    world.bus.dead_hosts = {"h2"}
    world.run(build(*range(1, 7), memory_mb=8192))
    assert world.bus.event_types().count("run_instance") > len(world.bus.casts)
    for number in range(1, 7):
        assert len(world.casts_of(number)) == (1 if world.host_of(number) else 0)
    assert sum(world.host_of(number) is not None for number in range(1, 7)) == 4


def test_8_an_undeliverable_resize_goes_on_or_leaves_the_instance_alone():
    world = World(hosts=2)
    world.bus.dead_hosts = {"h1"}
    world.run(resize(1))
    assert [cast.server for cast in world.bus.casts] == ["h2"]
    world = World(hosts=1)
    world.bus.dead_hosts = {"h1"}
    world.run(resize(1, vm_state="stopped"))
    assert world.db.live(uuid_of(1)) == []
    assert next(e for e in world.bus.events if e.priority == "ERROR").payload["state"] == "stopped"


@pytest.mark.parametrize("method", ["prior", "commit"])
def test_10_sql_away_holds_the_whole_batch_and_answers_nothing(method):
    world = World()
    world.store.away = {method}
    first, second = world.batch.submit(build(1)), world.batch.submit(build(2, memory_mb=10**6))
    with pytest.raises(StoreUnavailable):
        world.batch.run()
    assert not first.done
    assert not second.done
    assert world.batch.waiting == 0, "the messages are submitted again"
    assert world.bus.published == []
    world.store.away = set()
    world.run(build(1), build(2, memory_mb=10**6))
    assert world.host_of(1)
    assert len(world.casts_of(1)) == 1
    assert world.counted("held_batches", "store") == 1


def test_10_host_state_that_cannot_be_read_holds_the_batch_and_leaves_the_table_whole():
    world = World()
    world.run(build(1))
    read = world.db.read_delta

    def away(cursor):
        raise StoreUnavailable("gone")

    world.db.read_delta = away  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        world.run(build(2))
    world.db.read_delta = read  # type: ignore[method-assign]
    world.run(build(2))
    assert world.host_of(2)


@pytest.mark.parametrize("how", ["away", "silent"])
def test_10_a_broker_without_a_word_holds_the_batch_and_the_repeat_casts_to_the_same_host(how):
    world = World(driver=chance(), hosts=20)
    setattr(world.bus, how, True)
    with pytest.raises(BusUnavailable):
        world.run(build(1))
    claimed = world.host_of(1)
    setattr(world.bus, how, False)
    world.run(build(1))
    assert {cast.server for cast in world.casts_of(1)} == {claimed}


def test_11_a_higher_attempt_of_a_failed_instance_is_a_new_decision():
    world = World()
    world.run(build(1, memory_mb=10**6))
    world.run(build(1, attempt=2))
    assert world.host_of(1)
    assert world.casts_of(1)[0].arguments["filter_properties"]["retry"]["num_attempts"] == 2


def test_12_a_lost_guard_reads_the_row_again_and_takes_the_next_ranked_host():
    world = World()
    world.run(build(1))
    commit = world.db.commit

    def full(*arguments):
        world.db.commit = commit  # type: ignore[method-assign]
        world.db.update_host(world.db.named("h2")["id"], free_ram_mb=0, memory_mb_used=18000)
        return commit(*arguments)

    world.db.commit = full  # type: ignore[method-assign]
    world.run(build(2))
    assert world.host_of(2) == "h1"
    assert world.counted("claims_lost", "host") == 1
    assert "rows" in world.db.reads


def test_12_a_host_that_keeps_refusing_gives_way_to_others():
    world = World()
    world.store.lost["h1"] = 100
    world.run(build(1))
    assert world.host_of(1) == "h2"
    assert world.counted("claims_lost", "host") == 3


def test_12_a_host_that_kept_refusing_is_tried_again_when_no_other_is_left():
    world = World(hosts=1)
    world.store.lost["h1"] = 6
    world.run(build(1))
    assert world.host_of(1) == "h1"


def test_12_refusals_without_end_end_in_error_after_a_bounded_number():
    world = World(hosts=1, delivery=DeliverySettings(claim_retries_max=5))
    world.store.lost["h1"] = 1000
    world.run(build(1))
    assert world.db.instances[uuid_of(1)].vm_state == "error"
    assert world.counted("claims_lost", "host") == 6
    assert world.time.seconds - 1000.0 < 1.0, "the pauses between the tries are short"


def test_12_what_was_lost_in_a_batch_does_not_take_the_others_along():
    world = World()
    world.store.lost["h1"] = 1
    world.run(build(*range(1, 7), memory_mb=8192))
    assert all(world.host_of(number) for number in range(1, 7))
    assert all(len(world.casts_of(number)) == 1 for number in range(1, 7))


def test_12_a_call_that_loses_one_claim_gives_back_the_others_and_decides_all_again():
    world = World()
    world.store.lost["h2"] = 1
    (ticket,) = world.run(select(1, 2, 3, memory_mb=16384))
    assert len(ticket.result()) == 3
    assert sum(host["claimed_instances"] for host in world.db.hosts.values()) == 3


def test_13_the_loser_of_a_race_for_a_group_decides_again_with_its_new_member():
    world = World(hosts=2)
    world.add_group("web")
    rival = World(hosts=0)
    rival.db, rival.store, rival.bus = world.db, world.store, world.bus
    rival.start_process()
    load = world.db.load

    def both_at_once(*arguments):
        world.db.load = load  # type: ignore[method-assign]
        facts = load(*arguments)
        rival.run(build(2, hints={"group": "web"}))
        return facts

    world.db.load = both_at_once  # type: ignore[method-assign]
    world.run(build(1, hints={"group": "web"}))
    assert {world.host_of(1), world.host_of(2)} == {"h1", "h2"}
    assert world.counted("claims_lost", "group") == 1


def test_16_an_outcome_the_database_cannot_take_ends_in_error_and_the_others_stand():
    world = World()
    commit = world.db.commit

    def refuses_placements_of_two(outcomes, records=()):
        verdicts = []
        for outcome in outcomes:
            odd = uuid_of(2) in outcome.request.uuids and hasattr(outcome, "placement")
            verdicts += [Verdict(VerdictKind.BROKEN)] if odd else commit([outcome], records)
        return verdicts

    world.db.commit = refuses_placements_of_two  # type: ignore[method-assign]
    world.run(build(1), build(2), build(3))
    assert world.host_of(1)
    assert world.host_of(3)
    assert world.db.instances[uuid_of(2)].vm_state == "error"


def test_20_a_reschedule_ends_the_older_claim_in_its_own_commit():
    world = World()
    world.run(build(1))
    world.run(build(1, attempt=2, tried=(("h1", "h1.node"),)))
    assert world.host_of(1) == "h2"
    assert world.db.claims[uuid_of(1), 1].row.ended_reason is EndReason.RESCHEDULED
    assert world.casts_of(1)[-1].arguments["filter_properties"]["retry"] == {
        "num_attempts": 2,
        "hosts": [["h1", "h1.node"], ["h2", "h2.node"]],
    }


def test_20_a_message_of_an_older_attempt_changes_nothing():
    world = World()
    world.run(build(1))
    world.run(build(1, attempt=2, tried=(("h1", "h1.node"),)))
    world.bus.published.clear()
    (ticket,) = world.run(build(1))
    assert ticket.done
    assert world.bus.published == []
    assert world.host_of(1) == "h2"
    assert world.counted("instances", "stale") == 1


def test_22_an_instance_deleted_before_its_cast_is_dropped_quietly_and_counted(caplog):
    world = World()
    world.db.delete_instance(uuid_of(1))
    with caplog.at_level(logging.INFO):
        (ticket,) = world.run(build(1))
    assert ticket.done
    assert world.bus.published == []
    assert caplog.records == []
    assert world.counted("instances", "deleted") == 1


def test_23_an_instance_deleted_between_decision_and_commit_gets_no_cast_and_the_others_do():
    world = World()
    commit = world.db.commit

    def deleted_meanwhile(*arguments):
        world.db.delete_instance(uuid_of(1))
        return commit(*arguments)

    world.db.commit = deleted_meanwhile  # type: ignore[method-assign]
    world.run(build(1, 2))
    assert world.casts_of(1) == []
    assert len(world.casts_of(2)) == 1
    assert world.host_of(1) is None


def test_23_an_instance_deleted_between_commit_and_repeat_gets_no_cast():
    world = World()
    crash(world, "after_commit", build(1, 2))
    world.db.delete_instance(uuid_of(1))
    world.run(build(1, 2))
    assert world.casts_of(1) == []
    assert len(world.casts_of(2)) == 1


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_25_an_error_has_one_event_whatever_dies_and_its_row_waits_in_the_outbox(point):
    world = World()
    crash(world, point, build(1, memory_mb=10**6))
    world.run(build(1, memory_mb=10**6))
    assert len(world.db.faults) == 1
    assert len(world.db.events[uuid_of(1), 1]) == 1
    told = {e.message_id for e in world.bus.events if e.priority == "ERROR"}
    waiting = {e.message_id for e in world.db.outbox.values()}
    assert told | waiting == world.db.events[uuid_of(1), 1]


def test_25_an_outbox_that_cannot_be_cleared_holds_nothing_back():
    world = World()
    world.store.away = {"sent"}
    (ticket,) = world.run(build(1, memory_mb=10**6))
    assert ticket.done
    assert len(world.db.outbox) == 1


@pytest.mark.parametrize("committed", [0, 1, 4])
def test_27_a_repeat_finishes_what_a_large_request_had_left_and_keeps_the_launch_index(committed):
    world = World(hosts=5)
    commit = world.db.commit

    def dies_halfway(outcomes, records=()):
        world.db.commit = commit  # type: ignore[method-assign]
        commit(outcomes[:committed])
        raise StoreUnavailable("lost between two transactions")

    world.db.commit = dies_halfway  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        world.run(build(1, 2, 3, 4, 5))
    world.run(build(1, 2, 3, 4, 5))
    assert sorted(cast.arguments["instance"]["launch_index"] for cast in world.bus.casts) == [0, 1, 2, 3, 4]
    assert all(world.host_of(number) for number in range(1, 6))
    assert len(world.db.claims) == 5


def test_30_another_driver_decides_from_the_next_batch_on():
    world = World()
    world.run(build(1))
    world.batch.configure(chance(), Outbound(BusSettings()), world.delivery)
    world.run(build(2))
    assert world.casts_of(2)[0].arguments["node"] is None


def test_a_message_put_aside_ends_its_instances_in_error_unless_they_are_past_the_scheduler():
    world = World()
    world.run(build(1))
    world.db.say(uuid_of(1), 1, ClaimState.BUILDING)
    crash(world, "after_commit", build(2))
    world.batch.refuse(build(1, 2, 3), "given up after 5 deliveries")
    assert world.host_of(1) == "h1"
    for number in (2, 3):
        assert world.host_of(number) is None
        assert world.db.instances[uuid_of(number)].vm_state == "error"
    assert len(world.db.outbox) == 2, "their events are left to upkeep"

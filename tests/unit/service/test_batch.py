"""The loop in fair weather: what a request costs, sends, stores and answers."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from nova_sched.errors import NoValidHost, PluginError, RequestRefused
from nova_sched.model.states import ClaimState
from nova_sched.service.ports import DecisionRecord
from nova_sched.service.sentence import SENTENCE_MAX
from tests.unit.service.world import World, build, chance, message, resize, select, uuid_of


def test_one_instance_goes_to_the_best_host_and_juno_s_messages_go_out_in_their_order():
    world = World()
    (ticket,) = world.run(build(1))
    assert ticket.done
    assert ticket.result() is None
    assert world.bus.event_types() == [
        "scheduler.run_instance.start",
        "scheduler.run_instance.scheduled",
        "run_instance",
        "scheduler.run_instance.end",
    ]
    assert [cast.server for cast in world.casts_of(1)] == ["h1"]
    assert world.host_of(1) == "h1"
    assert world.casts_of(1)[0].expiration_seconds == world.delivery.claim_ttl_seconds / 2


def test_a_batch_of_requests_is_decided_on_one_overlay_and_committed_once():
    world = World(hosts=2)
    commits = []
    commit = world.db.commit
    world.db.commit = lambda *a: commits.append(a) or commit(*a)  # type: ignore[method-assign]
    tickets = world.run(*(build(number, memory_mb=8192) for number in range(1, 5)))
    assert all(ticket.done for ticket in tickets)
    assert len(commits) == 1
    assert sorted(world.host_of(number) for number in range(1, 5)) == ["h1", "h1", "h2", "h2"]


def test_those_that_fit_are_built_and_every_other_one_ends_in_error_with_its_own_fault_and_event():
    world = World(hosts=1)
    world.run(build(*range(1, 11), memory_mb=4096))
    built = [number for number in range(1, 11) if world.casts_of(number)]
    assert built == [1, 2, 3, 4]
    for number in range(5, 11):
        assert world.db.instances[uuid_of(number)].vm_state == "error"
        assert len(world.db.events[uuid_of(number), 1]) == 1
    types = world.bus.event_types()
    assert types.count("scheduler.run_instance.start") == types.count("scheduler.run_instance.end") == 1
    assert types[0].endswith(".start")
    assert types[-1].endswith(".end")
    assert types.count("scheduler.run_instance") == types.count("compute.instance.update") == 6
    assert world.db.outbox == {}, "confirmed ERROR events leave the outbox"
    assert [cast.arguments["instance"]["launch_index"] for cast in world.bus.casts] == [0, 1, 2, 3]


def test_a_failed_request_leaves_no_trace_in_memory_for_the_next_one():
    world = World(hosts=1)
    world.run(select(1, 2, 3, memory_mb=8192))
    (ticket,) = world.run(select(4, 5, memory_mb=8192))
    assert len(ticket.result()) == 2


def test_a_refusal_says_why_and_names_no_host():
    world = World()
    world.run(build(1, memory_mb=10**6))
    ((_, reason, _),) = world.db.faults
    assert reason
    assert "h1" not in reason
    event = next(event for event in world.bus.events if event.priority == "ERROR")
    assert event.payload["reason"] == reason


def test_exhausted_retries_end_in_error_with_a_start_and_an_end():
    world = World()
    world.run(build(1, attempt=4, tried=(("h1", "h1.node"),)))
    assert "Exceeded max scheduling attempts" in world.db.faults[0][1]
    assert world.bus.event_types()[-1] == "scheduler.run_instance.end"
    assert world.casts_of(1) == []


def test_a_plugin_that_breaks_fails_its_own_request_alone_with_a_traceback(caplog):
    world = World()
    decide = world.driver.decide

    def breaks_for_two(request, *rest):
        if uuid_of(2) in request.uuids:
            raise PluginError("BrokenFilter", ValueError("boom"))
        return decide(request, *rest)

    world.driver.decide = breaks_for_two
    tickets = world.run(build(1), build(2), build(3))
    assert all(ticket.done for ticket in tickets)
    assert world.host_of(1)
    assert world.host_of(3)
    ((uuid, reason, trace),) = world.db.faults
    assert uuid == uuid_of(2)
    assert "BrokenFilter" in reason
    assert trace
    assert "boom" in trace
    assert any("Traceback" in record.getMessage() for record in caplog.records)
    assert world.counted("plugin_errors", "BrokenFilter") == 1


def test_a_request_that_cannot_be_rendered_fails_alone_and_claims_nothing():
    world = World()
    broken = build(2)
    object.__setattr__(
        broken.passthrough, "request_spec", {"instance_properties": 5, "instance_uuids": [uuid_of(2)]}
    )
    world.run(build(1), broken)
    assert world.host_of(1)
    assert world.host_of(2) is None


def test_a_fault_of_the_loop_itself_meets_only_the_request_that_causes_it():
    world = World()
    load = world.db.load

    def breaks_for_two(requests, needs):
        if any(uuid_of(2) in request.uuids for request in requests):
            raise TypeError("an odd row")
        return load(requests, needs)

    world.db.load = breaks_for_two  # type: ignore[method-assign]
    tickets = world.run(build(1), build(2), build(3))
    assert all(ticket.done for ticket in tickets)
    assert world.host_of(1)
    assert world.host_of(3)
    assert world.db.instances[uuid_of(2)].vm_state == "error"


def test_select_destinations_answers_hosts_and_limits_and_claims_them_for_a_while():
    world = World()
    (ticket,) = world.run(select(1, 2))
    assert [found["host"] for found in ticket.result()] == ["h1", "h2"] or len(ticket.result()) == 2
    assert {"host", "nodename", "limits"} == set(ticket.result()[0])
    assert world.bus.event_types() == [
        "scheduler.select_destinations.start",
        "scheduler.select_destinations.end",
    ]
    assert world.bus.casts == []
    assert world.host_of(1)
    claim = world.db.live(uuid_of(1))[0]
    assert claim.ttl_seconds == world.delivery.select_claim_ttl_seconds


def test_select_destinations_is_all_or_nothing_and_says_so_to_the_caller():
    world = World(hosts=1)
    (ticket,) = world.run(select(1, 2, 3, memory_mb=8192))
    with pytest.raises(NoValidHost):
        ticket.result()
    assert world.db.claims == {}
    assert world.bus.event_types()[-1] == "scheduler.select_destinations.end"
    assert world.db.instances == {}, "the caller decides what becomes of its instances"


def test_a_caller_that_asks_again_gets_the_same_hosts():
    world = World()
    (first,) = world.run(select(1, 2))
    world.start_process()
    (second,) = world.run(select(1, 2))
    assert [one["host"] for one in second.result()] == [one["host"] for one in first.result()]
    assert len(world.db.claims) == 2


def test_a_running_guest_is_claimed_a_second_time_under_a_key_of_its_own():
    world = World()
    world.run(build(1))
    world.db.say(uuid_of(1), 1, ClaimState.HELD)
    (ticket,) = world.run(select(1, ignore_hosts=["h1"]))
    assert ticket.result()[0]["host"] != "h1"
    assert len(world.db.live(uuid_of(1))) == 2


def test_destinations_without_uuids_are_claimed_too():
    world = World()
    request = select()
    request = request.only((type(build(1).instances[0])(None, 0),))
    (ticket,) = world.run(request)
    assert len(ticket.result()) == 1
    assert len(world.db.claims) == 1


def test_prep_resize_casts_to_one_host_and_keeps_the_build_s_claim():
    world = World()
    world.run(build(1))
    world.bus.published.clear()
    world.run(resize(1))
    (cast,) = world.bus.casts
    assert cast.method == "prep_resize"
    assert len(world.db.live(uuid_of(1))) == 2


def test_a_resize_without_a_host_leaves_the_instance_as_it_was_and_says_so():
    world = World()
    world.run(resize(1, vm_state="stopped", memory_mb=10**6))
    event = next(event for event in world.bus.events if event.priority == "ERROR")
    assert event.event_type == "scheduler.prep_resize"
    assert event.payload["state"] == "stopped"


def test_explain_does_nothing_but_answer():
    world = World()
    ticket = world.batch.explain(select(1))
    world.batch.run()
    record = ticket.result()
    assert isinstance(record, DecisionRecord)
    assert record.explanation.rounds[0].chosen == ("h1", "h1.node")
    assert world.db.claims == {}
    assert world.db.records == []
    assert world.bus.published == []


def test_every_decision_is_recorded_with_its_seed_and_says_one_line(caplog):
    world = World()
    with caplog.at_level(logging.INFO, logger="nova_sched"):
        world.run(build(1), build(2, memory_mb=10**6))
    assert len(world.db.records) == 2
    assert all(record.explanation.seed for record in world.db.records)
    lines = [
        line for r in caplog.records if r.levelno == logging.INFO for line in r.getMessage().splitlines()
    ]
    assert len(lines) == 2
    assert uuid_of(1) in lines[0]
    assert "h1" in lines[0]
    assert "RamFilter 3→0" in lines[1]
    assert all("hush" not in line and "tok" not in line for line in lines)


def test_the_same_request_draws_the_same_host_again():
    drawn = set()
    for _ in range(3):
        world = World(hosts=20, driver=chance())
        world.run(build(1))
        drawn.add(world.host_of(1))
    assert len(drawn) == 1


def test_forced_placement_is_said_at_warning_with_who_and_where(caplog):
    world = World()
    world.run(build(1, force_hosts=["h2"]))
    assert world.host_of(1) == "h2"
    (line,) = [r.getMessage() for r in caplog.records if "audit" in r.getMessage()]
    assert "user-1" in line
    assert "h2" in line


def test_members_of_one_group_in_one_batch_keep_apart():
    world = World(hosts=3)
    world.add_group("web")
    world.run(*(build(number, hints={"group": "web"}) for number in (1, 2, 3)))
    assert sorted(world.host_of(number) for number in (1, 2, 3)) == ["h1", "h2", "h3"]
    assert world.counted("claims_lost", "group") == 0


def test_a_hint_at_an_instance_of_the_same_batch_meets_its_placement():
    world = World(hosts=3)
    commits = []
    commit = world.db.commit
    world.db.commit = lambda *a: commits.append(a) or commit(*a)  # type: ignore[method-assign]
    world.run(build(1), build(2, hints={"same_host": [uuid_of(1)]}))
    assert len(commits) == 2, "the second waits for the first"
    assert world.host_of(2)


def test_secrets_never_reach_an_event():
    world = World()
    world.run(build(1), build(2, memory_mb=10**6))
    for event in world.bus.events:
        text = repr(event.payload) + repr(event.context)
        assert "hush" not in text
        assert "c2VjcmV0" not in text
        assert "'tok'" not in text


def test_the_cast_s_body_is_the_received_one_with_the_secrets_compute_needs():
    world = World()
    world.run(build(1))
    arguments = world.casts_of(1)[0].arguments
    assert arguments["admin_password"] == message(1)["admin_password"]
    assert arguments["request_spec"]["instance_uuids"] == [uuid_of(1)]


def test_a_driver_of_a_user_that_breaks_is_named():
    class Own:
        name = "own_driver"
        needs = frozenset()
        refresh_period_seconds = 0.0

        def plugins(self):
            return ()

        def decide(self, *arguments):
            raise KeyError("rack")

    world = World(driver=Own())
    world.run(build(1))
    assert "own_driver failed: KeyError" in world.db.faults[0][1]
    assert world.batch.guard.calls == 1


def test_a_driver_that_refuses_by_raising_ends_the_request_with_that_reason():
    world = World()

    def refuses(*arguments):
        raise RequestRefused("JsonFilter", "the query is no JSON")

    world.driver.decide = refuses
    world.run(build(1))
    assert world.db.faults == [(uuid_of(1), "JsonFilter: the query is no JSON", None)]


def test_a_driver_that_answers_for_too_few_instances_breaks_its_contract():
    world = World()
    decide = world.driver.decide
    world.driver.decide = lambda request, *rest: decide(request.only(request.instances[:1]), *rest)
    world.run(build(1, 2))
    assert [world.db.instances[uuid_of(number)].vm_state for number in (1, 2)] == ["error", "error"]
    assert "1 answers for 2 instances" in world.db.faults[0][1]
    assert world.db.claims == {}


def test_a_call_for_a_deleted_instance_is_refused():
    world = World()
    world.db.delete_instance(uuid_of(2))
    (ticket,) = world.run(select(1, 2))
    with pytest.raises(NoValidHost, match="deleted"):
        ticket.result()
    assert world.host_of(1) is None, "the other's claim was given back"


def test_a_hundred_requests_cost_the_same_number_of_statements_and_publishes_as_one():
    costs = []
    for amount in (1, 100):
        world = World(hosts=60)
        world.run(build(1000))
        calls = Counter()
        for owner, names in (
            (world.db, ("prior", "commit", "sent", "load", "read_delta", "read_rows")),
            (world.bus, ("publish",)),
        ):
            for name in names:
                count_calls(owner, name, calls)
        world.run(*(build(number) for number in range(1, amount + 1)))
        costs.append(dict(calls))
    assert costs[0] == costs[1] == {"prior": 1, "commit": 1, "load": 1, "read_delta": 1, "publish": 2}


def count_calls(owner, name, calls):
    """Count what is called of ``owner``."""
    method = getattr(owner, name)

    def counted(*arguments, **named):
        calls[name] += 1
        return method(*arguments, **named)

    setattr(owner, name, counted)


def test_a_decision_s_line_is_bounded_and_names_a_few_of_many(caplog):
    world = World(hosts=10)
    with caplog.at_level(logging.INFO, logger="nova_sched"):
        world.run(build(*range(1, 41)))
    (line,) = [r.getMessage() for r in caplog.records if "run_instance" in r.getMessage()]
    assert len(line) <= SENTENCE_MAX
    assert "36 more" in line
    assert "40 of 40 placed" in line

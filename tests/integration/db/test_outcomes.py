"""What must hold for every outcome store: keys and repeats, guards, groups, failures. In memory and on each database."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from nova_sched.model.facts import Fact
from nova_sched.model.limits import Limits
from nova_sched.model.numa import InstanceCell, InstanceTopology
from nova_sched.model.pci import PciPool
from nova_sched.model.request import Amounts
from nova_sched.model.states import ClaimKind, ClaimState, EndReason
from nova_sched.service.ports import VerdictKind
from tests.integration.db.worlds import World, failed, placed, record_of, request, uuid_of

COMMITTED, LOST, REPEAT, GONE = VerdictKind.COMMITTED, VerdictKind.LOST, VerdictKind.REPEAT, VerdictKind.GONE
U1, U2, U3 = uuid_of(1), uuid_of(2), uuid_of(3)
GROUP = "bbbb0000-0000-4000-8000-000000000001"


def kinds(verdicts: list[Any]) -> list[VerdictKind]:
    return [verdict.kind for verdict in verdicts]


def test_a_placement_claims_the_room_and_names_the_host(world: World) -> None:
    """Claim, instance and record are there together."""
    host = world.add_host()
    asked = request(1)
    limits = Limits(memory_mb=49152.0, vcpu=256.0, disk_gb=500.0)
    verdicts = world.store.commit([placed(asked, host, limits=limits)], [record_of(asked, {U1: "h1/h1.lab"})])
    assert kinds(verdicts) == [COMMITTED]
    assert world.claimed(host) == (2, 2048, 20480, 1, 1)
    assert world.instance(U1) == {
        "uuid": U1, "attempt": 1, "vm_state": "building", "task_state": "scheduling", "host": "h1", "node": "h1.lab",
        "fault": None,
    }  # fmt: skip
    prior = world.store.prior([U1, U2])
    assert set(prior) == {U1}
    claim = prior[U1].claim
    assert (prior[U1].attempt, prior[U1].final, prior[U1].deleted) == (1, False, False)
    assert (claim.state, claim.host_id, claim.host, claim.node) == (ClaimState.CLAIMED, host, "h1", "h1.lab")
    assert (claim.limits, claim.ttl_seconds, claim.ended_reason) == (limits, 300, None)
    assert 0 <= claim.age_seconds < 60
    assert world.records() == 1


def test_a_placement_without_a_node_is_remembered_without_one(world: World) -> None:
    """The chance driver names no node; the cast of a repeat must be the same."""
    host = world.add_host()
    given = placed(request(1), host)
    world.store.commit([replace(given, placement=replace(given.placement, node=None))])
    claim = world.store.prior([U1])[U1].claim
    assert (claim.host, claim.node) == ("h1", None)


def test_the_same_key_again_is_a_repeat_and_changes_nothing(world: World) -> None:
    """Also within one call, and with another host."""
    one, two = world.add_host(), world.add_host()
    asked = request(1)
    assert kinds(world.store.commit([placed(asked, one), placed(asked, two)])) == [COMMITTED, REPEAT]
    assert kinds(world.store.commit([placed(asked, two)])) == [REPEAT]
    assert kinds(world.store.commit([failed(asked)])) == [REPEAT]
    assert world.claimed(one)[0] == 2
    assert world.claimed(two)[0] == 0
    assert world.waiting_events() == []


def test_a_higher_attempt_ends_the_older_claim_in_the_same_breath(world: World) -> None:
    """A reschedule: the failed host gets its room back and remembers the failed build."""
    one, two = world.add_host(), world.add_host()
    world.store.commit([placed(request(1), one)])
    assert kinds(world.store.commit([placed(request(1, attempt=2), two)])) == [COMMITTED]
    assert world.claimed(one) == (0, 0, 0, 0, 0)
    assert world.claimed(two)[1] == 2048
    assert world.host(one)["failed_builds"] == 1
    assert world.instance(U1)["host"] == "h2"
    assert kinds(world.store.commit([placed(request(1, attempt=1), one)])) == [REPEAT]
    assert world.store.prior([U1])[U1].attempt == 2


def test_a_guard_refuses_what_would_pass_the_limit(world: World) -> None:
    """Used + claimed + asked may reach the limit, not pass it; the others of the call stand (DELIVERY 12, 16)."""
    host = world.add_host(free_ram_mb=32768 - 4096)
    limits = Limits(memory_mb=8192)
    outcomes = [placed(request(number), host, limits=limits) for number in (1, 2, 3)]
    verdicts = world.store.commit(outcomes)
    assert kinds(verdicts) == [COMMITTED, COMMITTED, LOST]
    assert verdicts[2].host_id == host
    assert world.claimed(host)[1] == 4096
    assert world.store.prior([U3]) == {}


@pytest.mark.parametrize(
    "limits",
    [
        Limits(vcpu=1.9),
        Limits(disk_mb=20479),
        Limits(disk_gb=19.9),
        Limits(num_instances=0),
        Limits(io_ops=0),
        Limits(memory_mb=2047),
    ],
)
def test_every_resource_has_its_guard(world: World, limits: Limits) -> None:
    """RAM, vCPUs, disk, instances and I/O operations."""
    host = world.add_host()
    assert kinds(world.store.commit([placed(request(1), host, limits=limits)])) == [LOST]


def test_io_ops_may_reach_their_maximum_and_not_pass_it(world: World) -> None:
    """The filter compares before the guest is counted: with a maximum of 2 two guests are taken."""
    host = world.add_host()
    outcomes = [placed(request(number), host, limits=Limits(io_ops=2)) for number in (1, 2, 3)]
    assert kinds(world.store.commit(outcomes)) == [COMMITTED, COMMITTED, LOST]


def test_free_disk_is_the_smaller_of_what_is_known(world: World) -> None:
    """LP#1253599: 30 GB by one counter, 25 by the other; a limit of 500 GB leaves 25."""
    host = world.add_host(free_disk_gb=30, disk_available_least=25)
    full = Limits(disk_gb=500.0)
    assert kinds(world.store.commit([placed(request(1), host, limits=full)])) == [COMMITTED]
    assert kinds(world.store.commit([placed(request(2), host, limits=full)])) == [LOST]


def test_unknown_amounts_are_counted_and_not_guarded(world: World) -> None:
    """A half-filled row (LP#1610679) breaks nothing."""
    host = world.add_host(free_ram_mb=None, vcpus_used=None, stats="{broken")
    limits = Limits(memory_mb=1, vcpu=1, num_instances=0, io_ops=0)
    assert kinds(world.store.commit([placed(request(1), host, limits=limits)])) == [COMMITTED]
    assert world.claimed(host)[:2] == (2, 2048)


def test_a_placement_without_limits_is_unguarded_and_still_counted(world: World) -> None:
    """Forced hosts and the chance driver; a limited guest after it sees its room taken."""
    host = world.add_host()
    big = Amounts(64, 10**6, 10**6)
    assert kinds(world.store.commit([placed(request(1, amounts=big), host)])) == [COMMITTED]
    assert kinds(world.store.commit([placed(request(2), host, limits=Limits(memory_mb=49152))])) == [LOST]


def test_a_host_that_is_gone_loses(world: World) -> None:
    """Its id stays in the verdict, so that the row is read again."""
    verdict = world.store.commit([placed(request(1), 4711)])[0]
    assert (verdict.kind, verdict.host_id) == (LOST, 4711)


def test_devices_need_the_host_as_it_was_seen(world: World) -> None:
    """PCI: the generation seen guards all of one call once, and nothing after it; what is taken is written on the row."""
    stats = [{"count": 3, "vendor_id": "8086", "product_id": "10fb"}]
    host = world.add_host(pci_stats=stats)
    seen = int(world.host(host)["allocation_generation"])
    tags = {"vendor_id": "8086", "product_id": "10fb"}

    def asks(number: int, left: int, generation: int) -> Any:
        pools = (PciPool(left, tags),) if left else ()
        return placed(request(number), host, pci_pools=pools, host_generation=generation)

    assert kinds(world.store.commit([asks(1, 2, seen), asks(2, 1, seen)])) == [COMMITTED, COMMITTED]
    assert kinds(world.store.commit([asks(3, 0, seen)])) == [LOST]
    devices = json.loads(world.host(host)["claimed_devices"])
    assert sum(pool["count"] for pool in devices["pci"]) == 2
    assert all(pool["tags"] == tags for pool in devices["pci"])
    now = int(world.host(host)["allocation_generation"])
    assert kinds(world.store.commit([asks(3, 0, now)])) == [COMMITTED]
    world.store.end_claim(U1, 1, host, EndReason.OPERATOR)
    devices = json.loads(world.host(host)["claimed_devices"])
    assert sum(pool["count"] for pool in devices["pci"]) == 2


def test_numa_cells_are_kept_while_the_claim_counts(world: World) -> None:
    """They leave the row when a report contains the guest."""
    host = world.add_host()
    fit = InstanceTopology((InstanceCell(1, frozenset({0, 1}), 1024),))
    seen = int(world.host(host)["allocation_generation"])
    world.store.commit([placed(request(1), host, numa_fit=fit, host_generation=seen)])
    assert json.loads(world.host(host)["claimed_devices"])["numa"] == [
        {"id": 1, "cpus": [0, 1], "memory_mb": 1024}
    ]
    assert world.store.prior([U1])[U1].claim.numa_fit == fit
    world.contain(host, [U1])
    assert world.host(host)["claimed_devices"] is None


def test_exact_filters_need_the_host_whole(world: World) -> None:
    """LP#1341420: two requests for one bare-metal node, the second loses."""
    host = world.add_host()
    seen = int(world.host(host)["allocation_generation"])
    exact = Limits(exact_memory=True)
    assert kinds(world.store.commit([placed(request(1), host, limits=exact, host_generation=seen)])) == [
        COMMITTED
    ]
    assert kinds(world.store.commit([placed(request(2), host, limits=exact, host_generation=seen)])) == [LOST]


def test_a_group_is_guarded_by_the_generation_seen(world: World) -> None:
    """LP#1735407: of two decisions that saw the same members one wins; the loser is told that it was the group."""
    one, two = world.add_host(), world.add_host()
    world.add_group(GROUP, "ring", "anti-affinity")
    asked = request(1, group="ring")
    group = world.facts.load([asked], frozenset({Fact.GROUP}))[0].group
    assert (group.uuid, group.policies, group.member_hosts) == (GROUP, frozenset({"anti-affinity"}), {})
    seen = {"group_uuid": GROUP, "group_generation": group.generation}
    assert kinds(world.store.commit([placed(asked, one, **seen)])) == [COMMITTED]
    verdict = world.store.commit([placed(request(2), one, **seen)])[0]
    assert (verdict.kind, verdict.host_id) == (LOST, None)
    group = world.facts.load([request(1)], frozenset({Fact.GROUP}))[0].group
    assert group.member_hosts == {U1: "h1"}
    seen = {"group_uuid": GROUP, "group_generation": group.generation}
    both = request(2, 3)
    assert (
        kinds(world.store.commit([placed(both, two, 0, **seen), placed(both, two, 1, **seen)]))
        == [COMMITTED] * 2
    )


def test_a_failure_leaves_state_fault_and_event(world: World) -> None:
    """One transaction: ERROR, the reason, and the event that waits until it is confirmed (DELIVERY 25)."""
    asked = request(1)
    verdict = world.store.commit([failed(asked)])[0]
    assert verdict.kind is COMMITTED
    found = world.instance(U1)
    assert (found["vm_state"], found["task_state"], found["host"]) == ("error", None, None)
    assert found["fault"] == "No valid host was found."
    assert [event.message_id for event in world.waiting_events()] == [f"event-{U1}-1"]
    assert world.store.prior([U1])[U1].final
    world.store.sent([verdict.outbox_id])
    assert world.waiting_events() == []
    assert kinds(world.store.commit([failed(asked)])) == [REPEAT]
    assert kinds(world.store.commit([placed(asked, world.add_host())])) == [REPEAT]


def test_a_failure_of_a_later_attempt_ends_the_claim_before(world: World) -> None:
    """LP#1837955: no exit leaves room behind."""
    host = world.add_host()
    world.store.commit([placed(request(1), host)])
    assert kinds(world.store.commit([failed(request(1, attempt=2))])) == [COMMITTED]
    assert world.claimed(host) == (0, 0, 0, 0, 0)


def test_an_undeliverable_cast_moves_the_claim_to_the_next_host(world: World) -> None:
    """Compare and set on the claim's host (DELIVERY 8): the second worker that tries is told to look again."""
    one, two, three = world.add_host(), world.add_host(), world.add_host()
    asked = request(1)
    world.store.commit([placed(asked, one)])
    assert kinds(world.store.commit([placed(asked, two, replaces_host_id=one)])) == [COMMITTED]
    assert kinds(world.store.commit([placed(asked, three, replaces_host_id=one)])) == [REPEAT]
    assert (world.claimed(one)[0], world.claimed(two)[0], world.claimed(three)[0]) == (0, 2, 0)
    assert world.instance(U1)["host"] == "h2"


def test_an_undeliverable_cast_without_another_host_ends_in_error(world: World) -> None:
    """The claim ends with the failure; a second such word is a repeat."""
    host = world.add_host()
    asked = request(1)
    world.store.commit([placed(asked, host)])
    assert kinds(world.store.commit([failed(asked, ends_host_id=host)])) == [COMMITTED]
    assert world.claimed(host)[0] == 0
    assert world.store.prior([U1])[U1].claim.ended_reason is EndReason.UNDELIVERABLE
    assert kinds(world.store.commit([failed(asked, ends_host_id=host)])) == [REPEAT]


def test_a_deleted_instance_is_gone_before_and_after(world: World) -> None:
    """DELIVERY 22 and 23: the tombstone wins, the room comes back, the rest of the batch is served (LP#1191126)."""
    host = world.add_host()
    world.delete(U1)
    both = request(1, 2)
    assert kinds(world.store.commit([placed(both, host, 0), placed(both, host, 1)])) == [GONE, COMMITTED]
    world.delete(U2)
    assert world.claimed(host) == (0, 0, 0, 0, 0)
    assert kinds(world.store.commit([failed(both, 1)])) == [GONE]
    prior = world.store.prior([U1, U2])
    assert all(found.deleted and found.final for found in prior.values())
    assert prior[U2].claim.ended_reason is EndReason.DELETED


def test_end_claim_is_exact(world: World) -> None:
    """Wrong host or attempt: nothing; twice: once."""
    host = world.add_host()
    world.store.commit([placed(request(1), host)])
    assert not world.store.end_claim(U1, 1, host + 1, EndReason.RELEASED)
    assert not world.store.end_claim(U1, 2, host, EndReason.RELEASED)
    assert world.store.end_claim(U1, 1, host, EndReason.RELEASED)
    assert not world.store.end_claim(U1, 1, host, EndReason.RELEASED)
    assert world.claimed(host)[0] == 0
    assert world.store.prior([U1])[U1].claim.ended_reason is EndReason.RELEASED


def test_an_ended_claim_without_a_final_state_gives_way(world: World) -> None:
    """The same key may then be decided again."""
    one, two = world.add_host(), world.add_host()
    world.store.commit([placed(request(1), one)])
    world.store.end_claim(U1, 1, one, EndReason.UNDELIVERABLE)
    assert kinds(world.store.commit([placed(request(1), two)])) == [COMMITTED]
    assert (world.claimed(one)[0], world.claimed(two)[0]) == (0, 2)


def test_a_move_stands_beside_the_build_and_leaves_the_instance_alone(world: World) -> None:
    """A move has a key of its own; its group members are known to be at both places."""
    one, two = world.add_host(), world.add_host()
    world.add_group(GROUP, "ring", "anti-affinity", [U1])
    world.store.commit([placed(request(1), one)])
    moving = request(1, method="prep_resize")
    seen = {"group_uuid": GROUP, "group_generation": 0}
    move = placed(moving, two, kind=ClaimKind.MOVE, claim_uuid="move-1", **seen)
    assert kinds(world.store.commit([move])) == [COMMITTED]
    assert kinds(world.store.commit([move])) == [REPEAT]
    assert world.instance(U1)["host"] == "h1"
    assert (world.claimed(one)[0], world.claimed(two)[0]) == (2, 2)
    found = world.store.prior(["move-1"])["move-1"]
    assert (found.vm_state, found.final, found.deleted, found.claim.host) == (None, False, False, "h2")
    group = world.facts.load([request(1)], frozenset({Fact.GROUP}))[0].group
    assert group.hosts == {"h1", "h2"}


def test_a_destination_without_an_instance_holds_room(world: World) -> None:
    """select_destinations without uuids: keyed by a uuid of its own."""
    host = world.add_host()
    asked = request(1, method="select_destinations")
    nobody = asked.only((type(asked.instances[0])(None, 0),))
    claim = placed(nobody, host, kind=ClaimKind.MOVE, claim_uuid="select-1", limits=Limits(memory_mb=2048))
    assert kinds(world.store.commit([claim], [record_of(nobody)])) == [COMMITTED]
    assert world.claimed(host)[0] == 2
    other = placed(nobody, host, kind=ClaimKind.MOVE, claim_uuid="select-2", limits=Limits(memory_mb=2048))
    assert kinds(world.store.commit([other], [record_of(nobody)])) == [LOST]
    assert world.records() == 1


def test_a_refused_resize_keeps_the_instance_where_it_is(world: World) -> None:
    """prep_resize without a host: state as given, task ended, fault and event, host unchanged."""
    host = world.add_host()
    world.store.commit([placed(request(1), host)])
    resize = request(1, method="prep_resize")
    assert kinds(world.store.commit([failed(resize, vm_state="active")])) == [COMMITTED]
    found = world.instance(U1)
    assert (found["vm_state"], found["task_state"], found["host"], found["attempt"]) == (
        "active",
        None,
        "h1",
        1,
    )
    assert len(world.waiting_events()) == 1


def test_a_report_contains_a_claim_only_if_it_lists_the_guest(world: World) -> None:
    """DELIVERY 17: room is counted once, before and after; what a later report omits ends."""
    host = world.add_host()
    world.store.commit([placed(request(number), host) for number in (1, 2)])
    world.contain(host, [U1], vcpus_used=2)
    assert world.claimed(host) == (2, 2048, 20480, 1, 1)
    assert world.store.prior([U1])[U1].claim.state is ClaimState.HELD
    world.contain(host, [U2], vcpus_used=2)
    assert world.claimed(host) == (0, 0, 0, 0, 0)
    assert world.store.prior([U1])[U1].claim.state is ClaimState.ENDED
    assert world.store.prior([U2])[U2].claim.state is ClaimState.HELD


def test_a_record_whose_placements_were_all_lost_is_not_kept(world: World) -> None:
    """One that speaks of nothing else is."""
    host = world.add_host()
    asked, other = request(1), request(2)
    lost = placed(asked, host, limits=Limits(memory_mb=1))
    assert kinds(world.store.commit([lost], [record_of(asked, {U1: "h1/h1.lab"}), record_of(other)])) == [
        LOST
    ]
    assert world.records() == 1


def test_hints_find_instances_that_live(world: World) -> None:
    """LP#1107156, LP#1017988: deleted ones do not count, one uuid needs no list, unknown ones are left out."""
    host = world.add_host()
    world.store.commit([placed(request(number), host) for number in (1, 2)])
    world.delete(U2)
    asked = [
        request(3, hints={"same_host": U1}),
        request(3, hints={"different_host": (U1, U2, "nobody")}),
        request(3, hints={}),
    ]
    facts = world.facts.load(asked, frozenset({Fact.HINTED_INSTANCES, Fact.INSTANCES_BY_HOST}))
    assert [set(found.hinted_instances) for found in facts] == [{U1}, {U1}, set()]
    fact = facts[0].hinted_instances[U1]
    assert (fact.host, fact.node, fact.project_id, fact.instance_type_id) == ("h1", "h1.lab", "project-1", 7)
    assert {host: [i.uuid for i in found] for host, found in facts[0].instances_by_host.items()} == {
        "h1": [U1]
    }


def test_groups_are_found_by_uuid_name_or_membership(world: World) -> None:
    """LP#1379451, LP#1303360: a member needs no hint; an unknown hint finds nothing."""
    world.add_group(GROUP, "ring", "affinity", [U1])
    asked = [
        request(2, group=GROUP),
        request(2, group="ring"),
        request(1),
        request(2),
        request(2, group="none"),
    ]
    found = [facts.group for facts in world.facts.load(asked, frozenset({Fact.GROUP}))]
    assert [group and group.uuid for group in found] == [GROUP, GROUP, GROUP, None, None]


def test_delta_reads_bring_what_changed_and_nothing_else(world: World) -> None:
    """Claims, reports and aggregates each make their rows travel once."""
    one, two = world.add_host(), world.add_host()
    first = world.source.read_delta(None)
    assert first.full
    assert list(first.columns["id"]) == [one, two]
    assert list(first.columns["host"]) == ["h1", "h2"]
    assert first.aggregates == []
    quiet = world.source.read_delta(first.cursor)
    assert (list(quiet.columns["id"]), quiet.full, quiet.aggregates) == ([], False, None)
    world.store.commit([placed(request(1), two)])
    delta = world.source.read_delta(quiet.cursor)
    assert list(delta.columns["id"]) == [two]
    assert list(delta.columns["claimed_vcpus"]) == [2]
    world.add_aggregate("fast", ["h1"])
    delta = world.source.read_delta(delta.cursor)
    assert [(a.name, a.hosts) for a in delta.aggregates] == [("fast", frozenset({"h1"}))]
    assert world.source.read_rows([one, 4711]).removed == [4711]

"""What is kept for people: decisions, lists, deliveries, aggregates and groups, and how all of it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from nova_sched.db.admin import AggregateAdmin, GroupAdmin, ServiceAdmin
from nova_sched.db.decisions import RECORD_BYTES_MAX, DecisionHistory
from nova_sched.db.deliveries import Deliveries
from nova_sched.db.retention import Ages, Retention
from nova_sched.errors import AggregateNotFound, HostNotFound, ServerGroupNotFound
from nova_sched.model.explanation import Explanation, FilterStep, Round, WeighedHost
from nova_sched.model.facts import Fact
from nova_sched.service.ports import DecisionRecord, VerdictKind
from nova_sched.settings import DeliverySettings, RetentionSettings
from tests.integration.db.worlds import SqlWorld, failed, placed, record_of, request, uuid_of

U1, U2 = uuid_of(1), uuid_of(2)


def test_a_decision_is_found_by_its_instance_and_its_request(sql: SqlWorld) -> None:
    """Newest first, with the request, the counts of each filter and the weights."""
    host = sql.add_host()
    for number in (1, 2):
        asked = request(number)
        step = FilterStep("RamFilter", 3, 1, "2 hosts short of RAM")
        weighed = (WeighedHost("h1", "h1.lab", 1.5, (("RAMWeigher", 2048.0, 1.0, 1.5),)),)
        rounds = (Round(0, asked.instances[0], 3, (step,), weighed=weighed, chosen=("h1", "h1.lab")),)
        record = DecisionRecord(
            asked, Explanation("filter_scheduler", 3, rounds, stage_seconds={"decide": 0.25})
        )
        sql.store.commit([placed(asked, host)], [record])
    history = DecisionHistory(sql.database)
    found = history.list(instance_uuid=U1)[0]
    assert (found.method, found.placed, found.failed, found.project_id) == ("run_instance", 1, 0, "project-1")
    told = found.record["explanation"]["rounds"][0]
    assert told["steps"] == [["RamFilter", 3, 1, "2 hosts short of RAM"]]
    assert told["weighed"] == [["h1", "h1.lab", 1.5, [["RAMWeigher", 2048.0, 1.0, 1.5]]]]
    both = history.list(request_id="req-1")
    assert [d.id for d in both] == sorted((d.id for d in both), reverse=True)
    assert history.list(marker=both[0].id) == both[1:]
    assert history.get(found.id) == found
    assert history.get(1) is None
    event = sql.directory.show_instance(U1)["events"][0]
    assert (event["event"], event["result"], event["host"]) == ("schedule", "Success", "h1")
    assert event["finished_at"] - event["started_at"] == pytest.approx(0.25, abs=0.01)


def test_records_and_faults_are_bounded(sql: SqlWorld) -> None:
    """A batch of a thousand and a traceback without end fit their columns."""
    asked = request(*range(300))
    steps = tuple(FilterStep(f"Filter{n}", 9, 9, "x" * 500) for n in range(40))
    rounds = tuple(
        Round(n, instance, 9, steps, chosen=("h1", "h1")) for n, instance in enumerate(asked.instances)
    )
    record = DecisionRecord(asked, Explanation("filter_scheduler", 9, rounds))
    outcome = failed(asked, 0, "\x00" + "r" * 9000, traceback="t" * 200_000)
    assert sql.store.commit([outcome], [record])[0].kind is VerdictKind.COMMITTED
    assert sql.scalar("SELECT max(length(record)) FROM sched_decisions") <= RECORD_BYTES_MAX
    shown = sql.directory.show_instance(uuid_of(0))
    assert shown["faults"][0]["message"].startswith("rrr")
    assert len(shown["faults"][0]["message"]) <= 4096
    assert len(shown["events"][0]["traceback"]) <= 65536


def test_an_outcome_that_no_column_takes_does_not_hurt_the_others(sql: SqlWorld) -> None:
    """DELIVERY 16: the batch falls back to single transactions; the broken one is named, nothing of it is written."""
    host = sql.add_host()
    broken = request(2, attempt=1)
    object.__setattr__(broken.amounts, "memory_mb", 2**70)
    verdicts = sql.store.commit(
        [placed(request(1), host), placed(broken, host)],
        [record_of(request(1), {U1: "h1"}), record_of(broken, {U2: "h1"})],
    )
    assert [verdict.kind for verdict in verdicts] == [VerdictKind.COMMITTED, VerdictKind.BROKEN]
    assert sql.claimed(host)[1] == 2048
    assert sql.records() == 1


def test_instances_are_listed_in_pages(sql: SqlWorld) -> None:
    """By uuid after a marker, filtered, tombstones only when asked for."""
    host = sql.add_host()
    sql.store.commit([placed(request(number), host) for number in range(5)])
    sql.directory.delete_instance(uuid_of(4))
    sql.directory.delete_instance("unknown")
    page = sql.directory.list_instances(limit=2)
    assert [row["uuid"] for row in page] == [uuid_of(0), uuid_of(1)]
    rest = sql.directory.list_instances(marker=uuid_of(1))
    assert [row["uuid"] for row in rest] == [uuid_of(2), uuid_of(3)]
    assert sql.directory.list_instances(host="h2") == []
    assert len(sql.directory.list_instances(vm_state="deleted", deleted=True)) == 2
    assert [row["node"] for row in sql.directory.get_hosts(None, 10)] == ["h1.lab"]
    assert sql.directory.get_hosts("h1", 10) == []
    assert sql.directory.show_host("h1")[0]["used_memory_mb"] == 0


def test_redeliveries_are_counted_until_the_message_is_done(sql: SqlWorld) -> None:
    """Each count is committed before it is returned."""
    deliveries = Deliveries(sql.database)
    assert [deliveries.count("m1"), deliveries.count("m1"), deliveries.count("m2")] == [1, 2, 1]
    deliveries.forget(["m1"])
    assert deliveries.count("m1") == 1


def test_aggregates_come_and_go_with_all_they_have(sql: SqlWorld) -> None:
    """LP#1605804: nothing of a deleted aggregate is left; unknown hosts are named (LP#1709260)."""
    sql.add_host()
    admin = AggregateAdmin(sql.database)
    made = admin.create("fast", {"ssd": "true"}, ["h1", "H1"])
    assert admin.create("fast", {"gpu": "no"}) == made
    admin.set_metadata("fast", {"gpu": None, "ram_allocation_ratio": "2.0"})
    admin.add_host("fast", "h1")
    assert admin.list() == [
        {
            "id": made,
            "name": "fast",
            "hosts": ["H1", "h1"],
            "metadata": {"ram_allocation_ratio": "2.0", "ssd": "true"},
            "unknown_hosts": ["H1"],
        }
    ]
    admin.remove_host("fast", "H1")
    with pytest.raises(HostNotFound):
        admin.remove_host("fast", "H1")
    cursor = sql.source.read_delta(None).cursor
    admin.delete("fast")
    assert sql.source.read_delta(cursor).aggregates == []
    assert sql.scalar("SELECT count(*) FROM sched_aggregate_hosts") == 0
    with pytest.raises(AggregateNotFound):
        admin.delete("fast")


def test_groups_are_changed_under_their_generation(sql: SqlWorld) -> None:
    """A placement decided before a member was added is decided again."""
    host = sql.add_host()
    admin = GroupAdmin(sql.database)
    uuid = admin.create("ring", ["anti-affinity"])
    group = sql.facts.load([request(1, group="ring")], frozenset({Fact.GROUP}))[0].group
    admin.add_members("ring", [U2])
    admin.add_members(uuid, [U2])
    assert admin.list()[0]["members"] == [U2]
    stale = placed(request(1), host, group_uuid=uuid, group_generation=group.generation)
    assert sql.store.commit([stale])[0].kind is VerdictKind.LOST
    admin.remove_members("ring", [U2])
    admin.delete("ring")
    with pytest.raises(ServerGroupNotFound):
        admin.add_members("ring", [U2])


def test_an_unknown_service_cannot_be_disabled(sql: SqlWorld) -> None:
    """A typing mistake is told."""
    with pytest.raises(HostNotFound):
        ServiceAdmin(sql.database).set_disabled("h9", True)


def test_retention_takes_what_is_old_and_leaves_what_lives(sql: SqlWorld) -> None:
    """By age and by number; live claims, instances and waiting events stay."""
    host = sql.add_host()
    for number in range(6):
        asked = request(number)
        sql.store.commit([placed(asked, host)], [record_of(asked)])
    sql.store.commit([failed(request(9))])
    sql.directory.delete_instance(U1)
    retention = Retention(sql.database, batch=2)
    ages = Ages.of(RetentionSettings(decisions_max_rows=4), DeliverySettings())
    assert dict(+retention.purge(ages)) == {"decisions": 2}
    for table, column in (
        ("claims", "state_at"),
        ("instances", "deleted_at"),
        ("instance_events", "finished_at"),
    ):
        sql.execute(f"UPDATE sched_{table} SET {column} = {column} - 90 * 86400")
    counts = retention.purge(ages)
    assert (counts["claims"], counts["instances"], counts["instance_events"]) == (1, 1, 7)
    assert sql.scalar("SELECT count(*) FROM sched_claims") == 5
    assert sql.scalar("SELECT count(*) FROM sched_instances") == 6
    assert len(sql.waiting_events()) == 1
    assert sql.claimed(host)[0] == 10


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Every statement sent from now on."""
    sent: list[str] = []

    def note(*given: Any) -> None:
        if given[2] != "BEGIN IMMEDIATE":
            sent.append(given[2])

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    yield sent
    sa.event.remove(sa.Engine, "before_cursor_execute", note)


def test_a_batch_costs_a_constant_number_of_statements(sql: SqlWorld, statements: list[str]) -> None:
    """Five and fifty placements, facts and reports alike: no statement per instance (LP#1737465, LP#1017795)."""
    sql.add_host()

    def cost(action: Callable[[], object]) -> int:
        statements.clear()
        action()
        return len(statements)

    def commit(first: int, count: int) -> None:
        asked = [request(first + n) for n in range(count)]
        verdicts = sql.store.commit([placed(one, 1) for one in asked], [record_of(one) for one in asked])
        assert {verdict.kind for verdict in verdicts} == {VerdictKind.COMMITTED}

    def load(count: int) -> None:
        asked = [request(n, hints={"same_host": U1}) for n in range(count)]
        sql.facts.load(asked, frozenset({Fact.GROUP, Fact.HINTED_INSTANCES, Fact.INSTANCES_BY_HOST}))

    assert cost(lambda: commit(0, 5)) == cost(lambda: commit(100, 50)) == 8
    assert cost(lambda: load(5)) == cost(lambda: load(50)) <= 5
    assert cost(lambda: sql.store.prior([uuid_of(n) for n in range(50)])) == 1
    assert cost(lambda: sql.report(1, [uuid_of(n) for n in range(5)])) == cost(
        lambda: sql.report(1, [uuid_of(n) for n in range(100, 150)])
    )
    assert cost(lambda: sql.report(1)) == 3

"""What the page, the doctor and the shadow's report read, on every kind of database."""

from __future__ import annotations

import dataclasses
import time

import pytest

from nova_sched.db.admin import AggregateAdmin, ServiceAdmin
from nova_sched.db.checkup import check_store
from nova_sched.db.decisions import DecisionHistory
from nova_sched.db.engine import Database
from nova_sched.db.snapshot import SqlReads
from nova_sched.health.snapshot import take
from nova_sched.model.symptom import State, Symptom
from nova_sched.settings import DatabaseSettings, FilterSettings, Settings
from tests.integration.db.worlds import SqlWorld, failed, placed, record_of, request, uuid_of

FILTERS = FilterSettings(ram_allocation_ratio=2.0, cpu_allocation_ratio=1.0)


def test_a_snapshot_has_hosts_with_what_is_free_and_the_latest_instances(sql: SqlWorld) -> None:
    """Free is the limit less what the report and live claims use; names of states as the filters see them."""
    for _ in range(3):
        sql.add_host()
    first, second = request(1), request(2)
    sql.store.commit([placed(first, 1)], [record_of(first)])
    time.sleep(0.02)
    sql.store.commit([failed(second, reason="3 hosts: 3 RamFilter (most 12 MB)")], [record_of(second)])
    sql.execute("UPDATE sched_services SET heartbeat_at = heartbeat_at - 1000 WHERE host = 'h2'")
    ServiceAdmin(sql.database).set_disabled("h3", True)
    state = take(SqlReads(sql.database, lambda: FILTERS))
    assert [host["state"] for host in state["hosts"]] == ["up", "down", "disabled"]
    one, other = state["hosts"][:2]
    amounts = first.amounts
    assert one["ram_total_mb"] == other["ram_total_mb"]
    assert other["ram_free_mb"] - one["ram_free_mb"] == amounts.memory_mb
    assert other["vcpus_free"] - one["vcpus_free"] == amounts.vcpus
    assert (one["instances"], other["instances"]) == (1, 0)
    assert [row["uuid"] for row in state["requests"]] == [uuid_of(2), uuid_of(1)]
    assert [row["vm_state"] for row in state["requests"]] == ["error", "building"]
    assert all(0 <= row["age_seconds"] < 60 for row in state["requests"])
    assert state["refusals"] == [{"reason": "n hosts: n RamFilter (most n MB)", "count": 1}]
    totals = state["totals"]
    assert (totals["hosts up"], totals["live claims"], totals["events waiting"]) == (1, 1, 1)


def test_totals_are_counted_now_and_then_only(sql: SqlWorld) -> None:
    """A viewer every second must not walk whole indexes every second."""
    reads = SqlReads(sql.database, lambda: FILTERS)
    before = reads.totals()
    sql.store.commit([placed(request(1), sql.add_host())])
    assert reads.totals() == before


def by_check(found: list[Symptom]) -> dict[str, Symptom]:
    return {one.check: one for one in found}


def test_nothing_is_wrong_with_a_healthy_database(sql: SqlWorld) -> None:
    """One line for each look."""
    sql.add_host()
    found = by_check(check_store(sql.database, Settings()))
    assert {one.state for one in found.values()} == {State.FINE}
    assert {"schema", "clocks", "agents", "report interval", "outbox", "claims", "history"} <= set(found)


@pytest.mark.parametrize(
    ("change", "check", "state", "word"),
    [
        ("UPDATE sched_services SET heartbeat_at = heartbeat_at - 1000", "agents", State.WRONG, "h1"),
        ("DELETE FROM sched_services", "agents", State.WRONG, "no agent has ever reported"),
        ("UPDATE sched_services SET disabled = 1", "agents", State.WRONG, "1 disabled"),
        ("UPDATE sched_services SET interval_seconds = 100", "report interval", State.WRONG, "every 100 s"),
        ("UPDATE sched_services SET interval_seconds = 40", "report interval", State.ODD, "every 40 s"),
        ("UPDATE sched_hosts SET used_memory_mb = NULL", "amounts", State.ODD, "h1"),
        ("UPDATE sched_outbox SET created_at = created_at - 500", "outbox", State.WRONG, "1 ERROR events"),
        ("UPDATE sched_claims SET expires_at = expires_at - 900", "claims", State.WRONG, "1 of 1"),
    ],
)
def test_what_is_wrong_is_named_with_a_remedy(
    sql: SqlWorld, change: str, check: str, state: State, word: str
) -> None:
    """Each kind of trouble has its line."""
    host = sql.add_host()
    sql.store.commit([placed(request(1), host), failed(request(2))])
    sql.execute(change)
    one = by_check(check_store(sql.database, Settings()))[check]
    assert one.state is state
    assert word in one.found
    assert one.remedy


def test_clocks_that_differ_are_wrong(sql: SqlWorld) -> None:
    """This machine's clock beside the database's."""
    for ahead, word in ((30.0, "behind"), (-30.0, "ahead of")):
        found = by_check(check_store(sql.database, Settings(), lambda ahead=ahead: time.time() + ahead))
        assert found["clocks"].state is State.WRONG
        assert f"30.0 s {word} this machine's" in found["clocks"].found


def test_hosts_of_aggregates_that_nobody_has_are_odd(sql: SqlWorld) -> None:
    """LP#1709260: upper and lower case count, so a wrong name shows here."""
    sql.add_host()
    AggregateAdmin(sql.database).create("ssd", hosts=["H1", "h1"])
    one = by_check(check_store(sql.database, Settings()))["aggregate ssd"]
    assert one.state is State.ODD
    assert one.found.endswith(": H1")


def test_a_database_that_is_away_or_empty_is_one_line(tmp_path) -> None:
    """What comes after it could not be told."""
    for url, check in (
        ("postgresql+psycopg://nobody@127.0.0.1:1/none", "database"),
        (f"sqlite:///{tmp_path}/empty.sqlite", "schema"),
    ):
        database = Database(DatabaseSettings(connection=url, max_retries=0))
        (one,) = check_store(database, Settings())
        assert (one.check, one.state) == (check, State.WRONG)
        database.close()


def test_records_with_a_different_answer_of_the_shadow_are_found(sql: SqlWorld) -> None:
    """Only those that carry one, newest first; a hint that looks like one does not count."""
    host = sql.add_host()
    hinted = request(1, hints={"shadow": '{"source": 1}'})
    sql.store.commit([placed(hinted, host)], [record_of(hinted)])
    for number in (2, 3):
        asked = request(number)
        shadow = {"source": "shadow.conf", "driver": "filter_scheduler", "kind": "only live", "instances": 1,
                  "outcomes": {}, "reason": "no"}  # fmt: skip
        sql.store.commit([placed(asked, host)], [dataclasses.replace(record_of(asked), shadow=shadow)])
    history = DecisionHistory(sql.database)
    found, total = history.differing(3600)
    assert [one.record["shadow"]["kind"] for one in found] == ["only live", "only live"]
    assert found[0].id > found[1].id
    assert total == 3
    assert history.differing(-3600) == ([], 0)

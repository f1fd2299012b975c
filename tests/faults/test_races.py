"""Four scheduler processes race for the last room and for members of one group, on each kind of database."""

from __future__ import annotations

import pytest

from nova_sched.db import schema
from nova_sched.db.admin import GroupAdmin
from nova_sched.db.engine import Database
from nova_sched.settings import DatabaseSettings
from tests.faults.harness import audit, racing
from tests.faults.harness.audit import Books
from tests.faults.harness.checker import Checker
from tests.faults.harness.cloud import report_hosts
from tests.faults.harness.history import History
from tests.faults.harness.sizes import SIZES


@pytest.fixture
def raced(sql_url: str) -> str:
    """A database with tables and diary."""
    database = Database(DatabaseSettings(connection=sql_url))
    schema.sync(database)
    database.close()
    audit.install(sql_url)
    return sql_url


def test_the_last_room_is_sold_once(raced: str) -> None:
    """A hundred requests through four processes for one room, round after round: one is placed, 99 end in ERROR."""
    rounds = max(15, SIZES.race_rounds // 20)
    racing.race(raced, racing.last_slot, rounds)
    books = Books(raced)
    try:
        states = dict(
            map(tuple, books.rows("SELECT vm_state, count(*) FROM sched_instances GROUP BY vm_state"))
        )
        assert states == {"building": rounds, "error": 99 * rounds}
        assert sold(books) == [1] * rounds
        Checker(History(), books).run().check()
    finally:
        books.close()


def test_the_store_sells_the_last_room_once(raced: str) -> None:
    """The same at the store alone: a hundred claims by four processes, round after round."""
    database = Database(DatabaseSettings(connection=raced))
    report_hosts(database, SIZES.race_rounds, 2048)
    database.close()
    racing.race(raced, racing.last_slot_of_store, SIZES.race_rounds)
    books = Books(raced)
    try:
        assert sold(books) == [1] * SIZES.race_rounds
        Checker(History(), books, ram_ratio=1.0).run().check()
    finally:
        books.close()


def sold(books: Books) -> list[int]:
    """Live claims of each host that has any."""
    query = "SELECT host_id, count(*) FROM sched_claims WHERE state = 'claimed' GROUP BY host_id"
    return [row[1] for row in books.rows(query)]


def test_members_of_a_group_keep_apart(raced: str) -> None:
    """One member of each anti-affinity group through each of four processes at once; five hosts."""
    database = Database(DatabaseSettings(connection=raced))
    report_hosts(database, 5, 1 << 20)
    groups = SIZES.race_groups if raced.startswith("postgresql") else SIZES.race_groups // 4
    for number in range(groups):
        GroupAdmin(database).create(f"g{number}", ["anti-affinity"])
    database.close()
    racing.race(raced, racing.spread, groups)
    books = Books(raced)
    try:
        met = books.scalar(
            "SELECT count(*) FROM (SELECT m.group_id, i.host FROM sched_group_members m JOIN sched_instances i ON"
            " i.uuid = m.instance_uuid GROUP BY m.group_id, i.host HAVING count(*) > 1) AS met"
        )
        assert met == 0
        placed = books.scalar("SELECT count(*) FROM sched_instances WHERE vm_state = 'building'")
        assert placed == racing.RACERS * groups
        Checker(History(), books).run().check()
    finally:
        books.close()

"""Several scheduler processes at once: never oversold, never two members on one host, never two outcomes of one key."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nova_sched.db.expiry import Expiry, ExpiryLimits
from nova_sched.hosts.schema import HOST_COLUMNS
from tests.integration.db import racers
from tests.integration.db.worlds import SqlWorld, event_of

RACERS = 4


def url_of(world: SqlWorld) -> str:
    return world.database.url.render_as_string(hide_password=False)


def test_the_last_place_is_given_once(sql: SqlWorld) -> None:
    """A hundred tries by four processes, each round on a host with room for one."""
    rounds = 5
    for _ in range(rounds):
        sql.add_host()
    wins = racers.race(url_of(sql), RACERS, racers.last_slot, rounds, 25)
    assert [sum(column) for column in zip(*wins, strict=True)] == [1] * rounds
    assert [sql.claimed(host)[1] for host in range(1, rounds + 1)] == [2048] * rounds


def test_a_message_held_by_four_workers_has_one_outcome(sql: SqlWorld) -> None:
    """DELIVERY 7: the losers are told that it is a repeat; one claim or one event per key."""
    for _ in range(RACERS):
        sql.add_host()
    kinds = racers.race(url_of(sql), RACERS, racers.same_key, 20)
    for column in zip(*kinds, strict=True):
        assert sorted(column) == ["committed", "repeat", "repeat", "repeat"]
    assert sum(sql.claimed(host)[0] for host in range(1, RACERS + 1)) == 2 * 10
    assert len(sql.waiting_events()) == 10
    assert sql.records() == 20


def test_members_of_a_group_never_meet(sql: SqlWorld) -> None:
    """LP#1735407: four processes, one member each of every group, as many hosts as members."""
    groups = 10
    for _ in range(RACERS):
        sql.add_host()
    for index in range(groups):
        sql.add_group(f"bbbb0000-0000-4000-8000-{index:012d}", f"g{index}", "anti-affinity")
    racers.race(url_of(sql), RACERS, racers.spread_groups, groups, RACERS)
    met = sql.scalar(
        "SELECT count(*) FROM (SELECT m.group_id, i.host FROM sched_group_members m"
        " JOIN sched_instances i ON i.uuid = m.instance_uuid GROUP BY m.group_id, i.host HAVING count(*) > 1) AS met"
    )
    assert met == 0
    assert sql.scalar("SELECT count(*) FROM sched_group_members") == groups * RACERS


def test_sums_stay_exact_and_reads_miss_nothing(sql: SqlWorld) -> None:
    """Claims, reschedules, reports, updates, deletions and expiry at once, and a reader of deltas beside them."""
    hosts = 20
    for _ in range(hosts):
        sql.add_host()
    reader = _Reader(sql)
    with reader.reading():
        done = racers.race(url_of(sql), RACERS, racers.everything, 3.0, hosts)
    assert sum(done) > 10
    assert reader.reads > 3
    reader.read()
    stored = sql.source.read_delta(None).columns
    assert reader.rows == {row[0]: row for row in zip(*(stored[name] for name in HOST_COLUMNS), strict=True)}
    wrong = sql.scalar(
        "SELECT count(*) FROM sched_hosts h WHERE h.claimed_memory_mb <> COALESCE((SELECT sum(c.memory_mb) FROM"
        " sched_claims c WHERE c.host_id = h.id AND c.state IN ('claimed', 'building')), 0) OR h.claimed_instances <>"
        " (SELECT count(*) FROM sched_claims c WHERE c.host_id = h.id AND c.state IN ('claimed', 'building'))"
    )
    assert wrong == 0
    Expiry(sql.database, event_of).run(ExpiryLimits(0, 60), batch=100_000)
    homeless = sql.scalar(
        "SELECT count(*) FROM sched_instances i WHERE i.vm_state = 'building' AND NOT EXISTS (SELECT 1 FROM"
        " sched_claims c WHERE c.instance_uuid = i.uuid AND c.attempt = i.attempt AND c.state <> 'ended')"
    )
    assert homeless == 0
    silent = sql.scalar(
        "SELECT count(*) FROM sched_instances i WHERE i.vm_state = 'error' AND NOT EXISTS"
        " (SELECT 1 FROM sched_faults f WHERE f.instance_uuid = i.uuid)"
    )
    assert silent == 0


class _Reader:
    """A table of rows kept by deltas only."""

    def __init__(self, world: SqlWorld) -> None:
        self._source = world.source
        self._cursor: Any = None
        self.rows: dict[int, tuple[Any, ...]] = {}
        self.reads = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read all the time, beside whatever happens."""
        over = threading.Event()

        def read() -> None:
            while not over.wait(0.005):
                self.read()

        thread = threading.Thread(target=read)
        thread.start()
        yield
        over.set()
        thread.join()

    def read(self) -> None:
        self.reads += 1
        delta = self._source.read_delta(self._cursor)
        self._cursor = delta.cursor
        columns: Mapping[str, Any] = delta.columns
        for row in zip(*(columns[name] for name in HOST_COLUMNS), strict=True):
            self.rows[row[0]] = row
        at = HOST_COLUMNS.index("heartbeat_seconds")
        for key, row in self.rows.items():
            seconds = (delta.heartbeats or {}).get(row[1], row[at])
            self.rows[key] = (*row[:at], seconds, *row[at + 1 :])

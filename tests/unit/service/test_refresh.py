"""The host table stays as fresh as the driver asks, for as few reads as that takes."""

from __future__ import annotations

import math

import pytest

from nova_sched.drivers.caching import CachingDriver
from nova_sched.errors import StoreUnavailable
from nova_sched.hosts.table import HostTable
from nova_sched.service.refresh import HostRefresher
from nova_sched.testing.fakes import ManualClock
from tests.unit.service.world import SCHEDULER, Database, World, build


def refresher(period_seconds: float = 0.0) -> tuple[Database, ManualClock, HostRefresher]:
    time = ManualClock()
    db = Database(time)
    db.add_host("h1", memory_mb=1024)
    hosts = HostRefresher(db, HostTable(), period_seconds=period_seconds, clock=time.clock)
    return db, time, hosts


def test_the_first_read_is_of_everything_and_the_next_ones_of_what_changed():
    db, _, hosts = refresher()
    assert math.isinf(hosts.age_seconds)
    assert len(hosts.refresh()) == 1
    db.add_host("h2", memory_mb=1024)
    assert len(hosts.refresh()) == 2
    assert db.reads == ["full", "delta"]
    assert hosts.age_seconds == 0.0


def test_everything_is_read_again_every_minute():
    db, time, hosts = refresher()
    hosts.refresh()
    time.advance(59.0)
    hosts.refresh()
    time.advance(1.0)
    hosts.refresh()
    assert db.reads == ["full", "delta", "full"]


def test_an_idle_service_reads_everything_before_somebody_has_to_wait_for_it():
    db, time, hosts = refresher()
    hosts.idle()
    hosts.idle()
    time.advance(30.0)
    hosts.idle()
    time.advance(59.0)
    hosts.refresh()
    assert db.reads == ["full", "full", "delta"]


def test_an_idle_service_reads_what_changed_every_few_seconds():
    db, time, hosts = refresher()
    for _ in range(12):
        hosts.idle()
        time.advance(1.0)
    assert db.reads == ["full", "delta", "delta"]


def test_within_the_period_of_a_caching_driver_nothing_is_read():
    db, time, hosts = refresher(period_seconds=20.0)
    hosts.refresh()
    time.advance(19.0)
    hosts.refresh()
    time.advance(1.0)
    hosts.refresh()
    assert db.reads == ["full", "delta"]


def test_within_the_period_a_process_still_sees_its_own_claims():
    db, _, hosts = refresher(period_seconds=20.0)
    hosts.refresh()
    db.update_host(1, free_ram_mb=24)
    hosts.committed([1])
    assert hosts.refresh().view().free_ram_mb[0] == 24
    hosts.refresh()
    assert db.reads == ["full", "rows"]


def test_a_read_that_fails_leaves_the_table_and_the_cursor_as_they_were():
    db, _, hosts = refresher()
    hosts.refresh()
    db.add_host("h2", memory_mb=1024)
    read = db.read_delta

    def away(cursor):
        raise StoreUnavailable("gone")

    db.read_delta = away  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        hosts.refresh()
    assert len(hosts.table) == 1
    db.read_delta = read  # type: ignore[method-assign]
    assert len(hosts.refresh()) == 2


def test_a_host_that_is_gone_leaves_the_table_when_it_is_read_again():
    db, _, hosts = refresher()
    hosts.refresh()
    db.remove_host(1)
    assert len(hosts.reread([1])) == 0


def test_the_caching_driver_fills_hosts_over_several_batches_without_reading_all_of_them():
    world = World(hosts=2, driver=CachingDriver.from_settings(SCHEDULER))
    for number in range(1, 5):
        world.run(build(number, memory_mb=8192))
    assert sorted(world.host_of(number) for number in range(1, 5)) == ["h1", "h1", "h2", "h2"]
    assert world.db.reads.count("full") == 1
    assert "delta" not in world.db.reads
    assert world.counted("claims_lost", "host") == 0

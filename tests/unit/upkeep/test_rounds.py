"""Expiry, outbox and retention as a daemon runs them, on SQLite and a bus that remembers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nova_sched.errors import BusUnavailable
from nova_sched.settings import DeliverySettings, RetentionSettings, Settings
from nova_sched.testing.fakes import CountingObserver, RecordingBus
from nova_sched.upkeep import rounds
from nova_sched.upkeep.rounds import Upkeep
from tests.integration.db.worlds import SqlWorld, event_of, failed, placed, record_of, request, uuid_of

SETTINGS = Settings(delivery=DeliverySettings(), retention=RetentionSettings(decisions_max_rows=1))


class Ground:
    """A world, its bus, a clock and the upkeep that tends them."""

    def __init__(self, url: str) -> None:
        self.world = SqlWorld(url)
        self.bus = RecordingBus()
        self.observer = CountingObserver()
        self.now = 1000.0
        self.upkeep = Upkeep(
            self.world.database, SETTINGS, event_of, self.bus, self.observer, monotonic=lambda: self.now
        )


@pytest.fixture
def ground(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    monkeypatch.setattr(rounds, "OUTBOX_AGE_SECONDS", 0.0)
    made = Ground(sqlite_url)
    yield made
    made.world.database.close()


def sent(ground: Ground) -> list[str]:
    return [event.message_id for event in ground.bus.events]


def test_a_lost_build_is_told_to_the_world(ground: Ground) -> None:
    """Claim expired → ERROR in SQL → its one event on the bus, and then nothing more."""
    host = ground.world.add_host()
    ground.world.store.commit([placed(request(1), host, ttl_seconds=0)])
    for _ in range(2):
        ground.upkeep.expire()
        ground.upkeep.send_events()
    assert ground.world.instance(uuid_of(1))["vm_state"] == "error"
    assert sent(ground) == [f"event-{uuid_of(1)}-1"]
    assert ground.world.waiting_events() == []


def test_events_wait_while_the_broker_is_away(ground: Ground) -> None:
    """DELIVERY 25: sent until confirmed, always with the same message_id."""
    ground.world.store.commit([failed(request(number)) for number in (1, 2)])
    ground.bus.away = True
    with pytest.raises(BusUnavailable):
        ground.upkeep.send_events()
    assert len(ground.world.waiting_events()) == 2
    ground.bus.away = False
    ground.upkeep.send_events()
    assert sorted(sent(ground)) == [f"event-{uuid_of(1)}-1", f"event-{uuid_of(2)}-1"]
    assert ground.world.waiting_events() == []


def test_agents_are_not_judged_before_we_have_listened_long_enough(ground: Ground) -> None:
    """After an outage of our own every heartbeat is old, which says nothing about the agents."""
    host = ground.world.add_host()
    ground.world.store.commit([placed(request(1), host)])
    ground.world.sink.update_instance(uuid=uuid_of(1), attempt=1, host="h1", state="building")
    ground.world.sink.apply()
    ground.world.execute("UPDATE sched_services SET heartbeat_at = heartbeat_at - 1000")
    ground.upkeep.expire()
    assert ground.world.instance(uuid_of(1))["vm_state"] == "building"
    ground.now += 60
    ground.upkeep.expire()
    assert ground.world.instance(uuid_of(1))["vm_state"] == "error"


def test_history_is_purged_by_the_settings(ground: Ground) -> None:
    """And counted."""
    host = ground.world.add_host()
    for number in (1, 2, 3):
        ground.world.store.commit([placed(request(number), host)], [record_of(request(number))])
    ground.upkeep.purge()
    assert ground.world.records() == 1


def test_a_daemon_has_one_loop_per_task(ground: Ground) -> None:
    """Not started before somebody says so."""
    assert [loop.name for loop in ground.upkeep.loops()] == ["claim expiry", "outbox", "retention"]

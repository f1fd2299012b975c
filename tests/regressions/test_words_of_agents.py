"""What agents say, in an order that two workers made of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.db.worlds import SqlWorld, placed, request, uuid_of


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SqlWorld]:
    """A database of one host."""
    opened = SqlWorld(f"sqlite:///{tmp_path / 'sched.sqlite'}")
    yield opened
    opened.database.close()


def test_a_failure_told_before_and_applied_after_the_report_without_the_guest_ends_the_instance(
    world: SqlWorld,
) -> None:
    """One worker had the word "failed", another the reports: the instance stayed building for an hour."""
    host = world.add_host()
    world.store.commit([placed(request(1), host)])
    uuid = uuid_of(1)
    about = {"uuid": uuid, "attempt": 1, "host": "h1", "node": "h1.lab"}
    world.sink.update_instance(**about, state="building", reason=None)
    world.sink.apply()
    world.report(1, instances=[uuid])
    world.report(1, instances=[])
    world.sink.update_instance(**about, state="failed", reason="no space left")
    world.sink.apply()
    assert world.instance(uuid)["vm_state"] == "error"
    assert len(world.waiting_events()) == 1
    world.sink.update_instance(**about, state="failed", reason="no space left")
    world.sink.apply()
    assert len(world.waiting_events()) == 1, "a repeat says nothing new"
    assert world.claimed(host) == (0, 0, 0, 0, 0)

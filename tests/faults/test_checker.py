"""The checker is only worth something if it fails: each invariant is broken by hand, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from nova_sched.db import schema
from nova_sched.db.engine import Database
from nova_sched.settings import DatabaseSettings
from tests.faults.harness import audit, racing
from tests.faults.harness.audit import Books
from tests.faults.harness.checker import Checker
from tests.faults.harness.cloud import report_hosts
from tests.faults.harness.history import History, SeenCast, SeenEvent
from tests.faults.harness.orders import SECRET
from tests.faults.harness.recorder import named_in


class Scene:
    """Two instances that were placed and one that was refused, in a true history."""

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(url)
        database = Database(DatabaseSettings(connection=url))
        schema.sync(database)
        audit.install(url)
        report_hosts(database, 2, 1000)
        database.close()
        racer = racing.Racer(url)
        racer.run(2, memory_mb=600)
        racer.run(1, memory_mb=5000)
        self.history = History()
        for message in racer.bus.casts:
            uuid = message.arguments["instance"]["uuid"]
            self.history.casts.append(SeenCast(uuid, 1, str(message.server), time.time(), message.message_id))
            self.history.accept([uuid], 1)
        for event in racer.bus.events:
            if event.priority == "ERROR":
                uuids = named_in(event.payload)
                self.history.events.append(
                    SeenEvent(event.event_type, "ERROR", event.message_id, uuids, time.time())
                )
                self.history.accept(list(uuids), 1)
        racer.database.close()
        self.books = Books(url)
        self.placed = self.history.casts[0].uuid

    def sql(self, statement: str) -> None:
        with self.engine.begin() as connection:
            connection.execute(sa.text(statement))

    def violations(self) -> str:
        return "\n".join(Checker(self.history, self.books).run().violations)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    one = Scene(f"sqlite:///{tmp_path}/checker.sqlite")
    yield one
    one.books.close()
    one.engine.dispose()


def test_a_true_history_passes(scene: Scene) -> None:
    """Nothing is found where nothing is wrong."""
    assert scene.violations() == ""


def _second_host(scene: Scene) -> None:
    first = scene.history.casts[0]
    scene.history.casts.append(SeenCast(first.uuid, 1, "h9", first.at, first.message_id))


def _event_twice(scene: Scene) -> None:
    event = scene.history.events[0]
    scene.history.events.append(SeenEvent(event.event_type, "ERROR", "another-id", event.uuids, event.at))


@pytest.mark.parametrize(
    "wrong, found",
    [
        (lambda s: s.history.accept(["lost-1"], 1), "was lost"),
        (_second_host, "was cast to"),
        (_second_host, "without a live claim"),
        (lambda s: s.history.casts.clear(), "never cast to its claim's host"),
        (lambda s: s.history.events.clear(), "0 distinct ERROR events"),
        (_event_twice, "2 distinct ERROR events"),
        (lambda s: s.sql("DELETE FROM sched_faults"), "without a fault"),
        (lambda s: s.sql("UPDATE sched_claims SET state = 'ended'"), "without a live claim"),
        (
            lambda s: s.sql("UPDATE sched_hosts SET claimed_memory_mb = claimed_memory_mb + 1"),
            "its claims are",
        ),
        (lambda s: s.sql("UPDATE sched_hosts SET claimed_memory_mb = 1501"), "is oversold"),
        (
            lambda s: s.sql("UPDATE sched_instances SET deleted_at = 1"),
            "a live claim of an instance that ended",
        ),
        (
            lambda s: s.sql(f"UPDATE sched_faults SET message = '{SECRET}'"),
            "a secret is in sched_faults.message",
        ),
        (lambda s: s.history.accept([s.placed], 2), "attempt 2 was accepted"),
        (lambda s: s.history.deleted.add(s.placed), "was deleted and is building"),
    ],
)
def test_a_false_one_does_not(scene: Scene, wrong: Callable[[Scene], None], found: str) -> None:
    """Each fault is found and named."""
    wrong(scene)
    assert found in scene.violations()

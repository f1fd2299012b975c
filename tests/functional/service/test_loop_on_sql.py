"""The loop on a real database: what is committed, what a repeat finds there, and races between workers."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nova_sched.db import schema
from nova_sched.db.admin import GroupAdmin
from nova_sched.db.decisions import DecisionHistory
from nova_sched.db.engine import Database
from nova_sched.db.facts import SqlFactSource
from nova_sched.db.hosts import SqlHostSource
from nova_sched.db.instances import InstanceDirectory
from nova_sched.db.outbox import Outbox
from nova_sched.db.outcomes import SqlOutcomeStore
from nova_sched.drivers.filtering import FilterDriver
from nova_sched.hosts.table import HostTable
from nova_sched.reports.apply import ReportSink
from nova_sched.service.batch import Batch
from nova_sched.service.refresh import HostRefresher
from nova_sched.settings import BusSettings, DatabaseSettings
from nova_sched.testing.fakes import CountingObserver, CrashAt, Crashed, RecordingBus
from nova_sched.wire.outbound import Outbound
from tests.unit.service.world import SCHEDULER, build, resize, select, uuid_of


class Cloud:
    """A database with hosts of 8 vCPUs and 16 GB, a broker, and any number of workers."""

    def __init__(self, folder: Path, hosts: int) -> None:
        self.database = Database(DatabaseSettings(connection=f"sqlite:///{folder / 'sched.sqlite'}"))
        schema.sync(self.database)
        self.directory = InstanceDirectory(self.database)
        self.bus = RecordingBus()
        self.crash = CrashAt()
        self.observer = CountingObserver()
        sink = ReportSink(self.database, lambda request, reason: None, lambda host, uuid: None)  # type: ignore[arg-type,return-value]
        for number in range(1, hosts + 1):
            values: dict[str, Any] = {"vcpus": 8, "memory_mb": 16384, "local_gb": 500, "vcpus_used": 0,
                                      "free_ram_mb": 16384, "free_disk_gb": 500, "memory_mb_used": 0}  # fmt: skip
            node = {"hypervisor_hostname": f"h{number}.node", "values": values, "instances": [], "full": True}
            service = {"host": f"h{number}", "epoch": 1, "seq": 1, "interval_seconds": 10}
            sink.report_state(service, [node])
        sink.apply()

    def worker(self) -> Batch:
        """A fresh process's loop."""
        return Batch(
            driver=FilterDriver.from_settings(SCHEDULER),
            hosts=HostRefresher(SqlHostSource(self.database), HostTable()),
            facts=SqlFactSource(self.database),
            store=SqlOutcomeStore(self.database),
            bus=self.bus,
            messages=Outbound(BusSettings(host="sched-1")),
            observer=self.observer,
            crash_point=self.crash,
        )

    def instance(self, number: int) -> dict[str, Any]:
        """State of one instance."""
        return dict(self.directory.get_instance(uuid_of(number)))

    def claimed(self) -> dict[str, int]:
        """RAM that live claims hold, by host."""
        return {row["host"]: row["claimed_memory_mb"] for row in self.directory.get_hosts(None, 100)}


@pytest.fixture
def cloud(tmp_path: Path) -> Any:
    made: list[Cloud] = []

    def make(hosts: int) -> Cloud:
        made.append(Cloud(tmp_path, hosts))
        return made[-1]

    yield make
    for one in made:
        one.database.close()


def run(batch: Batch, *requests: Any) -> list[Any]:
    tickets = [batch.submit(request) for request in requests]
    batch.run()
    return tickets


def test_outcomes_claims_and_records_stand_in_the_database(cloud):
    one = cloud(hosts=2)
    run(one.worker(), build(1), build(2, memory_mb=10**6))
    assert one.instance(1)["vm_state"] == "building"
    assert one.instance(2)["vm_state"] == "error"
    assert "RAM" in str(one.instance(2)["fault"])
    assert sum(one.claimed().values()) == 2048
    assert len(DecisionHistory(one.database).list()) == 2
    assert Outbox(one.database).pending() == [], "the confirmed ERROR event is forgotten"


@pytest.mark.parametrize("point", ["after_commit", "before_publish", "after_publish", "after_confirm"])
def test_a_repeat_after_a_crash_casts_to_the_same_host_with_the_same_limits(cloud, point):
    one = cloud(hosts=3)
    one.crash.arm(point)
    with pytest.raises(Crashed):
        run(one.worker(), build(1))
    run(one.worker(), build(1))
    casts = one.bus.casts
    assert casts
    assert len({(cast.server, cast.message_id) for cast in casts}) == 1
    limits = [cast.arguments["filter_properties"]["limits"] for cast in casts]
    assert all(found == {"memory_mb": 16384.0, "vcpu": 8.0} for found in limits)
    assert sum(one.claimed().values()) == 2048


def test_undeliverable_casts_move_their_claim_until_no_host_is_left(cloud):
    one = cloud(hosts=3)
    one.bus.dead_hosts = {"h1", "h2"}
    run(one.worker(), build(1))
    assert [cast.server for cast in one.bus.casts] == ["h3"]
    assert one.claimed() == {"h1": 0, "h2": 0, "h3": 2048}
    one.bus.dead_hosts = {"h1", "h2", "h3"}
    run(one.worker(), build(2))
    assert one.instance(2)["vm_state"] == "error"
    assert one.claimed() == {"h1": 0, "h2": 0, "h3": 2048}


def test_a_deleted_instance_is_dropped(cloud):
    one = cloud(hosts=1)
    one.directory.delete_instance(uuid_of(1))
    run(one.worker(), build(1))
    assert one.bus.published == []


def test_destinations_and_a_resize_claim_beside_the_build(cloud):
    one = cloud(hosts=2)
    (first,) = run(one.worker(), select(1))
    (again,) = run(one.worker(), select(1))
    assert again.result() == first.result()
    run(one.worker(), build(2))
    run(one.worker(), resize(2))
    run(one.worker(), resize(2))
    assert len({cast.server for cast in one.bus.casts if cast.method == "prep_resize"}) == 1
    assert sum(one.claimed().values()) == 3 * 2048


def race(workers: list[Batch], shares: list[list[Any]]) -> None:
    """All workers run their share at once, one batch each per request."""
    start = threading.Barrier(len(workers))
    failures: list[BaseException] = []

    def work(batch: Batch, requests: list[Any]) -> None:
        try:
            start.wait()
            for request in requests:
                run(batch, request)
        except BaseException as fault:
            failures.append(fault)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(workers, shares, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_race_for_the_last_slots_sells_each_once(cloud):
    one = cloud(hosts=1)
    requests = [build(number, memory_mb=4096) for number in range(1, 21)]
    race([one.worker() for _ in range(4)], [requests[at::4] for at in range(4)])
    states = Counter(one.instance(number)["vm_state"] for number in range(1, 21))
    assert states == {"building": 4, "error": 16}
    assert one.claimed() == {"h1": 16384}
    assert len(one.bus.casts) == 4


def test_members_of_a_group_that_race_all_keep_apart(cloud):
    one = cloud(hosts=8)
    GroupAdmin(one.database).create("web", ["anti-affinity"])
    requests = [build(number, hints={"group": "web"}) for number in range(1, 9)]
    race([one.worker() for _ in range(4)], [requests[at::4] for at in range(4)])
    assert sorted(cast.server for cast in one.bus.casts) == [f"h{number}" for number in range(1, 9)]

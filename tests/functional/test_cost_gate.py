"""What requests cost, counted without a clock and compared with the numbers in ``tests/golden/costs.json``.

Statements of SQL, transactions, messages and NumPy calls do not depend on the machine, so a change that makes requests
dearer is seen here, on any machine, before a benchmark sees it. After a change that is meant, write the numbers anew:
``python -m tests.functional.test_cost_gate``.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from nova_sched.db import schema
from nova_sched.db.engine import Database
from nova_sched.db.facts import SqlFactSource
from nova_sched.db.hosts import SqlHostSource
from nova_sched.db.outcomes import SqlOutcomeStore
from nova_sched.drivers.filtering import FilterDriver
from nova_sched.hosts.table import HostTable
from nova_sched.manager import SchedulerManager
from nova_sched.model.facts import NO_FACTS
from nova_sched.reports.apply import ReportSink
from nova_sched.service.batch import Batch
from nova_sched.service.refresh import HostRefresher
from nova_sched.settings import DatabaseSettings, FilterSettings, SchedulerSettings, Settings, WeigherSettings
from nova_sched.testing import builders
from nova_sched.testing.fakes import RecordingBus
from nova_sched.wire.outbound import Outbound

GOLDEN = Path(__file__).parents[1] / "golden" / "costs.json"
HOSTS = 200
Counts = dict[str, dict[str, int]]


class Statements:
    """Counts what a database is asked. Rows of one ``executemany`` are one statement, as one call sends them."""

    def __init__(self, database: Database) -> None:
        self.texts: list[str] = []
        sa.event.listen(database.engine, "connect", lambda raw, record: raw.set_trace_callback(self._note))

    def _note(self, text: str) -> None:
        start = " ".join(text.split())[:40]
        if not (self.texts and self.texts[-1] == start):
            self.texts.append(start)

    @contextmanager
    def counted(self, into: dict[str, int]) -> Iterator[None]:
        """Count inside of the ``with``: statements, and transactions that write."""
        self.texts.clear()
        yield
        frame = ("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA")
        into["statements"] = sum(1 for text in self.texts if not text.startswith(frame))
        into["transactions"] = sum(1 for text in self.texts if text.startswith("BEGIN"))


class Service:
    """The service on SQLite with a bus that remembers."""

    def __init__(self, folder: Path) -> None:
        self.database = Database(DatabaseSettings(connection=f"sqlite:///{folder}/costs.sqlite"))
        self.statements = Statements(self.database)
        schema.sync(self.database)
        self.sink = ReportSink(self.database, _no_event, lambda host, uuid: None)
        self.report(full=True)
        settings = Settings()
        self.bus = RecordingBus()
        self.refresher = HostRefresher(SqlHostSource(self.database), HostTable())
        self._batch = Batch(
            driver=FilterDriver.from_settings(settings.scheduler),
            hosts=self.refresher,
            facts=SqlFactSource(self.database),
            store=SqlOutcomeStore(self.database),
            bus=self.bus,
            messages=Outbound(settings.bus),
        )
        self._manager = SchedulerManager(self._batch, settings)
        self._next = 0
        self._seq = 1
        self.refresher.refresh()

    def report(self, full: bool, changed: int = 0, seq: int = 1) -> None:
        """Every host reports; ``changed`` of them tell a new value."""
        for number in range(HOSTS):
            row = builders.host(f"host-{number}", free_ram_mb=32768 - number)
            values = {name: row[name] for name in _REPORTED} if full else {}
            if number < changed:
                values = {"current_workload": seq}
            node = {
                "hypervisor_hostname": f"node-{number}",
                "values": values,
                "instances": None,
                "full": full,
            }
            service = {"host": f"host-{number}", "epoch": 1, "seq": seq, "interval_seconds": 10}
            self.sink.report_state(service, [node])
        self.sink.apply()

    def run(self, requests: int, instances: int = 1, memory_mb: int = 512) -> dict[str, int]:
        """What so many requests in one batch cost."""
        found: dict[str, int] = {}
        before, bus = len(self.bus.published), self.bus
        publish, calls = bus.publish, 0

        def counting(messages: Any) -> Any:
            nonlocal calls
            calls += 1
            return publish(messages)

        bus.publish = counting  # type: ignore[method-assign]
        with self.statements.counted(found):
            for _ in range(requests):
                self._submit(instances, memory_mb)
            self._manager.end_batch()
        bus.publish = publish  # type: ignore[method-assign]
        found["messages"] = len(bus.published) - before
        found["publishes"] = calls
        return found

    def _submit(self, instances: int, memory_mb: int) -> None:
        uuids = [builders.instance_uuid(self._next + index) for index in range(instances)]
        self._next += instances
        flavor = {"id": 7, "flavorid": "42", "name": "lab.small", "vcpus": 1, "memory_mb": memory_mb, "root_gb": 1,
                  "ephemeral_gb": 0, "swap": 0, "extra_specs": {}}  # fmt: skip
        spec = {
            "image": {"id": "image-1", "properties": {}},
            "instance_properties": {"uuid": uuids[0], "vcpus": 1, "memory_mb": memory_mb, "root_gb": 1,
                                    "ephemeral_gb": 0, "project_id": "project-1", "vm_state": "building"},
            "instance_type": flavor,
            "instance_uuids": uuids,
            "num_instances": instances,
        }  # fmt: skip
        self._manager.run_instance(
            {"request_id": f"req-{self._next}", "project_id": "project-1", "user_id": "user-1"},
            request_spec=spec,
            filter_properties={"instance_type": flavor},
            admin_password=None,
            injected_files=None,
            requested_networks=None,
            is_first_time=True,
            legacy_bdm_in_spec=False,
        )


_REPORTED = (
    "vcpus", "memory_mb", "local_gb", "vcpus_used", "local_gb_used", "free_ram_mb", "free_disk_gb", "hypervisor_type",
    "hypervisor_version", "cpu_info", "supported_instances", "stats", "host_ip", "running_vms", "current_workload",
)  # fmt: skip


def _no_event(request: object, reason: str) -> Any:
    raise AssertionError("nobody is lost here")


class Counted(np.ndarray):
    """An array that counts the NumPy functions it meets; what comes out of them counts as well."""

    calls = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        Counted.calls += 1
        if "out" in options:
            options["out"] = tuple(_bare(one) for one in options["out"])
        return _counted(getattr(ufunc, method)(*(_bare(one) for one in inputs), **options))

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        Counted.calls += 1
        return _counted(
            function(*(_bare(one) for one in arguments), **{k: _bare(v) for k, v in options.items()})
        )

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, np.ndarray | list):
            Counted.calls += 1
        return _counted(super().__getitem__(_bare(key)))


def _bare(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_bare(one) for one in value)
    return value.view(np.ndarray) if isinstance(value, Counted) else value


def _counted(value: Any) -> Any:
    return value.view(Counted) if isinstance(value, np.ndarray) and not isinstance(value, Counted) else value


def numpy_calls(settings: SchedulerSettings, instances: int = 1) -> dict[str, int]:
    """NumPy calls of a decision once the masks of its kind are kept, whatever the number of hosts."""
    driver = FilterDriver.from_settings(settings)
    table = builders.table(*(builders.host(f"host-{n}", free_ram_mb=32768 - n) for n in range(HOSTS)))
    frame = table.frame
    table.frame = replace(
        frame,
        numbers={name: column.view(Counted) for name, column in frame.numbers.items()},
        disabled=frame.disabled.view(Counted),
    )
    rng = np.random.default_rng(1)
    for _ in range(2):
        overlay = table.overlay()
        Counted.calls = 0
        decision = driver.decide(builders.request(count=instances, memory_mb=512), overlay, NO_FACTS, rng)
        assert len(decision.placements) == instances
    return {"numpy calls": Counted.calls}


def costs(folder: Path) -> Counts:
    """All that is counted, each on a service that has done the same before, so that nothing is done for the first time."""
    service = Service(folder)
    service.run(3)
    found: Counts = {"one request": service.run(1), "one hundred requests": service.run(100)}
    found["one request for 100 instances"] = service.run(1, 100)
    found["one request that fits nowhere"] = service.run(1, memory_mb=1 << 20)
    for name, changed in (("200 heartbeats", 0), ("200 reports, 20 of them with news", 20)):
        found[name] = {}
        with service.statements.counted(found[name]):
            service.report(full=False, changed=changed, seq=2 + changed)
    found["reading what changed"] = {}
    with service.statements.counted(found["reading what changed"]):
        service.refresher.refresh()
    service.database.close()
    juno = SchedulerSettings(weighers=WeigherSettings(classes=("RAMWeigher",)))
    amounts = replace(
        juno, filters=FilterSettings(enabled=("ComputeFilter", "RamFilter", "CoreFilter", "DiskFilter"))
    )
    found["decision with Juno's filters"] = numpy_calls(juno)
    found["decision with amounts only"] = numpy_calls(amounts)
    found["decision for 20 instances"] = numpy_calls(juno, 20)
    return found


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    return costs(tmp_path_factory.mktemp("costs"))


GOLDEN_COSTS: Counts = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}


@pytest.mark.parametrize("case", sorted(GOLDEN_COSTS))
def test_costs_are_the_committed_ones(counted: Counts, case: str) -> None:
    assert counted[case] == GOLDEN_COSTS[case], "meant? then: python -m tests.functional.test_cost_gate"


def test_every_cost_is_committed(counted: Counts) -> None:
    assert counted.keys() == GOLDEN_COSTS.keys()


def test_a_batch_costs_no_more_statements_than_one_request(counted: Counts) -> None:
    """Constant statements per batch are what lets the rate grow with the load."""
    one, many = counted["one request"], counted["one hundred requests"]
    assert many["statements"] == one["statements"]
    assert many["transactions"] == one["transactions"] == 1
    assert many["publishes"] == one["publishes"]
    assert many["messages"] == 100 * one["messages"]


def test_a_heartbeat_touches_no_host(counted: Counts) -> None:
    assert counted["200 heartbeats"]["transactions"] == 1
    assert (
        counted["200 heartbeats"]["statements"] < counted["200 reports, 20 of them with news"]["statements"]
    )


def write() -> None:
    """Write the numbers anew."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        found = costs(Path(folder))
        GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(json.dumps(found, indent=1), f"\nwritten to {GOLDEN} after {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    write()

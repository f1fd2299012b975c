"""One store behind one set of doors: the behaviour suite meets the in-memory store and three databases alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from nova_sched.db import schema
from nova_sched.db.admin import AggregateAdmin, GroupAdmin
from nova_sched.db.engine import Database
from nova_sched.db.facts import SqlFactSource
from nova_sched.db.hosts import SqlHostSource
from nova_sched.db.instances import InstanceDirectory
from nova_sched.db.outbox import Outbox
from nova_sched.db.outcomes import SqlOutcomeStore
from nova_sched.model.decision import Placement
from nova_sched.model.explanation import Explanation, Round
from nova_sched.model.limits import Limits
from nova_sched.model.messages import Event
from nova_sched.model.request import Amounts, Caller, Flavor, InstanceRef, SchedulingRequest
from nova_sched.model.states import ClaimKind
from nova_sched.reports.apply import ReportSink
from nova_sched.service.ports import DecisionRecord, Failed, Placed
from nova_sched.settings import DatabaseSettings
from nova_sched.testing.store import MemoryStore

ORDINARY: dict[str, Any] = {
    "vcpus": 16,
    "memory_mb": 32768,
    "local_gb": 500,
    "vcpus_used": 0,
    "free_ram_mb": 32768,
    "free_disk_gb": 500,
    "disk_available_least": None,
    "hypervisor_type": "QEMU",
    "stats": {"num_instances": "0", "io_workload": "0"},
}


def uuid_of(number: int) -> str:
    """A readable uuid."""
    return f"c0de0000-0000-4000-8000-{number:012d}"


def request(
    *numbers: int, attempt: int = 1, method: str = "run_instance", **fields: Any
) -> SchedulingRequest:
    """A request for these instances: 2 vCPUs, 2 GB, 20 GB each."""
    amounts = fields.pop("amounts", Amounts(2, 2048, 20480))
    return SchedulingRequest(
        method=method,
        caller=Caller(request_id="req-1", user_id="user-1", project_id="project-1"),
        instances=tuple(InstanceRef(uuid_of(number), index) for index, number in enumerate(numbers)),
        flavor=Flavor(id=7, name="lab.small", vcpus=amounts.vcpus, memory_mb=amounts.memory_mb, root_gb=20),
        amounts=amounts,
        project_id="project-1",
        user_id="user-1",
        instance_type_id=7,
        attempt=attempt,
        **fields,
    )


def placed(
    asked: SchedulingRequest,
    host_id: int,
    index: int = 0,
    limits: Limits | None = None,
    kind: ClaimKind = ClaimKind.BUILD,
    claim_uuid: str | None = None,
    replaces_host_id: int | None = None,
    ttl_seconds: int = 300,
    **fields: Any,
) -> Placed:
    """The outcome that instance ``index`` of a request goes to that host."""
    placement = Placement(
        asked.instances[index], host_id, f"h{host_id}", f"h{host_id}.lab", 1.0, limits, **fields
    )
    return Placed(asked, placement, kind, ttl_seconds, replaces_host_id, claim_uuid)


def event_of(asked: SchedulingRequest, reason: str) -> Event:
    """An ERROR event, with the secrets a careless author would leave in it."""
    payload = {
        "reason": reason,
        "instance_uuids": list(asked.uuids),
        "request_spec": {"admin_password": "s3cret", "instance_properties": {"user_data": "s3cret"}},
    }
    return Event(
        message_id=f"event-{asked.instances[0].uuid}-{asked.attempt}",
        publisher_id="scheduler.test",
        event_type="scheduler.run_instance",
        priority="ERROR",
        payload=payload,
        timestamp="2026-12-01 12:00:00.000000",
        context={"request_id": "req-1", "auth_token": "s3cret"},
    )


def failed(
    asked: SchedulingRequest, index: int = 0, reason: str = "No valid host was found.", **fields: Any
) -> Failed:
    """The outcome that instance ``index`` of a request finds no host."""
    return Failed(asked, asked.instances[index], reason, event_of(asked, reason), **fields)


def record_of(asked: SchedulingRequest, outcomes: dict[str, str] | None = None) -> DecisionRecord:
    """A small decision record."""
    rounds = tuple(
        Round(index, instance, 1, (), chosen=("h1", "h1.lab"))
        for index, instance in enumerate(asked.instances)
    )
    return DecisionRecord(asked, Explanation("filter_scheduler", 1, rounds), outcomes or {})


class World:
    """What the suite does to a store, besides the ports themselves."""

    store: Any
    source: Any
    facts: Any

    def add_host(self, **columns: Any) -> int:
        """A host that just reported; its id. Names are h1, h2, ... by id."""
        raise NotImplementedError

    def contain(self, host_id: int, uuids: Iterable[str], **columns: Any) -> None:
        """A report of that host lists these guests."""
        raise NotImplementedError

    def host(self, host_id: int) -> dict[str, Any]:
        """The row as schedulers read it; empty when it is gone."""
        columns = self.source.read_rows([host_id]).columns
        return {name: values[0] for name, values in columns.items() if len(values)}

    def claimed(self, host_id: int) -> tuple[int, ...]:
        """(vcpus, memory_mb, disk_mb, instances, io_ops) of live claims beside the report."""
        row = self.host(host_id)
        names = (
            "claimed_vcpus",
            "claimed_memory_mb",
            "claimed_disk_mb",
            "claimed_instances",
            "claimed_io_ops",
        )
        return tuple(int(row[name]) for name in names)


class MemoryWorld(World):
    """The store without SQL."""

    def __init__(self) -> None:
        self.store = self.source = self.facts = MemoryStore()

    def add_host(self, **columns: Any) -> int:
        host_id = len(self.store.hosts) + 1
        return int(self.store.add_host(f"h{host_id}", f"h{host_id}.lab", **{**ORDINARY, **columns}))

    def contain(self, host_id: int, uuids: Iterable[str], **columns: Any) -> None:
        self.store.update_host(host_id, instances=uuids, **columns)

    def add_aggregate(self, name: str, hosts: list[str]) -> None:
        from nova_sched.hosts.schema import Aggregate

        self.store.set_aggregates([Aggregate(1, name, frozenset(hosts), {})])

    def add_group(self, uuid: str, name: str, policy: str, members: Iterable[str] = ()) -> None:
        self.store.add_group(uuid, name, [policy], members)

    def delete(self, uuid: str) -> None:
        self.store.delete_instance(uuid)

    def instance(self, uuid: str) -> dict[str, Any]:
        found = self.store.instances[uuid]
        names = ("uuid", "attempt", "vm_state", "task_state", "host", "node")
        return {**{name: getattr(found, name) for name in names}, "fault": found.fault}

    def waiting_events(self) -> list[Event]:
        return list(self.store.outbox.values())

    def records(self) -> int:
        return len(self.store.records)


class SqlWorld(World):
    """One database, filled through the doors that agents and operators use."""

    def __init__(self, url: str) -> None:
        self.database = Database(DatabaseSettings(connection=url, retry_interval_seconds=0.01))
        schema.sync(self.database)
        self.store = SqlOutcomeStore(self.database)
        self.source = SqlHostSource(self.database)
        self.facts = SqlFactSource(self.database)
        self.directory = InstanceDirectory(self.database)
        self.terminated: list[tuple[str, str]] = []
        self.sink = ReportSink(
            self.database, event_of, lambda host, uuid: self.terminated.append((host, uuid))
        )
        self._seq = 0
        self._hosts = 0

    def report(
        self, number: int, instances: Iterable[str] | None = None, full: bool = False, **values: Any
    ) -> None:
        """One report of host ``number``, newer than all before, applied at once."""
        self._seq += 1
        node = {
            "hypervisor_hostname": f"h{number}.lab",
            "values": values,
            "instances": None if instances is None else list(instances),
            "full": full,
        }
        self.sink.report_state(
            {"host": f"h{number}", "epoch": 1, "seq": self._seq, "interval_seconds": 10}, [node]
        )
        self.sink.apply()

    def add_host(self, **columns: Any) -> int:
        self._hosts += 1
        self.report(self._hosts, instances=[], full=True, **{**ORDINARY, **columns})
        return self._hosts

    def contain(self, host_id: int, uuids: Iterable[str], **columns: Any) -> None:
        self.report(host_id, instances=uuids, **columns)

    def add_aggregate(self, name: str, hosts: list[str]) -> None:
        AggregateAdmin(self.database).create(name, hosts=hosts)

    def add_group(self, uuid: str, name: str, policy: str, members: Iterable[str] = ()) -> None:
        GroupAdmin(self.database).create(name, [policy], uuid, list(members))

    def delete(self, uuid: str) -> None:
        self.directory.delete_instance(uuid)

    def instance(self, uuid: str) -> dict[str, Any]:
        found = dict(self.directory.get_instance(uuid))
        found["fault"] = found["fault"] and found["fault"]["message"]
        return found

    def waiting_events(self) -> list[Event]:
        return [event for _, event in Outbox(self.database).pending()]

    def records(self) -> int:
        return int(self.scalar("SELECT count(*) FROM sched_decisions"))

    def scalar(self, statement: str) -> Any:
        """One value, by SQL of the test's own."""
        return self.database.read(lambda connection: connection.execute(sa.text(statement)).scalar())

    def execute(self, statement: str) -> None:
        """Change rows behind the service's back."""
        self.database.write(lambda connection: connection.execute(sa.text(statement)).rowcount)

"""Rows in memory and reads of them: the half of ``MemoryStore`` that writes no outcomes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nova_sched.db.facts import hinted_uuids
from nova_sched.db.rules import LIVE, ClaimRow
from nova_sched.hosts.schema import HOST_COLUMNS, Aggregate, HostDelta
from nova_sched.model.facts import Fact, Facts, GroupFact, InstanceFact
from nova_sched.model.limits import Limits
from nova_sched.model.messages import Event
from nova_sched.model.numa import InstanceTopology
from nova_sched.model.request import SchedulingRequest
from nova_sched.service.ports import DecisionRecord


@dataclass(slots=True)
class MemoryClaim:
    """A claim with what a repeat of its cast needs."""

    row: ClaimRow
    node: str | None
    limits: Limits | None
    numa_fit: InstanceTopology | None
    pci: list[dict[str, Any]] | None
    cells: list[dict[str, Any]] | None
    group: str | None
    made_at: float
    ttl_seconds: float


@dataclass(slots=True)
class MemoryInstance:
    """An instance. ``fault``: reason of the newest failure."""

    uuid: str
    attempt: int
    vm_state: str | None
    task_state: str | None = None
    host: str | None = None
    node: str | None = None
    project_id: str | None = None
    instance_type_id: int | None = None
    fault: str | None = None
    deleted: bool = False


@dataclass(slots=True)
class MemoryGroup:
    """A server group."""

    uuid: str
    name: str
    policies: frozenset[str]
    members: set[str] = field(default_factory=set)
    generation: int = 0


class MemoryRows:
    """``HostSource`` and ``FactSource`` in memory.

    :param clock: the "database's" clock, seconds since the epoch.
    :ivar hosts: rows by id, keys of ``hosts.schema.HOST_COLUMNS``.
    :ivar outbox: events not confirmed yet, by outbox id. :ivar records: decision records, oldest first.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.hosts: dict[int, dict[str, Any]] = {}
        self.claims: dict[tuple[str, int], MemoryClaim] = {}
        self.instances: dict[str, MemoryInstance] = {}
        self.groups: dict[str, MemoryGroup] = {}
        self.outbox: dict[int, Event] = {}
        self.records: list[DecisionRecord] = []
        self._aggregates: list[Aggregate] = []
        self._changed: dict[int, int] = {}
        self._removed: dict[int, int] = {}
        self._version = 1
        self._aggregates_version = 1

    def remove_host(self, host_id: int) -> None:
        """The host is gone."""
        del self.hosts[host_id]
        self._changed.pop(host_id, None)
        self._version += 1
        self._removed[host_id] = self._version

    def set_aggregates(self, aggregates: Iterable[Aggregate]) -> None:
        """All aggregates there are from now on."""
        self._aggregates = list(aggregates)
        self._version += 1
        self._aggregates_version = self._version

    def add_group(self, uuid: str, name: str, policies: Iterable[str], members: Iterable[str] = ()) -> None:
        """A server group."""
        self.groups[uuid] = MemoryGroup(uuid, name, frozenset(policies), set(members))

    def add_instance(self, uuid: str, host: str | None = None, **fields: Any) -> None:
        """An instance that exists, active unless said otherwise."""
        self.instances[uuid] = MemoryInstance(
            uuid, **{"attempt": 1, "vm_state": "active", "host": host, **fields}
        )

    def read_delta(self, cursor: Any | None) -> HostDelta:
        """Rows changed since ``cursor``."""
        if cursor is None:
            columns = _columns(self.hosts[i] for i in sorted(self.hosts))
            return HostDelta(
                columns, self._clock(), full=True, aggregates=list(self._aggregates), cursor=self._version
            )
        changed = sorted(host_id for host_id, version in self._changed.items() if version > cursor)
        return HostDelta(
            _columns(self.hosts[i] for i in changed),
            self._clock(),
            removed=sorted(i for i, version in self._removed.items() if version > cursor),
            aggregates=list(self._aggregates) if self._aggregates_version > cursor else None,
            cursor=self._version,
        )

    def read_rows(self, host_ids: Collection[int]) -> HostDelta:
        """Fresh rows of these hosts."""
        there = sorted(i for i in set(host_ids) if i in self.hosts)
        columns = _columns(self.hosts[i] for i in there)
        return HostDelta(columns, self._clock(), removed=sorted(set(host_ids) - set(there)))

    def load(self, requests: Sequence[SchedulingRequest], needs: frozenset[Fact]) -> list[Facts]:
        """Facts of each request."""
        by_host: dict[str, list[InstanceFact]] = {}
        live = {i.uuid: i for i in self.instances.values() if not i.deleted}
        if Fact.INSTANCES_BY_HOST in needs:
            for instance in live.values():
                if instance.host is not None:
                    by_host.setdefault(instance.host, []).append(_fact(instance))
        facts = []
        for request in requests:
            hinted = hinted_uuids(request) if Fact.HINTED_INSTANCES in needs else ()
            facts.append(
                Facts(
                    group=self._group_fact(request) if Fact.GROUP in needs else None,
                    hinted_instances={uuid: _fact(live[uuid]) for uuid in hinted if uuid in live},
                    instances_by_host={host: tuple(found) for host, found in by_host.items()},
                )
            )
        return facts

    def _touch(self, host_id: int) -> None:
        self._version += 1
        self._changed[host_id] = self._version

    def _group_fact(self, request: SchedulingRequest) -> GroupFact | None:
        if request.group:
            named = [g for g in self.groups.values() if g.name == request.group]
            group = self.groups.get(request.group) or (named[0] if named else None)
        else:
            first = request.uuids[:1]
            group = next((g for g in self.groups.values() if first and first[0] in g.members), None)
        if group is None:
            return None
        hosts = {
            uuid: instance.host
            for uuid in group.members
            if (instance := self.instances.get(uuid)) is not None
            and not instance.deleted
            and instance.host is not None
        }
        for claim in self.claims.values():
            row = claim.row
            if claim.group == group.uuid and row.state in LIVE and row.uuid != row.guest_uuid:
                hosts[f"{row.guest_uuid or row.uuid}/moving"] = self.hosts[row.host_id]["host"]
        return GroupFact(group.uuid, group.name, group.policies, hosts, group.generation)


def _columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
    found = list(rows)
    return {name: [row[name] for row in found] for name in HOST_COLUMNS}


def _fact(instance: MemoryInstance) -> InstanceFact:
    return InstanceFact(
        instance.uuid, instance.host, instance.node, instance.project_id, instance.instance_type_id
    )

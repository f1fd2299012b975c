"""A store without SQL that keeps the same contract: for tests of drivers, plugins and the loop, and for simulations.

It is judged by the same rules (``db.rules``, ``db.room``) and passes the same behaviour suite as the SQL one.
Not for several threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import orjson

from nova_sched.db.room import Room, Sums, joined
from nova_sched.db.rules import ORDERED, Accept, ClaimRow, InstanceRow, judge
from nova_sched.db.tables import CLAIMED
from nova_sched.hosts.schema import HOST_COLUMNS
from nova_sched.model.decision import Placement
from nova_sched.model.request import SchedulingRequest
from nova_sched.model.states import BUILDING, DELETED, ERROR, ClaimState, EndReason
from nova_sched.reports.reading import used_of
from nova_sched.service.ports import (
    DecisionRecord,
    Failed,
    Outcome,
    Placed,
    Prior,
    PriorClaim,
    Verdict,
    VerdictKind,
)
from nova_sched.testing.rows import MemoryClaim, MemoryInstance, MemoryRows


class MemoryStore(MemoryRows):
    """``OutcomeStore``, ``HostSource`` and ``FactSource`` in one, in memory."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._outbox_ids = 0

    def add_host(self, host: str, node: str | None = None, **columns: Any) -> int:
        """A host that just reported; columns of ``compute_nodes``, mappings and lists become JSON text. Its id."""
        host_id = max(self.hosts, default=0) + 1
        row: dict[str, Any] = dict.fromkeys(HOST_COLUMNS)
        row.update(id=host_id, host=host, node=node or host, disabled=0, heartbeat_seconds=self._clock())
        row.update(failed_builds=0, allocation_generation=0, **dict.fromkeys(CLAIMED, 0))
        self.hosts[host_id] = row
        self.update_host(host_id, **columns)
        return host_id

    def update_host(self, host_id: int, instances: Iterable[str] | None = None, **columns: Any) -> None:
        """A report of a host: columns that changed, and the guests that its numbers contain now."""
        row = self.hosts[host_id]
        for name, value in columns.items():
            row[name] = orjson.dumps(value).decode() if isinstance(value, dict | list) else value
        if instances is not None:
            self._contain(row, frozenset(instances))
        row["allocation_generation"] += 1
        self._touch(host_id)

    def delete_instance(self, uuid: str) -> None:
        """Leave a tombstone; a claim still ``claimed`` ends."""
        found = self.instances.setdefault(uuid, MemoryInstance(uuid, 0, None))
        found.deleted, found.vm_state, found.task_state = True, DELETED, None
        for claim in self.claims.values():
            if claim.row.guest_uuid == uuid and claim.row.state is ClaimState.CLAIMED:
                self._end(claim, EndReason.DELETED)

    def prior(self, uuids: Collection[str]) -> Mapping[str, Prior]:
        """What is known of these instances or claim keys."""
        found = {}
        for uuid in uuids:
            instance = self.instances.get(uuid)
            claims = [claim for key, claim in self.claims.items() if key[0] == uuid]
            if instance is None and not claims:
                continue
            if instance is not None:
                attempt = instance.attempt
                newest = self.claims.get((uuid, attempt))
            else:
                newest = max(claims, key=lambda claim: (claim.row.live, claim.row.attempt))
                attempt = newest.row.attempt
            vm_state = None if instance is None else instance.vm_state
            found[uuid] = Prior(
                uuid=uuid,
                attempt=attempt,
                vm_state=vm_state,
                final=vm_state in (ERROR, DELETED),
                deleted=instance is not None and instance.deleted,
                claim=None if newest is None else self._prior_claim(newest),
            )
        return found

    def commit(self, outcomes: Sequence[Outcome], records: Sequence[DecisionRecord] = ()) -> list[Verdict]:
        """Commit outcomes; one verdict each, in order."""
        rooms: dict[int, Room] = {}
        generations = {uuid: group.generation for uuid, group in self.groups.items()}
        verdicts = [self._commit_one(outcome, rooms, generations) for outcome in outcomes]
        for room in rooms.values():
            if room.changed:
                self._write_room(room)
        for record in records:
            own = [
                verdict.kind
                for outcome, verdict in zip(outcomes, verdicts, strict=True)
                if outcome.request is record.request or _uuid(outcome) in record.outcomes
            ]
            if not own or VerdictKind.COMMITTED in own:
                self.records.append(record)
        return verdicts

    def end_claim(self, uuid: str, attempt: int, host_id: int, reason: EndReason) -> bool:
        """End a live claim on that host."""
        claim = self.claims.get((uuid, attempt))
        if claim is None or not claim.row.live or claim.row.host_id != host_id:
            return False
        self._end(claim, reason)
        return True

    def sent(self, outbox_ids: Sequence[int]) -> None:
        """Forget confirmed events."""
        for outbox_id in outbox_ids:
            self.outbox.pop(outbox_id, None)

    def _commit_one(
        self, outcome: Outcome, rooms: dict[int, Room], generations: Mapping[str, int]
    ) -> Verdict:
        uuid = _uuid(outcome)
        instance = self.instances.get(uuid or "")
        key_uuid = outcome.key[0] if isinstance(outcome, Placed) else uuid
        related = [c.row for c in self.claims.values() if uuid is not None and c.row.guest_uuid == uuid]
        related += [c.row for k, c in self.claims.items() if k[0] == key_uuid and c.row not in related]
        row = None
        if instance is not None:
            row = InstanceRow(
                instance.uuid, instance.attempt, instance.vm_state, instance.deleted, instance.host
            )
        judged = judge(outcome, row, related)
        if not isinstance(judged, Accept):
            return Verdict(judged)
        if isinstance(outcome, Failed):
            return self._fail(outcome, judged, rooms)
        placement = outcome.placement
        group = placement.group_uuid
        if group is not None and generations.get(group) != placement.group_generation:
            return Verdict(VerdictKind.LOST)
        room = self._room(placement.host_id, rooms)
        if room is None or room.unmet(placement, Sums.of(outcome.request.amounts)):
            return Verdict(VerdictKind.LOST, host_id=placement.host_id)
        self._give_up(judged, rooms)
        self._place(outcome, room)
        return Verdict(VerdictKind.COMMITTED)

    def _fail(self, outcome: Failed, accept: Accept, rooms: dict[int, Room]) -> Verdict:
        self._give_up(accept, rooms)
        request, uuid = outcome.request, outcome.instance.uuid
        assert uuid is not None
        ordered = request.method == ORDERED
        instance = self.instances.setdefault(uuid, MemoryInstance(uuid, request.attempt, None))
        self._remember(instance, request)
        instance.vm_state, instance.task_state, instance.fault = outcome.vm_state, None, outcome.reason
        if ordered:
            instance.attempt, instance.host, instance.node = request.attempt, None, None
        if outcome.event is None:
            return Verdict(VerdictKind.COMMITTED)
        self._outbox_ids += 1
        self.outbox[self._outbox_ids] = outcome.event
        return Verdict(VerdictKind.COMMITTED, outbox_id=self._outbox_ids)

    def _place(self, outcome: Placed, room: Room) -> None:
        request, placement = outcome.request, outcome.placement
        uuid, attempt = outcome.key
        asked = Sums.of(request.amounts)
        room.take(asked)
        pci, cells = room.take_devices(placement)
        row = ClaimRow(
            uuid=uuid,
            attempt=attempt,
            guest_uuid=placement.instance.uuid,
            host_id=placement.host_id,
            kind=outcome.kind,
            state=ClaimState.CLAIMED,
            amounts=asked,
            has_devices=pci is not None or cells is not None,
            method=request.method,
        )
        self.claims[(uuid, attempt)] = MemoryClaim(
            row,
            placement.node,
            placement.limits,
            placement.numa_fit,
            pci,
            cells,
            placement.group_uuid,
            self._clock(),
            outcome.ttl_seconds,
        )
        if outcome.claim_uuid is None and (request.method == ORDERED or uuid not in self.instances):
            self._build(uuid, request, placement, room)
        if placement.group_uuid is not None:
            group = self.groups[placement.group_uuid]
            group.generation += 1
            if placement.instance.uuid is not None:
                group.members.add(placement.instance.uuid)

    def _build(self, uuid: str, request: SchedulingRequest, placement: Placement, room: Room) -> None:
        instance = self.instances.setdefault(uuid, MemoryInstance(uuid, request.attempt, None))
        self._remember(instance, request)
        instance.attempt, instance.vm_state, instance.task_state = request.attempt, BUILDING, "scheduling"
        instance.host, instance.node = room.host, placement.node

    def _remember(self, instance: MemoryInstance, request: SchedulingRequest) -> None:
        instance.project_id = request.project_id or instance.project_id
        type_id = request.instance_type_id if request.instance_type_id is not None else request.flavor.id
        instance.instance_type_id = instance.instance_type_id if type_id is None else type_id

    def _give_up(self, accept: Accept, rooms: dict[int, Room]) -> None:
        for row, reason in accept.ends:
            self._end(self.claims[row.key], reason, rooms)
        if accept.gives_way is not None:
            self._end(self.claims.pop(accept.gives_way.key), EndReason.UNDELIVERABLE, rooms)

    def _end(self, claim: MemoryClaim, reason: EndReason, rooms: dict[int, Room] | None = None) -> None:
        counted = claim.row.counted
        claim.row.state, claim.row.ended_reason = ClaimState.ENDED, reason
        own: dict[int, Room] = {}
        room = self._room(claim.row.host_id, own if rooms is None else rooms)
        if room is None:
            return
        if counted:
            room.take(claim.row.amounts, -1)
            room.devices_stale |= claim.row.has_devices
        if reason in (EndReason.RESCHEDULED, EndReason.FAILED):
            room.failed_builds += 1
            room.changed = True
        if rooms is None and room.changed:
            self._write_room(room)

    def _contain(self, row: dict[str, Any], listed: frozenset[str]) -> None:
        claims = [c for c in self.claims.values() if c.row.host_id == row["id"] and c.row.live]
        for claim in claims:
            if claim.row.guest_uuid in listed:
                claim.row.state = ClaimState.HELD
            elif claim.row.state is ClaimState.HELD:
                claim.row.state, claim.row.ended_reason = ClaimState.ENDED, EndReason.DELETED
        sums = [sum(column) for column in zip(*(c.row.amounts for c in claims if c.row.counted), strict=True)]
        row.update(zip(CLAIMED, sums or [0] * len(CLAIMED), strict=True))
        row["claimed_devices"] = self._devices(row["id"])

    def _room(self, host_id: int, rooms: dict[int, Room]) -> Room | None:
        row = self.hosts.get(host_id)
        if host_id not in rooms and row is not None:
            rooms[host_id] = Room(
                id=host_id,
                host=row["host"],
                node=row["node"],
                generation=row["allocation_generation"],
                used=used_of(row),
                failed_builds=row["failed_builds"],
                claimed=[row[name] for name in CLAIMED],
                devices=row["claimed_devices"],
                pci_stats=row["pci_stats"],
            )
        return rooms.get(host_id)

    def _write_room(self, room: Room) -> None:
        row = self.hosts[room.id]
        row.update(zip(CLAIMED, room.claimed, strict=True))
        row["claimed_devices"] = self._devices(room.id) if room.devices_stale else room.devices
        row["allocation_generation"] += 1
        row["failed_builds"] = room.failed_builds
        self._touch(room.id)

    def _devices(self, host_id: int) -> str | None:
        devices = None
        for claim in self.claims.values():
            if claim.row.host_id == host_id and claim.row.counted and claim.row.has_devices:
                devices = joined(devices, claim.pci, claim.cells)
        return devices

    def _prior_claim(self, claim: MemoryClaim) -> PriorClaim:
        row = claim.row
        host = self.hosts.get(row.host_id, {"host": None})
        return PriorClaim(
            uuid=row.uuid,
            attempt=row.attempt,
            state=row.state,
            host_id=row.host_id,
            host=host["host"],
            node=claim.node,
            limits=claim.limits,
            numa_fit=claim.numa_fit,
            age_seconds=max(0.0, self._clock() - claim.made_at),
            ttl_seconds=claim.ttl_seconds,
            ended_reason=None if row.ended_reason is None else EndReason(row.ended_reason),
        )


def _uuid(outcome: Outcome) -> str | None:
    return outcome.placement.instance.uuid if isinstance(outcome, Placed) else outcome.instance.uuid

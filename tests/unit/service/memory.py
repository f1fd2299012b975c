"""A database in memory: hosts, instances, claims, groups and outbox, with the store's own rules and guards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nova_sched.db.room import Room, Sums
from nova_sched.db.rules import Accept, ClaimRow, InstanceRow, judge
from nova_sched.hosts.schema import HOST_COLUMNS, HostDelta
from nova_sched.model.facts import Fact, Facts, GroupFact, InstanceFact
from nova_sched.model.messages import Event
from nova_sched.model.request import SchedulingRequest
from nova_sched.model.states import BUILDING, ClaimState, EndReason
from nova_sched.service.ports import DecisionRecord, Failed, Outcome, Placed, Prior, PriorClaim, Verdict, VerdictKind


@dataclass
class Host:
    id: int
    host: str
    node: str
    vcpus: int
    memory_mb: int
    local_gb: int
    claimed: list[int] = field(default_factory=lambda: [0] * 5)
    generation: int = 0
    changed: int = 0

    def column(self, name: str, now: float) -> Any:
        claimed = dict(
            zip(("claimed_vcpus", "claimed_memory_mb", "claimed_disk_mb", "claimed_instances", "claimed_io_ops"),
                self.claimed, strict=True)
        )
        values = {
            "id": self.id, "host": self.host, "node": self.node, "vcpus": self.vcpus, "memory_mb": self.memory_mb,
            "local_gb": self.local_gb, "vcpus_used": 0, "memory_mb_used": 0, "free_ram_mb": self.memory_mb,
            "free_disk_gb": self.local_gb, "local_gb_used": 0, "hypervisor_type": "QEMU", "heartbeat_seconds": now,
            "disabled": False, "allocation_generation": self.generation, **claimed,
        }  # fmt: skip
        return values.get(name)


@dataclass
class Claim(ClaimRow):
    placed: Placed | None = None
    created_at: float = 0.0


class MemoryDatabase:
    """HostSource, FactSource and OutcomeStore over plain dictionaries.

    ``ended``: claims that gave way to another one of the same key. ``events``: ids of ERROR events by key.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._seq = 0
        self.hosts: dict[int, Host] = {}
        self.instances: dict[str, dict[str, Any]] = {}
        self.claims: dict[tuple[str, int], Claim] = {}
        self.ended: list[Claim] = []
        self.groups: dict[str, GroupFact] = {}
        self.outbox: dict[int, Event] = {}
        self.faults: list[tuple[str, str, str | None]] = []
        self.events: dict[tuple[str, int], set[str]] = {}
        self.records: list[DecisionRecord] = []
        self.reads: list[str] = []

    # Hosts

    def add_host(self, name: str, vcpus: int = 8, memory_mb: int = 16384, local_gb: int = 1000) -> Host:
        self._seq += 1
        host = Host(len(self.hosts) + 1, name, f"{name}.node", vcpus, memory_mb, local_gb, changed=self._seq)
        self.hosts[host.id] = host
        return host

    def named(self, name: str) -> Host:
        return next(host for host in self.hosts.values() if host.host == name)

    def read_delta(self, cursor: int | None) -> HostDelta:
        self.reads.append("full" if cursor is None else "delta")
        rows = [h for h in self.hosts.values() if cursor is None or h.changed > cursor]
        return self._delta(rows, full=cursor is None, cursor=self._seq)

    def read_rows(self, host_ids: Collection[int]) -> HostDelta:
        self.reads.append("rows")
        return self._delta([self.hosts[i] for i in host_ids if i in self.hosts])

    def _delta(self, rows: list[Host], full: bool = False, cursor: int | None = None) -> HostDelta:
        columns = {name: [row.column(name, self._now()) for row in rows] for name in HOST_COLUMNS}
        return HostDelta(columns, self._now(), full=full, aggregates=[] if full else None, cursor=cursor)

    # Facts

    def load(self, requests: Sequence[SchedulingRequest], needs: frozenset[Fact]) -> list[Facts]:
        return [self._facts(request) for request in requests]

    def _facts(self, request: SchedulingRequest) -> Facts:
        hinted = {}
        for value in request.hints.values():
            for uuid in (value,) if isinstance(value, str) else value:
                claim = next((c for c in self.claims.values() if c.uuid == uuid and c.live), None)
                if claim is not None:
                    host = self.hosts[claim.host_id]
                    hinted[uuid] = InstanceFact(uuid, host.host, host.node, None, None)
        return Facts(group=self.groups.get(request.group or ""), hinted_instances=hinted)

    # Outcomes

    def prior(self, uuids: Collection[str]) -> Mapping[str, Prior]:
        found = {uuid: self._prior(uuid) for uuid in uuids}
        return {uuid: prior for uuid, prior in found.items() if prior is not None}

    def _prior(self, uuid: str) -> Prior | None:
        instance = self.instances.get(uuid)
        claims = [claim for claim in self.claims.values() if claim.uuid == uuid]
        if instance is None and not claims:
            return None
        attempt = instance["attempt"] if instance else max(claims, key=lambda c: (c.live, c.attempt)).attempt
        claim = next((claim for claim in claims if claim.attempt == attempt), None)
        vm_state = instance["vm_state"] if instance else None
        return Prior(uuid, attempt, vm_state, vm_state in ("error", "deleted"), bool(instance and instance["deleted"]),
                     None if claim is None else self._prior_claim(claim))  # fmt: skip

    def _prior_claim(self, claim: Claim) -> PriorClaim:
        assert claim.placed is not None
        placement = claim.placed.placement
        reason = None if claim.ended_reason is None else EndReason(claim.ended_reason)
        return PriorClaim(claim.uuid, claim.attempt, claim.state, claim.host_id, placement.host, placement.node,
                          placement.limits, placement.numa_fit, self._now() - claim.created_at,
                          claim.placed.ttl_seconds, reason)  # fmt: skip

    def commit(self, outcomes: Sequence[Outcome], records: Sequence[DecisionRecord] = ()) -> list[Verdict]:
        seen = {uuid: group.generation for uuid, group in self.groups.items()}
        verdicts = [self._commit(outcome, seen) for outcome in outcomes]
        self.records += records
        return verdicts

    def _commit(self, outcome: Outcome, generations: Mapping[str, int]) -> Verdict:
        instance = outcome.instance if isinstance(outcome, Failed) else outcome.placement.instance
        uuid = instance.uuid or ""
        row = self.instances.get(uuid)
        known = None if row is None else InstanceRow(uuid, row["attempt"], row["vm_state"], row["deleted"])
        key = outcome.key[0] if isinstance(outcome, Placed) else uuid
        related = [c for c in self.claims.values() if uuid in (c.uuid, c.guest_uuid) or c.uuid == key]
        accept = judge(outcome, known, related)  # type: ignore[arg-type]
        if isinstance(accept, VerdictKind):
            return Verdict(accept)
        if isinstance(outcome, Placed):
            lost = self._take(outcome, generations)
            if lost is not None:
                return lost
        for claim, reason in accept.ends:
            self.end_claim(claim.uuid, claim.attempt, claim.host_id, reason)
        if isinstance(outcome, Failed):
            return self._fail(outcome)
        if accept.gives_way is not None:
            self.end_claim(*accept.gives_way.key, accept.gives_way.host_id, EndReason.UNDELIVERABLE)
            self.ended.append(self.claims.pop(accept.gives_way.key))
        self._place(outcome, uuid)
        return Verdict(VerdictKind.COMMITTED)

    def _take(self, outcome: Placed, generations: Mapping[str, int]) -> Verdict | None:
        placement = outcome.placement
        if placement.group_uuid is not None and generations[placement.group_uuid] != placement.group_generation:
            return Verdict(VerdictKind.LOST)
        host = self.hosts[placement.host_id]
        room = Room(host.id, host.host, host.node, host.generation, (0, 0, 0, 0, 0), list(host.claimed))
        asked = Sums.of(outcome.request.amounts)
        if room.unmet(placement, asked):
            return Verdict(VerdictKind.LOST, host_id=host.id)
        self._add(host, asked, 1)
        return None

    def _add(self, host: Host, amounts: Sums, sign: int) -> None:
        self._seq += 1
        host.claimed = [have + sign * ask for have, ask in zip(host.claimed, amounts, strict=True)]
        host.generation += 1
        host.changed = self._seq

    def _place(self, outcome: Placed, uuid: str) -> None:
        key, attempt = outcome.key
        amounts = Sums.of(outcome.request.amounts)
        self.claims[key, attempt] = Claim(key, attempt, uuid or None, outcome.placement.host_id, outcome.kind,
                                          ClaimState.CLAIMED, amounts, placed=outcome, created_at=self._now())  # fmt: skip
        if outcome.request.method == "run_instance":
            self.instances[uuid] = {"attempt": attempt, "vm_state": BUILDING, "deleted": False}
        group = self.groups.get(outcome.placement.group_uuid or "")
        if group is not None:
            members = {**group.member_hosts, uuid: outcome.placement.host}
            self.groups[group.uuid] = GroupFact(group.uuid, group.name, group.policies, members, group.generation + 1)

    def _fail(self, outcome: Failed) -> Verdict:
        uuid = outcome.instance.uuid or ""
        if outcome.request.method == "run_instance" or uuid in self.instances:
            self.instances[uuid] = {"attempt": outcome.request.attempt, "vm_state": outcome.vm_state, "deleted": False}
        self.faults.append((uuid, outcome.reason, outcome.traceback))
        outbox_id = None
        if outcome.event is not None:
            outbox_id = len(self.faults)
            self.outbox[outbox_id] = outcome.event
            self.events.setdefault((uuid, outcome.request.attempt), set()).add(outcome.event.message_id)
        return Verdict(VerdictKind.COMMITTED, outbox_id=outbox_id)

    def end_claim(self, uuid: str, attempt: int, host_id: int, reason: EndReason) -> bool:
        claim = self.claims.get((uuid, attempt))
        if claim is None or not claim.live or claim.host_id != host_id:
            return False
        if claim.counted:
            self._add(self.hosts[host_id], claim.amounts, -1)
        claim.state, claim.ended_reason = ClaimState.ENDED, reason
        return True

    def sent(self, outbox_ids: Sequence[int]) -> None:
        for outbox_id in outbox_ids:
            self.outbox.pop(outbox_id, None)

    # What others do

    def take(self, host: Host, memory_mb: int) -> None:
        """Another scheduler's claim on a host."""
        self._add(host, Sums(1, memory_mb, 0, 1, 1), 1)

    def delete(self, uuid: str) -> None:
        """A delete_instance cast."""
        row = self.instances.setdefault(uuid, {"attempt": 0})
        row.update(deleted=True, vm_state="deleted")
        for claim in list(self.claims.values()):
            if claim.uuid == uuid and claim.state is ClaimState.CLAIMED:
                self.end_claim(*claim.key, claim.host_id, EndReason.DELETED)

    def say(self, uuid: str, attempt: int, state: ClaimState) -> None:
        """An agent's word about a claim."""
        claim = self.claims.get((uuid, attempt))
        if claim is not None and claim.live:
            claim.state = state

    def expire(self, uuid: str, attempt: int) -> None:
        """Upkeep: the claim's life is over, the instance ends in ERROR with its event."""
        claim = self.claims[uuid, attempt]
        self.end_claim(*claim.key, claim.host_id, EndReason.EXPIRED)
        self.instances[uuid]["vm_state"] = "error"
        self.faults.append((uuid, "expired", None))
        self.events.setdefault((uuid, attempt), set()).add(f"expired {uuid} {attempt}")

    def live(self, uuid: str) -> list[Claim]:
        """Live claims of one instance."""
        return [claim for claim in self.claims.values() if claim.guest_uuid == uuid and claim.live]

"""What agents say about single instances (``update_instance``), applied a batch at a time.

The attempt decides who is heard: a word of an older attempt changes nothing, one of an attempt that we never placed is only counted.
A guest is never deleted because of what is written here; a tombstoned one is named, so that its agent can be told.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from nova_sched.db import claims as claim_rows
from nova_sched.db.losing import KnownInstance, Loss, MakeEvent, lock_known, lose
from nova_sched.db.room import Room
from nova_sched.db.rules import LIVE, REVIVABLE, ClaimRow
from nova_sched.db.sqltext import Statements
from nova_sched.model.states import ACTIVE, BUILDING, DELETED, ERROR, ClaimState, EndReason

LOG = logging.getLogger(__name__)

STATES = ("building", "active", "failed", "deleted")

_SQL = Statements(
    progress=lambda d: d.update(
        "sched_instances",
        {"uuid": "key"},
        {"vm_state": "key", "task_state": "key", "host": "text", "node": "text", "gone": "int"},
        {
            "vm_state": "COALESCE(d.vm_state, t.vm_state)",
            "task_state": "d.task_state",
            "host": "COALESCE(d.host, t.host)",
            "node": "COALESCE(d.node, t.node)",
            "deleted_at": f"CASE WHEN d.gone = 1 THEN COALESCE(t.deleted_at, {d.now}) ELSE t.deleted_at END",
            "updated_at": d.now,
        },
    ),
)


@dataclass(frozen=True, slots=True)
class InstanceUpdate:
    """One word of an agent. ``state``: building, active, failed or deleted."""

    uuid: str
    attempt: int
    host: str
    node: str | None
    state: str
    reason: str | None = None


@dataclass(slots=True)
class UpdateResult:
    """What a batch of words did. ``counts``: by outcome (building, active, revived, failed, deleted, stale, unknown,
    late, tombstone). ``terminate``: (host, uuid) of guests whose instance was deleted."""

    counts: Counter[str] = field(default_factory=Counter)
    terminate: list[tuple[str, str]] = field(default_factory=list)


def apply_updates(
    connection: Connection, updates: Sequence[InstanceUpdate], make_event: MakeEvent
) -> UpdateResult:
    """Apply in the order given; the caller's transaction. A batch costs a constant number of statements."""
    return _Updates(connection, updates, make_event).run()


@dataclass(slots=True)
class _Guest:
    """One instance while the batch is applied: the locked row, its claims, and what becomes of them."""

    known: KnownInstance | None
    claims: list[ClaimRow]
    vm_state: str | None
    deleted: bool
    changes: dict[str, object] | None = None
    loss: Loss | None = None


class _Updates:
    def __init__(
        self, connection: Connection, updates: Sequence[InstanceUpdate], make_event: MakeEvent
    ) -> None:
        self._connection = connection
        self._updates = updates
        self._make_event = make_event
        self._result = UpdateResult()
        self._rooms: dict[int, Room] = {}
        self._guests: dict[str, _Guest] = {}
        # Final state of each claim that changes: a claim may move twice within one batch.
        self._moves: dict[tuple[str, int], tuple[ClaimRow, ClaimState, EndReason | None]] = {}

    def run(self) -> UpdateResult:
        """Lock everything the words are about, apply them one by one, write the outcome."""
        self._lock()
        for update in self._updates:
            self._result.counts[self._apply(update)] += 1
        self._write()
        return self._result

    def _lock(self) -> None:
        uuids = {update.uuid for update in self._updates}
        known = lock_known(self._connection, uuids)
        claims: dict[str, list[ClaimRow]] = {}
        for claim in claim_rows.claims_of_guests(self._connection, uuids):
            claims.setdefault(claim.guest_uuid or "", []).append(claim)
        hosts = {
            claim.host_id
            for found in claims.values()
            for claim in found
            if claim.live or _revivable(claim) or _left_out(claim)
        }
        self._rooms = claim_rows.lock_rooms(self._connection, hosts)
        for uuid in uuids:
            row = known[uuid].row if uuid in known else None
            self._guests[uuid] = _Guest(
                known.get(uuid),
                claims.get(uuid, []),
                row.vm_state if row else None,
                bool(row and row.deleted),
            )

    def _apply(self, update: InstanceUpdate) -> str:
        guest = self._guests[update.uuid]
        claim = self._claim_of(guest, update)
        is_move = claim is not None and claim.uuid != update.uuid
        if guest.deleted:
            return self._tombstoned(guest, update)
        if guest.known is None:
            if claim is None or not self._live(claim):
                return "unknown"
        elif not is_move and update.attempt != guest.known.row.attempt:
            return "stale" if update.attempt < guest.known.row.attempt else "unknown"
        if update.state == "deleted":
            return self._deleted(guest, update)
        if claim is None:
            return "unknown"
        if update.state == "building":
            return self._building(guest, update, claim)
        if update.state == "active":
            return self._active(guest, update, claim)
        return self._failed(guest, update, claim, is_move)

    def _building(self, guest: _Guest, update: InstanceUpdate, claim: ClaimRow) -> str:
        if not self._live(claim):
            return "late"
        if self._state(claim) is ClaimState.CLAIMED:
            self._move(claim, ClaimState.BUILDING)
            self._change(guest, task_state="spawning", host=update.host, node=update.node)
        return "building"

    def _active(self, guest: _Guest, update: InstanceUpdate, claim: ClaimRow) -> str:
        word = "active"
        if not self._live(claim):
            if guest.vm_state != ERROR or not _revivable(claim):
                LOG.warning(
                    "Instance %s is active on %s, but its claim ended (%s)",
                    update.uuid,
                    update.host,
                    claim.ended_reason,
                )
                return "late"
            LOG.warning(
                "Instance %s came up on %s after it was given up; it is active again",
                update.uuid,
                update.host,
            )
            word = "revived"
        if self._state(claim) in (ClaimState.CLAIMED, ClaimState.ENDED):
            self._move(claim, ClaimState.BUILDING)
        self._change(guest, vm_state=ACTIVE, host=update.host, node=update.node)
        guest.loss = None
        room = self._rooms.get(claim.host_id)
        if room is not None and room.failed_builds:
            room.failed_builds, room.changed = 0, True
        return word

    def _failed(self, guest: _Guest, update: InstanceUpdate, claim: ClaimRow, is_move: bool) -> str:
        if self._live(claim):
            self._move(claim, ClaimState.ENDED, EndReason.FAILED)
        elif is_move or not _left_out(claim) or guest.vm_state != BUILDING:
            return "late"
        if guest.known is not None and not is_move and guest.vm_state != ERROR:
            guest.vm_state = ERROR
            guest.loss = Loss(guest.known, update.reason or f"Build of instance {update.uuid} failed.")
        return "failed"

    def _deleted(self, guest: _Guest, update: InstanceUpdate) -> str:
        self._end_at_host(guest, update)
        if guest.known is not None:
            self._change(guest, vm_state=DELETED, gone=1)
            guest.deleted = True
            guest.loss = None
        return "deleted"

    def _tombstoned(self, guest: _Guest, update: InstanceUpdate) -> str:
        if update.state in ("deleted", "failed"):
            self._end_at_host(guest, update)
            return "deleted"
        self._result.terminate.append((update.host, update.uuid))
        return "tombstone"

    def _end_at_host(self, guest: _Guest, update: InstanceUpdate) -> None:
        for claim in guest.claims:
            if self._live(claim) and (
                self._at_host(claim, update) or self._state(claim) is ClaimState.CLAIMED
            ):
                self._move(claim, ClaimState.ENDED, EndReason.DELETED)

    def _claim_of(self, guest: _Guest, update: InstanceUpdate) -> ClaimRow | None:
        """The claim on that host under the instance's own key, else a live move there."""
        here = [claim for claim in guest.claims if self._at_host(claim, update)]
        for claim in here:
            if claim.key == (update.uuid, update.attempt):
                return claim
        return next((claim for claim in here if claim.uuid != update.uuid and self._live(claim)), None)

    def _at_host(self, claim: ClaimRow, update: InstanceUpdate) -> bool:
        room = self._rooms.get(claim.host_id)
        return room is not None and room.host == update.host and update.node in (None, room.node)

    def _state(self, claim: ClaimRow) -> ClaimState:
        return self._moves[claim.key][1] if claim.key in self._moves else claim.state

    def _live(self, claim: ClaimRow) -> bool:
        return self._state(claim) in LIVE

    def _move(self, claim: ClaimRow, state: ClaimState, reason: EndReason | None = None) -> None:
        self._moves[claim.key] = (claim, state, reason)

    def _change(self, guest: _Guest, **changes: object) -> None:
        if guest.known is None:
            return
        row = guest.changes or {
            "uuid": guest.known.row.uuid,
            "vm_state": None,
            "host": None,
            "node": None,
            "gone": 0,
        }
        guest.changes = {**row, "task_state": None, **{k: v for k, v in changes.items() if v is not None}}
        if isinstance(vm_state := changes.get("vm_state"), str):
            guest.vm_state = vm_state

    def _write(self) -> None:
        claim_rows.move_claims(self._connection, self._rooms, list(self._moves.values()))
        changes = [guest.changes for _, guest in sorted(self._guests.items()) if guest.changes is not None]
        if changes:
            _SQL.run(self._connection, "progress", changes)
        lose(
            self._connection, [guest.loss for guest in self._guests.values() if guest.loss], self._make_event
        )
        claim_rows.write_rooms(self._connection, self._rooms.values())


def _left_out(claim: ClaimRow) -> bool:
    """Ended because a report no longer listed the guest: another worker may have applied it before this word of the failure."""
    return claim.state is ClaimState.ENDED and claim.ended_reason == EndReason.DELETED


def _revivable(claim: ClaimRow) -> bool:
    return claim.state is ClaimState.ENDED and claim.ended_reason in REVIVABLE

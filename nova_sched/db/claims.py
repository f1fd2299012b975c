"""Claims: room on a host for one guest, and the only code that moves them.

::

    claimed ──update_instance(building)──► building ──a report contains it──► held ──a later report omits it──► ended
       │                                      │                                 │
       │ undeliverable, expired,              │ failed, build_timeout,          │ failed, deleted, rescheduled,
       │ deleted, rescheduled,                │ agent_down, deleted,            │ operator
       │ failed, operator                     │ rescheduled, operator           │
       └──────────────► ended ◄───────────────┴─────────────────────────────────┘
                          │
                          └── the newest attempt turns out alive after expired, build_timeout or agent_down ──► building

A report that contains a guest makes its claim ``held`` from ``claimed`` too. Amounts stand in the host's ``claimed_*`` in
``claimed`` and ``building``; in ``held`` the host's own numbers contain them.

Locks, always in this order: instances by uuid, groups by id, services and hosts by id, the change counter last. **A claim
changes only under the lock of its host's row**, so whoever holds that lock may sum the host's claims and write the sum. Every change of
amounts or devices moves the row's ``allocation_generation`` by one, and is written with the generation read as its
guard. The change counter is the last lock of a transaction: the order of its values is the order of commits, and
a delta read that saw value *n* has seen every row stamped up to *n*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import orjson
from sqlalchemy.engine import Connection

from nova_sched.db.engine import Again
from nova_sched.db.room import Room, Sums, joined
from nova_sched.db.rules import ClaimRow, InstanceRow
from nova_sched.db.sqltext import Dialect, Statements
from nova_sched.db.tables import CLAIMED, USED
from nova_sched.model.states import ClaimState, EndReason

_KEY = {"uuid": "key"}
_ID = {"id": "int"}
_CLAIM_KEY = {"instance_uuid": "key", "attempt": "int"}
_CLAIM_COLUMNS = (
    "c.instance_uuid, c.attempt, COALESCE(c.guest_uuid, c.instance_uuid), c.host_id, c.kind, c.state, c.vcpus, c.memory_mb, c.disk_mb, c.instances,"
    " c.io_ops, CASE WHEN c.pci IS NULL AND c.numa IS NULL THEN 0 ELSE 1 END, c.method, c.ended_reason"
)
_LIVE = "('claimed', 'building', 'held')"
_COUNTED = "('claimed', 'building')"
_ROOM_COLUMNS = ", ".join(
    f"t.{name}"
    for name in (
        "id",
        "host",
        "node",
        "allocation_generation",
        "removed_at",
        "failed_builds",
        *USED,
        *CLAIMED,
        "claimed_devices",
    )
)


def _lock_hosts(dialect: Dialect, extra: str = "") -> str:
    return (
        f"{dialect.select_in_order} {_ROOM_COLUMNS}{extra} FROM {dialect.rows('d', _ID)}"
        f" JOIN sched_hosts t ON t.id = d.id ORDER BY t.id{dialect.locking('t')}"
    )


def _bump(dialect: Dialect) -> str:
    if dialect.name == "mysql":
        return "UPDATE sched_change_seq SET value = LAST_INSERT_ID(value + 1) WHERE name = :counter"
    return "UPDATE sched_change_seq SET value = value + 1 WHERE name = :counter RETURNING value"


SQL = Statements(
    lock_instances=lambda d: (
        f"{d.select_in_order} t.uuid, t.attempt, t.vm_state, t.deleted_at, t.host FROM {d.rows('d', _KEY)}"
        f" JOIN sched_instances t ON t.uuid = d.uuid ORDER BY t.uuid{d.locking('t')}"
    ),
    claims_of_guests=lambda d: (
        f"{d.select_in_order} {_CLAIM_COLUMNS} FROM {d.rows('d', _KEY)} JOIN sched_claims c ON c.instance_uuid = d.uuid"
        f" UNION ALL {d.select_in_order} {_CLAIM_COLUMNS} FROM {d.rows('d', _KEY)}"
        " JOIN sched_claims c ON c.guest_uuid = d.uuid"
    ),
    claims_of_keys=lambda d: (
        f"{d.select_in_order} {_CLAIM_COLUMNS} FROM {d.rows('d', _KEY)} JOIN sched_claims c ON c.instance_uuid = d.uuid"
    ),
    live_claims_of_hosts=lambda d: (
        f"{d.select_in_order} {_CLAIM_COLUMNS} FROM {d.rows('d', _ID)}"
        f" JOIN sched_claims c ON c.host_id = d.id AND c.state IN {_LIVE}"
    ),
    lock_hosts=_lock_hosts,
    lock_hosts_with_devices=lambda d: _lock_hosts(d, ", t.pci_stats"),
    devices_of_hosts=lambda d: (
        f"SELECT c.host_id, c.pci, c.numa FROM {d.rows('d', _ID)} JOIN sched_claims c ON c.host_id = d.id"
        f" AND c.state IN {_COUNTED} AND (c.pci IS NOT NULL OR c.numa IS NOT NULL)"
    ),
    move_claims=lambda d: d.update(
        "sched_claims",
        _CLAIM_KEY,
        {"was": "key", "host_id": "int", "state": "key", "reason": "key"},
        {"state": "d.state", "ended_reason": "d.reason", "state_at": d.now},
        where="t.state = d.was AND t.host_id = d.host_id",
    ),
    remove_claims=lambda d: d.delete(
        "sched_claims",
        _CLAIM_KEY,
        {"was": "key", "host_id": "int"},
        where="t.state = d.was AND t.host_id = d.host_id",
    ),
    write_rooms=lambda d: d.update(
        "sched_hosts",
        _ID,
        {
            "generation": "int",
            "seq": "int",
            "devices": "text",
            "failed": "int",
            **dict.fromkeys(CLAIMED, "int"),
        },
        {
            **{name: f"d.{name}" for name in CLAIMED},
            "claimed_devices": "d.devices",
            "failed_builds": "d.failed",
            "changed": "d.seq",
            "changed_at": d.now,
            "allocation_generation": "d.generation + 1",
        },
        where="t.allocation_generation = d.generation",
    ),
    bump=_bump,
)


def lock_instances(connection: Connection, uuids: Collection[str]) -> dict[str, InstanceRow]:
    """Lock and return those of these instances that exist."""
    if not uuids:
        return {}
    rows = SQL.fetch(connection, "lock_instances", [{"uuid": uuid} for uuid in sorted(uuids)])
    return {row[0]: InstanceRow(row[0], row[1], row[2], row[3] is not None, row[4]) for row in rows}


def claims_of_guests(connection: Connection, uuids: Collection[str]) -> list[ClaimRow]:
    """Claims, live and ended, that hold or held room for these instances."""
    rows = SQL.fetch(connection, "claims_of_guests", [{"uuid": uuid} for uuid in sorted(uuids)])
    return [claim_row(row) for row in rows]


def claims_of_keys(connection: Connection, uuids: Collection[str]) -> list[ClaimRow]:
    """Claims whose key begins with one of these."""
    rows = SQL.fetch(connection, "claims_of_keys", [{"uuid": uuid} for uuid in sorted(uuids)])
    return [claim_row(row) for row in rows]


def live_claims_of_hosts(connection: Connection, host_ids: Collection[int]) -> list[ClaimRow]:
    """Live claims of these hosts; exact while their rows are locked."""
    rows = SQL.fetch(connection, "live_claims_of_hosts", [{"id": host_id} for host_id in sorted(host_ids)])
    return [claim_row(row) for row in rows]


def claim_row(row: tuple[Any, ...]) -> ClaimRow:
    """A claim from the columns that this module selects."""
    return ClaimRow(
        uuid=row[0],
        attempt=row[1],
        guest_uuid=row[2],
        host_id=row[3],
        kind=row[4],
        state=ClaimState(row[5]),
        amounts=Sums(*row[6:11]),
        has_devices=bool(row[11]),
        method=row[12],
        ended_reason=row[13],
    )


def lock_rooms(
    connection: Connection, host_ids: Collection[int], with_devices: bool = False
) -> dict[int, Room]:
    """Lock these hosts; ``with_devices`` also reads ``pci_stats``. Unknown ids are left out."""
    if not host_ids:
        return {}
    name = "lock_hosts_with_devices" if with_devices else "lock_hosts"
    rooms = {}
    for row in SQL.fetch(connection, name, [{"id": host_id} for host_id in sorted(host_ids)]):
        rooms[row[0]] = Room(
            id=row[0],
            host=row[1],
            node=row[2],
            generation=row[3],
            removed=row[4] is not None,
            failed_builds=row[5],
            used=tuple(row[6:11]),
            claimed=list(row[11:16]),
            devices=row[16],
            pci_stats=row[17] if with_devices else None,
        )
    return rooms


def move_claims(
    connection: Connection,
    rooms: dict[int, Room],
    moves: Sequence[tuple[ClaimRow, ClaimState, EndReason | None]],
) -> None:
    """Change the state of claims whose hosts are locked in ``rooms``, and the rooms with them.

    Raises Again when a claim is no longer as it was read.
    """
    if not moves:
        return
    rows = []
    for claim, state, reason in moves:
        rows.append(
            {
                "instance_uuid": claim.uuid,
                "attempt": claim.attempt,
                "was": claim.state.value,
                "host_id": claim.host_id,
                "state": state.value,
                "reason": None if reason is None else reason.value,
            }
        )
    if SQL.run(connection, "move_claims", rows).rowcount != len(rows):
        raise Again("a claim changed its state")
    for claim, state, reason in moves:
        room = rooms.get(claim.host_id)
        was_counted = claim.counted
        claim.state = state
        if room is not None:
            if was_counted != claim.counted:
                room.take(claim.amounts, 1 if claim.counted else -1)
                room.devices_stale |= claim.has_devices
            if reason in (EndReason.RESCHEDULED, EndReason.FAILED):
                room.failed_builds += 1
                room.changed = True


def remove_claims(connection: Connection, rooms: dict[int, Room], claims: Sequence[ClaimRow]) -> None:
    """Delete claims that give way to a new one of the same key; counted amounts are given back."""
    if not claims:
        return
    rows = [
        {"instance_uuid": c.uuid, "attempt": c.attempt, "was": c.state.value, "host_id": c.host_id}
        for c in claims
    ]
    if SQL.run(connection, "remove_claims", rows).rowcount != len(rows):
        raise Again("a claim changed its state")
    for claim in claims:
        room = rooms.get(claim.host_id)
        if room is not None and claim.counted:
            room.take(claim.amounts, -1)
            room.devices_stale |= claim.has_devices


def write_rooms(connection: Connection, rooms: Iterable[Room]) -> None:
    """Write the changed rooms and stamp them for delta reads; the last statements before the commit.

    Raises Again when a generation moved although the row was locked (a writer outside of this module).
    """
    changed = sorted((room for room in rooms if room.changed), key=lambda room: room.id)
    if not changed:
        return
    refresh_devices(connection, [room for room in changed if room.devices_stale])
    seq = bump(connection)
    rows = [
        {
            "id": room.id,
            "generation": room.generation,
            "seq": seq,
            "devices": room.devices,
            "failed": room.failed_builds,
            **dict(zip(CLAIMED, room.claimed, strict=True)),
        }
        for room in changed
    ]
    if SQL.run(connection, "write_rooms", rows).rowcount != len(rows):
        raise Again("a host's generation moved")


def bump(connection: Connection, name: str = "hosts") -> int:
    """The next value of a change counter, whose row stays locked until the commit."""
    result = SQL.run(connection, "bump", counter=name)
    if connection.dialect.name == "mysql":
        return int(result.lastrowid)
    return int(result.scalar_one())


def refresh_devices(connection: Connection, rooms: Sequence[Room]) -> None:
    """Make ``devices`` of these locked rooms anew from their live claims."""
    if not rooms:
        return
    devices: dict[int, str | None] = {room.id: None for room in rooms}
    for host_id, pci, numa in SQL.fetch(connection, "devices_of_hosts", [{"id": room.id} for room in rooms]):
        devices[host_id] = joined(devices[host_id], orjson.loads(pci or "null"), orjson.loads(numa or "null"))
    for room in rooms:
        room.devices = devices[room.id]

"""The whole state of a service in one read, for exports and for questions that are answered offline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from nova_sched.db import hosts
from nova_sched.db.engine import Database
from nova_sched.db.tables import change_seq, claims, group_members, groups, instances
from nova_sched.db.tables import hosts as host_rows
from nova_sched.lab.export import ServiceState
from nova_sched.model.states import ClaimKind, ClaimState

#: Reads are statements on their own; when the counter moved meanwhile, all is read again, so many times at most.
_ATTEMPTS = 5
#: Claims whose room stands beside the report's numbers.
_COUNTED = (ClaimState.CLAIMED, ClaimState.BUILDING)
_INSTANCE = (
    "uuid",
    "host",
    "node",
    "project_id",
    "instance_type_id",
    "flavor",
    "vm_state",
    "vcpus",
    "memory_mb",
    "disk_mb",
    "created_at",
    "deleted_at",
)
_CLAIM = (
    "instance_uuid",
    "attempt",
    "kind",
    "state",
    "vcpus",
    "memory_mb",
    "disk_mb",
    "instances",
    "io_ops",
    "pci",
    "numa",
)


def read_state(database: Database) -> ServiceState:
    """Hosts, aggregates, instances (those deleted lately as well), groups and claims. Raises StoreUnavailable.

    On a service that never rests, claims made while it is read may be missing.
    """
    return database.read(_read)


def _read(connection: Connection) -> ServiceState:
    for _ in range(_ATTEMPTS):
        before = _stamp(connection)
        state = ServiceState(
            hosts=hosts.all_hosts(connection),
            instances=_rows(connection, _INSTANCE, sa.select(*(instances.c[name] for name in _INSTANCE))),
            groups=_groups(connection),
            claims=_claims(connection),
        )
        if _stamp(connection) == before:
            break
    return state


def _stamp(connection: Connection) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(sa.select(change_seq).order_by(change_seq.c.name))]


def _rows(connection: Connection, names: Sequence[str], query: sa.Select[Any]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in connection.execute(query)]


def _groups(connection: Connection) -> list[dict[str, Any]]:
    members: dict[int, list[str]] = {}
    for group_id, uuid in connection.execute(sa.select(group_members)):
        members.setdefault(group_id, []).append(uuid)
    moving = _moving(connection)
    query = sa.select(groups.c.id, groups.c.uuid, groups.c.name, groups.c.policies).order_by(groups.c.id)
    return [
        {
            "uuid": uuid,
            "name": name,
            "policies": orjson.loads(policies),
            "members": members.get(group_id, []),
            "moving": moving.get(group_id, {}),
        }
        for group_id, uuid, name, policies in connection.execute(query)
    ]


def _moving(connection: Connection) -> dict[int, dict[str, str]]:
    """By group, where live claims for moves of its members are."""
    member = sa.func.coalesce(claims.c.guest_uuid, claims.c.instance_uuid)
    query = (
        sa.select(claims.c.group_id, member, host_rows.c.host)
        .join(host_rows, host_rows.c.id == claims.c.host_id)
        .where(
            claims.c.group_id.is_not(None),
            claims.c.kind == ClaimKind.MOVE.value,
            claims.c.state.in_([state.value for state in ClaimState if state is not ClaimState.ENDED]),
        )
    )
    found: dict[int, dict[str, str]] = {}
    for group_id, uuid, host in connection.execute(query):
        found.setdefault(group_id, {})[uuid] = host
    return found


def _claims(connection: Connection) -> list[dict[str, Any]]:
    query = (
        sa.select(*(claims.c[name] for name in _CLAIM), host_rows.c.host, host_rows.c.node)
        .join(host_rows, host_rows.c.id == claims.c.host_id)
        .where(claims.c.state.in_([state.value for state in _COUNTED]))
        .order_by(claims.c.created_at, claims.c.instance_uuid)
    )
    found = _rows(connection, (*_CLAIM, "host", "node"), query)
    for row in found:
        row.update({kind: orjson.loads(row[kind]) if row[kind] else None for kind in ("pci", "numa")})
    return found

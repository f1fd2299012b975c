"""What is known of instances before they are decided: one statement for a whole batch."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy.engine import Connection

from nova_sched.db.codec import limits_from_text, numa_from_text
from nova_sched.db.rules import LIVE
from nova_sched.db.sqltext import Statements
from nova_sched.model.states import DELETED, ERROR, ClaimState, EndReason
from nova_sched.service.ports import Prior, PriorClaim

_SQL = Statements(
    prior=lambda d: (
        f"{d.select_in_order} d.uuid, i.attempt, i.vm_state, i.deleted_at, c.attempt, c.state, c.host_id, h.host, c.placed_node,"
        f" c.limits, c.numa, {d.now} - c.created_at, c.ttl_seconds, c.ended_reason"
        f" FROM {d.rows('d', {'uuid': 'key'})} LEFT JOIN sched_instances i ON i.uuid = d.uuid"
        " LEFT JOIN sched_claims c ON c.instance_uuid = d.uuid LEFT JOIN sched_hosts h ON h.id = c.host_id"
        " WHERE i.uuid IS NOT NULL OR c.instance_uuid IS NOT NULL"
    ),
)


def read_prior(connection: Connection, uuids: Collection[str]) -> dict[str, Prior]:
    """Prior of each of these instance uuids or claim keys that SQL knows."""
    by_uuid: dict[str, list[Any]] = {}
    for row in _SQL.fetch(connection, "prior", [{"uuid": uuid} for uuid in sorted(uuids)]):
        by_uuid.setdefault(row[0], []).append(row)
    return {uuid: _prior(uuid, rows) for uuid, rows in by_uuid.items()}


def _prior(uuid: str, rows: list[Any]) -> Prior:
    """``rows``: one per claim with this key, each with the instance (or NULLs) before it."""
    instance_attempt, vm_state, deleted_at = rows[0][1:4]
    claims = [row for row in rows if row[4] is not None]
    if instance_attempt is not None:
        newest = next((row for row in claims if row[4] == instance_attempt), None)
        attempt = instance_attempt
    else:
        newest = max(claims, key=lambda row: (row[5] in LIVE, row[4]))
        attempt = newest[4]
    return Prior(
        uuid=uuid,
        attempt=attempt,
        vm_state=vm_state,
        final=vm_state in (ERROR, DELETED),
        deleted=deleted_at is not None,
        claim=None if newest is None else _claim(uuid, newest),
    )


def _claim(uuid: str, row: Any) -> PriorClaim:
    return PriorClaim(
        uuid=uuid,
        attempt=row[4],
        state=ClaimState(row[5]),
        host_id=row[6],
        host=row[7],
        node=row[8],
        limits=limits_from_text(row[9]),
        numa_fit=numa_from_text(row[10]),
        age_seconds=max(0.0, row[11]),
        ttl_seconds=row[12],
        ended_reason=None if row[13] is None else EndReason(row[13]),
    )

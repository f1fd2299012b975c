"""Claims that outlived what they were made for: unanswered, unfinished, or on a host whose agent is down."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from nova_sched.db import claims as claim_rows
from nova_sched.db.engine import Database
from nova_sched.db.losing import Loss, MakeEvent, lock_known, lose
from nova_sched.db.rules import ORDERED, ClaimRow
from nova_sched.db.sqltext import Dialect, Statements
from nova_sched.model.states import BUILDING, ClaimState, EndReason

_REASONS = {
    EndReason.EXPIRED: "No compute host took the build within {ttl:.0f} seconds.",
    EndReason.BUILD_TIMEOUT: "The build did not finish within {timeout:.0f} seconds.",
    EndReason.AGENT_DOWN: "The compute host went down while it was building.",
}
_STRANDED = "The build was given up, and nobody took it over within {timeout:.0f} seconds."


def _overdue(d: Dialect) -> str:
    """(uuid, attempt, why, ttl): an instance that is active already keeps its claim until a report contains it.

    A report may contain a guest that is still being built: its claim is ``held`` then, and the build may end nowhere all
    the same.
    """
    down = f"(s.heartbeat_at IS NULL OR s.heartbeat_at < {d.now} - :down)"
    late = f"c.state_at <= {d.now} - :timeout"
    return (
        f"SELECT c.instance_uuid, c.attempt, CASE WHEN c.state = 'claimed' THEN 'expired' WHEN {late} THEN 'build_timeout'"
        " ELSE 'agent_down' END, c.ttl_seconds FROM sched_claims c"
        " LEFT JOIN sched_instances i ON i.uuid = c.instance_uuid LEFT JOIN sched_hosts h ON h.id = c.host_id"
        " LEFT JOIN sched_services s ON s.host = h.host"
        f" WHERE (c.state = 'claimed' AND c.expires_at <= {d.now}) OR ((c.state = 'building'"
        " AND (i.uuid IS NULL OR i.vm_state = 'building') OR c.state = 'held' AND i.vm_state = 'building'"
        f" AND i.attempt = c.attempt) AND ({late} OR (:watch = 1 AND {down})))"
        " ORDER BY c.instance_uuid LIMIT :limit"
    )


_SQL = Statements(
    overdue=_overdue,
    stranded=lambda d: (
        "SELECT i.uuid FROM sched_instances i WHERE i.vm_state = 'building' AND i.deleted_at IS NULL"
        f" AND i.updated_at <= {d.now} - :timeout AND NOT EXISTS (SELECT 1 FROM sched_claims c"
        " WHERE c.instance_uuid = i.uuid AND c.state <> 'ended') AND NOT EXISTS (SELECT 1 FROM sched_claims c"
        " WHERE c.guest_uuid = i.uuid AND c.state <> 'ended') LIMIT :limit"
    ),
    forget=lambda d: d.delete("sched_instances", {"uuid": "key"}, {}, where="t.vm_state = 'building'"),
)


@dataclass(frozen=True, slots=True)
class ExpiryLimits:
    """Seconds. ``watch_agents``: off until this process has been up long enough to believe that a silence is real."""

    build_timeout_seconds: float
    service_down_time_seconds: float
    watch_agents: bool = True


class Expiry:
    """Ends overdue claims; safe to run in any number of processes at once."""

    def __init__(self, database: Database, make_event: MakeEvent) -> None:
        self._database = database
        self._make_event = make_event

    def run(self, limits: ExpiryLimits, batch: int = 200) -> Counter[str]:
        """End up to ``batch`` overdue claims; how many by reason. Raises StoreUnavailable.

        ``stranded``: instances that are building and hold no claim (a report or an operator ended it), given up as well.
        """
        counts = self._end_overdue(limits, batch)
        if stranded := self._lose_stranded(limits, batch):
            counts["stranded"] = stranded
        return counts

    def _end_overdue(self, limits: ExpiryLimits, batch: int) -> Counter[str]:
        overdue = self._database.read(
            lambda connection: _SQL.fetch(
                connection,
                "overdue",
                timeout=limits.build_timeout_seconds,
                down=limits.service_down_time_seconds,
                watch=int(limits.watch_agents),
                limit=batch,
            )
        )
        if not overdue:
            return Counter()
        return self._database.write(lambda connection: self._end(connection, overdue, limits))

    def _lose_stranded(self, limits: ExpiryLimits, batch: int) -> int:
        timeout = limits.build_timeout_seconds
        found = self._database.read(
            lambda connection: _SQL.fetch(connection, "stranded", timeout=timeout, limit=batch)
        )
        if not found:
            return 0

        def write(connection: Connection) -> int:
            known = lock_known(connection, {row[0] for row in found})
            live = {c.guest_uuid for c in claim_rows.claims_of_guests(connection, known) if c.live}
            text = _STRANDED.format(timeout=timeout)
            losses = [
                Loss(instance, text)
                for uuid, instance in known.items()
                if uuid not in live and instance.row.vm_state == BUILDING
            ]
            lose(connection, losses, self._make_event)
            return len(losses)

        return self._database.write(write)

    def _end(
        self, connection: Connection, overdue: list[tuple[Any, ...]], limits: ExpiryLimits
    ) -> Counter[str]:
        counts: Counter[str] = Counter()
        reasons = {(row[0], row[1]): (EndReason(row[2]), row[3]) for row in overdue}
        uuids = {uuid for uuid, _ in reasons}
        known = lock_known(connection, uuids)
        claims = [claim for claim in claim_rows.claims_of_keys(connection, uuids) if _still(claim, reasons)]
        rooms = claim_rows.lock_rooms(connection, {claim.host_id for claim in claims})
        losses, forgotten = [], []
        for claim in claims:
            reason, ttl = reasons[claim.key]
            counts[reason] += 1
            instance = known.get(claim.uuid)
            if instance is None or instance.row.attempt != claim.attempt or instance.row.vm_state != BUILDING:
                continue
            if claim.method == ORDERED or claim.state is not ClaimState.CLAIMED:
                text = _REASONS[reason].format(ttl=ttl, timeout=limits.build_timeout_seconds)
                losses.append(Loss(instance, text, keep_place=claim.state is not ClaimState.CLAIMED))
            else:
                # A destination that nobody used: nothing was promised, so nothing is left of it.
                forgotten.append({"uuid": claim.uuid})
        claim_rows.move_claims(
            connection, rooms, [(claim, ClaimState.ENDED, reasons[claim.key][0]) for claim in claims]
        )
        lose(connection, losses, self._make_event)
        if forgotten:
            _SQL.run(connection, "forget", forgotten)
        claim_rows.write_rooms(connection, rooms.values())
        return counts


def _still(claim: ClaimRow, reasons: dict[tuple[str, int], tuple[EndReason, float]]) -> bool:
    """Whether the claim is still in the state it was found overdue in."""
    if claim.key not in reasons:
        return False
    if reasons[claim.key][0] is EndReason.EXPIRED:
        return claim.state is ClaimState.CLAIMED
    return claim.state in (ClaimState.BUILDING, ClaimState.HELD)

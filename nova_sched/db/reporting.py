"""What agents report about whole hosts (``report_state``), applied a batch at a time.

A report is dropped unless its (epoch, seq) is newer than the stored one. One that changes nothing costs its service's heartbeat
and no more. One that does is applied under the lock of the host's row: first the lock, then the sum of the host's live
claims, then the write, so that no claim made meanwhile is forgotten or counted twice. A claim is contained in the
reported numbers only if its guest is listed by that host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.engine import Connection

from nova_sched.db import claims as claim_rows
from nova_sched.db.engine import Again
from nova_sched.db.room import Room
from nova_sched.db.rules import ClaimRow
from nova_sched.db.sqltext import Statements
from nova_sched.db.tables import CLAIMED, REPORTED, USED
from nova_sched.model.states import ClaimState, EndReason

#: used_* of a row's reported values, in the order of ``tables.USED``; None = unknown.
Derive = Callable[[Mapping[str, Any]], tuple[int | None, ...]]

_NAMES = {"host": "key", "node": "key"}
_VALUES = ", ".join(f"t.{name}" for name in REPORTED)
_SERVICE = {
    "host": "key", "epoch": "int", "seq": "int", "interval_seconds": "float", "version": "text", "age": "float",
    "changed": "int",
}  # fmt: skip
_HOST_CHANGES = {**REPORTED, **dict.fromkeys((*USED, *CLAIMED), "int"), "claimed_devices": "text"}

_SQL = Statements(
    lock_services=lambda d: (
        f"{d.select_in_order} t.host, t.epoch, t.seq FROM {d.rows('d', {'host': 'key'})}"
        f" JOIN sched_services t ON t.host = d.host ORDER BY t.host{d.locking('t')}"
    ),
    insert_services=lambda d: d.insert("sched_services", {"host": "key"}),
    nodes_of_services=lambda d: (
        f"{d.select_in_order} t.id, t.host, t.node, t.removed_at FROM {d.rows('d', {'host': 'key'})}"
        " JOIN sched_hosts t ON t.host = d.host"
    ),
    insert_hosts=lambda d: d.insert("sched_hosts", _NAMES, {"changed_at": d.now}),
    lock_values=lambda d: (
        f"{d.select_in_order} t.id, t.host, t.node, t.allocation_generation, t.removed_at, t.claimed_devices,"
        f" {', '.join(f't.{name}' for name in CLAIMED)}, {_VALUES} FROM {d.rows('d', {'id': 'int'})}"
        f" JOIN sched_hosts t ON t.id = d.id ORDER BY t.id{d.locking('t')}"
    ),
    deleted_guests=lambda d: (
        f"{d.select_in_order} t.uuid FROM {d.rows('d', {'uuid': 'key'})} JOIN sched_instances t ON t.uuid = d.uuid"
        " WHERE t.deleted_at IS NOT NULL"
    ),
    write_services=lambda d: d.update(
        "sched_services",
        {"host": "key"},
        {name: kind for name, kind in _SERVICE.items() if name != "host"},
        {
            "epoch": "d.epoch",
            "seq": "d.seq",
            "interval_seconds": "COALESCE(d.interval_seconds, t.interval_seconds)",
            "version": "COALESCE(d.version, t.version)",
            "changed": "d.changed",
            # An old report that arrives late tells of its own time, it does not revive the host.
            "heartbeat_at": f"CASE WHEN t.heartbeat_at IS NULL OR t.heartbeat_at < {d.now} - d.age"
            f" THEN {d.now} - d.age ELSE t.heartbeat_at END",
        },
    ),
    write_hosts=lambda d: d.update(
        "sched_hosts",
        {"id": "int"},
        {"generation": "int", "epoch": "int", "seq": "int", "changed": "int", "gone": "int", **_HOST_CHANGES},
        {
            **{name: f"d.{name}" for name in _HOST_CHANGES},
            "report_epoch": "COALESCE(d.epoch, t.report_epoch)",
            "report_seq": "COALESCE(d.seq, t.report_seq)",
            "allocation_generation": "d.generation + 1",
            "removed_at": f"CASE WHEN d.gone = 1 THEN {d.now} ELSE NULL END",
            "changed": "d.changed",
            "changed_at": d.now,
        },
        where="t.allocation_generation = d.generation",
    ),
)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node. ``values``: columns of ``tables.REPORTED``, all of them where ``full``; ``instances``: None = unchanged."""

    node: str
    values: Mapping[str, Any]
    instances: frozenset[str] | None = None
    full: bool = False

    @property
    def says_something(self) -> bool:
        """Whether there is more in it than a sign of life."""
        return self.full or bool(self.values) or self.instances is not None


@dataclass(frozen=True, slots=True)
class Report:
    """One ``report_state``. ``age_seconds``: how long it was under way, as far as the bus knows."""

    host: str
    epoch: int
    seq: int
    nodes: tuple[NodeReport, ...]
    interval_seconds: float | None = None
    version: str | None = None
    age_seconds: float = 0.0

    @property
    def lists_all_nodes(self) -> bool:
        """A report whose nodes are all full names every node of the service; others are gone."""
        return bool(self.nodes) and all(node.full for node in self.nodes)


@dataclass(slots=True)
class ReportResult:
    """What a batch did. ``counts``: applied, stale, hosts_written, claims_held, claims_ended, hosts_removed.
    ``terminate``: (host, uuid) of listed guests whose instance was deleted."""

    counts: Counter[str] = field(default_factory=Counter)
    terminate: list[tuple[str, str]] = field(default_factory=list)


def apply_reports(connection: Connection, reports: Sequence[Report], derive: Derive) -> ReportResult:
    """Apply in the order of (epoch, seq) per host; the caller's transaction. A constant number of statements."""
    return _Reports(connection, reports, derive).run()


@dataclass(slots=True)
class _Node:
    """A locked host row while the batch is applied."""

    room: Room
    values: dict[str, Any]
    before: dict[str, Any]
    claims: list[ClaimRow] = field(default_factory=list)
    epoch: int | None = None
    seq: int | None = None
    gone: bool = False


class _Reports:
    def __init__(self, connection: Connection, reports: Sequence[Report], derive: Derive) -> None:
        self._connection = connection
        self._reports = sorted(reports, key=lambda report: (report.host, report.epoch, report.seq))
        self._derive = derive
        self._result = ReportResult()
        self._nodes: dict[tuple[str, str], _Node] = {}
        self._states: dict[tuple[str, int], ClaimState] = {}

    def run(self) -> ReportResult:
        accepted = self._accept()
        if not accepted:
            return self._result
        self._lock_nodes([report for report in accepted if any(node.says_something for node in report.nodes)])
        for report in accepted:
            self._apply(report)
        self._name_deleted(accepted)
        self._write(accepted)
        return self._result

    def _accept(self) -> list[Report]:
        """Lock the services, make those that are new, and keep what is newer than the stored (epoch, seq)."""
        hosts = sorted({report.host for report in self._reports})
        rows = _SQL.fetch(self._connection, "lock_services", [{"host": host} for host in hosts])
        seen = {host: (epoch, seq) for host, epoch, seq in rows}
        new = [{"host": host} for host in hosts if host not in seen]
        if new:
            # Another worker may insert the same service: the transaction is then run again and finds its row.
            _SQL.run(self._connection, "insert_services", new)
        accepted = []
        for report in self._reports:
            epoch, seq = seen.get(report.host, (None, None))
            if epoch is not None and seq is not None and (report.epoch, report.seq) <= (epoch, seq):
                self._result.counts["stale"] += 1
                continue
            seen[report.host] = (report.epoch, report.seq)
            accepted.append(report)
        self._result.counts["applied"] += len(accepted)
        return accepted

    def _lock_nodes(self, telling: Sequence[Report]) -> None:
        if not telling:
            return
        names = [{"host": host} for host in sorted({report.host for report in telling})]
        known = {(row[1], row[2]): row for row in _SQL.fetch(self._connection, "nodes_of_services", names)}
        wanted = {
            (report.host, node.node) for report in telling for node in report.nodes if node.says_something
        }
        new = sorted(wanted - known.keys())
        if new:
            _SQL.run(self._connection, "insert_hosts", [{"host": host, "node": node} for host, node in new])
            known = {
                (row[1], row[2]): row for row in _SQL.fetch(self._connection, "nodes_of_services", names)
            }
        complete = {report.host for report in telling if report.lists_all_nodes}
        wanted |= {key for key, row in known.items() if key[0] in complete and row[3] is None}
        self._read([known[key][0] for key in wanted])
        self._read_claims(telling)

    def _read(self, ids: Sequence[int]) -> None:
        for row in _SQL.fetch(self._connection, "lock_values", [{"id": host_id} for host_id in sorted(ids)]):
            room = Room(
                id=row[0],
                host=row[1],
                node=row[2],
                generation=row[3],
                removed=row[4] is not None,
                devices=row[5],
                claimed=list(row[6:11]),
                used=(),
            )
            values = dict(zip(REPORTED, row[11:], strict=True))
            self._nodes[(room.host, row[2])] = _Node(room, dict(values), values, gone=room.removed)

    def _read_claims(self, telling: Sequence[Report]) -> None:
        listing = {(r.host, n.node) for r in telling for n in r.nodes if n.instances is not None}
        ids = {self._nodes[key].room.id for key in listing}
        if not ids:
            return
        by_host: dict[int, list[ClaimRow]] = {}
        for claim in claim_rows.live_claims_of_hosts(self._connection, ids):
            by_host.setdefault(claim.host_id, []).append(claim)
        for node in self._nodes.values():
            node.claims = by_host.get(node.room.id, [])

    def _apply(self, report: Report) -> None:
        for part in report.nodes:
            if not part.says_something:
                continue
            node = self._nodes[(report.host, part.node)]
            node.epoch, node.seq = report.epoch, report.seq
            node.gone = False
            if part.full:
                node.values = {name: part.values.get(name) for name in REPORTED}
            else:
                node.values.update((name, value) for name, value in part.values.items() if name in REPORTED)
            if part.instances is not None:
                self._contain(node, part.instances)
        if report.lists_all_nodes:
            named = {part.node for part in report.nodes}
            for (host, name), node in self._nodes.items():
                if host == report.host and name not in named:
                    node.gone = True

    def _contain(self, node: _Node, listed: frozenset[str]) -> None:
        for claim in node.claims:
            state = self._states.get(claim.key, claim.state)
            if claim.guest_uuid in listed:
                if state in (ClaimState.CLAIMED, ClaimState.BUILDING):
                    self._states[claim.key] = ClaimState.HELD
            elif state is ClaimState.HELD:
                self._states[claim.key] = ClaimState.ENDED

    def _name_deleted(self, accepted: Sequence[Report]) -> None:
        listed = {
            u: report.host for report in accepted for node in report.nodes for u in node.instances or ()
        }
        if listed:
            rows = _SQL.fetch(self._connection, "deleted_guests", [{"uuid": uuid} for uuid in sorted(listed)])
            self._result.terminate += [(listed[row[0]], row[0]) for row in rows]

    def _write(self, accepted: Sequence[Report]) -> None:
        self._move_claims()
        written = [
            node
            for node in self._nodes.values()
            if node.room.changed or node.values != node.before or node.gone != node.room.removed
        ]
        claim_rows.refresh_devices(
            self._connection, [node.room for node in written if node.room.devices_stale]
        )
        seq = claim_rows.bump(self._connection)
        if written:
            self._write_hosts(written, seq)
        self._write_services(accepted, seq)

    def _move_claims(self) -> None:
        rooms = {node.room.id: node.room for node in self._nodes.values()}
        moves: list[tuple[ClaimRow, ClaimState, EndReason | None]] = []
        for node in self._nodes.values():
            for claim in node.claims:
                state = self._states.get(claim.key, claim.state)
                if state is not claim.state:
                    ended = state is ClaimState.ENDED
                    # The guest left its host: for its key that is a final outcome, not room to decide anew.
                    moves.append((claim, state, EndReason.DELETED if ended else None))
                    self._result.counts["claims_ended" if ended else "claims_held"] += 1
        claim_rows.move_claims(self._connection, rooms, moves)
        for node in self._nodes.values():
            if node.claims:
                self._sum(node)

    def _sum(self, node: _Node) -> None:
        """The host's claims, summed anew: whatever the columns said before, they are right again."""
        counted = [claim.amounts for claim in node.claims if claim.counted]
        sums = [sum(column) for column in zip(*counted, strict=True)] if counted else [0] * len(CLAIMED)
        if sums != node.room.claimed:
            node.room.claimed = sums
            node.room.changed = True

    def _write_hosts(self, written: Sequence[_Node], seq: int) -> None:
        rows = [
            {
                "id": node.room.id,
                "generation": node.room.generation,
                "epoch": node.epoch,
                "seq": node.seq,
                "changed": seq,
                "gone": int(node.gone),
                **node.values,
                **dict(zip(USED, self._derive(node.values), strict=True)),
                **dict(zip(CLAIMED, node.room.claimed, strict=True)),
                "claimed_devices": node.room.devices,
            }
            for node in sorted(written, key=lambda node: node.room.id)
        ]
        if _SQL.run(self._connection, "write_hosts", rows).rowcount != len(rows):
            raise Again("a host's generation moved")
        self._result.counts["hosts_written"] += len(rows)
        self._result.counts["hosts_removed"] += sum(1 for n in written if n.gone and not n.room.removed)

    def _write_services(self, accepted: Sequence[Report], seq: int) -> None:
        newest = {report.host: report for report in accepted}
        ages: dict[str, float] = {}
        for report in accepted:
            ages[report.host] = min(report.age_seconds, ages.get(report.host, report.age_seconds))
        rows = [
            {
                "host": report.host,
                "epoch": report.epoch,
                "seq": report.seq,
                "interval_seconds": report.interval_seconds,
                "version": report.version,
                "age": max(0.0, ages[report.host]),
                "changed": seq,
            }
            for report in newest.values()
        ]
        _SQL.run(self._connection, "write_services", rows)

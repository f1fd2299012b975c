"""Decision records: why each request was answered as it was, bounded in size, number and age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from nova_sched.db.codec import name_of, numa_to_list, text_of, value_of
from nova_sched.db.engine import Database
from nova_sched.db.sqltext import Statements, new_id
from nova_sched.db.tables import decisions, instance_events
from nova_sched.model.explanation import Explanation, Round
from nova_sched.model.request import SchedulingRequest
from nova_sched.service.ports import DecisionRecord

#: Rounds written out before the rest is only counted; a batch of 1,000 instances repeats itself.
ROUNDS_KEPT = 8
OUTCOMES_KEPT = 64
RECORD_BYTES_MAX = 65536
#: Weighed hosts that a record keeps, and that an answer to somebody who asked names.
WEIGHED_KEPT = 10
WEIGHED_TOLD = 1000
_COLUMNS = {
    "id": "int", "request_id": "text", "method": "text", "project_id": "text", "placed": "int", "failed": "int",
    "record": "text",
}  # fmt: skip
_SQL = Statements(insert=lambda d: d.insert("sched_decisions", _COLUMNS, {"created_at": d.now}))


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """One record. ``record``: keys ``request``, ``outcomes``, ``explanation``, as plain JSON values."""

    id: int
    request_id: str | None
    method: str
    project_id: str | None
    placed: int
    failed: int
    created_at: float
    record: Mapping[str, Any]


def decision_row(record: DecisionRecord) -> dict[str, Any]:
    """The row of a record; its ``id`` grows with time and is known before the insert."""
    request, explanation = record.request, record.explanation
    placed = sum(1 for round_ in explanation.rounds if round_.chosen is not None)
    return {
        "id": new_id(),
        "request_id": name_of(request.caller.request_id),
        "method": request.method,
        "project_id": name_of(request.project_id),
        "placed": placed,
        "failed": max(0, len(request.instances) - placed),
        "record": _record_text(record, explanation),
    }


def describe(record: DecisionRecord) -> dict[str, Any]:
    """A record as the history keeps it, as plain JSON values, but whole: also why single hosts were refused.

    Of the hosts that passed, the best ``WEIGHED_TOLD`` are named.
    """
    body: dict[str, Any] = value_of(
        text_of(_body(record, record.explanation.rounds, record.outcomes, WEIGHED_TOLD))
    )
    return body


def insert_decisions(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows of :func:`decision_row` in the caller's transaction."""
    if rows:
        _SQL.run(connection, "insert", rows)


class DecisionHistory:
    """Reads of decision records, newest first. Methods raise StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self,
        instance_uuid: str | None = None,
        request_id: str | None = None,
        marker: int | None = None,
        limit: int = 50,
    ) -> list[StoredDecision]:
        """Records, of one instance or request where given; ``marker``: the last id of the page before."""
        query = sa.select(decisions).order_by(decisions.c.id.desc()).limit(limit)
        if instance_uuid is not None:
            events = sa.select(instance_events.c.decision_id).where(
                instance_events.c.instance_uuid == instance_uuid
            )
            query = query.where(decisions.c.id.in_(events))
        if request_id is not None:
            query = query.where(decisions.c.request_id == request_id)
        if marker is not None:
            query = query.where(decisions.c.id < marker)
        rows = self._database.read(lambda connection: connection.execute(query).mappings().all())
        return [_stored(row) for row in rows]

    def differing(self, since_seconds: float, limit: int = 1000) -> tuple[Sequence[StoredDecision], int]:
        """Records in which a shadow configuration differs, newest first, and how many there are of both kinds.

        :param since_seconds: how far to look back, by the database's clock.
        """
        young = sa.text(f"created_at >= {self._database.dialect.now} - :age")
        marked = decisions.c.record.like('%"shadow":{"source":%')
        query = sa.select(decisions).where(young, marked).order_by(decisions.c.id.desc()).limit(limit)
        total = sa.select(sa.func.count()).select_from(decisions).where(young)

        def read(connection: Connection) -> tuple[Sequence[sa.RowMapping], int]:
            age = {"age": since_seconds}
            rows = connection.execute(query, age).mappings().all()
            return rows, int(connection.execute(total, age).scalar_one())

        rows, counted = self._database.read(read)
        found = [_stored(row) for row in rows]
        return [one for one in found if one.record.get("shadow")], counted

    def get(self, decision_id: int) -> StoredDecision | None:
        """One record, or None."""
        query = sa.select(decisions).where(decisions.c.id == decision_id)
        row = self._database.read(lambda connection: connection.execute(query).mappings().first())
        return None if row is None else _stored(row)


def _stored(row: sa.RowMapping) -> StoredDecision:
    values = {
        name: row[name]
        for name in ("id", "request_id", "method", "project_id", "placed", "failed", "created_at")
    }
    return StoredDecision(**values, record=value_of(row["record"]))


def _record_text(record: DecisionRecord, explanation: Explanation) -> str:
    rounds, kept = explanation.rounds, ROUNDS_KEPT
    outcomes = dict(list(record.outcomes.items())[:OUTCOMES_KEPT])
    while True:
        shown = rounds if len(rounds) <= kept + 1 else (*rounds[:kept], rounds[-1])
        body = _body(record, shown, outcomes)
        text = text_of(body)
        if len(text) <= RECORD_BYTES_MAX or kept == 0:
            return (
                text
                if len(text) <= RECORD_BYTES_MAX
                else text_of({"request": body["request"], "too_large": len(text)})
            )
        kept //= 2


def _body(
    record: DecisionRecord,
    rounds: Sequence[Round],
    outcomes: Mapping[str, str],
    weighed_max: int = WEIGHED_KEPT,
) -> dict[str, Any]:
    body = {
        "request": _request(record.request),
        "outcomes": outcomes,
        "explanation": _explanation(record.explanation, rounds, weighed_max),
    }
    if record.shadow is not None:
        body["shadow"] = record.shadow
    return body


def _request(request: SchedulingRequest) -> dict[str, Any]:
    flavor, amounts = request.flavor, request.amounts
    body: dict[str, Any] = {
        "instances": len(request.instances),
        "attempt": request.attempt,
        "flavor": {
            "name": flavor.name,
            "id": flavor.flavorid,
            "type_id": flavor.id,
            "vcpus": flavor.vcpus,
            "memory_mb": flavor.memory_mb,
            "root_gb": flavor.root_gb,
            "ephemeral_gb": flavor.ephemeral_gb,
            "swap_mb": flavor.swap_mb,
            "extra_specs": dict(flavor.extra_specs),
        },
        "amounts": [amounts.vcpus, amounts.memory_mb, amounts.disk_mb],
        "image": request.image.id,
    }
    optional = {
        "user_id": request.caller.user_id,
        "availability_zone": request.availability_zone,
        "hints": dict(request.hints),
        "group": request.group,
        "tried": request.tried,
        "force_hosts": request.force_hosts,
        "force_nodes": request.force_nodes,
        "ignore_hosts": request.ignore_hosts,
        "excluded": request.excluded,
        "image_properties": dict(request.image.properties),
        "os_type": request.os_type,
        "instance_type_id": request.instance_type_id,
        "pci_requests": [{"count": one.count, "spec": one.spec} for one in request.pci_requests],
        "numa_cells": numa_to_list(request.numa),
    }
    body.update((name, value) for name, value in optional.items() if value)
    return body


def _explanation(explanation: Explanation, rounds: Sequence[Round], weighed_max: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "driver": explanation.driver,
        "hosts_total": explanation.hosts_total,
        "generation": explanation.generation,
        "rounds": [_round(round_, weighed_max) for round_ in rounds],
    }
    if len(rounds) < len(explanation.rounds):
        body["rounds_omitted"] = len(explanation.rounds) - len(rounds)
    optional = {
        "before": dict(explanation.before),
        "forced": explanation.forced,
        "refused": explanation.refused,
        "seed": explanation.seed,
        "stage_seconds": dict(explanation.stage_seconds),
    }
    body.update((name, value) for name, value in optional.items() if value)
    return body


def _round(round_: Round, weighed_max: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "index": round_.index,
        "instance": round_.instance.uuid,
        "hosts_seen": round_.hosts_seen,
        "steps": [
            [step.name, step.hosts_in, step.hosts_out]
            if step.reason is None
            else [step.name, step.hosts_in, step.hosts_out, step.reason]
            for step in round_.steps
        ],
        "weighed": [[w.host, w.node, w.weight, w.parts] for w in round_.weighed[:weighed_max]],
        "chosen": round_.chosen,
    }
    refused = {step.name: step.refused for step in round_.steps if step.refused}
    if refused:
        body["refused"] = refused
    if len(round_.choices) > 1:
        body["choices"] = round_.choices[:20]
    return body

"""The rows that a batch of outcomes becomes: gathered first, written in one statement per table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.engine import Connection

from nova_sched.db import outbox
from nova_sched.db.codec import MESSAGE_LENGTH, TRACEBACK_LENGTH, clipped, limits_to_text, name_of, text_of
from nova_sched.db.decisions import decision_row, insert_decisions
from nova_sched.db.room import RESOURCES, Room
from nova_sched.db.rules import ORDERED, InstanceRow
from nova_sched.db.sqltext import Statements
from nova_sched.db.tables import PROPERTIES
from nova_sched.model.request import InstanceRef, SchedulingRequest
from nova_sched.model.states import BUILDING, ClaimState
from nova_sched.service.ports import DecisionRecord, Failed, Placed

_PROPERTIES = {name: "int" if kind == "int" else "text" for name, kind in PROPERTIES.items()}
_CLAIM = {
    "instance_uuid": "key", "attempt": "int", "guest_uuid": "key", "host_id": "int", "placed_node": "text", "kind": "key", "state": "key",
    "method": "text", "request_id": "text", **dict.fromkeys(RESOURCES, "int"), "pci": "text", "numa": "text",
    "limits": "text", "group_id": "int", "ttl_seconds": "float",
}  # fmt: skip
_STATE = {
    "attempt": "int", "vm_state": "key", "task_state": "key", "host": "text", "node": "text", "request_id": "text",
}  # fmt: skip
_EVENT = {
    "instance_uuid": "key", "attempt": "int", "event": "text", "request_id": "text", "result": "text",
    "traceback": "text", "host": "text", "decision_id": "int",
}  # fmt: skip

SQL = Statements(
    insert_claims=lambda d: d.insert(
        "sched_claims",
        _CLAIM,
        {"created_at": d.now, "state_at": d.now, "expires_at": f"{d.now} + d.ttl_seconds"},
    ),
    insert_instances=lambda d: d.insert(
        "sched_instances",
        {"uuid": "key", **_STATE, **_PROPERTIES},
        {"created_at": d.now, "updated_at": d.now},
    ),
    update_instances=lambda d: d.update(
        "sched_instances",
        {"uuid": "key"},
        {**_STATE, "keep_place": "int", **_PROPERTIES},
        {
            "attempt": "d.attempt",
            "vm_state": "d.vm_state",
            "task_state": "d.task_state",
            "host": "CASE WHEN d.keep_place = 1 THEN t.host ELSE d.host END",
            "node": "CASE WHEN d.keep_place = 1 THEN t.node ELSE d.node END",
            "request_id": "d.request_id",
            **{name: f"COALESCE(d.{name}, t.{name})" for name in PROPERTIES},
            "updated_at": d.now,
        },
    ),
    insert_faults=lambda d: d.insert(
        "sched_faults",
        {"instance_uuid": "key", "attempt": "int", "code": "int", "message": "text", "details": "text"},
        {"created_at": d.now},
    ),
    insert_events=lambda d: (
        f"INSERT INTO sched_instance_events ({', '.join(_EVENT)}, started_at, finished_at)"
        f" SELECT {', '.join(f'd.{name}' for name in _EVENT)}, {d.now} - d.seconds, {d.now}"
        f" FROM {d.rows('d', {**_EVENT, 'seconds': 'float'})}"
    ),
)


@dataclass(slots=True)
class OutcomeRows:
    """Rows of one transaction. ``known``: instances that have a row already."""

    known: Mapping[str, InstanceRow] = field(default_factory=dict)
    _claims: list[dict[str, Any]] = field(default_factory=list)
    _new: dict[str, dict[str, Any]] = field(default_factory=dict)
    _changed: dict[str, dict[str, Any]] = field(default_factory=dict)
    _faults: list[dict[str, Any]] = field(default_factory=list)
    _outbox: list[dict[str, Any]] = field(default_factory=list)
    _events: list[dict[str, Any]] = field(default_factory=list)

    def placed(self, outcome: Placed, room: Room, group_id: int | None, pci: Any, numa: Any) -> None:
        """A claim on ``room`` and, under the instance's own key, the instance building there."""
        request, placement = outcome.request, outcome.placement
        uuid, attempt = outcome.key
        amounts = request.amounts
        self._claims.append(
            {
                "instance_uuid": uuid,
                "attempt": attempt,
                "guest_uuid": None if placement.instance.uuid == uuid else placement.instance.uuid,
                "host_id": placement.host_id,
                "placed_node": placement.node,
                "kind": outcome.kind.value,
                "state": ClaimState.CLAIMED.value,
                "method": request.method,
                "request_id": name_of(request.caller.request_id),
                **{name: getattr(amounts, name) for name in RESOURCES},
                "pci": None if pci is None else text_of(pci),
                "numa": None if numa is None else text_of(numa),
                "limits": limits_to_text(placement.limits),
                "group_id": group_id,
                "ttl_seconds": outcome.ttl_seconds,
            }
        )
        if outcome.claim_uuid is None and (request.method == ORDERED or uuid not in self.known):
            state = {
                "attempt": attempt,
                "vm_state": BUILDING,
                "task_state": "scheduling",
                "host": room.host,
                "node": placement.node,
                "keep_place": 0,
            }
            self._instance(uuid, request, placement.instance, state)
        if placement.instance.uuid is not None:
            self._event(request, placement.instance.uuid, "Success", None, room.host)

    def failed(self, outcome: Failed) -> int | None:
        """An instance without a host: its state, fault and event; the id of the outbox row, if any."""
        request, uuid = outcome.request, outcome.instance.uuid
        assert uuid is not None
        ordered = request.method == ORDERED
        known = self.known.get(uuid)
        state = {
            "attempt": request.attempt if ordered or known is None else known.attempt,
            "vm_state": outcome.vm_state,
            "task_state": None,
            "host": None,
            "node": None,
            "keep_place": 0 if ordered else 1,
        }
        self._instance(uuid, request, outcome.instance, state)
        self._faults.append(
            {
                "instance_uuid": uuid,
                "attempt": request.attempt,
                "code": outcome.code,
                "message": clipped(outcome.reason, MESSAGE_LENGTH),
                "details": clipped(outcome.traceback, TRACEBACK_LENGTH),
            }
        )
        self._event(request, uuid, "Error", outcome.traceback or outcome.reason, None)
        if outcome.event is None:
            return None
        row = outbox.row_of(outcome.event)
        self._outbox.append(row)
        return int(row["id"])

    def write(self, connection: Connection, records: Sequence[DecisionRecord]) -> None:
        """Insert and update everything gathered, and the decision records."""
        decisions = [decision_row(record) for record in records]
        self._link(records, decisions)
        if self._claims:
            SQL.run(connection, "insert_claims", self._claims)
        if self._new:
            SQL.run(connection, "insert_instances", [self._new[uuid] for uuid in sorted(self._new)])
        if self._changed:
            SQL.run(connection, "update_instances", [self._changed[uuid] for uuid in sorted(self._changed)])
        if self._faults:
            SQL.run(connection, "insert_faults", self._faults)
        outbox.insert(connection, self._outbox)
        if self._events:
            SQL.run(connection, "insert_events", self._events)
        insert_decisions(connection, decisions)

    def _link(self, records: Sequence[DecisionRecord], decisions: Sequence[dict[str, Any]]) -> None:
        waiting: dict[str, list[dict[str, Any]]] = {}
        for event in self._events:
            waiting.setdefault(event["instance_uuid"], []).append(event)
        for record, row in zip(records, decisions, strict=True):
            seconds = sum(record.explanation.stage_seconds.values())
            for uuid in {*record.request.uuids, *record.outcomes}:
                for event in waiting.pop(uuid, ()):
                    event["decision_id"] = row["id"]
                    event["seconds"] = seconds

    def _instance(
        self, uuid: str, request: SchedulingRequest, instance: InstanceRef, state: dict[str, Any]
    ) -> None:
        row = {
            "uuid": uuid,
            "request_id": name_of(request.caller.request_id),
            **state,
            **properties_of(request, instance),
        }
        (self._changed if uuid in self.known else self._new)[uuid] = row

    def _event(
        self, request: SchedulingRequest, uuid: str, result: str, traceback: str | None, host: str | None
    ) -> None:
        self._events.append(
            {
                "instance_uuid": uuid,
                "attempt": request.attempt,
                "event": "schedule",
                "request_id": name_of(request.caller.request_id),
                "result": result,
                "traceback": clipped(traceback, TRACEBACK_LENGTH),
                "host": host,
                "decision_id": None,
                "seconds": 0.0,
            }
        )


def properties_of(request: SchedulingRequest, instance: InstanceRef) -> dict[str, Any]:
    """What ``sched_instances`` keeps of a request, by the allow-list of ``tables.PROPERTIES``."""
    given = request.passthrough.request_spec.get("instance_properties")
    given = given if isinstance(given, Mapping) else {}
    flavor = request.flavor
    return {
        "project_id": name_of(request.project_id),
        "user_id": name_of(request.user_id),
        "display_name": name_of(given.get("display_name")),
        "reservation_id": name_of(given.get("reservation_id")),
        "instance_type_id": request.instance_type_id if request.instance_type_id is not None else flavor.id,
        "flavor": name_of(flavor.name or flavor.flavorid),
        "image_ref": name_of(request.image.id),
        "availability_zone": name_of(request.availability_zone),
        "vcpus": request.amounts.vcpus,
        "memory_mb": request.amounts.memory_mb,
        "disk_mb": request.amounts.disk_mb,
        "launch_index": instance.launch_index,
    }

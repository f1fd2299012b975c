"""Instances that end in ERROR after they were placed: state, fault, schedule event and outbox row, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.engine import Connection

from nova_sched.db import outbox
from nova_sched.db.codec import MESSAGE_LENGTH, clipped
from nova_sched.db.records import SQL as RECORDS
from nova_sched.db.rules import InstanceRow
from nova_sched.db.sqltext import Statements
from nova_sched.db.tables import PROPERTIES
from nova_sched.model.messages import Event
from nova_sched.model.request import (
    Amounts,
    Caller,
    Flavor,
    Image,
    InstanceRef,
    Passthrough,
    SchedulingRequest,
)

#: Makes the ERROR event of a request's one instance, with the reason; ``bootstrap`` gives ``wire.outbound``'s.
MakeEvent = Callable[[SchedulingRequest, str], Event]

_COLUMNS = ("uuid", "attempt", "vm_state", "deleted_at", "host", "request_id", *PROPERTIES)
_SQL = Statements(
    lock=lambda d: (
        f"{d.select_in_order} {', '.join(f't.{name}' for name in _COLUMNS)} FROM {d.rows('d', {'uuid': 'key'})}"
        f" JOIN sched_instances t ON t.uuid = d.uuid ORDER BY t.uuid{d.locking('t')}"
    ),
    fail=lambda d: d.update(
        "sched_instances",
        {"uuid": "key"},
        {"keep_place": "int"},
        {
            "vm_state": "'error'",
            "task_state": "NULL",
            "host": "CASE WHEN d.keep_place = 1 THEN t.host ELSE NULL END",
            "node": "CASE WHEN d.keep_place = 1 THEN t.node ELSE NULL END",
            "updated_at": d.now,
        },
    ),
)


@dataclass(frozen=True, slots=True)
class KnownInstance:
    """A locked row of ``sched_instances`` with what its request left there."""

    row: InstanceRow
    request_id: str | None
    properties: Mapping[str, Any]

    def as_request(self) -> SchedulingRequest:
        """The request as far as SQL remembers it, for this one instance."""
        kept = self.properties
        flavor = Flavor(
            id=kept["instance_type_id"],
            name=kept["flavor"],
            vcpus=kept["vcpus"] or 0,
            memory_mb=kept["memory_mb"] or 0,
        )
        properties = {
            name: kept[name]
            for name in ("project_id", "user_id", "display_name", "reservation_id")
            if kept[name]
        }
        request = SchedulingRequest(
            method="run_instance",
            caller=Caller(request_id=self.request_id, user_id=kept["user_id"], project_id=kept["project_id"]),
            instances=(InstanceRef(self.row.uuid, kept["launch_index"] or 0),),
            flavor=flavor,
            amounts=Amounts(kept["vcpus"] or 0, kept["memory_mb"] or 0, kept["disk_mb"] or 0),
            image=Image(id=kept["image_ref"]),
            project_id=kept["project_id"],
            user_id=kept["user_id"],
            availability_zone=kept["availability_zone"],
            instance_type_id=kept["instance_type_id"],
            attempt=self.row.attempt,
        )
        spec = {
            "instance_properties": {"uuid": self.row.uuid, **properties},
            "instance_uuids": [self.row.uuid],
            "instance_type": {
                "id": flavor.id,
                "name": flavor.name,
                "vcpus": flavor.vcpus,
                "memory_mb": flavor.memory_mb,
            },
        }
        return replace(request, passthrough=Passthrough(request_spec=spec))


@dataclass(frozen=True, slots=True)
class Loss:
    """One instance that is lost. ``keep_place``: the guest may be on its host, so the host stays written down."""

    instance: KnownInstance
    reason: str
    keep_place: bool = False


def lock_known(connection: Connection, uuids: Collection[str]) -> dict[str, KnownInstance]:
    """Lock and return those of these instances that exist."""
    if not uuids:
        return {}
    found = {}
    for row in _SQL.fetch(connection, "lock", [{"uuid": uuid} for uuid in sorted(uuids)]):
        uuid, attempt, vm_state, deleted_at, host, request_id, *properties = row
        instance = InstanceRow(uuid, attempt, vm_state, deleted_at is not None, host)
        found[uuid] = KnownInstance(instance, request_id, dict(zip(PROPERTIES, properties, strict=True)))
    return found


def lose(connection: Connection, losses: Iterable[Loss], make_event: MakeEvent) -> None:
    """Write the losses; each event waits in the outbox until the broker confirmed it."""
    losses = sorted(losses, key=lambda loss: loss.instance.row.uuid)
    if not losses:
        return
    states, faults, events, waiting = [], [], [], []
    for loss in losses:
        row = loss.instance.row
        reason = clipped(loss.reason, MESSAGE_LENGTH)
        states.append({"uuid": row.uuid, "keep_place": int(loss.keep_place)})
        faults.append(
            {
                "instance_uuid": row.uuid,
                "attempt": row.attempt,
                "code": 500,
                "message": reason,
                "details": None,
            }
        )
        events.append(
            {
                "instance_uuid": row.uuid,
                "attempt": row.attempt,
                "event": "build",
                "request_id": loss.instance.request_id,
                "result": "Error",
                "traceback": reason,
                "host": row.host,
                "decision_id": None,
                "seconds": 0.0,
            }
        )
        waiting.append(outbox.row_of(make_event(loss.instance.as_request(), loss.reason)))
    _SQL.run(connection, "fail", states)
    RECORDS.run(connection, "insert_faults", faults)
    outbox.insert(connection, waiting)
    RECORDS.run(connection, "insert_events", events)

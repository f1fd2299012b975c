"""Instances: what became of each, and tombstones. ``InstanceDirectory`` is what the RPC manager reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from nova_sched.db import claims as claim_rows
from nova_sched.db.engine import Database
from nova_sched.db.sqltext import Dialect, Statements
from nova_sched.db.tables import PROPERTIES, faults, hosts, instance_events, instances, services
from nova_sched.errors import InstanceNotFound
from nova_sched.model.states import DELETED, ClaimState, EndReason

_SQL = Statements(
    tombstone=lambda d: (
        f"UPDATE sched_instances SET vm_state = '{DELETED}', task_state = NULL, deleted_at = {d.now}, updated_at = {d.now}"
        " WHERE uuid = :uuid AND deleted_at IS NULL"
    ),
    insert_tombstone=lambda d: (
        "INSERT INTO sched_instances (uuid, attempt, vm_state, created_at, updated_at, deleted_at)"
        f" VALUES (:uuid, 0, '{DELETED}', {d.now}, {d.now}, {d.now})"
    ),
)
_SHOWN = ("uuid", "vm_state", "task_state", "host", "node", "attempt")


class InstanceDirectory:
    """Reads of instances and hosts, and the deletion of instances. Methods raise StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get_instance(self, uuid: str) -> Mapping[str, Any]:
        """``{uuid, vm_state, task_state, host, node, attempt, fault}``; ``fault``: ``{code, message, created_at}`` or None.

        Raises InstanceNotFound.
        """

        def read(connection: Connection) -> dict[str, Any] | None:
            row = connection.execute(sa.select(instances).where(instances.c.uuid == uuid)).mappings().first()
            if row is None:
                return None
            newest = (
                sa.select(faults).where(faults.c.instance_uuid == uuid).order_by(faults.c.id.desc()).limit(1)
            )
            fault = connection.execute(newest).mappings().first()
            shown = {name: row[name] for name in _SHOWN}
            shown["fault"] = (
                None if fault is None else {n: fault[n] for n in ("code", "message", "created_at")}
            )
            return shown

        found = self._database.read(read)
        if found is None:
            raise InstanceNotFound(uuid)
        return found

    def show_instance(self, uuid: str) -> Mapping[str, Any]:
        """Everything kept of one instance: properties, ``faults`` and ``events`` oldest first. Raises InstanceNotFound."""

        def read(connection: Connection) -> dict[str, Any] | None:
            row = connection.execute(sa.select(instances).where(instances.c.uuid == uuid)).mappings().first()
            if row is None:
                return None
            shown = dict(row)
            for name, table in (("faults", faults), ("events", instance_events)):
                query = sa.select(table).where(table.c.instance_uuid == uuid).order_by(table.c.id)
                shown[name] = [dict(found) for found in connection.execute(query).mappings()]
            return shown

        found = self._database.read(read)
        if found is None:
            raise InstanceNotFound(uuid)
        return found

    def list_instances(
        self,
        marker: str | None = None,
        limit: int = 100,
        host: str | None = None,
        vm_state: str | None = None,
        project_id: str | None = None,
        deleted: bool = False,
    ) -> list[Mapping[str, Any]]:
        """Instances by uuid after ``marker``, tombstones only with ``deleted``; keys of get_instance and the properties."""
        columns = [
            instances.c[name] for name in (*_SHOWN, *PROPERTIES, "created_at", "updated_at", "deleted_at")
        ]
        query = sa.select(*columns).order_by(instances.c.uuid).limit(limit)
        for column, value in (("host", host), ("vm_state", vm_state), ("project_id", project_id)):
            if value is not None:
                query = query.where(instances.c[column] == value)
        if not deleted:
            query = query.where(instances.c.deleted_at.is_(None))
        if marker is not None:
            query = query.where(instances.c.uuid > marker)
        return [dict(row) for row in self._database.read(lambda c: c.execute(query).mappings().all())]

    def delete_instance(self, uuid: str) -> Sequence[tuple[str, str]]:
        """Leave a tombstone, whether the instance is known or not. Idempotent.

        A claim still ``claimed`` ends and gives its room back. A guest that may be on a host keeps its room
        until that host's report omits it; those (host, uuid) are returned, for whoever wants to tell the agents.
        """
        return self._database.write(lambda connection: _delete(connection, uuid))

    def get_hosts(self, marker: str | None, limit: int) -> Sequence[Mapping[str, Any]]:
        """Up to ``limit`` hosts by name after the one named ``marker``; see :meth:`show_host` for the keys."""
        names = (
            sa.select(hosts.c.host)
            .where(hosts.c.removed_at.is_(None))
            .distinct()
            .order_by(hosts.c.host)
            .limit(limit)
        )
        if marker is not None:
            names = names.where(hosts.c.host > marker)

        def read(connection: Connection) -> list[dict[str, Any]]:
            page = list(connection.execute(names).scalars())
            return [
                _host(row)
                for row in connection.execute(
                    _hosts_query(self._database.dialect).where(hosts.c.host.in_(page))
                ).mappings()
            ]

        return self._database.read(read)

    def show_host(self, name: str) -> list[Mapping[str, Any]]:
        """One mapping per node of a host: reported columns, ``used_*``, ``claimed_*``, heartbeat, disabled and reason."""
        query = _hosts_query(self._database.dialect).where(hosts.c.host == name)
        return [_host(row) for row in self._database.read(lambda c: c.execute(query).mappings().all())]


def _delete(connection: Connection, uuid: str) -> list[tuple[str, str]]:
    known = claim_rows.lock_instances(connection, [uuid])
    claims = [claim for claim in claim_rows.claims_of_guests(connection, [uuid]) if claim.live]
    rooms = claim_rows.lock_rooms(connection, {claim.host_id for claim in claims})
    ended = [(c, ClaimState.ENDED, EndReason.DELETED) for c in claims if c.state is ClaimState.CLAIMED]
    on_hosts = {
        rooms[c.host_id].host for c in claims if c.state is not ClaimState.CLAIMED and c.host_id in rooms
    }
    claim_rows.move_claims(connection, rooms, ended)
    _SQL.run(connection, "tombstone" if known else "insert_tombstone", uuid=uuid)
    claim_rows.write_rooms(connection, rooms.values())
    return [(host, uuid) for host in sorted(on_hosts)]


def heartbeat_age(dialect: Dialect) -> sa.Label[Any]:
    """Column ``heartbeat_age_seconds`` of a query over services, by the database's clock: liveness has no other."""
    return (sa.literal_column(dialect.now) - services.c.heartbeat_at).label("heartbeat_age_seconds")


def _hosts_query(dialect: Dialect) -> sa.Select[Any]:
    beat = (
        services.c.heartbeat_at,
        heartbeat_age(dialect),
        services.c.disabled,
        services.c.disabled_reason,
        services.c.version,
    )
    joined = hosts.outerjoin(services, services.c.host == hosts.c.host)
    return (
        sa.select(hosts, *beat)
        .select_from(joined)
        .where(hosts.c.removed_at.is_(None))
        .order_by(hosts.c.host, hosts.c.id)
    )


def _host(row: sa.RowMapping) -> dict[str, Any]:
    hidden = ("changed", "changed_at", "removed_at", "report_epoch", "report_seq")
    shown = {name: value for name, value in row.items() if name not in hidden}
    shown["disabled"] = bool(shown["disabled"])
    return shown

"""What operators write: services, aggregates, server groups, and claims that they end by hand.

Every write stamps what delta reads must see, so all schedulers know of it with their next batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from nova_sched.db import claims as claim_rows
from nova_sched.db.codec import text_of, value_of
from nova_sched.db.engine import Database
from nova_sched.db.instances import heartbeat_age
from nova_sched.db.tables import (
    aggregate_hosts,
    aggregate_metadata,
    aggregates,
    claims,
    group_members,
    groups,
    hosts,
    services,
)
from nova_sched.errors import AggregateNotFound, HostNotFound, ServerGroupNotFound
from nova_sched.model.states import ClaimState, EndReason


class ServiceAdmin:
    """Compute services: one per host name, several nodes may share one. Methods raise StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> list[Mapping[str, Any]]:
        """``{host, disabled, disabled_reason, heartbeat_at, version, interval_seconds, nodes}`` by host.

        ``heartbeat_age_seconds`` is by the database's clock, the one that liveness goes by.
        """
        counted = (
            sa.select(hosts.c.host, sa.func.count().label("nodes"))
            .where(hosts.c.removed_at.is_(None))
            .group_by(hosts.c.host)
            .subquery()
        )
        names = ("host", "disabled", "disabled_reason", "heartbeat_at", "version", "interval_seconds")
        query = (
            sa.select(
                *(services.c[name] for name in names),
                heartbeat_age(self._database.dialect),
                sa.func.coalesce(counted.c.nodes, 0).label("nodes"),
            )
            .select_from(services.outerjoin(counted, counted.c.host == services.c.host))
            .order_by(services.c.host)
        )
        rows = self._database.read(lambda connection: connection.execute(query).mappings().all())
        return [{**row, "disabled": bool(row["disabled"])} for row in rows]

    def set_disabled(self, host: str, disabled: bool, reason: str | None = None) -> None:
        """Take a host out of scheduling, or back. Raises HostNotFound."""

        def write(connection: Connection) -> bool:
            change = services.update().where(services.c.host == host)
            values = {"disabled": int(disabled), "disabled_reason": reason if disabled else None}
            if connection.execute(change.values(**values)).rowcount == 0:
                return False
            _stamp_hosts(connection, [host])
            return True

        if not self._database.write(write):
            raise HostNotFound(host)


class AggregateAdmin:
    """Host aggregates and their metadata. Methods raise StoreUnavailable, and AggregateNotFound for unknown names."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> list[Mapping[str, Any]]:
        """``{id, name, hosts, metadata, unknown_hosts}`` by id; hosts that no service reported are named."""

        def read(connection: Connection) -> list[Mapping[str, Any]]:
            known = set(connection.execute(sa.select(services.c.host)).scalars())
            found: dict[int, dict[str, Any]] = {
                row.id: {"id": row.id, "name": row.name, "hosts": [], "metadata": {}, "unknown_hosts": []}
                for row in connection.execute(sa.select(aggregates).order_by(aggregates.c.id))
            }
            for row in connection.execute(sa.select(aggregate_hosts).order_by(aggregate_hosts.c.host)):
                found[row.aggregate_id]["hosts"].append(row.host)
                if row.host not in known:
                    found[row.aggregate_id]["unknown_hosts"].append(row.host)
            for row in connection.execute(sa.select(aggregate_metadata).order_by(aggregate_metadata.c.key)):
                found[row.aggregate_id]["metadata"][row.key] = row.value
            return [*found.values()]

        return self._database.read(read)

    def create(self, name: str, metadata: Mapping[str, str] | None = None, hosts: Sequence[str] = ()) -> int:
        """Make an aggregate; its id. A name that exists keeps its id, and metadata and hosts are added to it."""

        def write(connection: Connection) -> int:
            found = _aggregate_id(connection, name)
            if found is None:
                made = connection.execute(aggregates.insert().values(name=name)).inserted_primary_key
                assert made is not None
                found = int(made[0])
            _set_metadata(connection, found, metadata or {})
            for host in sorted(set(hosts)):
                _add_host(connection, found, host)
            _stamp_aggregates(connection)
            return found

        return self._database.write(write)

    def delete(self, name: str) -> None:
        """Remove an aggregate with its hosts and metadata."""

        def write(connection: Connection, aggregate_id: int) -> None:
            for table in (aggregate_hosts, aggregate_metadata):
                connection.execute(table.delete().where(table.c.aggregate_id == aggregate_id))
            connection.execute(aggregates.delete().where(aggregates.c.id == aggregate_id))

        self._change(name, write)

    def add_host(self, name: str, host: str) -> None:
        """Put a host into an aggregate; twice is once."""
        self._change(name, lambda connection, aggregate_id: _add_host(connection, aggregate_id, host))

    def remove_host(self, name: str, host: str) -> None:
        """Take a host out of an aggregate; Raises HostNotFound when it is not in it."""

        def write(connection: Connection, aggregate_id: int) -> None:
            table = aggregate_hosts
            chosen = (table.c.aggregate_id == aggregate_id) & (table.c.host == host)
            if connection.execute(table.delete().where(chosen)).rowcount == 0:
                raise HostNotFound(host)

        self._change(name, write)

    def set_metadata(self, name: str, metadata: Mapping[str, str | None]) -> None:
        """Set keys; a value of None removes its key."""
        self._change(name, lambda connection, aggregate_id: _set_metadata(connection, aggregate_id, metadata))

    def _change(self, name: str, write: Any) -> None:
        def run(connection: Connection) -> None:
            aggregate_id = _aggregate_id(connection, name)
            if aggregate_id is None:
                raise AggregateNotFound(name)
            write(connection, aggregate_id)
            _stamp_aggregates(connection)

        self._database.write(run)


class GroupAdmin:
    """Server groups. Methods raise StoreUnavailable, and ServerGroupNotFound for unknown names and uuids."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> list[Mapping[str, Any]]:
        """``{uuid, name, policies, members}`` by name."""

        def read(connection: Connection) -> list[Mapping[str, Any]]:
            members: dict[int, list[str]] = {}
            for row in connection.execute(sa.select(group_members).order_by(group_members.c.instance_uuid)):
                members.setdefault(row.group_id, []).append(row.instance_uuid)
            return [
                {
                    "uuid": r.uuid,
                    "name": r.name,
                    "policies": value_of(r.policies),
                    "members": members.get(r.id, []),
                }
                for r in connection.execute(sa.select(groups).order_by(groups.c.name, groups.c.id))
            ]

        return self._database.read(read)

    def create(
        self, name: str, policies: Sequence[str], uuid: str | None = None, members: Sequence[str] = ()
    ) -> str:
        """Make a group; its uuid."""
        uuid = uuid or str(uuid4())

        def write(connection: Connection) -> None:
            made = connection.execute(
                groups.insert().values(uuid=uuid, name=name, policies=text_of(list(policies)))
            )
            assert made.inserted_primary_key is not None
            _add_members(connection, int(made.inserted_primary_key[0]), members)

        self._database.write(write)
        return uuid

    def delete(self, name: str) -> None:
        """Remove a group; its members stay where they are."""

        def write(connection: Connection, group_id: int) -> None:
            connection.execute(group_members.delete().where(group_members.c.group_id == group_id))
            connection.execute(groups.delete().where(groups.c.id == group_id))

        self._change(name, write)

    def add_members(self, name: str, uuids: Sequence[str]) -> None:
        """Make instances members; twice is once."""
        self._change(name, lambda connection, group_id: _add_members(connection, group_id, uuids))

    def remove_members(self, name: str, uuids: Sequence[str]) -> None:
        """Instances that are no members are fine."""

        def write(connection: Connection, group_id: int) -> None:
            chosen = (group_members.c.group_id == group_id) & group_members.c.instance_uuid.in_(list(uuids))
            connection.execute(group_members.delete().where(chosen))

        self._change(name, write)

    def _change(self, name: str, write: Any) -> None:
        def run(connection: Connection) -> None:
            # The generation guards placements that were decided with the members as they were.
            query = sa.select(groups.c.id).where((groups.c.uuid == name) | (groups.c.name == name))
            group_id = connection.execute(
                query.order_by(groups.c.uuid != name, groups.c.id).with_for_update()
            ).scalar()
            if group_id is None:
                raise ServerGroupNotFound(name)
            bumped = groups.update().where(groups.c.id == group_id).values(generation=groups.c.generation + 1)
            connection.execute(bumped)
            write(connection, group_id)

        self._database.write(run)


class ClaimAdmin:
    """Claims as operators see them. Methods raise StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(
        self, host: str | None = None, uuid: str | None = None, ended: bool = False
    ) -> list[Mapping[str, Any]]:
        """Claims with host and node, newest first; ended ones only when asked for."""
        query = (
            sa.select(claims, hosts.c.host, hosts.c.node)
            .select_from(claims.outerjoin(hosts, hosts.c.id == claims.c.host_id))
            .order_by(claims.c.created_at.desc())
        )
        if not ended:
            query = query.where(claims.c.state != ClaimState.ENDED)
        if host is not None:
            query = query.where(hosts.c.host == host)
        if uuid is not None:
            query = query.where((claims.c.instance_uuid == uuid) | (claims.c.guest_uuid == uuid))
        return [dict(row) for row in self._database.read(lambda c: c.execute(query).mappings().all())]

    def end(self, uuid: str, attempt: int | None = None) -> int:
        """End the live claims of an instance (of one attempt where given) and give their room back; how many."""

        def write(connection: Connection) -> int:
            found = claim_rows.claims_of_guests(connection, [uuid])
            found += [
                c
                for c in claim_rows.claims_of_keys(connection, [uuid])
                if c.key not in {f.key for f in found}
            ]
            live = [c for c in found if c.live and attempt in (None, c.attempt)]
            rooms = claim_rows.lock_rooms(connection, {c.host_id for c in live})
            claim_rows.move_claims(
                connection, rooms, [(c, ClaimState.ENDED, EndReason.OPERATOR) for c in live]
            )
            claim_rows.write_rooms(connection, rooms.values())
            return len(live)

        return self._database.write(write)


def _stamp_hosts(connection: Connection, names: Sequence[str]) -> None:
    chosen = hosts.c.host.in_(list(names))
    connection.execute(sa.select(hosts.c.id).where(chosen).order_by(hosts.c.id).with_for_update())
    seq = claim_rows.bump(connection)
    connection.execute(hosts.update().where(chosen).values(changed=seq))


def _stamp_aggregates(connection: Connection) -> None:
    claim_rows.bump(connection, "aggregates")


def _aggregate_id(connection: Connection, name: str) -> int | None:
    query = sa.select(aggregates.c.id).where(aggregates.c.name == name).with_for_update()
    return connection.execute(query).scalar()


def _add_host(connection: Connection, aggregate_id: int, host: str) -> None:
    table = aggregate_hosts
    chosen = (table.c.aggregate_id == aggregate_id) & (table.c.host == host)
    if connection.execute(sa.select(table).where(chosen)).first() is None:
        connection.execute(table.insert().values(aggregate_id=aggregate_id, host=host))


def _set_metadata(connection: Connection, aggregate_id: int, metadata: Mapping[str, str | None]) -> None:
    table = aggregate_metadata
    chosen = (table.c.aggregate_id == aggregate_id) & table.c.key.in_(list(metadata))
    connection.execute(table.delete().where(chosen))
    rows = [
        {"aggregate_id": aggregate_id, "key": key, "value": value}
        for key, value in metadata.items()
        if value is not None
    ]
    if rows:
        connection.execute(table.insert(), rows)


def _add_members(connection: Connection, group_id: int, uuids: Sequence[str]) -> None:
    known = set(
        connection.execute(
            sa.select(group_members.c.instance_uuid).where(group_members.c.group_id == group_id)
        ).scalars()
    )
    rows = [{"group_id": group_id, "instance_uuid": uuid} for uuid in sorted(set(uuids) - known)]
    if rows:
        connection.execute(group_members.insert(), rows)

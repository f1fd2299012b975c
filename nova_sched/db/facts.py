"""Facts that only some plugins need, for a whole batch in a constant number of statements.

Groups: the hinted one (uuid before name), else the one that the request's first instance is a member of, whatever the
message says. Members count wherever they are known to be: the host of a live instance, and the host of every live move
claim of the group. Deleted instances do not count. A member that is being moved appears a second time, under ``<uuid>/moving``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy.engine import Connection

from nova_sched.db.engine import Database
from nova_sched.db.sqltext import Statements
from nova_sched.model.facts import NO_FACTS, Fact, Facts, GroupFact, InstanceFact
from nova_sched.model.request import SchedulingRequest

HINTS = ("same_host", "different_host")

_KEY = {"name": "key"}
_INSTANCE = "i.uuid, i.host, i.node, i.project_id, i.instance_type_id"
_GROUP = "g.id, g.uuid, g.name, g.policies, g.generation"
_SQL = Statements(
    hinted_groups=lambda d: (
        f"SELECT d.name, {_GROUP} FROM {d.rows('d', _KEY)} JOIN sched_groups g ON g.uuid = d.name UNION ALL"
        f" SELECT d.name, {_GROUP} FROM {d.rows('d', _KEY)} JOIN sched_groups g ON g.name = d.name"
    ),
    groups_of_members=lambda d: (
        f"{d.select_in_order} d.name, {_GROUP} FROM {d.rows('d', _KEY)}"
        " JOIN sched_group_members m ON m.instance_uuid = d.name JOIN sched_groups g ON g.id = m.group_id ORDER BY g.id DESC"
    ),
    member_hosts=lambda d: (
        f"{d.select_in_order} m.group_id, m.instance_uuid, i.host FROM {d.rows('d', {'id': 'int'})}"
        " JOIN sched_group_members m ON m.group_id = d.id JOIN sched_instances i ON i.uuid = m.instance_uuid"
        " WHERE i.deleted_at IS NULL AND i.host IS NOT NULL"
    ),
    moving_hosts=lambda d: (
        f"SELECT c.group_id, COALESCE(c.guest_uuid, c.instance_uuid), h.host FROM {d.rows('d', {'id': 'int'})}"
        " JOIN sched_claims c ON c.group_id = d.id AND c.kind = 'move'"
        " AND c.state IN ('claimed', 'building', 'held') JOIN sched_hosts h ON h.id = c.host_id"
    ),
    hinted_instances=lambda d: (
        f"{d.select_in_order} {_INSTANCE} FROM {d.rows('d', _KEY)} JOIN sched_instances i ON i.uuid = d.name"
        " WHERE i.deleted_at IS NULL"
    ),
    placed_instances=lambda d: (
        f"SELECT {_INSTANCE} FROM sched_instances i WHERE i.deleted_at IS NULL AND i.host IS NOT NULL"
    ),
)


class SqlFactSource:
    """``service.ports.FactSource`` on SQL. ``Fact.TRUST`` is not in SQL and is left empty."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self, requests: Sequence[SchedulingRequest], needs: frozenset[Fact]) -> list[Facts]:
        """Facts of each request; without needs no statement is sent. Raises StoreUnavailable."""
        if not requests or not needs & {Fact.GROUP, Fact.HINTED_INSTANCES, Fact.INSTANCES_BY_HOST}:
            return [NO_FACTS] * len(requests)
        return self._database.read(lambda connection: self._load(connection, requests, needs))

    def _load(
        self, connection: Connection, requests: Sequence[SchedulingRequest], needs: frozenset[Fact]
    ) -> list[Facts]:
        groups: list[GroupFact | None] = [None] * len(requests)
        if Fact.GROUP in needs:
            groups = _groups(connection, requests)
        hinted: Mapping[str, InstanceFact] = {}
        if Fact.HINTED_INSTANCES in needs:
            hinted = _hinted(connection, {uuid for request in requests for uuid in hinted_uuids(request)})
        by_host: Mapping[str, tuple[InstanceFact, ...]] = {}
        if Fact.INSTANCES_BY_HOST in needs:
            by_host = _by_host(_SQL.fetch(connection, "placed_instances"))
        return [
            Facts(
                group=group,
                hinted_instances={uuid: hinted[uuid] for uuid in hinted_uuids(request) if uuid in hinted},
                instances_by_host=by_host,
            )
            for request, group in zip(requests, groups, strict=True)
        ]


def hinted_uuids(request: SchedulingRequest) -> tuple[str, ...]:
    """Instances that the hints of a request name; one uuid may stand without a list."""
    found: list[str] = []
    for name in HINTS:
        value = request.hints.get(name)
        values = (value,) if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
        found += [uuid for uuid in values if isinstance(uuid, str) and uuid]
    return tuple(found)


def _groups(connection: Connection, requests: Sequence[SchedulingRequest]) -> list[GroupFact | None]:
    hints = {request.group for request in requests if request.group}
    firsts = {request.uuids[0] for request in requests if not request.group and request.uuids}
    # The last entry wins: a uuid before a name, the older before the newer.
    by_hint: dict[str, Any] = {}
    if hints:
        rows = _SQL.fetch(connection, "hinted_groups", [{"name": hint} for hint in sorted(hints)])
        for row in sorted(rows, key=lambda row: (row[0] == row[2], -row[1])):
            by_hint[row[0]] = row
    by_member: dict[str, Any] = {}
    if firsts:
        for row in _SQL.fetch(connection, "groups_of_members", [{"name": uuid} for uuid in sorted(firsts)]):
            by_member[row[0]] = row
    ids = sorted({row[1] for row in (*by_hint.values(), *by_member.values())})
    members: dict[int, dict[str, str]] = {group_id: {} for group_id in ids}
    if ids:
        named = [{"id": group_id} for group_id in ids]
        for group_id, uuid, host in _SQL.fetch(connection, "member_hosts", named):
            members[group_id][uuid] = host
        for group_id, uuid, host in _SQL.fetch(connection, "moving_hosts", named):
            members[group_id][f"{uuid}/moving"] = host

    def fact(request: SchedulingRequest) -> GroupFact | None:
        row = (
            by_hint.get(request.group)
            if request.group
            else by_member.get(request.uuids[0])
            if request.uuids
            else None
        )
        if row is None:
            return None
        _, group_id, uuid, name, policies, generation = row
        return GroupFact(uuid, name, frozenset(orjson.loads(policies)), members[group_id], generation)

    return [fact(request) for request in requests]


def _hinted(connection: Connection, uuids: set[str]) -> dict[str, InstanceFact]:
    if not uuids:
        return {}
    rows = _SQL.fetch(connection, "hinted_instances", [{"name": uuid} for uuid in sorted(uuids)])
    return {row[0]: InstanceFact(*row) for row in rows}


def _by_host(rows: Iterable[Any]) -> dict[str, tuple[InstanceFact, ...]]:
    found: dict[str, list[InstanceFact]] = {}
    for row in rows:
        found.setdefault(row[1], []).append(InstanceFact(*row))
    return {host: tuple(instances) for host, instances in found.items()}

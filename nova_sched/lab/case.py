"""Recorded decisions: the world before them, the requests, and what came out.

A case is one JSON file, ``{name, covers, note, input, expected}``; its README in ``tests/golden/cases`` describes every
member. Times are UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from nova_sched.errors import SchedulerError
from nova_sched.hosts.schema import Aggregate
from nova_sched.lab.case_form import mistake
from nova_sched.model.facts import InstanceFact
from nova_sched.model.request import Amounts

#: State of an instance that was deleted but could still be restored: it keeps its room, and is no member or neighbour.
_SOFT_DELETED = "soft-delete"
_CACHING = ("caching_scheduler", "caching")


class BrokenCase(SchedulerError):
    """A file is not a case: which file, and what is missing or wrong."""


@dataclass(frozen=True, slots=True)
class CaseRequest:
    """One request of a case and what happens to the world before it.

    ``context``: what differs from the usual caller. ``update_hosts``: column values for the rows of the
    ``hypervisor_hostname`` they name. ``set_now_seconds``: None = the clock stays. ``missing``: instances deleted meanwhile.
    """

    method: str
    request_spec: Mapping[str, Any]
    filter_properties: Mapping[str, Any]
    context: Mapping[str, Any] = field(default_factory=dict)
    update_hosts: Sequence[Mapping[str, Any]] = ()
    set_now_seconds: float | None = None
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """A server group and the uuids of its members. ``moving``: host that a member is on its way to, by uuid."""

    uuid: str
    name: str
    policies: frozenset[str]
    members: tuple[str, ...]
    moving: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaseClaim:
    """Room already promised to a guest that no row contains yet. ``devices``: lists by ``pci`` and ``numa``."""

    host: str
    node: str | None
    amounts: Amounts
    devices: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One file. ``hosts``: rows of compute_nodes in table order, each with its ``service`` or None.

    ``shared_state``: one scheduler serves all requests; otherwise each meets a fresh one.
    ``trust_levels``: what the attestation service says of each node. ``also_accepted``: results as good as ``expected``.
    ``soft_deleted``: those of the instances that hints and groups do not count any more.
    """

    name: str
    config: Mapping[str, Any]
    hosts: Sequence[Mapping[str, Any]]
    aggregates: tuple[Aggregate, ...]
    instances: tuple[InstanceFact, ...]
    groups: tuple[ServerGroup, ...]
    trust_levels: Mapping[str, str]
    now_seconds: float
    shared_state: bool
    requests: tuple[CaseRequest, ...]
    expected: Sequence[Mapping[str, Any]]
    also_accepted: Sequence[Sequence[Mapping[str, Any]]] = ()
    claims: tuple[CaseClaim, ...] = ()
    soft_deleted: frozenset[str] = frozenset()

    @property
    def reads_hosts_once(self) -> bool:
        """Whether the configured driver keeps its host list for longer than the case."""
        driver = str(self.config.get("scheduler_driver", ""))
        return driver in _CACHING or driver.rpartition(".")[2] in ("CachingScheduler", "CachingDriver")


def load(path: str | Path) -> Case:
    """Read a file. Raises BrokenCase, OSError."""
    try:
        data = orjson.loads(Path(path).read_bytes())
    except ValueError as error:
        raise BrokenCase(f"{path}: not JSON: {error}") from None
    if wrong := mistake(data):
        raise BrokenCase(f"{path}: not a case: {wrong}")
    try:
        return parse(data, Path(path).stem)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BrokenCase(f"{path}: not a case: {type(error).__name__}: {error}") from None


def parse(data: Mapping[str, Any], name: str = "case") -> Case:
    """A case from its decoded JSON. Raises KeyError, TypeError or ValueError for anything else."""
    given = data["input"]
    return Case(
        name=data.get("name") or name,
        config=given.get("config") or {},
        hosts=given["hosts"],
        aggregates=tuple(
            Aggregate(number, one["name"], frozenset(one["hosts"]), one.get("metadata") or {})
            for number, one in enumerate(given.get("aggregates") or (), start=1)
        ),
        instances=tuple(_instance(row) for row in given.get("instances") or () if not row.get("deleted")),
        groups=tuple(
            ServerGroup(
                one["uuid"],
                one["name"],
                frozenset(one["policies"]),
                tuple(one["members"]),
                one.get("moving") or {},
            )
            for one in given.get("server_groups") or ()
        ),
        trust_levels={one["host_name"]: one["trust_lvl"] for one in given.get("attestation") or ()},
        now_seconds=seconds(given["now"]),
        shared_state=bool(given.get("shared_state")),
        requests=tuple(_request(one) for one in given["requests"]),
        expected=(data.get("expected") or {}).get("results", ()),
        also_accepted=[one["results"] for one in data.get("also_accepted") or ()],
        claims=tuple(_claim(one) for one in given.get("claims") or ()),
        soft_deleted=frozenset(
            row["uuid"] for row in given.get("instances") or () if row.get("vm_state") == _SOFT_DELETED
        ),
    )


def seconds(text: str) -> float:
    """Seconds since the epoch of a UTC time like ``2014-10-16T12:00:00.000000``. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def moment(text: Any) -> float | None:
    """As :func:`seconds`; None for what is no time, as a broken row may have it."""
    try:
        return seconds(text)
    except (TypeError, ValueError):
        return None


def _instance(row: Mapping[str, Any]) -> InstanceFact:
    return InstanceFact(
        uuid=row["uuid"],
        host=row.get("host"),
        node=row.get("node"),
        project_id=row.get("project_id", "project-1"),
        instance_type_id=row.get("instance_type_id", 1),
    )


def _claim(one: Mapping[str, Any]) -> CaseClaim:
    return CaseClaim(
        host=one["host"],
        node=one.get("node"),
        amounts=Amounts(**{field: one[field] for field in Amounts.__dataclass_fields__}),
        devices={kind: one[kind] for kind in ("pci", "numa") if one.get(kind)},
    )


def _request(one: Mapping[str, Any]) -> CaseRequest:
    return CaseRequest(
        method=one["method"],
        request_spec=one["request_spec"],
        filter_properties=one.get("filter_properties") or {},
        context=one.get("context") or {},
        update_hosts=one.get("update_hosts") or (),
        set_now_seconds=seconds(one["set_now"]) if one.get("set_now") else None,
        missing=frozenset(one.get("missing_instances") or ()),
    )

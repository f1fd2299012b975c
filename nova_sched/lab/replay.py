"""Runs a case through the real driver, without bus or database, and writes down what came out as ``expected`` does.

What lies above the engine (reading options and requests, writing casts) comes in as a :class:`Translator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson

from nova_sched.errors import ConfigurationError, MalformedMessage
from nova_sched.lab.case import Case, CaseRequest
from nova_sched.lab.compare import Mismatch, compare
from nova_sched.lab.world import World
from nova_sched.model.decision import Decision, Placement, Refusal
from nova_sched.model.explanation import Detail, Round
from nova_sched.model.facts import GroupFact
from nova_sched.model.limits import Limits
from nova_sched.model.numa import HostTopology
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins import registry
from nova_sched.settings import Settings

#: Members of a cast's filter_properties that a case does not record: they travel unchanged.
_UNRECORDED = ("pci_requests", "request_spec", "instance_type", "config_options", "context")


@dataclass(frozen=True, slots=True)
class Translator:
    """The edges of the engine.

    ``settings``: from options by Juno's names, ``group.option`` outside of ``[DEFAULT]``; raises ConfigurationError.
    ``inbound``: (method, context, arguments, settings) → request; raises MalformedMessage.
    ``cast``: (request, placement, group with the placements in it, time, settings) → arguments of the compute cast.
    ``destinations``: (request, placements, settings) → what select_destinations returns.
    ``limits``: limits by their names on the wire.
    """

    settings: Callable[[Mapping[str, Any]], Settings]
    inbound: Callable[[str, Mapping[str, Any], Mapping[str, Any], Settings], SchedulingRequest]
    cast: Callable[[SchedulingRequest, Placement, GroupFact | None, datetime, Settings], Mapping[str, Any]]
    destinations: Callable[[SchedulingRequest, Sequence[Placement], Settings], list[dict[str, Any]]]
    limits: Callable[[Limits], Mapping[str, Any]]


class FirstOfTheBest(np.random.Generator):
    """Draws the first of what it may choose from, as the recordings of the cases did."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def integers(self, low: Any, high: Any = None, *arguments: Any, **options: Any) -> Any:
        """The smallest number allowed."""
        return 0 if high is None else low

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """The order as it is."""
        return np.arange(x) if np.ndim(x) == 0 else np.asarray(x)


def replay(case: Case, translator: Translator) -> list[dict[str, Any]]:
    """What the engine answers: one result per request, in the format of ``expected.results``, with ``reasons``.

    Raises PluginError when a plugin broke.
    """
    try:
        settings = translator.settings(case.config)
        driver = registry.load_driver(settings.scheduler)
    except ConfigurationError as refused:
        return [{"outcome": "startup_failed", "reasons": [str(refused)]} for _ in case.requests]
    world = World(case)
    return [_Replay(case, translator, settings, driver, world, request).result() for request in case.requests]


def check(case: Case, translator: Translator) -> list[Mismatch]:
    """Replay a case and compare with its ``expected`` (or anything in ``also_accepted``); empty = all as it must be."""
    actual = replay(case, translator)
    found = compare(case.expected, actual)
    if found and any(not compare(accepted, actual) for accepted in case.also_accepted):
        return []
    return found


class _Replay:
    """One request of a case."""

    def __init__(
        self,
        case: Case,
        translator: Translator,
        settings: Settings,
        driver: Any,
        world: World,
        request: CaseRequest,
    ) -> None:
        self._translator = translator
        self._settings = settings
        self._driver = driver
        self._world = world
        self._given = request

    def result(self) -> dict[str, Any]:
        """Decide and write down."""
        overlay = self._world.before(self._given)
        try:
            request = self._translator.inbound(
                self._given.method, _context(self._given), _arguments(self._given), self._settings
            )
        except MalformedMessage as broken:
            return self._malformed(broken.reason)
        asked = request.only(tuple(one for one in request.instances if one.uuid not in self._given.missing))
        facts = self._world.facts(asked)
        decision = self._driver.decide(asked, overlay, facts, FirstOfTheBest(), Detail.FULL)
        whole = not decision.refusals
        placements = decision.placements if whole or self._given.method == "run_instance" else ()
        self._world.claim(asked, placements)
        result: dict[str, Any] = {
            "method": self._given.method,
            "outcome": "ok" if whole else "partial" if placements else "no_valid_host",
            "rounds": [self._round(one) for one in decision.explanation.rounds],
            "host_states": self._world.host_states(),
            "reasons": [refusal.reason for refusal in decision.refusals],
        }
        if self._given.method == "run_instance":
            result["casts"] = [self._cast(asked, one, decision.group) for one in placements]
            result["instance_errors"] = _errors(decision.refusals)
            result["notifications"] = _run_events(decision)
        else:
            result["notifications"] = _phases(self._given.method)
            if whole:
                sent = self._translator.destinations(asked, placements, self._settings)
                result["destinations"] = [_with_parsed_limits(one) for one in sent]
        return result

    def _malformed(self, reason: str) -> dict[str, Any]:
        given = self._given.request_spec.get("instance_uuids")
        uuids = given if isinstance(given, list | tuple) else ()
        run = self._given.method == "run_instance"
        errors = [{"instance_uuid": uuid, "state": "error"} for uuid in uuids] if run else []
        events = [["ERROR", "scheduler.run_instance"] for _ in errors]
        result: dict[str, Any] = {
            "method": self._given.method,
            "outcome": "no_valid_host",
            "rounds": [],
            "host_states": self._world.host_states(),
            "reasons": [reason],
            "notifications": _phases(self._given.method, *events),
        }
        return {**result, "casts": [], "instance_errors": errors} if run else result

    def _round(self, one: Round) -> dict[str, Any]:
        told: dict[str, Any] = {
            "index": one.index,
            "instance_uuid": one.instance.uuid,
            "filter_trace": [[step.name, _names(step.hosts or ())] for step in one.steps],
            "filtered": _names(one.filtered or ()),
        }
        if one.chosen is None:
            return told
        limits = {} if one.limits is None else self._translator.limits(one.limits)
        return {
            **told,
            "weighed": [{"host": w.host, "node": w.node, "weight": w.weight} for w in one.weighed],
            "choices": _names(one.choices),
            "chosen": list(one.chosen),
            "limits": _parsed(limits),
            "after": _state(one.after or {}),
        }

    def _cast(
        self, request: SchedulingRequest, placement: Placement, group: GroupFact | None
    ) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._world.now_seconds, UTC)
        sent = self._translator.cast(request, placement, group, now, self._settings)
        properties = {
            key: value for key, value in sent["filter_properties"].items() if key not in _UNRECORDED
        }
        cast = {
            "host": placement.host,
            "node": sent["node"],
            "instance_uuid": placement.instance.uuid,
            "launch_index": sent["instance"]["launch_index"],
            "filter_properties": _with_parsed_limits(properties),
            "request_spec_instance_uuids": sent["request_spec"]["instance_uuids"],
        }
        topology = sent["request_spec"]["instance_properties"].get("numa_topology")
        if topology:
            cast["numa_topology"] = _parsed_topology(topology)
        return cast


def _context(request: CaseRequest) -> dict[str, Any]:
    usual = {
        "request_id": "req-replay",
        "user_id": "user-1",
        "project_id": "project-1",
        "roles": ["member"],
        "is_admin": False,
        "read_deleted": "no",
    }
    return {**usual, **request.context}


def _arguments(request: CaseRequest) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "request_spec": request.request_spec,
        "filter_properties": request.filter_properties,
    }
    if request.method == "run_instance":
        arguments |= {
            "admin_password": None,
            "injected_files": None,
            "requested_networks": None,
            "is_first_time": True,
            "legacy_bdm_in_spec": False,
        }
    return arguments


def _errors(refusals: Sequence[Refusal]) -> list[dict[str, Any]]:
    return [{"instance_uuid": one.instance.uuid, "state": "error"} for one in refusals]


def _run_events(decision: Decision) -> list[list[str]]:
    placed = [["INFO", "scheduler.run_instance.scheduled"] for _ in decision.placements]
    refused = [["ERROR", "scheduler.run_instance"] for _ in decision.refusals]
    return _phases("run_instance", *placed, *refused)


def _phases(method: str, *between: list[str]) -> list[list[str]]:
    return [["INFO", f"scheduler.{method}.start"], *between, ["INFO", f"scheduler.{method}.end"]]


def _names(hosts: Sequence[tuple[str, str | None]]) -> list[list[str | None]]:
    return [list(name) for name in hosts]


def _with_parsed_limits(sent: Mapping[str, Any]) -> dict[str, Any]:
    return {**sent, "limits": _parsed(sent["limits"])} if sent.get("limits") else dict(sent)


def _parsed(limits: Mapping[str, Any]) -> dict[str, Any]:
    if "numa_topology" not in limits:
        return dict(limits)
    return {**limits, "numa_topology": _parsed_topology(limits["numa_topology"])}


def _parsed_topology(topology: Any) -> Any:
    return orjson.loads(topology) if isinstance(topology, str) else topology


def _state(after: Mapping[str, Any]) -> dict[str, Any]:
    state = dict(after)
    topology = state.get("numa_topology")
    if isinstance(topology, HostTopology):
        state["numa_topology"] = {"cells": [_cell(cell) for cell in topology.cells]}
    if "pci_pools" in state:
        state["pci_pools"] = [{"count": pool.count, **pool.tags} for pool in state["pci_pools"]]
    return state


def _cell(cell: Any) -> dict[str, Any]:
    return {
        "id": cell.id,
        "cpus": ",".join(str(cpu) for cpu in sorted(cell.cpus)),
        "cpu_usage": cell.cpu_usage,
        "mem": {"total": cell.memory_mb, "used": cell.memory_used_mb},
    }

"""Workloads of the engine, read from ``workloads.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import yaml

from benchmarks import fleets
from nova_sched.hosts.table import HostTable
from nova_sched.model.facts import NO_FACTS, Facts, GroupFact
from nova_sched.model.request import InstanceRef, SchedulingRequest
from nova_sched.settings import FilterSettings, SchedulerSettings, WeigherSettings
from nova_sched.testing import builders

_FIELDS_OF_SETS = ("force_hosts", "ignore_hosts")


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload; see the head of ``workloads.yaml`` for its keys."""

    name: str
    about: str
    settings: SchedulerSettings
    hosts: tuple[int, ...]
    quick: tuple[int, ...]
    requests: int
    request: Mapping[str, Any] = field(default_factory=dict)
    mix: tuple[Mapping[str, Any], ...] = ()
    expect: Mapping[str, Any] = field(default_factory=dict)
    churn: Mapping[str, Any] | None = None
    group: Mapping[str, Any] | None = None
    zones: int = 0
    retry: int = 0
    guests_per_host: int = 0

    def rows(self, hosts: int) -> list[dict[str, Any]]:
        """Host rows of its cloud."""
        return fleets.rows(hosts, self.guests_per_host)

    def table(self, rows: list[dict[str, Any]]) -> HostTable:
        """The table of these rows with its zones."""
        return fleets.table(rows, fleets.zones(self.zones, len(rows)) if self.zones else None)

    def facts(self) -> Facts:
        """What its requests know of groups."""
        if self.group is None:
            return NO_FACTS
        members = {
            str(UUID(int=number + 1)): f"host-{number * 11}" for number in range(self.group["members"])
        }
        group = GroupFact(str(UUID(int=0)), "ring", frozenset(self.group["policies"]), members)
        return Facts(group=group)

    def stream(self, tried: tuple[tuple[str, str | None], ...] = ()) -> Iterator[SchedulingRequest]:
        """Its requests, without end; ``tried``: hosts that failed before, for a retry workload."""
        parts = self.mix or ({"share": 1.0},)
        owed = [0.0] * len(parts)
        number = 0
        while True:
            for index, part in enumerate(parts):
                owed[index] += part["share"]
            chosen = max(range(len(parts)), key=lambda index: owed[index])
            owed[chosen] -= 1.0
            fields = {
                **self.request,
                **{key: value for key, value in parts[chosen].items() if key != "share"},
            }
            for name in _FIELDS_OF_SETS:
                if name in fields:
                    fields[name] = frozenset(fields[name])
            made = builders.request(**fields, tried=tried)
            count = len(made.instances)
            refs = tuple(InstanceRef(str(UUID(int=(1 << 64) + number + i)), i) for i in range(count))
            number += count
            yield made.only(refs)


def load() -> dict[str, Workload]:
    """All workloads by name."""
    text = (Path(__file__).parent / "workloads.yaml").read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    found = {}
    for name, given in document["workloads"].items():
        filters = FilterSettings(enabled=tuple(document["filters"][given.pop("filters", "juno")]))
        chosen = dict(document["weighers"][given.pop("weighers", "ram")])
        weighers = WeigherSettings(classes=tuple(chosen.pop("classes")), **chosen)
        given["hosts"], given["quick"] = tuple(given["hosts"]), tuple(given.get("quick", ()))
        given["mix"] = tuple(given.get("mix", ()))
        found[name] = Workload(name, settings=SchedulerSettings(filters=filters, weighers=weighers), **given)
    return found

"""What a decision may know besides the host table: prefetched per request, so that plugins do no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from nova_sched.model.quick import quick_init


class Fact(StrEnum):
    """Names in a plugin's ``needs``; the service loads what the enabled plugins need, once per batch."""

    GROUP = "group"
    """The server group of the request and where its members are."""
    HINTED_INSTANCES = "hinted_instances"
    """Instances named by the same_host / different_host / ... hints."""
    INSTANCES_BY_HOST = "instances_by_host"
    """All live instances of each host (TypeAffinityFilter, Nova-style plugins)."""
    TRUST = "trust"
    """What the attestation server says about each node (TrustedFilter)."""


@quick_init
@dataclass(frozen=True, slots=True)
class InstanceFact:
    """One existing, not deleted instance."""

    uuid: str
    host: str | None
    node: str | None
    project_id: str | None
    instance_type_id: int | None


@dataclass(frozen=True, slots=True)
class GroupFact:
    """A server group. ``member_hosts``: host of each live placed member (any tenant), members without a host left out."""

    uuid: str
    name: str
    policies: frozenset[str]
    member_hosts: Mapping[str, str]
    generation: int = 0

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts that carry at least one member."""
        return frozenset(self.member_hosts.values())


_NONE: Mapping[str, InstanceFact] = MappingProxyType({})
_NO_HOSTS: Mapping[str, tuple[InstanceFact, ...]] = MappingProxyType({})
_NO_LEVELS: Mapping[str, str] = MappingProxyType({})


@quick_init
@dataclass(frozen=True, slots=True)
class Facts:
    """Prefetched facts of one request."""

    group: GroupFact | None = None
    hinted_instances: Mapping[str, InstanceFact] = field(default_factory=lambda: _NONE)
    instances_by_host: Mapping[str, tuple[InstanceFact, ...]] = field(default_factory=lambda: _NO_HOSTS)
    trust_levels: Mapping[str, str] = field(default_factory=lambda: _NO_LEVELS)
    """Level by node name: trusted, untrusted or unknown; nodes left out are unknown."""

    def placed(self, instance: InstanceFact) -> Facts:
        """The facts after one more instance of the same request was placed (LP#1781710)."""
        assert instance.host is not None
        group = self.group
        if group is not None:
            group = replace(group, member_hosts={**group.member_hosts, instance.uuid: instance.host})
        by_host = self.instances_by_host
        if by_host is not _NO_HOSTS:
            by_host = {**by_host, instance.host: (*by_host.get(instance.host, ()), instance)}
        return replace(self, group=group, instances_by_host=by_host)


NO_FACTS = Facts()


def moving_facts(facts: Facts) -> frozenset[Fact]:
    """The loaded facts that change whenever an instance of the request is placed."""
    moving = set()
    if facts.group is not None:
        moving.add(Fact.GROUP)
    if facts.instances_by_host:
        moving.add(Fact.INSTANCES_BY_HOST)
    return frozenset(moving)

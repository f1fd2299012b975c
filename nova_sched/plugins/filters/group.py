"""Server groups: (Server)GroupAffinityFilter and (Server)GroupAntiAffinityFilter.

The members' hosts are facts of this round: where members run (of any project), plus where this request's earlier
instances were put, plus what an older caller sent in ``filter_properties.group_hosts``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Fact, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters._texts import some


class _GroupFilter(HostFilter):
    policy: ClassVar[str]
    needs = frozenset({Fact.GROUP})

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        hosts = self._member_hosts(request, facts)
        if not hosts:
            return np.ones(len(view), dtype=np.bool_)
        return self.allowed(view.on_hosts(hosts))

    @abstractmethod
    def allowed(self, with_member: Mask) -> Mask:
        """Which hosts pass, given the ones that carry a member."""

    def _member_hosts(self, request: SchedulingRequest, facts: Facts) -> frozenset[str]:
        """Hosts that count for this policy; empty when the group has another one or no member is placed."""
        policies = (
            facts.group.policies if facts.group is not None else frozenset(request.legacy_group_policies)
        )
        if self.policy not in policies:
            return frozenset()
        placed = facts.group.hosts if facts.group is not None else frozenset()
        return placed | frozenset(request.legacy_group_hosts or ())

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        hosts = some(self._member_hosts(request, facts))
        return f"policy {self.policy}: members of the group are on {hosts}, the host is {view.hosts[row]}"


class _AntiAffinity(_GroupFilter):
    reason = "carries a member of the same server group"

    def allowed(self, with_member: Mask) -> Mask:
        return ~with_member


class _Affinity(_GroupFilter):
    reason = "carries no member of the same server group"

    def allowed(self, with_member: Mask) -> Mask:
        return with_member


class ServerGroupAntiAffinityFilter(_AntiAffinity):
    """Policy ``anti-affinity``: no two members on one host."""

    name = "ServerGroupAntiAffinityFilter"
    policy = "anti-affinity"


class ServerGroupAffinityFilter(_Affinity):
    """Policy ``affinity``: all members on the hosts that carry one already; the first goes anywhere."""

    name = "ServerGroupAffinityFilter"
    policy = "affinity"


class GroupAntiAffinityFilter(_AntiAffinity):
    """Policy ``legacy`` of Icehouse: no two members on one host."""

    name = "GroupAntiAffinityFilter"
    policy = "legacy"


class GroupAffinityFilter(_Affinity):
    """Policy ``legacy`` of Icehouse: all members together."""

    name = "GroupAffinityFilter"
    policy = "legacy"

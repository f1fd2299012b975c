"""ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, Self

import numpy as np

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Fact, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import Column, HostWeigher, RawWeights
from nova_sched.plugins.weighers._multipliers import multiplier
from nova_sched.settings import SchedulerSettings


class _SoftGroupWeigher(HostWeigher):
    policy: ClassVar[str]
    key: ClassVar[str]
    sign: ClassVar[float]
    needs = frozenset({Fact.GROUP})

    def __init__(self, option: float) -> None:
        self._option = option

    @classmethod
    def from_settings(cls, settings: SchedulerSettings) -> Self:
        return cls(getattr(settings.weighers, cls.key))

    def raw(self, view: HostView, request: SchedulingRequest, facts: Facts) -> RawWeights:
        """Members of the group on each host, this request's earlier instances included; 0 for other policies."""
        group = facts.group
        if group is None or self.policy not in group.policies or not group.member_hosts:
            return RawWeights(np.zeros(len(view)))
        members = Counter(group.member_hosts.values())
        counts = np.fromiter((members[host] for host in view.hosts), dtype=np.float64, count=len(view))
        return RawWeights(self.sign * counts)

    def multiplier(self, view: HostView) -> float | Column:
        return multiplier(view, self.key, self._option)


class ServerGroupSoftAffinityWeigher(_SoftGroupWeigher):
    """Policy ``soft-affinity``: the more members a host carries, the better. Multiplier positive."""

    name = "ServerGroupSoftAffinityWeigher"
    policy = "soft-affinity"
    key = "soft_affinity_weight_multiplier"
    sign = 1.0


class ServerGroupSoftAntiAffinityWeigher(_SoftGroupWeigher):
    """Policy ``soft-anti-affinity``: the fewer members a host carries, the better. Multiplier positive."""

    name = "ServerGroupSoftAntiAffinityWeigher"
    policy = "soft-anti-affinity"
    key = "soft_anti_affinity_weight_multiplier"
    sign = -1.0

"""NumInstancesFilter, AggregateNumInstancesFilter."""

from __future__ import annotations

from nova_sched.plugins.filters._maxima import MaximumFilter


class NumInstancesFilter(MaximumFilter):
    """Fewer guests on the host than ``max_instances_per_host``, before this one."""

    name = "NumInstancesFilter"
    reason = "too many instances"
    key = "max_instances_per_host"
    column = "num_instances"
    limit_name = "num_instances"


class AggregateNumInstancesFilter(NumInstancesFilter):
    """NumInstancesFilter with ``max_instances_per_host`` of the host's aggregates where they set it."""

    name = "AggregateNumInstancesFilter"
    per_aggregate = True

"""IoOpsFilter, AggregateIoOpsFilter."""

from __future__ import annotations

from nova_sched.plugins.filters._maxima import MaximumFilter


class IoOpsFilter(MaximumFilter):
    """Fewer I/O-heavy operations on the host than ``max_io_ops_per_host``, before this guest."""

    name = "IoOpsFilter"
    reason = "too many I/O operations"
    key = "max_io_ops_per_host"
    column = "num_io_ops"
    limit_name = "io_ops"


class AggregateIoOpsFilter(IoOpsFilter):
    """IoOpsFilter with ``max_io_ops_per_host`` of the host's aggregates where they set it."""

    name = "AggregateIoOpsFilter"
    per_aggregate = True

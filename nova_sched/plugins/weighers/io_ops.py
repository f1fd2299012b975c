"""IoOpsWeigher."""

from __future__ import annotations

from nova_sched.hosts.view import HostView
from nova_sched.plugins.api import Column
from nova_sched.plugins.weighers._amounts import AmountWeigher


class IoOpsWeigher(AmountWeigher):
    """I/O-heavy operations. A negative ``io_ops_weight_multiplier`` prefers hosts that are less busy."""

    name = "IoOpsWeigher"
    key = "io_ops_weight_multiplier"

    def amount(self, view: HostView) -> Column:
        return view.num_io_ops

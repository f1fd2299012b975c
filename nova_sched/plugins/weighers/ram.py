"""RAMWeigher."""

from __future__ import annotations

from nova_sched.hosts.view import HostView
from nova_sched.plugins.api import Column
from nova_sched.plugins.weighers._amounts import AmountWeigher


class RAMWeigher(AmountWeigher):
    """Free RAM, MB. A positive ``ram_weight_multiplier`` spreads guests, a negative one stacks them.

    The scale begins at 0 MB or at the smallest value below it.
    """

    name = "RAMWeigher"
    key = "ram_weight_multiplier"
    floor = 0.0
    counts_at_zero = True

    def amount(self, view: HostView) -> Column:
        return view.free_ram_mb

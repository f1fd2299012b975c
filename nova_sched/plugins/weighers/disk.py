"""DiskWeigher."""

from __future__ import annotations

from nova_sched.hosts.view import HostView
from nova_sched.plugins.api import Column
from nova_sched.plugins.weighers._amounts import AmountWeigher


class DiskWeigher(AmountWeigher):
    """Free disk, MB. A positive ``disk_weight_multiplier`` spreads guests, a negative one stacks them."""

    name = "DiskWeigher"
    key = "disk_weight_multiplier"

    def amount(self, view: HostView) -> Column:
        return view.free_disk_mb

"""NumInstancesWeigher."""

from __future__ import annotations

from nova_sched.hosts.view import HostView
from nova_sched.plugins.api import Column
from nova_sched.plugins.weighers._amounts import AmountWeigher


class NumInstancesWeigher(AmountWeigher):
    """Guests on the host. A positive ``num_instances_weight_multiplier`` stacks guests, a negative one spreads them."""

    name = "NumInstancesWeigher"
    key = "num_instances_weight_multiplier"

    def amount(self, view: HostView) -> Column:
        return view.num_instances

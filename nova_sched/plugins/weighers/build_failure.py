"""BuildFailureWeigher."""

from __future__ import annotations

from nova_sched.hosts.view import HostView
from nova_sched.plugins.api import Column
from nova_sched.plugins.weighers._amounts import AmountWeigher


class BuildFailureWeigher(AmountWeigher):
    """Builds that failed since the last one that succeeded; more of them weigh less, and never disable a host.

    ``build_failure_weight_multiplier`` is positive, as in Nova: this weigher turns its sign.
    """

    name = "BuildFailureWeigher"
    key = "build_failure_weight_multiplier"
    sign = -1.0

    def amount(self, view: HostView) -> Column:
        return view.number("failed_builds")

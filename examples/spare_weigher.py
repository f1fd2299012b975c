"""A weigher: likes hosts that would keep the most vCPUs without overcommitting them."""

from __future__ import annotations

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostWeigher, RawWeights


class SpareCoresWeigher(HostWeigher):
    """Raw value: physical vCPUs left after this guest."""

    name = "SpareCoresWeigher"

    def raw(self, view: HostView, request: SchedulingRequest, facts: Facts) -> RawWeights:
        """One subtraction over all hosts; normalised by the engine."""
        return RawWeights(view.vcpus_total - view.vcpus_used - request.flavor.vcpus)

    def multiplier(self, view: HostView) -> float:
        """A constant influence; read it from an option of your own with :meth:`from_settings`."""
        return 2.0

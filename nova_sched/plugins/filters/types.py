"""TypeAffinityFilter."""

from __future__ import annotations

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Fact, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask


class TypeAffinityFilter(HostFilter):
    """The host runs guests of the same flavor (id) only, or none."""

    name = "TypeAffinityFilter"
    reason = "runs guests of another flavor"
    needs = frozenset({Fact.INSTANCES_BY_HOST})

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        asked = request.flavor.id
        others = [
            host
            for host, guests in facts.instances_by_host.items()
            if any(guest.instance_type_id != asked for guest in guests)
        ]
        return ~view.on_hosts(others)

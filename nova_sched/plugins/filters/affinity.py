"""Near or far from other instances or addresses: DifferentHostFilter, SameHostFilter, SimpleCIDRAffinityFilter."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Hashable
from typing import Any, ClassVar

import numpy as np

from nova_sched.errors import RequestRefused
from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Fact, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask
from nova_sched.plugins.filters._texts import clipped, some

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_DEFAULT_MASK = "/24"


class _HintedInstances(HostFilter):
    hint: ClassVar[str]
    run_once_per_request = True
    needs = frozenset({Fact.HINTED_INSTANCES})

    def _uuids(self, request: SchedulingRequest) -> tuple[str, ...]:
        """Instances named by the hint; one uuid or a list of them."""
        asked = request.hints.get(self.hint)
        if not asked:
            return ()
        if isinstance(asked, str):
            return (asked,)
        if not isinstance(asked, Collection):
            raise RequestRefused(self.name, f"hint {self.hint} {clipped(asked)!r} is no list of instances")
        return tuple(str(uuid) for uuid in asked)

    def check(self, request: SchedulingRequest) -> None:
        self._uuids(request)

    def _hosts(self, request: SchedulingRequest, facts: Facts) -> frozenset[str]:
        """Where they run; a caller who is no administrator knows the instances of the own project only."""
        found = (facts.hinted_instances.get(uuid) for uuid in self._uuids(request))
        caller = request.caller
        return frozenset(
            fact.host
            for fact in found
            if fact is not None
            and fact.host is not None
            and (caller.is_admin or fact.project_id == caller.project_id)
        )

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        hosts = some(self._hosts(request, facts))
        return f"hint {self.hint}: the instances are on {hosts}, the host is {view.hosts[row]}"


class DifferentHostFilter(_HintedInstances):
    """The host runs none of the instances that the hint ``different_host`` names; deleted ones do not count."""

    name = "DifferentHostFilter"
    reason = "runs an instance that must be on a different host"
    hint = "different_host"

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        return ~view.on_hosts(self._hosts(request, facts))


class SameHostFilter(_HintedInstances):
    """The host runs at least one of the instances that the hint ``same_host`` names."""

    name = "SameHostFilter"
    reason = "runs none of the instances that must be on the same host"
    hint = "same_host"

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        if not self._uuids(request):
            return np.ones(len(view), dtype=np.bool_)
        return view.on_hosts(self._hosts(request, facts))


class SimpleCIDRAffinityFilter(HostFilter):
    """The host's ``host_ip`` is in the network of the hints ``build_near_host_ip`` and ``cidr`` (default ``/24``)."""

    name = "SimpleCIDRAffinityFilter"
    reason = "not in the network asked for"
    run_once_per_request = True

    def check(self, request: SchedulingRequest) -> None:
        self._network(request)

    def cache_key(self, request: SchedulingRequest) -> Hashable | None:
        return self._network(request) or ()

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        network = self._network(request)
        if network is None:
            return np.ones(len(view), dtype=np.bool_)
        return view.coded("host_ip").spread(lambda text: _is_in(text, network))

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        return f"wants an address in {self._network(request)}, the host has {view.coded('host_ip')[row]}"

    def _network(self, request: SchedulingRequest) -> _Network | None:
        address = request.hints.get("build_near_host_ip")
        if not address:
            return None
        mask = request.hints.get("cidr", _DEFAULT_MASK)
        try:
            if (
                not isinstance(address, str)
                or not isinstance(mask, str)
                or (mask and not mask.startswith("/"))
            ):
                raise ValueError
            return ipaddress.ip_network(f"{address}{mask}", strict=False)
        except ValueError:
            raise RequestRefused(
                self.name,
                f"build_near_host_ip {clipped(address)!r} and cidr {clipped(mask)!r} make no network (10.0.0.1 and /24)",
            ) from None


def _is_in(text: Any, network: _Network) -> bool:
    try:
        return ipaddress.ip_address(text) in network
    except ValueError:
        return False

"""Requests that no host could serve, refused before any host is looked at."""

from __future__ import annotations

from nova_sched.errors import RequestRefused
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.settings import SchedulerSettings

#: Group policies and the filter that keeps them.
POLICY_FILTERS = {
    "affinity": "ServerGroupAffinityFilter",
    "anti-affinity": "ServerGroupAntiAffinityFilter",
}
PCI_FILTER = "PciPassthroughFilter"


def refuse_impossible(
    request: SchedulingRequest, facts: Facts, settings: SchedulerSettings, filters: frozenset[str]
) -> None:
    """Raises RequestRefused for mistakes found at the edge, unknown server groups and filters that are not enabled.

    A policy or a device that the enabled filters would not look at must not be ignored silently (LP#1302238).
    """
    if request.error is not None:
        raise RequestRefused("request", request.error)
    if request.group is not None and facts.group is None:
        raise RequestRefused("server group", f"{request.group} could not be found")
    if facts.group is not None and settings.policy_names_require_filter:
        for policy in sorted(facts.group.policies & POLICY_FILTERS.keys()):
            if POLICY_FILTERS[policy] not in filters:
                raise RequestRefused(
                    POLICY_FILTERS[policy], f"not enabled, but the server group asks for {policy}"
                )
    if request.pci_requests and PCI_FILTER not in filters:
        raise RequestRefused(PCI_FILTER, "not enabled, but the request asks for PCI devices")

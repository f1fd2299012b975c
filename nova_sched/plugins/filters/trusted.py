"""TrustedFilter."""

from __future__ import annotations

import numpy as np

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Fact, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask

#: Extra spec that asks for a level: ``trusted``, ``untrusted`` or ``unknown``.
TRUST_KEY = "trust:trusted_host"
UNKNOWN = "unknown"


class TrustedFilter(HostFilter):
    """The attestation server's word on the node equals the extra spec ``trust:trusted_host``.

    The levels are facts, asked for over HTTPS before the decision (:mod:`nova_sched.attestation`); a node of which the
    server said nothing in time is ``unknown``.
    """

    name = "TrustedFilter"
    reason = "not at the trust level asked for"
    needs = frozenset({Fact.TRUST})

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        wanted = request.flavor.extra_specs.get(TRUST_KEY)
        if not wanted:
            return np.ones(len(view), dtype=np.bool_)
        level = facts.trust_levels.get
        found = (level(node, UNKNOWN) == wanted for node in view.nodes)
        return np.fromiter(found, dtype=np.bool_, count=len(view))

    def explain(self, view: HostView, row: int, request: SchedulingRequest, facts: Facts) -> str:
        wanted = request.flavor.extra_specs.get(TRUST_KEY)
        return f"asks for a {wanted} host, this one is {facts.trust_levels.get(view.nodes[row], UNKNOWN)}"

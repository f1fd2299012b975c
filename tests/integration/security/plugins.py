"""A filter that tells everything it knows when it breaks."""

from __future__ import annotations

import numpy as np

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter, Mask

BREAKS = "tell-all"


class TellTale(HostFilter):
    """Passes every host, but for a request named ``BREAKS``: then its exception quotes the whole request."""

    name = "TellTale"
    reason = "never"

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> Mask:
        """Raises ValueError."""
        given = request.passthrough
        if given.request_spec.get("instance_properties", {}).get("display_name") == BREAKS:
            raise ValueError(
                f"{request} {given.arguments} {given.request_spec} {given.filter_properties} {request.caller.wire}"
            )
        return np.ones(len(view), dtype=np.bool_)

"""Plugins that misbehave, for the daemon to load by their dotted path."""

from __future__ import annotations

from typing import NoReturn

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import HostFilter


class Broken(HostFilter):
    """Looks for what the request does not have."""

    name = "Broken"
    reason = "broken"

    def mask(self, view: HostView, request: SchedulingRequest, facts: Facts) -> NoReturn:
        """Raises KeyError."""
        raise KeyError("os_type")

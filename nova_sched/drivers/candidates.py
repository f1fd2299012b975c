"""Which hosts a request may use before any filter is asked: ignored, excluded and forced ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nova_sched.hosts.view import HostView
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import Mask


def candidates(view: HostView, request: SchedulingRequest) -> tuple[Mask | None, Mapping[str, int]]:
    """(mask of the hosts that may be used, None = all; how many were taken out, and why).

    Ignored hosts stay out even where they are forced, as in Juno.
    """
    taken_out: dict[str, int] = {}
    left: Mask | None = None

    def narrow(why: str, keep: Mask) -> None:
        nonlocal left
        before = len(view) if left is None else int(np.count_nonzero(left))
        left = keep if left is None else left & keep
        removed = before - int(np.count_nonzero(left))
        if removed:
            taken_out[why] = removed

    if request.ignore_hosts is not None:
        narrow("ignored", ~view.on_hosts(request.ignore_hosts))
    if request.excluded:
        narrow("excluded", ~_pairs(view, request))
    if request.force_hosts is not None:
        narrow("not forced", view.on_hosts(request.force_hosts))
    if request.force_nodes is not None:
        narrow("not forced", view.on_nodes(request.force_nodes))
    return left, taken_out


def _pairs(view: HostView, request: SchedulingRequest) -> Mask:
    found = np.zeros(len(view), dtype=np.bool_)
    for host, node in request.excluded:
        found |= view.on_hosts([host]) & (view.on_nodes([node]) if node is not None else True)
    return found

"""Multipliers: the option, or per row what the host's aggregates set under the option's name."""

from __future__ import annotations

import numpy as np

from nova_sched.hosts.view import Column, HostView
from nova_sched.plugins.filters._aggregate_values import minimum, ratio


def multiplier(view: HostView, key: str, option: float) -> float | Column:
    """``option`` if no aggregate of these hosts has a number for ``key``, else one value per row."""
    if key not in view.aggregate_keys:
        return option
    own: Column = view.aggregates.map(lambda members: minimum(members, key, ratio), np.float64)
    unset = np.isnan(own)
    return option if unset.all() else np.where(unset, option, own)

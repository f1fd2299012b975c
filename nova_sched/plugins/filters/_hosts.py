"""Masks by host name."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from nova_sched.hosts.view import HostView
from nova_sched.plugins.api import Mask


def on_hosts(view: HostView, names: Collection[str]) -> Mask:
    """Rows of the hosts with these names."""
    if not names:
        return np.zeros(len(view), dtype=np.bool_)
    wanted = frozenset(names)
    return np.fromiter(map(wanted.__contains__, view.hosts.tolist()), dtype=np.bool_, count=len(view))

"""What all requests of a batch ask alike is computed once per view of the whole table."""

from __future__ import annotations

import numpy as np

from nova_sched.hosts.view import HostView
from nova_sched.testing import builders


def test_a_column_is_kept_for_a_view_of_the_whole_table_and_no_longer() -> None:
    table = builders.table(*(builders.host(f"host-{n}", age_seconds=float(n)) for n in range(4)))
    asked = []

    def old(view: HostView) -> np.ndarray:
        asked.append(len(view))
        return view.now_seconds - view.heartbeat_seconds > 1.5

    view = table.overlay().view
    first = view.once("old", old)
    assert view.once("old", old) is first
    assert first.tolist() == [False, False, True, True]
    assert not first.flags.writeable
    assert asked == [4]
    assert view.take(np.array([3, 0])).once("old", old).tolist() == [True, False]
    table.overlay().view.once("old", old)
    assert asked == [4, 2, 4]

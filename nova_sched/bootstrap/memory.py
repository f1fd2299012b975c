"""Garbage collection for a process that keeps a large table for ever and makes thousands of short-lived values a second."""

from __future__ import annotations

import gc

#: New containers between two looks at the young ones: some batches' worth, since nearly none of them is part of a cycle.
_YOUNG = 100_000
_MIDDLE, _OLD = 50, 100


def settle() -> None:
    """Leave what exists now out of every later collection, and look for cycles rarely.

    Call it once all rooms are connected. At Python's own thresholds a fifth of the loop's time goes into looking at values
    that live as long as their batch; memory is given back by reference counts all the same.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)

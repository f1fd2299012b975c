"""Named points at which a fault test may kill the process; nothing happens at them otherwise."""

from __future__ import annotations

from collections.abc import Callable

CrashPoint = Callable[[str], None]
"""Called with the name of the point that was reached."""

POINTS = (
    "before_decode",
    "after_take",
    "before_publish",
    "after_confirm",
    "before_reply",
    "before_ack",
    "after_ack",
)
"""Names used in this package, in the order a request meets them (publish and confirm lie inside the batch's end)."""


def no_crash(point: str) -> None:
    """The default: go on."""

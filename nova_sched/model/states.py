"""Names of instance and claim states, as Nova and the delivery contract spell them."""

from __future__ import annotations

from enum import StrEnum

ACTIVE = "active"
BUILDING = "building"
ERROR = "error"
DELETED = "deleted"

#: Task states during which a guest loads its host's disks, so it counts in ``num_io_ops``.
IO_HEAVY_TASK_STATES = frozenset(
    {
        "resize_migrating",
        "rebuilding",
        "resize_prep",
        "image_snapshot",
        "image_backup",
        "unshelving",
        "rescuing",
        "migrating",
    }
)


class ClaimState(StrEnum):
    """Life of a claim; the transitions are drawn in ``db/claims.py``."""

    CLAIMED = "claimed"
    BUILDING = "building"
    HELD = "held"
    ENDED = "ended"


class ClaimKind(StrEnum):
    """What the room is claimed for."""

    BUILD = "build"
    MOVE = "move"


class EndReason(StrEnum):
    """Why a claim ended."""

    UNDELIVERABLE = "undeliverable"
    DELETED = "deleted"
    RESCHEDULED = "rescheduled"
    FAILED = "failed"
    EXPIRED = "expired"
    BUILD_TIMEOUT = "build_timeout"
    AGENT_DOWN = "agent_down"
    RELEASED = "released"
    OPERATOR = "operator"

"""How long history is kept."""

from __future__ import annotations

from nova_sched.conf.section import Item, Section
from nova_sched.conf.types import Whole
from nova_sched.settings import RetentionSettings

_SECONDS = Whole(min=0, max=10 * 366 * 86_400)

SECTION = Section(
    RetentionSettings,
    "retention",
    {
        "decisions_max_rows": Item(
            Whole(min=0, max=1_000_000_000),
            "Newest decision records kept; about 2 KB each. 0 keeps none longer than one round of upkeep.",
        ),
        "decisions_max_age_seconds": Item(_SECONDS, "Seconds for which decision records are kept; a week."),
        "events_max_age_seconds": Item(
            _SECONDS, "Seconds for which instance events and faults are kept; a month."
        ),
        "deleted_instances_max_age_seconds": Item(
            _SECONDS,
            "Seconds for which deleted instances are remembered, so that late messages about them are known.",
        ),
    },
)

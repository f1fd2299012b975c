"""Metrics, probes and the page."""

from __future__ import annotations

from nova_sched.conf.section import Item, Section
from nova_sched.conf.types import Flag, Real, Text, Whole
from nova_sched.settings import HealthSettings

SECTION = Section(
    HealthSettings,
    "health",
    {
        "enabled": Item(Flag(), "Serve /metrics, /livez, /readyz and the status page. Needs restart."),
        "bind": Item(
            Text(required=True),
            """Address to listen on. Loopback, because the page shows host names and refusals to whoever asks; put a
            proxy with access control before it. Needs restart.""",
        ),
        "port": Item(Whole(min=0, max=65_535), "TCP port; 0 takes a free one and logs it. Needs restart."),
        "host_state_max_age_seconds": Item(
            Real(min=1.0, max=86_400.0),
            "A worker whose host table is older than this many seconds is alive but not ready.",
        ),
    },
)

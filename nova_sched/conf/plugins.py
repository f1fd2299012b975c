"""Filters, weighers and drivers written by others."""

from __future__ import annotations

from nova_sched.conf.section import Item, Section
from nova_sched.conf.types import Flag, Names, Real
from nova_sched.settings import PluginSettings

SECTION = Section(
    PluginSettings,
    "plugins",
    {
        "plugin_timeout_seconds": Item(
            Real(min=0.1, max=3600.0),
            """Seconds one filter or weigher may take for one decision. After that the worker names it, dumps its stack
            and exits; the broker gives the request to another worker. Ours need milliseconds.""",
        ),
        "nova_imports": Item(
            Flag(),
            """Let "import nova.scheduler.filters" and "nova.scheduler.weights" inside plugins resolve to this service
            where Nova itself is not installed. Needs restart.""",
        ),
    },
)

SECTIONS_FOR_PLUGINS = Section(
    None,
    "plugins",
    {
        "option_groups": Item(
            Names(),
            """Groups of this file that plugins of others read: their options are handed over as texts by group.name.
            Name only what plugins need: such values are not known to be secrets.""",
            default=[],
        ),
    },
)

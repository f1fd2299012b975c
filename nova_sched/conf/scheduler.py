"""The driver and what all drivers share, and the processes of the daemon."""

from __future__ import annotations

from nova_sched.conf.section import Item, Section
from nova_sched.conf.types import Flag, Text, Whole
from nova_sched.settings import SchedulerSettings, Settings

SECTION = Section(
    SchedulerSettings,
    "DEFAULT",
    {
        "driver": Item(
            Text(required=True),
            """Who decides: chance (any live host), filter_scheduler (filters, then weights; Juno's default) or
            caching_scheduler (the same on a host table that is refreshed every scheduler_driver_task_period seconds).
            An entry point of the group nova_sched.drivers, a dotted path of a class of your own, or Nova's dotted
            path. An unknown name stops the start and lists the known ones. Reloaded on SIGHUP.""",
            name="scheduler_driver",
            also=("scheduler.driver",),
        ),
        "host_subset_size": Item(
            Whole(max=1_000_000),
            """Choose at random among this many best hosts. 1, the default, takes the best one and is repeatable;
            a few more make schedulers that work side by side collide less, at the price of a slightly worse host.
            Below 1 counts as 1, as in Nova.""",
            name="scheduler_host_subset_size",
            also=("filter_scheduler.host_subset_size",),
        ),
        "max_attempts": Item(
            Whole(min=1, max=1000),
            """How many hosts one instance may be sent to, the first one included. A build that fails on its host comes
            back until this many were tried; then the instance is ERROR with the last host's own error. 1 turns
            rescheduling off.""",
            name="scheduler_max_attempts",
            also=("scheduler.max_attempts",),
        ),
        "driver_task_period_seconds": Item(
            Whole(min=1, max=3600),
            """Seconds between two refreshes of the host table of the caching driver. Longer costs staler decisions
            (never oversold hosts: claims are guarded); other drivers refresh before each batch and ignore it.""",
            name="scheduler_driver_task_period",
            also=("scheduler.periodic_task_interval",),
        ),
        "shuffle_best_same_weighed_hosts": Item(
            Flag(),
            """Choose at random among hosts whose weight equals the best one. Off, the first in table order wins and
            equal requests get equal answers.""",
            also=("filter_scheduler.shuffle_best_same_weighed_hosts",),
        ),
        "explanation_top_hosts": Item(
            Whole(min=0, max=1000),
            """How many of the best hosts a decision record keeps with all their weights. More makes larger rows
            (about 200 bytes per host and decision).""",
            group="scheduler",
        ),
        "policy_names_require_filter": Item(
            Flag(),
            """Refuse a request for a server group whose policy is not enforced because its filter is not enabled,
            instead of placing its members anywhere without a word. Turn off only for what Juno did.""",
            group="scheduler",
        ),
    },
    nested=frozenset({"filters", "weighers", "plugins"}),
)

SERVICE = Section(
    Settings,
    "DEFAULT",
    {
        "workers": Item(
            Whole(min=1, max=256),
            """Processes that schedule, each with its own connections and host table. One serves a thousand requests
            a second; add one per CPU core that the broker and the database leave free. Needs restart.""",
            also=("DEFAULT.scheduler_workers", "scheduler.workers"),
        ),
        "graceful_shutdown_timeout_seconds": Item(
            Whole(min=0, max=86_400),
            """Seconds that a stopping process may take to finish the batch in its hands; then it exits and the broker
            gives what was unfinished to another process. 0 waits without limit. Name as in oslo.service. Needs
            restart.""",
            name="graceful_shutdown_timeout",
        ),
        "shadow_config_file": Item(
            Text(),
            """A further configuration file, read on top of the others, whose driver, filters and weighers decide the live
            requests as well, without effect; where it would have chosen otherwise is counted, logged and kept in the
            decision record (nova-sched-manage shadow report). It costs what the live decisions cost. Not set: no
            shadow.""",
            group="scheduler",
        ),
    },
    nested=frozenset({"scheduler", "delivery", "bus", "database", "retention", "health", "agent", "extras"}),
)

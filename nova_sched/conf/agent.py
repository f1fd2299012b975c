"""The reference compute agent and its simulated hypervisor."""

from __future__ import annotations

from nova_sched.conf.section import Item, Section
from nova_sched.conf.types import Real, Text, Whole
from nova_sched.settings import AgentSettings

SECTION = Section(
    AgentSettings,
    "agent",
    {
        "report_interval_seconds": Item(
            Real(min=0.1, max=3600.0),
            """Seconds between two reports of a compute agent. Must be smaller than service_down_time; the start is
            refused otherwise.""",
            group="DEFAULT",
            name="report_interval",
        ),
        "node": Item(Text(), "Name of the simulated node. Not set: the host's name."),
        "vcpus": Item(Whole(min=0, max=1_000_000), "Physical CPUs of the simulated node."),
        "memory_mb": Item(Whole(min=0, max=2**31 - 1), "RAM of the simulated node in MB."),
        "local_gb": Item(Whole(min=0, max=2**31 - 1), "Disk of the simulated node in GB."),
        "build_seconds": Item(Real(min=0.0, max=86_400.0), "Seconds a simulated build takes."),
        "failure_rate": Item(
            Real(min=0.0, max=1.0), "Share of simulated builds that fail and are rescheduled; 0 none, 1 all."
        ),
        "seed": Item(Whole(min=0, max=2**31 - 1), "Number that fixes which simulated builds fail."),
        "state_path": Item(
            Text(),
            """File in which the agent remembers the number of its last start, so that its reports are newer than those
            before even if the clock was set back. Not set: the clock is trusted.""",
        ),
        "max_attempts": Item(
            Whole(min=1, max=1000),
            "Attempts after which the agent reports a failed build instead of sending it back to the scheduler.",
        ),
        "workers": Item(Whole(min=1, max=1000), "Builds that the agent runs at the same time."),
    },
)

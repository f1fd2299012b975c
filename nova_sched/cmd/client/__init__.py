"""``nova-sched``: what people and scripts ask and start. One module per family of commands."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from nova_sched.cmd.console import Console, run

DESCRIPTION = "Boot, select, explain and look into a nova_sched service."
NAMESPACE = "nova_sched.cli.client"


def main(argv: Sequence[str] | None = None, conf: cfg.ConfigOpts | None = None) -> int:
    """Run one command line; the exit code."""
    return run(Console(DESCRIPTION, NAMESPACE, "nova-sched", conf), argv)

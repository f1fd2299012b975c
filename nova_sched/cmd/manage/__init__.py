"""``nova-sched-manage``: what operators write and check. One module per family of commands."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from nova_sched.cmd.console import Console, run

DESCRIPTION = "Set up, check and correct a nova_sched service."
NAMESPACE = "nova_sched.cli.manage"


def main(argv: Sequence[str] | None = None, conf: cfg.ConfigOpts | None = None) -> int:
    """Run one command line; the exit code."""
    return run(Console(DESCRIPTION, NAMESPACE, "nova-sched-manage", conf), argv)

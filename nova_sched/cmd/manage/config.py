"""``config check``: what the start would say, and what is odd."""

from __future__ import annotations

import argparse
from typing import Any

from nova_sched.cmd.console import List
from nova_sched.conf import check
from nova_sched.conf.files import config_files
from nova_sched.plugins.registry import load_driver


class Check(List):
    """Read and validate the configuration as the start does, load its plugins, and list remarks.

    Exits 2 with option, value and expectation where the service would not start; remarks alone exit 0.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Remarks by option."""
        connections = self.app.connections
        settings = connections.settings
        load_driver(settings.scheduler)
        remarks = [(finding.option, finding.remark) for finding in check.findings(connections.conf, settings)]
        remarks += [_option_and_remark(line) for line in connections.legacy]
        files = ", ".join(str(path) for path in config_files(connections.conf)) or "no file, defaults only"
        self.app.complain(f"configuration is valid ({files})")
        return ("Option", "Remark"), remarks


def _option_and_remark(line: str) -> tuple[str, str]:
    """``names: remark`` or ``name has no effect: why``, in two."""
    option, has, rest = line.partition(" has ")
    if has and ":" not in option:
        return option, f"has {rest}"
    option, _, remark = line.partition(": ")
    return option, remark

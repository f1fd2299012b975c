"""``export``: the state of a service as a file that replay, explain, capacity and simulate read."""

from __future__ import annotations

import argparse
from pathlib import Path

import orjson

from nova_sched.cmd.client.offline import state_as_case
from nova_sched.cmd.console import Act


class Export(Act):
    """Write hosts, aggregates, instances, groups, claims and configuration of the service in the case format.

    With --instance its last request is part of it. Nothing secret is in the database, so nothing is in the file.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Where to, and which requests."""
        parser = super().get_parser(prog_name)
        parser.add_argument("file", nargs="?", default="-", help="file to write (default: the output)")
        parser.add_argument(
            "--instance",
            metavar="UUID",
            action="append",
            default=[],
            help="include the last request of this instance; may be repeated",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Read and write."""
        name = "export" if parsed_args.file == "-" else Path(parsed_args.file).stem
        case = state_as_case(self.app, name, *parsed_args.instance)
        text = orjson.dumps(case, option=orjson.OPT_INDENT_2).decode()
        if parsed_args.file == "-":
            self.say(text)
            return
        Path(parsed_args.file).write_text(text + "\n")
        counts = {
            key: len(case["input"][key]) for key in ("hosts", "aggregates", "instances", "claims", "requests")
        }
        self.say(f"{parsed_args.file}: " + ", ".join(f"{count} {key}" for key, count in counts.items()))

"""``shadow report``: where the shadow configuration would have decided otherwise."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any

from nova_sched.cmd.columns import when
from nova_sched.cmd.console import List
from nova_sched.db.decisions import DecisionHistory


class Report(List):
    """List the decisions that the shadow configuration would have made otherwise, newest first.

    A line on standard error says how many of all decisions differ, and how.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Choices."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--hours", type=float, default=24.0, metavar="N", help="how far to look back (default: 24)"
        )
        parser.add_argument(
            "--limit", type=int, default=100, metavar="N", help="at most N rows (default: 100)"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """One row per differing decision."""
        history = DecisionHistory(self.app.connections.database())
        found, total = history.differing(parsed_args.hours * 3600, 100_000)
        kinds = Counter(one.record["shadow"]["kind"] for one in found)
        told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        self.app.complain(
            f"{len(found)} of {total} decisions of the last {parsed_args.hours:g} hours differ"
            + (f": {told}" if told else "")
        )
        columns = ("Decision", "Time", "Request", "Kind", "Instances", "Shadow says")
        return columns, [
            (
                one.id,
                when(one.created_at),
                one.request_id,
                one.record["shadow"]["kind"],
                one.record["shadow"]["instances"],
                one.record["shadow"]["reason"],
            )
            for one in found[: parsed_args.limit]
        ]

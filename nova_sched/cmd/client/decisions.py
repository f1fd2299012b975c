"""``decision list`` and ``decision show``: why this host, why none."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from nova_sched.cmd.columns import when
from nova_sched.cmd.console import List, Show
from nova_sched.cmd.exits import UsageError
from nova_sched.db.decisions import DecisionHistory


class ListDecisions(List):
    """List decisions, newest first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Choices and paging."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--instance", metavar="UUID", help="only those about this instance")
        parser.add_argument("--request", metavar="ID", help="only those of this request id")
        parser.add_argument("--marker", type=int, metavar="ID", help="begin after this decision")
        parser.add_argument(
            "--limit", type=int, default=50, metavar="N", help="at most this many (default: 50)"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """One row per decision."""
        found = DecisionHistory(self.app.connections.database()).list(
            parsed_args.instance, parsed_args.request, parsed_args.marker, parsed_args.limit
        )
        columns = ("ID", "Time", "Request", "Method", "Project", "Placed", "Failed")
        return columns, [
            (one.id, when(one.created_at), one.request_id, one.method, one.project_id, one.placed, one.failed)
            for one in found
        ]


class ShowDecision(Show):
    """Show one decision: hosts in and out of each filter, the best hosts with their weights, outcomes."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Argument ID."""
        parser = super().get_parser(prog_name)
        parser.add_argument("id", type=int)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """The record."""
        found = DecisionHistory(self.app.connections.database()).get(parsed_args.id)
        if found is None:
            raise UsageError(f"no decision has the id {parsed_args.id} (they are kept for a while only)")
        shown = {
            "id": found.id,
            "time": when(found.created_at),
            "request_id": found.request_id,
            "method": found.method,
            "project_id": found.project_id,
            "placed": found.placed,
            "failed": found.failed,
            **found.record,
        }
        return list(shown), list(shown.values())

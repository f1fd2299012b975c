"""``decision list`` and ``decision show``: why this host, why none."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from nova_sched.cmd.client.explain import telling_tables
from nova_sched.cmd.client.offline import Document
from nova_sched.cmd.columns import when
from nova_sched.cmd.console import List
from nova_sched.db.decisions import DecisionHistory, StoredDecision
from nova_sched.errors import DecisionNotFound
from nova_sched.lab.explain import retell

#: What a request may have asked for beside amounts, by its name in the record.
_GIVEN = (
    "availability_zone", "hints", "group", "force_hosts", "force_nodes", "ignore_hosts", "excluded", "tried",
    "image_properties", "pci_requests", "numa_cells",
)  # fmt: skip


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


class ShowDecision(Document):
    """Show one decision: who asked, hosts in and out of each filter, the best hosts with their weights, the choice.

    Where no host was left, filters say why, with some of the hosts they refused. --instance takes the newest decision
    about an instance. Exits 1 when there is none.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Argument ID."""
        parser = super().get_parser(prog_name)
        one = parser.add_mutually_exclusive_group(required=True)
        one.add_argument("id", type=int, nargs="?", help="from decision list")
        one.add_argument("--instance", metavar="UUID", help="the newest decision about this instance")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """The record."""
        history = DecisionHistory(self.app.connections.database())
        if parsed_args.instance:
            found = next(iter(history.list(parsed_args.instance, limit=1)), None)
        else:
            found = history.get(parsed_args.id)
        if found is None:
            about = parsed_args.instance
            raise DecisionNotFound(f"A decision about {about}" if about else f"Decision {parsed_args.id}")
        if parsed_args.format == "table":
            self._show(found)
        else:
            self.dump(parsed_args.format, {**_head(found), **found.record})

    def _show(self, found: StoredDecision) -> None:
        console = self.tables()
        for name, value in _told(found):
            console.print(Text.assemble((f"{name:<12}", "bold"), value), soft_wrap=True)
        if "explanation" not in found.record:
            console.print(Text("the record was too large to be kept whole"))
            return
        for part in telling_tables(retell(found.record), None, None):
            console.print(part, soft_wrap=isinstance(part, Text))


def _head(found: StoredDecision) -> dict[str, Any]:
    return {
        "id": found.id,
        "time": when(found.created_at),
        "request_id": found.request_id,
        "method": found.method,
        "project_id": found.project_id,
        "placed": found.placed,
        "failed": found.failed,
    }


def _told(found: StoredDecision) -> Iterator[tuple[str, str]]:
    request, explanation = found.record["request"], found.record.get("explanation", {})
    yield "Decision", f"{found.id} of {when(found.created_at)}"
    yield "Request", f"{found.method} {found.request_id}, attempt {request['attempt']}"
    forced = ", who forced the host" if explanation.get("forced") else ""
    yield "Asked by", f"user {request.get('user_id', 'unknown')} of project {found.project_id}{forced}"
    vcpus, ram_mb, disk_mb = request["amounts"]
    yield "For", f"{request['instances']} × {vcpus} vCPUs, {ram_mb:,} MB RAM, {disk_mb:,} MB disk"
    given = {name: request[name] for name in _GIVEN if name in request}
    if given:
        yield "With", "; ".join(f"{name} {value}" for name, value in given.items())
    stages = explanation.get("stage_seconds", {})
    if stages:
        yield "Took", ", ".join(f"{name} {1000 * seconds:.2f} ms" for name, seconds in stages.items())
    for uuid, outcome in found.record.get("outcomes", {}).items():
        yield "Outcome", f"{uuid}: {outcome}"
    shadow = found.record.get("shadow")
    if shadow:
        yield "Shadow", f"{shadow['kind']}: {shadow['reason']} ({shadow['source']})"

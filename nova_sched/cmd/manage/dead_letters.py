"""``dead-letter list/show/requeue``: messages that no worker could process."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from nova_sched.cmd.columns import when
from nova_sched.cmd.console import Act, Console, List, Show
from nova_sched.cmd.exits import UsageError
from nova_sched.rpc.dead_letters import DeadLetterReader
from nova_sched.rpc.factory import make_dead_letter_reader


def _reader(app: Console) -> DeadLetterReader:
    connections = app.connections
    reader = make_dead_letter_reader(connections.transport, connections.settings.bus)
    if reader is None:
        raise UsageError("only RabbitMQ keeps dead letters; with this transport_url they are in the log")
    return reader


class ListDeadLetters(List):
    """List dead letters, oldest first."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """--limit."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--limit", type=int, default=100, metavar="N", help="at most this many (default: 100)"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """One row each."""
        found = _reader(self.app).list(parsed_args.limit)
        return ("ID", "Time", "Method", "Topic", "Bytes", "Reason"), [
            (
                one.message_id,
                when(one.died_at_seconds),
                one.method,
                one.routing_key,
                one.size_bytes,
                one.reason,
            )
            for one in found
        ]


class ShowDeadLetter(Show):
    """Show one dead letter with its content; secrets are masked."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Argument ID."""
        parser = super().get_parser(prog_name)
        parser.add_argument("id")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        """All that may be shown."""
        found = _reader(self.app).show(parsed_args.id)
        shown = {**found, "died_at": when(found["died_at_seconds"])}
        return list(shown), list(shown.values())


class Requeue(Act):
    """Put a dead letter back to where it came from, after its cause was mended.

    An instance that ended in ERROR stays there unless --new-attempt asks for the next attempt.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Argument ID and --new-attempt."""
        parser = super().get_parser(prog_name)
        parser.add_argument("id")
        parser.add_argument(
            "--new-attempt", action="store_true", help="count as the next attempt and decide again"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Requeue it."""
        found = _reader(self.app).requeue(parsed_args.id, parsed_args.new_attempt)
        self.say(f"{found.message_id} is back on {found.routing_key}")

"""``listen``: notifications as they come."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

from nova_sched.cmd.console import Act
from nova_sched.rpc.tap import open_tap


class Listen(Act):
    """Show notifications live, one line each (or one JSON object per line), until interrupted.

    Uses a queue of its own: other consumers miss nothing.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Limits and form."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--seconds", type=float, metavar="N", help="stop after this long")
        parser.add_argument("--count", type=int, metavar="N", help="stop after this many")
        parser.add_argument("--event", metavar="TEXT", help="only event types that contain this")
        parser.add_argument(
            "-f",
            "--format",
            choices=("line", "json"),
            default="line",
            help="a line for people, or JSON per line",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Print until told to stop."""
        connections = self.app.connections
        tap = open_tap(connections.notifications, connections.settings.bus.notification_topics)
        try:
            shown = 0
            for event in _until(tap, parsed_args.seconds):
                if parsed_args.event and parsed_args.event not in str(event.get("event_type")):
                    continue
                self.say(json.dumps(event) if parsed_args.format == "json" else _line(event))
                self.app.stdout.flush()
                shown += 1
                if shown == parsed_args.count:
                    return
        finally:
            tap.close()


def _until(tap: Any, seconds: float | None) -> Iterator[dict[str, Any]]:
    until = None if seconds is None else time.monotonic() + seconds
    while until is None or time.monotonic() < until:
        yield from tap.events(1.0 if until is None else max(0.01, min(1.0, until - time.monotonic())))


def _line(event: dict[str, Any]) -> str:
    payload = event.get("payload") or {}
    uuids = payload.get("instance_uuids") or [payload.get("instance_id") or payload.get("instance_uuid")]
    target = (payload.get("weighted_host") or {}).get("host") or payload.get("host") or ""
    detail = payload.get("reason") or payload.get("state") or ""
    words = (
        str(event.get("timestamp"))[:19],
        f"{event.get('priority', ''):5}",
        f"{event.get('event_type', ''):32}",
        ",".join(str(uuid) for uuid in uuids if uuid),
        str(target),
        str(detail).split("\n")[0][:200],
    )
    return " ".join(word for word in words if word).rstrip()

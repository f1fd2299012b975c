"""``top``: what the service does at this moment, drawn again and again."""

from __future__ import annotations

import argparse
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console as Terminal
from rich.live import Live

from nova_sched.cmd.client.top_view import BY, frame
from nova_sched.cmd.console import Act
from nova_sched.cmd.exits import UsageError
from nova_sched.db.snapshot import SqlReads
from nova_sched.errors import SchedulerError, StoreUnavailable
from nova_sched.health.snapshot import take

_PIPE_WIDTH = 120
_URL_SECONDS = 5.0


class Top(Act):
    """Show hosts as a heat map of what is free, the latest instances with state and latency, refusals by reason.

    Reads the database, or with --url the health port of a service. In a pipe one frame is printed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Choices."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--once", action="store_true", help="print one frame and end")
        parser.add_argument("--by", choices=BY, default="ram", help="what the heat map shows (default: ram)")
        parser.add_argument(
            "--interval", type=float, default=2.0, metavar="SECONDS", help="between two frames (default: 2)"
        )
        parser.add_argument("--rows", type=int, default=12, metavar="N", help="instances shown (default: 12)")
        parser.add_argument("--url", metavar="URL", help="of a health port, as http://127.0.0.1:9474/")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Draw until interrupted."""
        terminal = Terminal(file=self.app.stdout)
        if not terminal.is_terminal:
            terminal = Terminal(file=self.app.stdout, width=_PIPE_WIDTH)
        read = self._reader(parsed_args.url)
        state = read()
        if parsed_args.once or not terminal.is_terminal:
            terminal.print(frame(state, parsed_args.by, parsed_args.rows))
            return
        try:
            self._draw(terminal, read, state, parsed_args)
        except KeyboardInterrupt:
            return

    def _draw(
        self,
        terminal: Terminal,
        read: Callable[[], Mapping[str, Any]],
        state: Mapping[str, Any],
        options: argparse.Namespace,
    ) -> None:
        with Live(frame(state, options.by, options.rows), console=terminal, screen=True) as live:
            while True:
                time.sleep(max(0.2, options.interval))
                stale = None
                try:
                    state = read()
                except SchedulerError as away:
                    stale = str(away)
                live.update(frame(state, options.by, options.rows, stale), refresh=True)

    def _reader(self, url: str | None) -> Callable[[], Mapping[str, Any]]:
        if url is not None:
            if not url.startswith(("http://", "https://")):
                raise UsageError(f"--url {url}: expected http://HOST:PORT/")
            return lambda: _fetch(url)
        connections = self.app.connections
        reads = SqlReads(connections.database(), lambda: connections.settings.scheduler.filters)
        return lambda: take(reads)


def _fetch(url: str) -> Mapping[str, Any]:
    """The page's data. Raises StoreUnavailable, which is what the service behind it would have said."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/state.json", timeout=_URL_SECONDS) as answer:  # nosec B310
            found: Mapping[str, Any] = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise StoreUnavailable(f"{url} does not answer: {error}") from None
    return found

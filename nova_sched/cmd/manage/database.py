"""``db sync``, ``db version``, ``db purge``."""

from __future__ import annotations

import argparse
from typing import Any

from nova_sched.cmd.console import Act, Show
from nova_sched.db import schema


class Sync(Act):
    """Create or upgrade the tables; safe to run twice and beside a running service."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Run the migrations."""
        version = schema.sync(self.app.connections.database(checked=False))
        self.say(f"schema is at version {version}")


class Version(Show):
    """Show the version of the tables there are and the one this program wants."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Both versions; None for an empty database."""
        found = schema.version(self.app.connections.database(checked=False))
        newest = schema.newest()
        return ("found", "wanted", "up_to_date"), (found, newest, found == newest)

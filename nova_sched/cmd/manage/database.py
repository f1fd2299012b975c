"""``db sync``, ``db version``, ``db purge``."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from nova_sched.cmd.console import Act, List, Show
from nova_sched.db import schema
from nova_sched.db.retention import Ages, Retention


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


class Purge(List):
    """Delete history beyond its age and count ([retention]) now, instead of with the next rounds of upkeep."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Rows deleted by table."""
        connections = self.app.connections
        settings = connections.settings
        retention = Retention(connections.database())
        ages = Ages.of(settings.retention, settings.delivery)
        deleted: Counter[str] = Counter()
        while True:
            found = retention.purge(ages)
            deleted.update(found)
            if not found.total():
                return ("Table", "Rows deleted"), sorted(deleted.items())

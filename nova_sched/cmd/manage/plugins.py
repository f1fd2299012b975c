"""``plugins list`` and ``plugins check``: what can be configured, and whether what is configured loads."""

from __future__ import annotations

import argparse
from typing import Any

from nova_sched.cmd.console import List
from nova_sched.plugins import registry


class ListPlugins(List):
    """List drivers, filters and weighers that installed packages offer, with the names that options may use."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Argument KIND."""
        parser = super().get_parser(prog_name)
        parser.add_argument("kind", nargs="?", choices=registry.KINDS, help="only this kind")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Kind, name, class and package of each."""
        kinds = [parsed_args.kind] if parsed_args.kind else registry.KINDS
        rows = [
            (kind.removesuffix("s"), found.name, found.path, found.package)
            for kind in kinds
            for found in registry.known(kind)
        ]
        return ("Kind", "Name", "Class", "Package"), rows


class CheckPlugins(List):
    """Load what the configuration names, as the start does, and list it in the order in which it runs.

    Exits 2 with the option, the name and the known names where one cannot be loaded.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Kind, name, class and whether it looks at hosts one by one."""
        settings = self.app.connections.settings.scheduler
        driver = registry.load_driver(settings)
        rows: list[tuple[Any, ...]] = [("driver", settings.driver, _path(driver), "")]
        rows += [_row("filter", found) for found in registry.load_filters(settings)]
        rows += [_row("weigher", found) for found in registry.load_weighers(settings)]
        return ("Kind", "Name", "Class", "Pace"), rows


def _row(kind: str, plugin: Any) -> tuple[Any, ...]:
    return kind, plugin.name, _path(plugin), "host by host" if plugin.per_row else "all hosts at once"


def _path(plugin: Any) -> str:
    return f"{type(plugin).__module__}:{type(plugin).__qualname__}"

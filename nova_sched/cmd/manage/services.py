"""``service list``, ``service enable`` and ``service disable``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from nova_sched.cmd.client.hosts import state_of
from nova_sched.cmd.columns import when
from nova_sched.cmd.console import Act, List
from nova_sched.db.admin import ServiceAdmin


class ListServices(List):
    """List compute services with the state that filters see."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """One row per host."""
        connections = self.app.connections
        found = ServiceAdmin(connections.database()).list()
        down_seconds = connections.settings.scheduler.filters.service_down_time_seconds
        columns = ("Host", "State", "Reason", "Nodes", "Last report", "Interval", "Version")
        return columns, [
            (
                service["host"],
                state_of(service, down_seconds),
                service["disabled_reason"],
                service["nodes"],
                when(service["heartbeat_at"]),
                service["interval_seconds"],
                service["version"],
            )
            for service in found
        ]


class Enable(Act):
    """Let hosts get new instances again."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Arguments HOST…."""
        parser = super().get_parser(prog_name)
        parser.add_argument("host", nargs="+")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Enable each."""
        services = ServiceAdmin(self.app.connections.database())
        for host in parsed_args.host:
            services.set_disabled(host, False)
            self.say(f"{host} is enabled")


class Disable(Act):
    """Keep new instances off hosts; what runs there stays. Forced placements still reach them."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Arguments HOST… and --reason."""
        parser = super().get_parser(prog_name)
        parser.add_argument("host", nargs="+")
        parser.add_argument("--reason", metavar="TEXT", help="shown to whoever wonders")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Disable each."""
        services = ServiceAdmin(self.app.connections.database())
        for host in parsed_args.host:
            services.set_disabled(host, True, parsed_args.reason)
            self.say(f"{host} is disabled")

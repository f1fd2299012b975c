"""``claim list``: what is reserved where, and since when."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from nova_sched.cmd.columns import when
from nova_sched.cmd.console import List
from nova_sched.db.admin import ClaimAdmin


class ListClaims(List):
    """List live claims, newest first; with --ended those of the recent past as well."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Choices."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--host", metavar="HOST", help="only those on this host")
        parser.add_argument("--instance", metavar="UUID", help="only those of this instance")
        parser.add_argument("--ended", action="store_true", help="ended ones as well, with the reason")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
        """One row each."""
        found = ClaimAdmin(self.app.connections.database()).list(
            parsed_args.host, parsed_args.instance, parsed_args.ended
        )
        columns = (
            "Instance",
            "Attempt",
            "Kind",
            "State",
            "Host",
            "Node",
            "vCPUs",
            "RAM MB",
            "Disk MB",
            "Since",
            "Expires",
            "Ended",
        )
        return columns, [
            (
                one["guest_uuid"] or one["instance_uuid"],
                one["attempt"],
                one["kind"],
                one["state"],
                one["host"],
                one["node"],
                one["vcpus"],
                one["memory_mb"],
                one["disk_mb"],
                when(one["created_at"]),
                when(one["expires_at"]) if one["state"] == "claimed" else None,
                one["ended_reason"],
            )
            for one in found
        ]

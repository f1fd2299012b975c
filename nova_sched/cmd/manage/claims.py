"""``claim end``: give room back by hand."""

from __future__ import annotations

import argparse

from nova_sched.cmd.console import Act
from nova_sched.db.admin import ClaimAdmin
from nova_sched.errors import InstanceNotFound


class End(Act):
    """End the live claims of an instance and give their room back at once. Exits 1 when it has none.

    For claims that no agent will ever speak of again. The guest, if there is one, is not touched: its room counts
    again with its host's next report.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Argument UUID and --attempt."""
        parser = super().get_parser(prog_name)
        parser.add_argument("uuid")
        parser.add_argument("--attempt", type=int, metavar="N", help="only the claim of this attempt")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """End them."""
        ended = ClaimAdmin(self.app.connections.database()).end(parsed_args.uuid, parsed_args.attempt)
        if not ended:
            raise InstanceNotFound(f"{parsed_args.uuid} with a live claim")
        self.say(f"{ended} claim{'s' if ended > 1 else ''} of {parsed_args.uuid} ended")

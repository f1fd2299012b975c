"""``capacity``: how many more guests of one flavor fit, where, and what stops the next one."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.bar import Bar
from rich.table import Table
from rich.text import Text

from nova_sched.cmd.client.offline import Document, add_source_options, case_of, other_settings, settings_of
from nova_sched.cmd.client.plots import write_bars
from nova_sched.cmd.client.requests import NovaRequest, add_order_options, request_from
from nova_sched.lab.capacity import as_plain, capacity
from nova_sched.lab.case import Case
from nova_sched.lab.scene import Scene
from nova_sched.settings import Settings
from nova_sched.wire import inbound

_BAR_WIDTH = 24


class Capacity(Document):
    """Tell how many more guests fit, in all, per zone and per aggregate, and why the next one finds no host.

    Counted by the filters themselves on the service's database, or on an export; nothing is reserved. Exits 1 when
    not one fits.
    """

    has_config_file = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The guest, the state, the plot."""
        parser = super().get_parser(prog_name)
        add_order_options(parser)
        add_source_options(parser)
        parser.add_argument("--plot", metavar="FILE", help="write a chart of the zones: .svg or .png")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Count, and show."""
        case = case_of(self.app, parsed_args.export)
        request = request_from(parsed_args)
        other = other_settings(case, parsed_args)
        answer = _counted(case, settings_of(case), request)
        if other is not None:
            answer["other"] = _counted(case, other, request)
        if parsed_args.format != "table":
            self.dump(parsed_args.format, answer)
        else:
            self._show(answer)
        told = answer.get("other", answer)
        if parsed_args.plot:
            zones = [(one["name"], float(one["guests"])) for one in told["zones"]]
            write_bars(Path(parsed_args.plot), "Guests that still fit, by zone", zones)
        return 0 if told["guests"] != 0 else 1

    def _show(self, answer: Mapping[str, Any]) -> None:
        console = self.tables()
        told = [("", answer)]
        if answer.get("other"):
            told = [("Present configuration", answer), ("Other configuration", answer["other"])]
        for title, one in told:
            if title:
                console.print(Text(title, style="bold underline"))
            if one["guests"] is None:
                console.print(Text(one["reason"]))
                continue
            console.print(Text(f"{one['guests']:,} more fit", style="bold"))
            for kind in ("zones", "aggregates"):
                if one[kind]:
                    console.print(_share_table(kind, one[kind]))
            console.print(Text(f"The next one: {one['reason']}"))


def _counted(case: Case, settings: Settings, request: NovaRequest) -> dict[str, Any]:
    asked = inbound.explain(
        request.context,
        {"request_spec": request.request_spec, "filter_properties": request.filter_properties},
        settings,
    )
    return as_plain(capacity(Scene(case, settings), asked))


def _share_table(kind: str, shares: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(kind.capitalize().rstrip("s"), box=None, header_style="bold", pad_edge=False)
    table.add_column("Hosts", justify="right")
    table.add_column("Fit", justify="right")
    table.add_column("", width=_BAR_WIDTH)
    table.add_column("Closed by (hosts)")
    most = max(one["guests"] for one in shares) or 1
    for one in sorted(shares, key=lambda share: -share["guests"]):
        closed = ", ".join(f"{name} {hosts}" for name, hosts in one["closed"].items())
        bar = Bar(most, 0, one["guests"], width=_BAR_WIDTH)
        table.add_row(one["name"], str(one["hosts"]), f"{one['guests']:,}", bar, closed)
    return table

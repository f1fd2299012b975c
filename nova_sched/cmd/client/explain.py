"""``explain``: what would be decided, and why, host by host; under another configuration as well."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from nova_sched.cmd.client.offline import (
    Document,
    add_source_options,
    case_of,
    exported_request,
    last_request,
    other_settings,
    settings_of,
)
from nova_sched.cmd.client.requests import NovaRequest, add_order_options, context_of, request_from
from nova_sched.errors import NoValidHost
from nova_sched.lab.case import Case
from nova_sched.lab.explain import differences, retell, tell
from nova_sched.lab.scene import Scene
from nova_sched.settings import Settings
from nova_sched.wire import inbound

_PASSED, _REFUSED, _NOT_ASKED = "✓", "✗", "·"


class Explain(Document):
    """Explain where a request would go now and why; nothing is reserved. Exits 1 when there is no host.

    The running service is asked; with --export, --config-file or --set it is worked out here, from the export or
    from the service's database, and shown beside what the present configuration would do.
    """

    has_config_file = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The request and whom to ask."""
        parser = super().get_parser(prog_name)
        add_order_options(parser)
        parser.add_argument(
            "--instance", metavar="UUID", help="the last request of this instance, from its decision record"
        )
        add_source_options(parser)
        parser.add_argument("--host", metavar="NAME", help="show the lines of this host or node only")
        parser.add_argument(
            "--limit", type=int, default=40, metavar="N", help="lines per table (default: 40; 0 = all)"
        )
        parser.add_argument(
            "--timeout", type=float, default=60.0, metavar="SECONDS", help="of the call (default: 60)"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Ask, and show."""
        offline = parsed_args.export or parsed_args.other_config or parsed_args.changes
        answer = self._offline(parsed_args) if offline else self._live(parsed_args)
        if parsed_args.format != "table":
            self.dump(parsed_args.format, answer)
        else:
            self._show(answer, parsed_args)
        told = answer["other"] if answer.get("other") else answer
        if not _all_placed(told):
            self.app.stdout.flush()
            raise NoValidHost(_refusal(told))

    def _live(self, options: argparse.Namespace) -> dict[str, Any]:
        if options.instance:
            request = _nova_request(last_request(self.app, options.instance))
        else:
            request = request_from(options)
        api = self.app.connections.scheduler(options.timeout)
        return retell(api.explain(request.context, request.request_spec, request.filter_properties))

    def _offline(self, options: argparse.Namespace) -> dict[str, Any]:
        case = case_of(self.app, options.export)
        if options.instance and options.export:
            request = _nova_request(exported_request(case, options.instance))
        elif options.instance:
            request = _nova_request(last_request(self.app, options.instance))
        else:
            request = request_from(options)
        answer = _worked_out(case, settings_of(case), request)
        other = other_settings(case, options)
        if other is not None:
            answer["other"] = _worked_out(case, other, request)
            answer["differences"] = [
                {"index": one.index, "host": one.host, "node": one.node, "here": one.here, "there": one.there}
                for one in differences(answer, answer["other"])
            ]
        return answer

    def _show(self, answer: Mapping[str, Any], options: argparse.Namespace) -> None:
        limit = options.limit or None
        console = self.tables()
        told = [("", answer)]
        if answer.get("other"):
            told = [("Present configuration", answer), ("Other configuration", answer["other"])]
        for title, telling in told:
            if title:
                console.print(Text(title, style="bold underline"))
            for part in telling_tables(telling, options.host, limit):
                console.print(part, soft_wrap=isinstance(part, Text))
        if answer.get("other"):
            console.print(_difference_table(answer["differences"], options.host, limit))


def _nova_request(recorded: Mapping[str, Any]) -> NovaRequest:
    context = {**context_of(), **(recorded.get("context") or {})}
    return NovaRequest(context, dict(recorded["request_spec"]), dict(recorded["filter_properties"]))


def _worked_out(case: Case, settings: Settings, request: NovaRequest) -> dict[str, Any]:
    asked = inbound.explain(
        request.context,
        {"request_spec": request.request_spec, "filter_properties": request.filter_properties},
        settings,
    )
    return tell(Scene(case, settings).explain(asked), hosts_max=len(case.hosts))


def _all_placed(telling: Mapping[str, Any]) -> bool:
    rounds = telling["rounds"]
    return telling["refused"] is None and bool(rounds) and all(one["chosen"] for one in rounds)


def _refusal(telling: Mapping[str, Any]) -> str:
    if telling["refused"]:
        return str(telling["refused"])
    placed = {"/".join(str(part) for part in one["chosen"]) for one in telling["rounds"] if one["chosen"]}
    return next((text for text in telling["outcomes"].values() if text not in placed), "no host")


def telling_tables(telling: Mapping[str, Any], host: str | None, limit: int | None) -> list[Any]:
    """What people read of a telling: headline, filters, hosts × filters, weights, choices."""
    parts: list[Any] = [Text(_headline(telling))]
    for number, one in enumerate(telling["rounds"]):
        if number == 0 or host:
            parts += [_filter_table(one), _host_table(one, host, limit)]
            weights = _weight_table(one, host, limit)
            parts += [weights] if weights.row_count else []
        parts.append(_choice(one))
    if telling.get("rounds_omitted"):
        parts.append(Text(f"… and {telling['rounds_omitted']} more instances"))
    return parts


def _headline(telling: Mapping[str, Any]) -> str:
    before = "".join(f", {count} {why}" for why, count in telling["before"].items())
    forced = ", forced: no filter was asked" if telling["forced"] else ""
    return f"{telling['driver']}: {telling['hosts_total']} hosts{before}{forced}"


def _filter_table(one: Mapping[str, Any]) -> Table:
    table = Table("#", "Filter", "In", "Out", "Why", box=None, header_style="bold", pad_edge=False)
    for number, step in enumerate(one["filters"], 1):
        table.add_row(str(number), step["name"], str(step["in"]), str(step["out"]), step["reason"] or "")
    return table


def _host_table(one: Mapping[str, Any], host: str | None, limit: int | None) -> Table:
    """Host × filter: passed, refused, not asked any more."""
    names = [step["name"] for step in one["filters"]]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("Host", "Node"):
        table.add_column(name, no_wrap=True, overflow="fold")  # a name in two halves is found by no search
    for number in range(1, len(names) + 1):
        table.add_column(str(number), justify="center", no_wrap=True)
    table.add_column("Weight", justify="right", no_wrap=True)
    table.add_column("Refused because")
    lines = [line for line in one["hosts"] if host in (None, line["host"], line["node"])]
    for line in _best_of_both(lines, limit):
        table.add_row(
            line["host"],
            line["node"],
            *_marks(names, line["refused_by"]),
            "" if line["weight"] is None else f"{line['weight']:.6g}",
            line["reason"] or ("chosen" if one["chosen"] == [line["host"], line["node"]] else ""),
            style="bold green" if one["chosen"] == [line["host"], line["node"]] else None,
        )
    left_out = max(0, len(lines) - limit if limit else 0) + (0 if host else one["hosts_omitted"])
    if left_out:
        table.add_row(f"… {left_out} more")
    return table


def _best_of_both(lines: list[Mapping[str, Any]], limit: int | None) -> list[Mapping[str, Any]]:
    """So many lines at most, half of them for the refused where there are as many."""
    if limit is None or len(lines) <= limit:
        return lines
    passed = [line for line in lines if line["refused_by"] is None]
    refused = [line for line in lines if line["refused_by"] is not None]
    kept = max(limit - len(refused), limit - limit // 2)
    return [*passed[:kept], *refused[: limit - len(passed[:kept])]]


def _marks(names: list[str], refused_by: str | None) -> list[str]:
    if refused_by not in names:
        return [_PASSED] * len(names)
    at = names.index(refused_by)
    return [_PASSED] * at + [_REFUSED] + [_NOT_ASKED] * (len(names) - at - 1)


def _weight_table(one: Mapping[str, Any], host: str | None, limit: int | None) -> Table:
    table = Table(
        "Host",
        "Weigher",
        *(("Raw", "Normalised", "Weighted")),
        box=None,
        header_style="bold",
        pad_edge=False,
    )
    lines = [line for line in one["hosts"] if host in (None, line["host"], line["node"])]
    for line in lines[:limit]:
        for part in line["weights"]:
            numbers = (f"{part[key]:.6g}" for key in ("raw", "normalised", "weighted"))
            table.add_row(line["host"], part["name"], *numbers)
    return table


def _choice(one: Mapping[str, Any]) -> Text:
    who = f"instance {one['index'] + 1}" + (f" ({one['instance']})" if one["instance"] else "")
    if one["chosen"] is None:
        return Text(f"{who}: no host", style="bold red")
    limits = ", ".join(
        f"{key} {value}" for key, value in (one["limits"] or {}).items() if not isinstance(value, dict)
    )
    tail = f" with limits {limits}" if limits else ""
    return Text(f"{who}: {'/'.join(str(part) for part in one['chosen'])}{tail}", style="bold")


def _difference_table(found: list[Mapping[str, Any]], host: str | None, limit: int | None) -> Table | Text:
    if not found:
        return Text("Both see every host alike", style="bold")
    title = "Hosts that the two see differently"
    table = Table(
        "Instance",
        "Host",
        "Present",
        "Other",
        title=title,
        title_justify="left",
        box=None,
        header_style="bold",
    )
    shown = [one for one in found if host in (None, one["host"], one["node"])]
    for one in shown[:limit]:
        table.add_row(str(one["index"] + 1), one["host"], one["here"], one["there"])
    if limit and len(shown) > limit:
        table.add_row("", f"… {len(shown) - limit} more")
    return table

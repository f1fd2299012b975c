"""``simulate``: plays a trace against an inventory and compares configurations and policies."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import rich.console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from nova_sched.cmd.arguments import positive
from nova_sched.cmd.client.offline import Document, add_config_option, changes_of, file_options
from nova_sched.cmd.exits import UsageError
from nova_sched.conf.mapping import scheduling_options, settings_from_mapping
from nova_sched.lab import case as cases
from nova_sched.lab import report, trace, trace_fleet, trace_twin
from nova_sched.lab.policies import POLICIES, policy_driver
from nova_sched.lab.report import Contender
from nova_sched.lab.simulate import Simulation, fewest_hosts
from nova_sched.lab.trace import Trace
from nova_sched.lab.trace_fleet import Fleet
from nova_sched.plugins import registry

_ALL_POLICIES = "policies"


@dataclass(frozen=True, slots=True)
class _Plan:
    """One contender before it runs. ``setup``: its options, or its policy."""

    name: str
    setup: Mapping[str, Any]
    make_driver: Callable[[], Any]


class Simulate(Document):
    """Play a trace of guests against an inventory of hosts, as fast as the engine goes; nothing else is needed.

    Says what was placed and refused and why, how full it got, the largest size that still fitted, and how many hosts
    were in use against a lower bound; for several configurations and textbook policies side by side.
    """

    has_config_file = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Trace, hosts, contenders, outputs."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "trace", nargs="?", help="CSV (also .gz), or an export whose instances are played again"
        )
        parser.add_argument(
            "--synthetic", type=positive, metavar="N", help="a made-up trace of N guests instead"
        )
        parser.add_argument("--seed", type=int, default=0, help="of the synthetic trace (default: 0)")
        parser.add_argument("--save-trace", metavar="FILE", help="write the trace that was played as CSV")
        parser.add_argument("--limit", type=positive, metavar="N", help="play the first N guests only")
        parser.add_argument("--hosts", required=True, metavar="FILE", help="inventory: CSV, or an export")
        parser.add_argument(
            "--fleet",
            type=positive,
            metavar="N",
            help="take N hosts in the inventory's mix (default: all of it)",
        )
        add_config_option(
            parser, "nova.conf to play with (default: the export's options, else this program's)"
        )
        parser.add_argument(
            "--set",
            dest="changes",
            metavar="OPTION=VALUE",
            action="append",
            default=[],
            help="change one option of it; may be repeated",
        )
        parser.add_argument(
            "--compare",
            metavar="WHAT",
            action="append",
            default=[],
            help=f"play again with another nova.conf, with OPTION=VALUE, or with one of {', '.join(POLICIES)} or all "
            f"{_ALL_POLICIES} under the same filters; may be repeated",
        )
        parser.add_argument(
            "--fewest-hosts",
            action="store_true",
            help="find the smallest fleet that refuses nobody (plays a dozen times)",
        )
        parser.add_argument(
            "--samples", type=positive, default=240, metavar="N", help="moments measured (default: 240)"
        )
        parser.add_argument("--html", metavar="FILE", help="write a report with charts")
        parser.add_argument("--json", metavar="FILE", help="write all numbers as JSON")
        parser.add_argument("--csv", metavar="FILE", help="write the measured moments as CSV")
        parser.add_argument("--placements", metavar="FILE", help="write where each guest went as CSV")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Play, show, write."""
        played = _trace(parsed_args)
        fleet = trace_fleet.read(parsed_args.hosts)
        fleet = fleet.of_size(parsed_args.fleet) if parsed_args.fleet else fleet
        plans = list(self._plans(parsed_args))
        contenders = self._play(plans, played, fleet, parsed_args)
        if parsed_args.format == "table":
            self._show(played, fleet, contenders)
        else:
            self.dump(parsed_args.format, report.as_plain(played, contenders))
        self._write(played, fleet, contenders, parsed_args)

    def _plans(self, options: argparse.Namespace) -> Iterator[_Plan]:
        config = self._config(options)
        name = Path(options.other_config[-1]).name if options.other_config else "configuration"
        yield _of_config(name, config)
        for what in options.compare:
            if what == _ALL_POLICIES:
                yield from (_of_policy(policy, config) for policy in POLICIES)
            elif what in POLICIES:
                yield _of_policy(what, config)
            elif "=" in what:
                yield _of_config(what, {**config, **changes_of([what])})
            else:
                yield _of_config(Path(what).name, file_options([what]))

    def _config(self, options: argparse.Namespace) -> dict[str, Any]:
        if options.other_config:
            config = file_options(options.other_config)
        elif options.hosts.endswith(".json"):
            config = dict(cases.load(options.hosts).config)
        else:
            config = scheduling_options(self.app.connections.conf)
        return {**config, **changes_of(options.changes)}

    def _play(
        self, plans: Sequence[_Plan], played: Trace, fleet: Fleet, options: argparse.Namespace
    ) -> list[Contender]:
        found: list[Contender] = []
        with self._progress() as progress:
            for plan in plans:
                task = progress.add_task(plan.name, total=len(played.arrivals))
                simulation = Simulation(plan.name, played, fleet, plan.make_driver(), samples=options.samples)
                begun = time.perf_counter()
                result = simulation.run(lambda done, task=task: progress.update(task, completed=done))  # type: ignore[misc]
                took = time.perf_counter() - begun
                fewest = None
                if options.fewest_hosts:
                    fewest = self._fewest(progress, plan, played, fleet)
                found.append(Contender(result, plan.setup, took, fewest))
        return found

    def _fewest(self, progress: Progress, plan: _Plan, played: Trace, fleet: Fleet) -> int | None:
        task = progress.add_task(f"{plan.name}: fewest hosts", total=len(fleet))
        return fewest_hosts(
            played, fleet, plan.make_driver, lambda hosts: progress.update(task, completed=hosts)
        )

    def _progress(self) -> Progress:
        stderr = self.app.stderr
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=rich.console.Console(file=stderr),
            transient=True,
            disable=not stderr.isatty(),
        )

    def _show(self, played: Trace, fleet: Fleet, contenders: Sequence[Contender]) -> None:
        console = self.tables()
        console.print(
            f"{len(played.arrivals):,} guests of {played.name} on {len(fleet):,} hosts of {fleet.name}"
        )
        # One line per measure: a contender is a column, so that many measures fit into a narrow terminal.
        table = Table("", box=None, header_style="bold", pad_edge=False)
        columns = [report.cells(one) for one in contenders]
        for column in columns:
            table.add_column(column[0], justify="right", overflow="fold")
        for number, (head, _, _) in enumerate(report.COLUMNS[1:], 1):
            if any(column[number] != "–" for column in columns):
                table.add_row(head, *(column[number] for column in columns))
        console.print(table)
        for one in contenders:
            for refused in one.result.refused:
                console.print(
                    Text(
                        f"{one.result.name}: {refused.count:,} refused by {refused.by}, the first: {refused.example}"
                    )
                )

    def _write(
        self, played: Trace, fleet: Fleet, contenders: Sequence[Contender], options: argparse.Namespace
    ) -> None:
        if options.save_trace:
            trace.write(options.save_trace, played)
        if options.html:
            Path(options.html).write_text(report.page(played, fleet.name, contenders))
        if options.json:
            plain = orjson.dumps(report.as_plain(played, contenders), option=orjson.OPT_INDENT_2)
            Path(options.json).write_bytes(plain)
        if options.csv:
            with Path(options.csv).open("w", newline="") as file:
                report.write_samples(file, contenders)
        if options.placements:
            hosts = [row["host"] for row in fleet.rows]
            with Path(options.placements).open("w", newline="") as file:
                report.write_placements(file, played, hosts, contenders)


def _trace(options: argparse.Namespace) -> Trace:
    if (options.trace is None) == (options.synthetic is None):
        raise UsageError("name a trace, or --synthetic N")
    played = trace.read(options.trace) if options.trace else trace_twin.twin(options.synthetic, options.seed)
    return played.first(options.limit) if options.limit else played


def _of_config(name: str, config: Mapping[str, Any]) -> _Plan:
    settings = settings_from_mapping(config).scheduler
    return _Plan(name, dict(config), lambda: registry.load_driver(settings))


def _of_policy(name: str, config: Mapping[str, Any]) -> _Plan:
    settings = settings_from_mapping(config).scheduler
    return _Plan(
        name,
        {"policy": name, "filters": list(settings.filters.enabled)},
        lambda: policy_driver(name, settings),
    )

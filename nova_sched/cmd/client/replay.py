"""``replay``: recorded or exported decisions once more through the real engine, and whether they come out as expected."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from nova_sched.cmd.client.offline import Document
from nova_sched.cmd.exits import Mismatch
from nova_sched.lab import case as cases
from nova_sched.lab.case import Case
from nova_sched.lab.replay import check, replay
from nova_sched.testing.cases import translator


class Replay(Document):
    """Decide the requests of cases or exports again, without bus and database, and show what comes out.

    With --check it is compared with what the file expects, by the rules of the cases; each difference is a line, and
    the command exits 1 if there is one.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Files, --check."""
        parser = super().get_parser(prog_name)
        parser.add_argument("files", nargs="+", metavar="FILE", help="case or export")
        parser.add_argument("--check", action="store_true", help="compare with what the file expects")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Replay each file."""
        answers = [(path, cases.load(path)) for path in parsed_args.files]
        if parsed_args.check:
            self._check(answers, parsed_args.format)
        elif parsed_args.format == "table":
            for path, case in answers:
                if case.requests:
                    self._show(path, replay(case, translator()))
                else:
                    self.say(
                        f"{path}: nothing to replay, it has no requests (nova-sched export --instance UUID adds some)"
                    )
        else:
            self.dump(parsed_args.format, {path: replay(case, translator()) for path, case in answers})

    def _check(self, answers: Sequence[tuple[str, Case]], form: str) -> None:
        found: dict[str, list[str]] = {}
        nothing = [path for path, case in answers if not case.expected]
        for path, case in answers:
            if case.expected:
                found[path] = [str(one) for one in check(case, translator())]
        wrong = [path for path, lines in found.items() if lines]
        if form == "table":
            for path in wrong:
                for line in found[path]:
                    self.say(f"{path}: {line}")
            for path in nothing:
                self.say(f"{path}: nothing to compare, the file expects nothing")
            self.say(f"{len(found) - len(wrong)} as expected, {len(wrong)} not, {len(nothing)} not compared")
        else:
            self.dump(form, {"mismatches": {path: found[path] for path in wrong}, "not_compared": nothing})
        if wrong:
            self.app.stdout.flush()
            raise Mismatch(f"{len(wrong)} of {len(found)} files came out otherwise than expected")

    def _show(self, path: str, results: Sequence[Mapping[str, Any]]) -> None:
        console = self.tables()
        for number, result in enumerate(results, 1):
            console.print(
                Text(f"{path}, request {number}: {result.get('method', '')} {result['outcome']}"),
                soft_wrap=True,
            )
            table = Table(box=None, show_header=False, pad_edge=False)
            table.add_column(style="bold", no_wrap=True)
            table.add_column(overflow="fold")
            for name, text in _lines(result):
                table.add_row(name, Text(text))
            console.print(table)


def _lines(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What happened, as (name, text): rounds, then what was sent; the members of ``expected`` in the words of a person."""
    for one in result.get("rounds", ()):
        yield f"round {one['index']}", one["instance_uuid"] or ""
        for name, left in one["filter_trace"]:
            yield f"  {name}", _hosts(left)
        if "chosen" not in one:
            continue
        yield "  weights", ", ".join(f"{w['host']}/{w['node']} {w['weight']:.6g}" for w in one["weighed"])
        yield "  choices", _hosts(one["choices"])
        yield "  chosen", _hosts([one["chosen"]])
        yield "  limits", _members(one["limits"])
        yield "  after", _members(one["after"])
    for cast in result.get("casts", ()):
        retry = cast["filter_properties"].get("retry") or {}
        tried = f", tried {_hosts(retry['hosts'])}" if retry else ""
        yield (
            "cast",
            f"{cast['instance_uuid']} to {cast['host']}/{cast['node']}, index {cast['launch_index']}{tried}",
        )
    for one in result.get("destinations", ()):
        yield "destination", f"{one['host']}/{one['nodename']} {_members(one['limits'])}"
    for error in result.get("instance_errors", ()):
        yield "error", error["instance_uuid"] or ""
    for reason in dict.fromkeys(result.get("reasons", ())):
        yield "reason", reason
    if events := result.get("notifications"):
        yield "events", ", ".join(f"{priority} {event}" for priority, event in events)


def _hosts(pairs: Sequence[Sequence[Any]]) -> str:
    return ", ".join("/".join(str(part) for part in pair) for pair in pairs) or "none"


def _members(found: Mapping[str, Any] | None) -> str:
    def told(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) and value < 1e6 else json.dumps(value, default=str)

    return ", ".join(f"{name} {told(value)}" for name, value in sorted((found or {}).items())) or "none"

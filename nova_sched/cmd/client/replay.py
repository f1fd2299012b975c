"""``replay``: recorded or exported decisions once more through the real engine, and whether they come out as expected."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

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
                self._show(path, replay(case, translator()))
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
        table = Table(title=path, title_justify="left", box=None, header_style="bold", pad_edge=False)
        for head in ("#", "Method", "Outcome", "Instance", "Passed", "Chosen", "Weight", "Reason"):
            table.add_column(head, overflow="fold")
        for number, result in enumerate(results, 1):
            for row in _rows(result):
                table.add_row(str(number), str(result.get("method", "")), result["outcome"], *row)
        console.print(table)


def _rows(result: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """Instance, hosts that passed, choice, its weight, reason; one row per round."""
    reasons = "; ".join(result.get("reasons", ()))
    rows = []
    for one in result.get("rounds", ()):
        chosen = one.get("chosen")
        weight = next(
            (f"{w['weight']:.6g}" for w in one.get("weighed", ()) if [w["host"], w["node"]] == chosen), ""
        )
        name = "" if chosen is None else "/".join(str(part) for part in chosen)
        rows.append(
            (one["instance_uuid"] or "", str(len(one["filtered"])), name, weight, "" if chosen else reasons)
        )
    return rows or [("", "", "", "", reasons)]

"""Measured rows, judged by their goals: ``{workload, hosts, subject, metric, median, p99, unit, goal, met}``."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent
OUT = FOLDER / "out"

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "at_most": lambda value, bound: value <= bound,
    "at_least": lambda value, bound: value >= bound,
    "p99_at_most": lambda value, bound: value <= bound,
}
_SIGN = {"at_most": "≤", "at_least": "≥", "p99_at_most": "p99 ≤"}


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. ``hosts`` is 0 where none are involved; ``goal`` None: a figure for orientation."""

    workload: str
    hosts: int
    subject: str
    metric: str
    median: float
    p99: float
    unit: str
    goal: str | None = None
    met: bool | None = None


def p99(samples: Sequence[float]) -> float:
    """The sample below which 99 of 100 lie; the largest of fewer than 100."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


class Results:
    """Gathers rows in the order in which they are measured.

    :param goals: a list of ``{workload, hosts, subject, metric, at_most | at_least | p99_at_most: bound}``; a key left
        out holds for every row.
    """

    def __init__(self, goals: Iterable[dict[str, Any]] | None = None, console: Console | None = None) -> None:
        self.rows: list[Row] = []
        self._console = console or Console()
        loaded = (
            yaml.safe_load((FOLDER / "goals.yaml").read_text(encoding="utf-8")) if goals is None else goals
        )
        self._goals = [dict(goal) for goal in loaded]

    def add(
        self,
        workload: str,
        hosts: int,
        subject: str,
        metric: str,
        samples: Sequence[float] | float,
        unit: str,
    ) -> Row:
        """Note a figure from its samples (or one value) and say it; the row."""
        values = [float(samples)] if isinstance(samples, int | float) else [float(value) for value in samples]
        row = Row(workload, hosts, subject, metric, statistics.median(values), p99(values), unit)
        texts, met = [], True
        for goal in self._goals:
            if all(getattr(row, key) == goal[key] for key in goal if key not in _COMPARE):
                for kind in goal.keys() & _COMPARE.keys():
                    texts.append(f"{_SIGN[kind]} {goal[kind]:g} {unit}".rstrip())
                    met &= _COMPARE[kind](row.p99 if kind.startswith("p99") else row.median, goal[kind])
        if texts:
            row = Row(**{**asdict(row), "goal": " and ".join(texts), "met": met})
        self.rows.append(row)
        self.say(row)
        return row

    def say(self, row: Row) -> None:
        """One line while the run goes on."""
        verdict = (
            "" if row.met is None else f"  goal {row.goal}: {'met' if row.met else '[bold]missed[/bold]'}"
        )
        where = f" {row.hosts:,} hosts" if row.hosts else ""
        self._console.print(
            f"{row.workload}{where}, {row.subject}: {row.metric} {number(row.median)} {row.unit}"
            f" (p99 {number(row.p99)}){verdict}",
            highlight=False,
        )

    def find(self, workload: str, subject: str, metric: str, hosts: int | None = None) -> Row | None:
        """The newest row of that name; None when it was not measured."""
        for row in reversed(self.rows):
            same = (row.workload, row.subject, row.metric) == (workload, subject, metric)
            if same and hosts in (None, row.hosts):
                return row
        return None

    def write(self, folder: Path = OUT) -> Path:
        """Write ``results.json``; its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "results.json"
        path.write_text(json.dumps([asdict(row) for row in self.rows], indent=1) + "\n", encoding="utf-8")
        return path

    def print_table(self) -> None:
        """All rows; those with a goal say whether it is met."""
        table = Table(title="Benchmarks: medians of one run on one machine")
        for name in ("workload", "hosts", "subject", "metric"):
            table.add_column(name, justify="right" if name == "hosts" else "left")
        for name in ("median", "p99"):
            table.add_column(name, justify="right")
        for name in ("unit", "goal", "met"):
            table.add_column(name)
        for row in self.rows:
            met = "" if row.met is None else ("yes" if row.met else "NO")
            hosts = f"{row.hosts:,}" if row.hosts else ""
            table.add_row(
                row.workload, hosts, row.subject, row.metric, number(row.median), number(row.p99), row.unit,
                row.goal or "", met, style="red" if row.met is False else None,
            )  # fmt: skip
        self._console.print(table)

    @property
    def missed(self) -> list[Row]:
        """Rows whose goal was not met."""
        return [row for row in self.rows if row.met is False]


def number(value: float) -> str:
    """Three significant digits, thousands with commas."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"

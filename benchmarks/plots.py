"""Plots of a run, as PNG and SVG: latency and rate against hosts, rate against placed instances, CPU by stage."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.results import OUT, Results, Row

STYLE: dict[Any, Any] = {
    "figure.dpi": 110, "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.alpha": 0.3, "grid.linewidth": 0.6, "legend.frameon": False, "svg.hashsalt": "nova_sched",
}  # fmt: skip
#: Colours that the colour-blind can tell apart (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999", "#F0E442")
_STAGE = "CPU of "


def draw(results: Results, folder: Path = OUT) -> list[Path]:
    """Draw what the rows allow; the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with plt.rc_context(STYLE):
        for name, made in (
            ("latency_by_hosts", _by_hosts(results, "decision", "ms", "median of one decision, ms")),
            ("rate_by_hosts", _by_hosts(results, "rate", "instances/s", "instances placed per second")),
            ("rate_of_service", _service_rates(results)),
            ("rate_by_placed", _by_placed(results)),
            ("cpu_by_stage", _stages(results)),
        ):
            if made is not None:
                for kind in ("png", "svg"):
                    written.append(folder / f"{name}.{kind}")
                    made.savefig(written[-1], bbox_inches="tight")
                plt.close(made)
    return written


def _by_hosts(results: Results, metric: str, unit: str, label: str) -> Figure | None:
    lines: dict[str, list[Row]] = {}
    for row in results.rows:
        if row.metric == metric and row.unit == unit and row.hosts:
            named = row.workload if row.subject == "engine" else f"{row.subject}, {row.workload}"
            lines.setdefault(named, []).append(row)
    lines = {name: rows for name, rows in lines.items() if len({row.hosts for row in rows}) > 1}
    if not lines:
        return None
    figure, axes = plt.subplots(figsize=(7.5, 4.5))
    ends = []
    for number, (name, rows) in enumerate(lines.items()):
        ordered = sorted(rows, key=lambda row: row.hosts)
        x, y = [row.hosts for row in ordered], [row.median for row in ordered]
        colour = COLOURS[number % len(COLOURS)]
        style = "-" if number < len(COLOURS) else "--"
        axes.plot(x, y, marker="o", markersize=3.5, linewidth=1.4, color=colour, linestyle=style, label=name)
        ends.append(x[-1])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("hosts")
    axes.set_ylabel(label)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


def _service_rates(results: Results) -> Figure | None:
    rows = [
        row
        for row in results.rows
        if row.workload in ("queue filled", "quorum queues") and row.metric == "rate"
    ]
    if not rows:
        return None
    figure, axes = plt.subplots(figsize=(7.5, 0.42 * len(rows) + 1.2))
    names = [f"{row.subject}{', quorum' if row.workload == 'quorum queues' else ''}" for row in rows]
    relay = ["relay" in row.subject for row in rows]
    colours = [COLOURS[7] if one else COLOURS[0] for one in relay]
    axes.barh(names, [row.median for row in rows], color=colours, height=0.65)
    for position, row in enumerate(rows):
        axes.text(row.median, position, f" {row.median:,.0f}", va="center", fontsize=8)
    axes.axvline(810, color=COLOURS[1], linewidth=1, linestyle="--")
    above = axes.get_xaxis_transform()
    axes.text(
        810, 1.01, "goal 810/s", color=COLOURS[1], ha="center", va="bottom", fontsize=8, transform=above
    )
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("requests per second, queue filled beforehand, 5,000 hosts")
    return figure


def _by_placed(results: Results) -> Figure | None:
    rows = [
        row for row in results.rows if row.metric.startswith("rate with ") and row.metric.endswith(" / none")
    ]
    if not rows:
        return None
    figure, axes = plt.subplots(figsize=(6, 0.5 * len(rows) + 1.4))
    names = [f"{row.subject}: {int(row.metric.split()[2]):,} placed" for row in rows]
    axes.barh(names, [row.median for row in rows], color=COLOURS[2], height=0.5)
    for position, row in enumerate(rows):
        axes.text(row.median, position, f" {row.median:.2f}", va="center", fontsize=8)
    axes.axvline(0.9, color=COLOURS[1], linewidth=1, linestyle="--")
    above = axes.get_xaxis_transform()
    axes.text(0.9, 1.01, "goal 0.9", color=COLOURS[1], ha="center", va="bottom", fontsize=8, transform=above)
    axes.set_xlim(0, max(1.15, *(row.median + 0.1 for row in rows)))
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("rate with instances placed before ÷ rate with none")
    return figure


def _stages(results: Results) -> Figure | None:
    rows = [row for row in results.rows if row.workload == "queue filled" and row.metric.startswith("CPU")]
    subjects = list(dict.fromkeys(row.subject for row in rows if row.metric.startswith(_STAGE)))
    if not subjects:
        return None
    figure, axes = plt.subplots(figsize=(8.5, 0.55 * len(subjects) + 1.6))
    stages = list(dict.fromkeys(row.metric for row in rows if row.metric.startswith(_STAGE)))
    stages += [
        metric for metric in ("CPU broker", "CPU SQL server") if any(row.metric == metric for row in rows)
    ]
    _stack(axes, rows, subjects, stages)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("CPU per request, ms (all workers, threads and servers)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    return figure


def _stack(axes: Axes, rows: Iterable[Row], subjects: list[str], stages: list[str]) -> None:
    spent = {(row.subject, row.metric): row.median for row in rows}
    left = [0.0] * len(subjects)
    for number, stage in enumerate(stages):
        widths = [spent.get((subject, stage), 0.0) for subject in subjects]
        hatch = "//" if number >= len(COLOURS) else None
        label = stage.removeprefix(_STAGE).removeprefix("CPU ")
        colour = COLOURS[number % len(COLOURS)]
        axes.barh(
            subjects, widths, left=left, height=0.6, color=colour, hatch=hatch, label=label, edgecolor="white"
        )
        left = [before + width for before, width in zip(left, widths, strict=True)]
    for position, total in enumerate(left):
        axes.text(total, position, f" {total:.2f}", va="center", fontsize=8)

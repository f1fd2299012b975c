"""Charts as files: SVG of our own, PNG where matplotlib is installed (``pip install nova_sched[plots]``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nova_sched.cmd.exits import UsageError
from nova_sched.lab import report_charts


def write_bars(path: Path, title: str, values: Sequence[tuple[str, float]]) -> None:
    """Write a bar chart to a file whose suffix says the form. Raises UsageError, OSError."""
    if path.suffix == ".svg":
        path.write_text(report_charts.standalone(report_charts.bars(title, values)))
    elif path.suffix == ".png":
        _png_bars(path, title, values)
    else:
        raise UsageError(f"{path}: a plot is .svg or .png")


def _png_bars(path: Path, title: str, values: Sequence[tuple[str, float]]) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(
            "PNG needs matplotlib (pip install 'nova_sched[plots]'); .svg needs nothing"
        ) from None
    figure = Figure(figsize=(8.6, 1.0 + 0.3 * len(values)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    names = [name for name, _ in values]
    drawn = axes.barh(names, [value for _, value in values], color=report_charts.LIGHT[0])
    axes.bar_label(drawn, fmt="{:,.6g}", padding=3)
    axes.invert_yaxis()
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)

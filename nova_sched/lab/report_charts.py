"""Charts as SVG text: lines over time, and bars. No library; the colours follow the reader's light or dark setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10

#: Colours of series, told apart by lightness as well; index in a chart = class ``s<index>``.
LIGHT = ("#1f6fb4", "#c8540a", "#2a8a4a", "#8e4bb0", "#a4262c", "#5b6470", "#0a7f86", "#9a6a00")
DARK = ("#6cb2ee", "#ff9d5c", "#6fd08f", "#c99bea", "#ff8a8f", "#aab4c0", "#5fd0d6", "#e0b04a")
_DASHES = ("", "", "", "", "6 3", "6 3", "6 3", "6 3")

_WIDTH, _HEIGHT = 860, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 68, 44
_TICKS = 5


def _rules(colours: Sequence[str]) -> str:
    return "".join(
        f".s{number}{{stroke:{colour}}}.f{number}{{fill:{colour}}}" for number, colour in enumerate(colours)
    )


#: What the charts need in a page; :func:`standalone` puts it into a file of its own.
STYLE = (
    ".chart text{font:12px system-ui,sans-serif;fill:#2b2f36}.chart .title{font-size:14px;font-weight:600}"
    ".chart .grid{stroke:#d8dce2;stroke-width:1}.chart .line{fill:none;stroke-width:1.8;stroke-linejoin:round}"
    f"{_rules(LIGHT)}"
    "@media (prefers-color-scheme:dark){.chart text{fill:#dfe3e8}.chart .grid{stroke:#3a4048}"
    f"{_rules(DARK)}}}"
)


@dataclass(frozen=True, slots=True)
class Series:
    """One line: a value per x; values that are not finite leave a gap. ``step``: holds until the next x."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    step: bool = False


def lines(
    title: str, series: Sequence[Series], x_label: str, y_label: str, y_max: float | None = None
) -> str:
    """An SVG element with all series over one pair of axes that begins at 0."""
    xs = [x for one in series for x in one.xs] or [0.0]
    ys = [y for one in series for y in one.ys if isfinite(y)] or [0.0]
    x_low, x_high = min(xs), max(max(xs), min(xs) + 1e-9)
    top = y_max if y_max is not None else _ceiling(max(*ys, 1e-9))
    plot = _Plot(x_low, x_high, top)
    drawn = [plot.frame(title, x_label, y_label)]
    for number, one in enumerate(series):
        drawn += [
            f'<polyline class="line {_stroke(number)} points="{points}"/>' for points in plot.strokes(one)
        ]
    if len(series) > 1:
        drawn.append(_legend([one.name for one in series]))
    return _svg(title, drawn, _HEIGHT)


def bars(title: str, values: Sequence[tuple[str, float]], unit: str = "") -> str:
    """An SVG element with one horizontal bar per (name, value), the values written beside them."""
    most = max((value for _, value in values), default=0.0) or 1.0
    names = min(330, 20 + max((len(name) for name, _ in values), default=0) * 7)
    room = _WIDTH - names - 110
    drawn = [f'<text class="title" x="12" y="22">{escape(title)}</text>']
    for number, (name, value) in enumerate(values):
        y = 40 + number * 26
        length = max(0.0, value) / most * room
        drawn.append(f'<text x="{names - 8}" y="{y + 14}" text-anchor="end">{escape(name[:44])}</text>')
        drawn.append(f'<rect class="f0" x="{names}" y="{y}" width="{length:.1f}" height="18" rx="2"/>')
        drawn.append(f'<text x="{names + length + 6:.1f}" y="{y + 14}">{value:,.6g}{escape(unit)}</text>')
    return _svg(title, drawn, 52 + 26 * len(values))


def standalone(svg: str) -> str:
    """The text of an SVG file."""
    head, _, rest = svg.partition(">")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}><style>{STYLE}</style>{rest}\n'


class _Plot:
    """Maps values to the drawing area."""

    def __init__(self, x_low: float, x_high: float, y_high: float) -> None:
        self._x_low, self._x_high, self._y_high = x_low, x_high, y_high

    def x(self, value: float) -> float:
        """Horizontal place."""
        share = (value - self._x_low) / (self._x_high - self._x_low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Vertical place."""
        room = _HEIGHT - _TOP - _BOTTOM
        return _TOP + room - min(max(value / self._y_high, 0.0), 1.02) * room

    def frame(self, title: str, x_label: str, y_label: str) -> str:
        """Title, grid, numbers and labels."""
        base = _HEIGHT - _BOTTOM
        parts = [f'<text class="title" x="12" y="20">{escape(title)}</text>']
        for number in range(_TICKS + 1):
            value = self._y_high * number / _TICKS
            y = self.y(value)
            parts.append(
                f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            )
            parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>')
        parts += [
            f'<text x="{self.x(value):.1f}" y="{base + 16}" text-anchor="middle">{_short(value)}</text>'
            for value in _ticks(self._x_low, self._x_high)
        ]
        parts.append(
            f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" text-anchor="end">{escape(x_label)}</text>'
        )
        parts.append(f'<text x="12" y="{_HEIGHT - 8}">{escape(y_label)}</text>')
        return "".join(parts)

    def strokes(self, one: Series) -> list[str]:
        """Points of each unbroken piece."""
        pieces: list[list[str]] = [[]]
        before: float | None = None
        for x, y in zip(one.xs, one.ys, strict=True):
            if not isfinite(y):
                pieces.append([])
                before = None
                continue
            if one.step and before is not None:
                pieces[-1].append(f"{self.x(x):.1f},{self.y(before):.1f}")
            pieces[-1].append(f"{self.x(x):.1f},{self.y(y):.1f}")
            before = y
        return [" ".join(piece) for piece in pieces if piece]


def _svg(title: str, parts: Sequence[str], height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {_WIDTH} {height}" width="100%">{"".join(parts)}</svg>'
    )


def _legend(names: Sequence[str]) -> str:
    """Names beside their strokes under the title, in as many rows as they need (the frame leaves room for two)."""
    parts, x, y = [], float(_LEFT), 38
    for number, name in enumerate(names):
        width = 44 + 6.4 * len(name)
        if x + width > _WIDTH and x > _LEFT:
            x, y = float(_LEFT), y + 16
        parts.append(
            f'<line class="line {_stroke(number)} x1="{x:.0f}" x2="{x + 20:.0f}" y1="{y}" y2="{y}"/>'
        )
        parts.append(f'<text x="{x + 25:.0f}" y="{y + 4}">{escape(name)}</text>')
        x += width
    return "".join(parts)


def _stroke(number: int) -> str:
    """End of the class attribute of a line, with its dashes."""
    dashes = _DASHES[number % len(_DASHES)]
    return f's{number % len(LIGHT)}"' + (f' stroke-dasharray="{dashes}"' if dashes else "")


def _ceiling(value: float) -> float:
    """The next number that divides well into ticks."""
    scale = 10.0 ** floor(log10(value))
    return next(step * scale for step in (1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10) if step * scale >= value)


def _ticks(low: float, high: float) -> list[float]:
    step = _ceiling((high - low) / 8)
    first = ceil(low / step)
    return [step * number for number in range(first, floor(high / step + 1e-9) + 1)]


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"

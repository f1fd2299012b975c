"""What simulations came to: a summary per contender, as JSON values, CSV and one HTML page that needs nothing else."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from typing import Any, TextIO

from nova_sched.lab import report_charts
from nova_sched.lab.report_charts import Series
from nova_sched.lab.simulate import REFUSED, Result
from nova_sched.lab.simulate_measures import Sample
from nova_sched.lab.trace import Trace

_DAY_SECONDS = 86400.0
_STRETCHES = 40
_PAGE_STYLE = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:66rem;margin:2rem auto;padding:0 1rem;"
    "color:#1d2127;background:#fff}table{border-collapse:collapse;width:100%;margin:1rem 0;font-size:14px}"
    "th,td{text-align:right;padding:.3rem .6rem;border-bottom:1px solid #d8dce2;vertical-align:top}"
    "th:first-child,td:first-child,td.text,th.text{text-align:left}td{white-space:nowrap}td.text{white-space:normal}th{font-weight:600}"
    "code{font-size:13px}.chart{margin:1.2rem 0;display:block}"
    "@media (prefers-color-scheme:dark){body{color:#e6e9ed;background:#15181c}th,td{border-color:#3a4048}}"
)


@dataclass(frozen=True, slots=True)
class Contender:
    """One configuration or policy: its result, how it was set up, how long it took, and the fewest hosts it needs."""

    result: Result
    setup: Mapping[str, Any]
    seconds: float
    fewest_hosts: int | None = None


def summary(one: Contender) -> dict[str, Any]:
    """Numbers of one contender.

    ``packing``: hosts in use over the lower bound by volume, mean over the samples with guests. ``smallest_largest``: the
    tightest moment's largest size that still fitted.
    """
    result = one.result
    busy = [sample for sample in result.samples if sample.guests]
    peak = max(busy, key=lambda sample: sample.vcpu_share, default=None)
    widest = max(busy, key=lambda sample: (sample.hosts_used, sample.hosts_bound or 0), default=None)
    ratios = [sample.hosts_used / sample.hosts_bound for sample in busy if sample.hosts_bound]
    fitting = [
        (sample.largest_memory_mb, sample.largest_vcpus)
        for sample in busy
        if sample.largest_memory_mb is not None and sample.largest_vcpus is not None
    ]
    return {
        "name": result.name,
        "hosts": result.hosts,
        "arrivals": len(result.rows),
        "placed": result.placed,
        "refused": len(result.rows) - result.placed,
        "refused_by": {refused.by: refused.count for refused in result.refused},
        "peak_vcpu_share": None if peak is None else peak.vcpu_share,
        "peak_ram_share": max((sample.ram_share for sample in busy), default=None),
        "peak_hosts_used": None if widest is None else widest.hosts_used,
        "hosts_bound_then": None if widest is None else widest.hosts_bound,
        "packing": sum(ratios) / len(ratios) if ratios else None,
        "smallest_largest": _size(*min(fitting)) if fitting else None,
        "fewest_hosts": one.fewest_hosts,
        "seconds": one.seconds,
        "per_second": len(result.rows) / one.seconds if one.seconds else None,
    }


def as_plain(trace: Trace, contenders: Sequence[Contender]) -> dict[str, Any]:
    """Everything but the single placements as JSON values."""
    return {
        "trace": {
            "name": trace.name,
            "arrivals": len(trace.arrivals),
            "days": trace.last_seconds / _DAY_SECONDS,
        },
        "contenders": [
            {
                **summary(one),
                "setup": dict(one.setup),
                "refusals": [asdict(refused) for refused in one.result.refused],
                "samples": [asdict(sample) for sample in one.result.samples],
            }
            for one in contenders
        ],
    }


def write_samples(file: TextIO, contenders: Sequence[Contender]) -> None:
    """CSV: one line per contender and moment."""
    writer = csv.writer(file, lineterminator="\n")
    names = [field.name for field in fields(Sample)]
    writer.writerow(["contender", *names])
    for one in contenders:
        writer.writerows(
            [one.result.name, *(getattr(sample, name) for name in names)] for sample in one.result.samples
        )


def write_placements(
    file: TextIO, trace: Trace, hosts: Sequence[str], contenders: Sequence[Contender]
) -> None:
    """CSV: one line per guest with its host (empty: refused) and the reason, for each contender."""
    writer = csv.writer(file, lineterminator="\n")
    columns = [f"{one.result.name} {what}" for one in contenders for what in ("host", "reason")]
    writer.writerow(["guest", "tenant", "vcpus", "memory_mb", "start_seconds", "end_seconds", *columns])
    for number, arrival in enumerate(trace.arrivals):
        found: list[str] = []
        for one in contenders:
            row = one.result.rows[number]
            found += ["" if row == REFUSED else hosts[row], one.result.reasons.get(number, "")]
        sizes = (arrival.guest, arrival.tenant, arrival.vcpus, arrival.memory_mb)
        writer.writerow([*sizes, arrival.start_seconds, arrival.end_seconds, *found])


def page(trace: Trace, fleet: str, contenders: Sequence[Contender]) -> str:
    """One HTML page with tables and charts, nothing loaded from anywhere, readable in light and dark."""
    days = trace.last_seconds / _DAY_SECONDS
    title = f"Simulation of {trace.name}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{len(trace.arrivals):,} guests over {days:.3g} days on {contenders[0].result.hosts:,} hosts of"
        f" {escape(fleet)}. Every placement was decided by the service's own engine.</p>",
        _summary_table(contenders),
        *_charts(contenders),
        _refusal_table(contenders),
        _setup_table(contenders),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_PAGE_STYLE}{report_charts.STYLE}</style></head>\n<body>\n{chr(10).join(body)}\n</body></html>\n"
    )


#: Heading, key of :func:`summary`, how it is written.
COLUMNS = (
    ("", "name", "{}"),
    ("Placed", "placed", "{:,}"),
    ("Refused", "refused", "{:,}"),
    ("Peak vCPU", "peak_vcpu_share", "{:.1%}"),
    ("Peak RAM", "peak_ram_share", "{:.1%}"),
    ("Most hosts used", "peak_hosts_used", "{:,}"),
    ("Bound then", "hosts_bound_then", "{:,}"),
    ("Used ÷ bound", "packing", "{:.3f}"),
    ("Always fits", "smallest_largest", "{}"),
    ("Fewest hosts", "fewest_hosts", "{:,}"),
    ("Per second", "per_second", "{:,.0f}"),
)


def cells(one: Contender) -> list[str]:
    """The summary of one contender as texts, by COLUMNS; what is not known is a dash."""
    found = summary(one)
    return ["–" if found[key] is None else form.format(found[key]) for _, key, form in COLUMNS]


def _size(memory_mb: int, vcpus: int) -> str:
    return f"{vcpus} vCPU, {memory_mb / 1024:.4g} GB"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], texts: frozenset[int] = frozenset()) -> str:
    def line(tag: str, values: Sequence[str]) -> str:
        parts = (
            f"<{tag}{' class=text' if number in texts else ''}>{escape(value)}</{tag}>"
            for number, value in enumerate(values)
        )
        return f"<tr>{''.join(parts)}</tr>"

    return f"<table>{line('th', heads)}{''.join(line('td', row) for row in rows)}</table>"


def _summary_table(contenders: Sequence[Contender]) -> str:
    return _table([head for head, _, _ in COLUMNS], [cells(one) for one in contenders])


def _series(contenders: Sequence[Contender], read: str, scale: float = 1.0) -> list[Series]:
    made = []
    for one in contenders:
        values = [getattr(sample, read) for sample in one.result.samples]
        ys = [float("nan") if value is None else value * scale for value in values]
        made.append(Series(one.result.name, [s.seconds / _DAY_SECONDS for s in one.result.samples], ys, True))
    return made


def _charts(contenders: Sequence[Contender]) -> Iterator[str]:
    if not contenders[0].result.samples:
        return
    hosts = _series(contenders, "hosts_used")
    hosts.append(Series("lower bound", hosts[0].xs, _series(contenders[:1], "hosts_bound")[0].ys, True))
    yield report_charts.lines("Hosts in use", hosts, "days", "hosts")
    yield report_charts.lines("vCPUs in use", _series(contenders, "vcpu_share", 100.0), "days", "% of all")
    yield report_charts.lines("RAM in use", _series(contenders, "ram_share", 100.0), "days", "% of all")
    largest = [_lowest(one) for one in _series(contenders, "largest_memory_mb", 1 / 1024)]
    yield report_charts.lines(
        "RAM of the largest size that still fits (lowest of each stretch of time)", largest, "days", "GB"
    )
    if any(one.result.refused for one in contenders):
        yield report_charts.lines("Refused so far", _series(contenders, "refused"), "days", "guests")
        refused = [
            (f"{one.result.name}: {by.by}", float(by.count))
            for one in contenders
            for by in one.result.refused
        ]
        yield report_charts.bars("Refused by", refused)


def _lowest(one: Series) -> Series:
    """The lowest value of each of some forty stretches: what an operator could count on, instead of every spike."""
    length = max(1, len(one.xs) // _STRETCHES)
    starts = range(0, len(one.xs), length)
    lows = [min(one.ys[start : start + length]) for start in starts]
    return Series(one.name, [one.xs[start] for start in starts] + [one.xs[-1]], [*lows, lows[-1]], one.step)


def _refusal_table(contenders: Sequence[Contender]) -> str:
    rows = [
        (one.result.name, refused.by, f"{refused.count:,}", refused.example)
        for one in contenders
        for refused in one.result.refused
    ]
    if not rows:
        return "<p>Nobody was refused.</p>"
    heads = ("", "Filter that refused the most hosts", "Guests", "The first of them")
    return f"<h2>Refusals</h2>{_table(heads, rows, frozenset({1, 3}))}"


def _setup_table(contenders: Sequence[Contender]) -> str:
    rows = [
        (one.result.name, key, ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
        for one in contenders
        for key, value in one.setup.items()
    ]
    return f"<h2>Set up</h2>{_table(('', 'Option', 'Value'), rows, frozenset({1, 2}))}"

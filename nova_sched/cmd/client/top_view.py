"""One frame of ``nova-sched top``: hosts as a heat map, the latest instances, refusals by reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

#: Hosts up to which each has its name and bar; more become one cell each.
NAMED_MAX = 24
BAR_CELLS = 10
DOWN, DISABLED, UNKNOWN = "x", "-", "?"
_SHARES = {"ram": ("ram_free_mb", "ram_total_mb", "MB"), "vcpu": ("vcpus_free", "vcpus_total", "vCPUs")}
BY = tuple(_SHARES)


def frame(state: Mapping[str, Any], by: str = "ram", rows: int = 12, stale: str | None = None) -> Group:
    """The frame of one snapshot (``health.snapshot.take``).

    :param by: ``ram`` or ``vcpu``: what the heat map shows as free.
    :param rows: at most this many instances.
    :param stale: why the snapshot could not be read anew.
    """
    totals = Text("  ").join(
        Text.assemble((f"{value:,}", "bold"), f" {name}") for name, value in state["totals"].items()
    )
    parts: list[RenderableType] = [totals]
    if stale is not None:
        parts.append(Text(f"no answer: {stale}", style="bold red"))
    parts.append(
        Panel(_heat(state["hosts"], by), title=f"free {by.upper() if by == 'ram' else 'vCPUs'} by host")
    )
    parts.append(_instances(state["requests"][:rows]))
    if state["refusals"]:
        parts.append(_refusals(state["refusals"]))
    return Group(*parts)


def free_share(host: Mapping[str, Any], by: str) -> float | None:
    """Share of a host that is free, 0 to 1; None when it is not known."""
    free, total, _ = _SHARES[by]
    if host[free] is None or not host[total]:
        return None
    return min(1.0, max(0.0, float(host[free]) / float(host[total])))


def _heat(hosts: Sequence[Mapping[str, Any]], by: str) -> RenderableType:
    if not hosts:
        return Text("no hosts have reported yet", style="dim")
    if len(hosts) <= NAMED_MAX:
        return _bars(hosts, by)
    cells = Text(no_wrap=False)
    for host in hosts:
        cells.append(_sign(host, by) + " ", style=_colour(host, by))
    legend = Text(
        f"a cell is a host, its digit the tenths that are free; {DOWN} down, {DISABLED} disabled", style="dim"
    )
    return Group(cells, legend)


def _bars(hosts: Sequence[Mapping[str, Any]], by: str) -> Table:
    free, total, unit = _SHARES[by]
    table = Table(box=None, pad_edge=False, show_header=False)
    for justify in ("left", "left", "right", "right"):
        table.add_column(justify=justify)
    for host in hosts:
        share = free_share(host, by)
        full = 0 if share is None else round(share * BAR_CELLS)
        bar = Text("█" * full + "·" * (BAR_CELLS - full), style=_colour(host, by))
        numbers = "unknown" if share is None else f"{host[free]:,} of {host[total]:,} {unit}"
        state = Text(host["state"], style="" if host["state"] == "up" else "bold red")
        table.add_row(
            host["host"],
            bar,
            numbers,
            Text.assemble(state, f"  {host['instances']} guest{'' if host['instances'] == 1 else 's'}"),
        )
    return table


def _sign(host: Mapping[str, Any], by: str) -> str:
    if host["state"] != "up":
        return DISABLED if host["state"] == "disabled" else DOWN
    share = free_share(host, by)
    return UNKNOWN if share is None else str(min(9, int(share * 10)))


def _colour(host: Mapping[str, Any], by: str) -> str:
    share = free_share(host, by)
    if host["state"] != "up" or share is None:
        return "bright_black"
    return "green" if share >= 0.5 else "yellow" if share >= 0.2 else "red"


def _instances(requests: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="latest instances", title_justify="left", box=None, pad_edge=False)
    for name, justify in (
        ("instance", "left"), ("state", "left"), ("host", "left"), ("attempt", "right"), ("age", "right"),
        ("decided in", "right"),
    ):  # fmt: skip
        table.add_column(name, justify=justify, no_wrap=name == "instance")  # type: ignore[arg-type]
    for one in requests:
        state = (
            f"{one['vm_state']} ({one['task_state']})" if one["task_state"] else one["vm_state"] or "unknown"
        )
        took = "–" if one["latency_ms"] is None else f"{one['latency_ms']:.1f} ms"
        style = {"error": "red", "active": "green"}.get(one["vm_state"] or "", "")
        table.add_row(
            one["uuid"], Text(state, style=style), one["host"] or "–", str(one["attempt"]),
            f"{one['age_seconds']:.0f} s", took,
        )  # fmt: skip
    return table


def _refusals(refusals: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="refusals by reason (n: a number)", title_justify="left", box=None, pad_edge=False)
    table.add_column("count", justify="right")
    table.add_column("reason")
    for one in refusals:
        table.add_row(f"{one['count']:,}", Text(one["reason"]))
    return table

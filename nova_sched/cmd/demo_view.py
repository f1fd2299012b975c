"""What people see: a live table of requests and hosts on a terminal, plain lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from rich.columns import Columns
from rich.console import Console
from rich.live import Live
from rich.table import Table

from nova_sched.cmd.demo_story import ENDED, Story

_COLOURS = {"active": "green", "error": "red", "building": "yellow"}
_LINES_KEPT = 8


class View(Protocol):
    """A context manager that shows lines and the state they lead to."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, lines: Sequence[str], story: Story | None) -> None:
        """Show what is new."""
        ...


class PlainView:
    """One line per event, with the seconds since the beginning."""

    def __init__(self, out: Any) -> None:
        self._out = out
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.flush()

    def show(self, lines: Sequence[str], story: Story | None) -> None:
        """Print the lines."""
        for line in lines:
            self._out.write(f"{time.monotonic() - self._began:6.2f} {line}\n")
        self._out.flush()


class LiveView:
    """Two tables that change in place, and the latest lines below."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=8)
        self._lines: list[str] = []

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, lines: Sequence[str], story: Story | None) -> None:
        """Redraw."""
        self._lines = [*self._lines, *lines][-_LINES_KEPT:]
        latest = Table("what happens", expand=False)
        for line in self._lines:
            latest.add_row(line)
        parts = (
            [latest] if story is None else [_hosts(story), _guests(story, self._console.height - 8), latest]
        )
        self._live.update(Columns(parts))


def open_view(out: Any) -> View:
    """The view that suits ``out``."""
    return LiveView(Console(file=out)) if out.isatty() else PlainView(out)


def _hosts(story: Story) -> Table:
    table = Table("host", "vCPUs", "RAM MB", "disk GB", "guests", title="hosts")
    for host in story.hosts:
        table.add_row(
            host["host"],
            f"{host['vcpus_used']}/{host['vcpus']}",
            f"{host['memory_mb_used']}/{host['memory_mb']}",
            f"{host['local_gb_used']}/{host['local_gb']}",
            str(host["running_vms"]),
        )
    return table


def _guests(story: Story, rows_max: int) -> Table:
    """The latest requests; those that still wait are never left out for ones that have ended."""
    guests = sorted(story.guests.values(), key=lambda guest: guest.state not in ENDED)
    shown = guests[-max(4, rows_max) :]
    left_out = len(guests) - len(shown)
    title = f"requests ({left_out} more have ended)" if left_out else "requests"
    table = Table("instance", "state", "host", "attempt", title=title)
    for guest in shown:
        colour = _COLOURS.get(guest.state, "white")
        table.add_row(guest.name, f"[{colour}]{guest.state}[/]", guest.host or "", str(guest.attempt or ""))
    return table

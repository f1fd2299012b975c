"""Keeps the host table fresh: what changed before each batch, everything now and then, single rows after a lost guard."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from nova_sched.hosts.table import HostTable
from nova_sched.service.ports import Clock, HostSource, NullObserver, Observer

LOG = logging.getLogger(__name__)

#: Age of the last read at which an idle worker reads what changed.
IDLE_READ_SECONDS = 5.0


class HostRefresher:
    """Applies reads of a :class:`~nova_sched.service.ports.HostSource` to a table; used by one thread.

    :param period_seconds: age up to which the table need not be read again (a driver's ``refresh_period_seconds``);
        0 = what changed is read before every batch.
    :param full_interval_seconds: age of the last full read at which the next one is due; it also heals what a delta
        read might have missed.
    """

    def __init__(
        self,
        source: HostSource,
        table: HostTable,
        *,
        period_seconds: float = 0.0,
        full_interval_seconds: float = 60.0,
        clock: Clock | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._source = source
        self.table = table
        self.period_seconds = period_seconds
        self._full_interval_seconds = full_interval_seconds
        self._clock = clock or Clock()
        self._observer = observer or NullObserver()
        self._cursor: Any = None
        self._read_at: float | None = None
        self._full_at: float | None = None
        self._outdated: set[int] = set()

    @property
    def age_seconds(self) -> float:
        """Since the last read of what changed; infinite before the first."""
        return float("inf") if self._read_at is None else self._clock.monotonic() - self._read_at

    def refresh(self) -> HostTable:
        """The table, as fresh as the period asks for. Raises StoreUnavailable; the table is then as it was."""
        now = self._clock.monotonic()
        if self._full_at is None or now - self._full_at >= self._full_interval_seconds:
            self._read_all(now)
        elif self._read_at is None or now - self._read_at >= self.period_seconds:
            self._read_changes(now)
        elif self._outdated:
            self._read_rows(self._outdated)
        return self.table

    def idle(self) -> None:
        """Read early, while nobody waits for it; so probes and metrics are up to date too. Raises StoreUnavailable."""
        now = self._clock.monotonic()
        if self._full_at is None or now - self._full_at >= self._full_interval_seconds / 2:
            self._read_all(now)
        elif self._read_at is None or now - self._read_at >= max(IDLE_READ_SECONDS, self.period_seconds / 2):
            self._read_changes(now)

    def committed(self, host_ids: Collection[int]) -> None:
        """Note hosts that this process claimed on, so that a long period does not hide its own claims from it."""
        if self.period_seconds > 0:
            self._outdated.update(host_ids)

    def reread(self, host_ids: Collection[int]) -> HostTable:
        """The table with these hosts as they are now (a guard refused on them). Raises StoreUnavailable."""
        if host_ids:
            self._read_rows({*host_ids, *self._outdated})
        return self.table

    def _read_all(self, now: float) -> None:
        delta = self._source.read_delta(None)
        self.table.apply(delta)
        self._cursor = delta.cursor
        self._read_at = self._full_at = now
        self._outdated.clear()
        self._told("full", now)

    def _read_changes(self, now: float) -> None:
        delta = self._source.read_delta(self._cursor)
        self.table.apply(delta)
        self._cursor = delta.cursor
        self._read_at = now
        self._outdated.clear()
        self._told("delta", now)

    def _read_rows(self, host_ids: Collection[int]) -> None:
        self.table.apply(self._source.read_rows(sorted(host_ids)))
        self._outdated.difference_update(host_ids)
        self._observer.count("host_reads", kind="rows")

    def _told(self, kind: str, now: float) -> None:
        self._observer.count("host_reads", kind=kind)
        self._observer.gauge("host_state_read_monotonic_seconds", now)

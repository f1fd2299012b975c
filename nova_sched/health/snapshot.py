"""The state that ``nova-sched top`` and the page show: hosts, latest instances, refusals by reason; no secrets.

The data comes through :class:`Reads`, which ``db`` implements; this module only shapes it, bounded in size.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

HOSTS_MAX = 5000
REQUESTS_MAX = 50
REFUSALS_MAX = 20
KEEP_SECONDS = 1.0


class Reads(Protocol):
    """What is read for one snapshot; each row a mapping of plain values."""

    def hosts(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """``host, node, state (up|down|disabled), ram_total_mb, ram_free_mb, vcpus_total, vcpus_free, instances``."""
        ...

    def latest_instances(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """``uuid, vm_state, task_state, host, attempt, age_seconds, latency_ms``, newest first."""
        ...

    def refusals(self, limit: int) -> Sequence[Mapping[str, Any]]:
        """``reason, count`` of the retained faults, most frequent first."""
        ...

    def totals(self) -> Mapping[str, int]:
        """Counts by name, e.g. instances by vm_state, live claims."""
        ...


def take(reads: Reads) -> dict[str, Any]:
    """One snapshot as plain JSON values. Raises StoreUnavailable."""
    hosts = [dict(row) for row in reads.hosts(HOSTS_MAX)]
    by_state = {state: sum(row["state"] == state for row in hosts) for state in ("up", "down", "disabled")}
    return {
        "totals": {
            **{f"hosts {state}": count for state, count in by_state.items() if count},
            **reads.totals(),
        },
        "hosts": hosts,
        "requests": [dict(row) for row in reads.latest_instances(REQUESTS_MAX)],
        "refusals": [dict(row) for row in reads.refusals(REFUSALS_MAX)],
    }


class Snapshots:
    """Snapshots for any number of viewers at the cost of one read a second. Thread-safe."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._lock = threading.Lock()
        self._taken: tuple[float, dict[str, Any]] | None = None

    def __call__(self) -> dict[str, Any]:
        """The latest snapshot. Raises StoreUnavailable."""
        with self._lock:
            if self._taken is None or time.monotonic() - self._taken[0] > KEEP_SECONDS:
                self._taken = (time.monotonic(), take(self._reads))
            return self._taken[1]

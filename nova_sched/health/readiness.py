"""Alive and ready, derived from the metrics that the workers write: one source of truth for people and probes.

*Alive*: some worker turned its loop lately; waiting for a broker or a database that is away counts as turning, since a
restart would help nobody. *Ready*: some worker is alive, has broker and SQL, read host state lately and knows a host
that is up; a scheduler that could place nothing is alive but useless, hence not ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nova_sched.health.catalogue import PREFIX

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass(frozen=True, slots=True)
class Check:
    """One named condition and what was found."""

    name: str
    ok: bool
    found: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Answers the probes from metric samples. ``monotonic``: the machine's clock that the workers also read.

    ``loop_max_age_seconds`` is longer than the longest wait of a batch (``publish_timeout``) needs.
    """

    loop_max_age_seconds: float = 60.0
    host_state_max_age_seconds: float = 120.0
    monotonic: Callable[[], float] = time.monotonic

    def live(self, samples: Samples) -> list[Check]:
        """Conditions of ``/livez``."""
        turns = _by_worker(samples, "loop_monotonic_seconds")
        if not turns:
            return [Check("loop", False, "no worker has turned its loop yet")]
        age = self.monotonic() - max(turns.values())
        return [Check("loop", age <= self.loop_max_age_seconds, f"last turn {age:.1f} s ago")]

    def ready(self, samples: Samples) -> list[Check]:
        """Conditions of ``/readyz``: of the worker that comes closest, and how many fulfil them all."""
        turns = _by_worker(samples, "loop_monotonic_seconds")
        if not turns:
            return self.live(samples)
        up = samples.get((PREFIX + "hosts", (("state", "up"),)), 0.0)
        hosts = Check("hosts_up", up >= 1, f"{up:.0f} hosts up")
        found = [self._worker(pid, samples) for pid in sorted(turns)]
        best = max(found, key=lambda checks: sum(check.ok for check in checks))
        ready = sum(all(check.ok for check in checks) for checks in found)
        return [
            *best,
            hosts,
            Check("workers", ready >= 1, f"{ready} of {len(found)} connected and up to date"),
        ]

    def _worker(self, pid: str, samples: Samples) -> list[Check]:
        now = self.monotonic()
        turn = _by_worker(samples, "loop_monotonic_seconds")[pid]
        checks = [Check("loop", now - turn <= self.loop_max_age_seconds, f"last turn {now - turn:.1f} s ago")]
        for name, what in (("broker_up", "broker"), ("store_up", "SQL")):
            up = _by_worker(samples, name).get(pid) == 1.0
            checks.append(Check(name, up, f"{what} {'answers' if up else 'is away'}"))
        read = _by_worker(samples, "host_state_read_monotonic_seconds").get(pid)
        if not read:
            checks.append(Check("host_state", False, "host state was never read"))
        else:
            age = now - read
            checks.append(
                Check("host_state", age <= self.host_state_max_age_seconds, f"read {age:.1f} s ago")
            )
        return checks


def _by_worker(samples: Samples, name: str) -> dict[str, float]:
    return {
        dict(labels).get("pid", ""): value
        for (found, labels), value in samples.items()
        if found == PREFIX + name
    }

"""Alive and ready, derived from the metrics that the workers write: one source of truth for people and probes.

*Alive*: some worker turned its loop lately. *Ready*: alive, the broker and SQL answer, host state was read lately and
at least one host is up; a scheduler that could place nothing is alive but useless, hence not ready.
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
    """Answers the probes from metric samples. ``monotonic``: the machine's clock that the workers also read."""

    loop_max_age_seconds: float = 30.0
    host_state_max_age_seconds: float = 120.0
    monotonic: Callable[[], float] = time.monotonic

    def live(self, samples: Samples) -> list[Check]:
        """Conditions of ``/livez``."""
        turns = [value for (name, _), value in samples.items() if name == PREFIX + "loop_monotonic_seconds"]
        if not turns:
            return [Check("loop", False, "no worker has turned its loop yet")]
        age = self.monotonic() - max(turns)
        return [Check("loop", age <= self.loop_max_age_seconds, f"last turn {age:.1f} s ago")]

    def ready(self, samples: Samples) -> list[Check]:
        """Conditions of ``/readyz``."""
        checks = self.live(samples)
        for name, what in (("broker_up", "broker"), ("store_up", "SQL")):
            value = _value(samples, name)
            checks.append(Check(name, value == 1.0, f"{what} {'answers' if value == 1.0 else 'is away'}"))
        read = _value(samples, "host_state_read_monotonic_seconds")
        if read is None:
            checks.append(Check("host_state", False, "host state was never read"))
        else:
            age = self.monotonic() - read
            checks.append(
                Check("host_state", age <= self.host_state_max_age_seconds, f"read {age:.1f} s ago")
            )
        up = _value(samples, "hosts", state="up") or 0.0
        checks.append(Check("hosts_up", up >= 1, f"{up:.0f} hosts up"))
        return checks


def _value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((PREFIX + name, tuple(sorted(labels.items()))))

"""How much of everything: the short form for every test run, the long one for ``make faults``."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """See ``tests/faults/README.rst`` for what was cut in the short form, and why."""

    kills_per_point: int = 5
    random_kill_requests: int = 5000
    broker_faults: int = 1
    leader_kills: int = 1
    sql_restarts: int = 1
    sql_conflicts: int = 1
    race_rounds: int = 200
    race_groups: int = 100
    fuzz_seconds: float = 2.0
    backlog: int = 200_000
    backlog_drained: int = 5000


SHORT = Sizes()
LONG = Sizes(
    kills_per_point=100,  # ten points: 1,000 in all
    random_kill_requests=100_000,
    broker_faults=20,
    leader_kills=20,
    sql_restarts=50,
    sql_conflicts=50,
    race_rounds=10_000,
    race_groups=2000,
    fuzz_seconds=600.0,
    backlog=1_000_000,
    backlog_drained=1_000_000,
)
SIZES = LONG if os.environ.get("NOVA_SCHED_FAULTS") == "long" else SHORT
PATIENCE = 20.0 if SIZES is LONG else 1.0
"""Factor of every time limit."""

SEED = int(os.environ.get("NOVA_SCHED_FAULTS_SEED", random.SystemRandom().randrange(2**32)))
"""Of everything random in a run; printed with every failure, to be given again in ``NOVA_SCHED_FAULTS_SEED``."""


def chance(name: str) -> random.Random:
    """A generator of a test's own, so that one test's draws do not move another's."""
    return random.Random(f"{SEED}/{name}")

"""A cloud that lives: guests come with the requests and go again, hosts report, and the table reads what changed."""

from __future__ import annotations

import random
import time
from collections import deque
from typing import Any

import numpy as np

from benchmarks.workloads import Workload
from nova_sched.drivers.filtering import FilterDriver
from nova_sched.hosts.schema import HOST_COLUMNS, HostDelta
from nova_sched.hosts.table import HostTable
from nova_sched.model.facts import Facts
from nova_sched.model.request import Amounts
from nova_sched.testing import builders


class Churn:
    """Batches of requests on a table whose rows change between them; the reading of changes is part of the time."""

    def __init__(
        self,
        driver: FilterDriver,
        table: HostTable,
        rows: list[dict[str, Any]],
        workload: Workload,
        facts: Facts,
    ) -> None:
        assert workload.churn is not None
        self._driver, self._table, self._facts = driver, table, facts
        self._rows = {row["id"]: row for row in rows}
        self._stream = workload.stream()
        self._batch: int = workload.churn["batch"]
        self._reporting = max(1, int(len(rows) * workload.churn["reporting_share"]))
        self._delete_share: float = workload.churn["delete_share"]
        self._spread = random.Random(1)
        self._guests: deque[tuple[int, Amounts]] = deque()

    def run(self, requests: int) -> list[float]:
        """Seconds per request, each batch's time shared by its requests."""
        rng = np.random.default_rng(1)
        samples: list[float] = []
        changed: set[int] = set()
        while len(samples) < requests:
            asked = [next(self._stream) for _ in range(self._batch)]
            delta = self._delta(changed)
            began = time.perf_counter()
            self._table.apply(delta)
            overlay = self._table.overlay()
            decisions = [self._driver.decide(request, overlay, self._facts, rng) for request in asked]
            samples += [(time.perf_counter() - began) / self._batch] * self._batch
            changed = self._live([(p.host_id, d.request.amounts) for d in decisions for p in d.placements])
        return samples

    def _live(self, placed: list[tuple[int, Amounts]]) -> set[int]:
        """Take the placements over as claims, end some older guests, let some hosts report; the rows that changed."""
        changed = set()
        for host_id, amounts in placed:
            self._guests.append((host_id, amounts))
            self._claim(host_id, amounts, 1)
            changed.add(host_id)
        for _ in range(int(len(placed) * self._delete_share)):
            host_id, amounts = self._guests.popleft()
            self._claim(host_id, amounts, -1)
            changed.add(host_id)
        for host_id in self._spread.sample(sorted(self._rows), self._reporting):
            self._rows[host_id]["current_workload"] = self._spread.randrange(8)
            changed.add(host_id)
        return changed

    def _claim(self, host_id: int, amounts: Amounts, sign: int) -> None:
        row = self._rows[host_id]
        for column, value in (
            ("claimed_vcpus", amounts.vcpus),
            ("claimed_memory_mb", amounts.memory_mb),
            ("claimed_disk_mb", amounts.disk_mb),
            ("claimed_instances", amounts.instances),
            ("claimed_io_ops", amounts.io_ops),
        ):
            row[column] = (row[column] or 0) + sign * value

    def _delta(self, changed: set[int]) -> HostDelta:
        found = [self._rows[host_id] for host_id in sorted(changed)]
        columns = {name: tuple(row[name] for row in found) for name in HOST_COLUMNS}
        return HostDelta(columns, builders.NOW_SECONDS)

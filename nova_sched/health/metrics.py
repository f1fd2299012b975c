"""The observer of a daemon: Prometheus metrics, merged over all worker processes of one service.

Workers write into files of a shared folder (prometheus_client's multiprocess mode), so the library has to know the
folder before it is imported: :func:`multiprocess_folder` is called by the parent, before any worker.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from nova_sched.health.catalogue import CATALOGUE, PREFIX
from nova_sched.model.decision import Decision

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def multiprocess_folder() -> str:
    """Make the shared folder and name it in the environment; must run before prometheus_client is imported."""
    folder = tempfile.mkdtemp(prefix="nova-sched-metrics-")
    os.environ[FOLDER_VARIABLE] = folder
    return folder


class PrometheusObserver:
    """Counts and durations of one process. Names outside of the catalogue raise KeyError: a programming fault."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        import prometheus_client

        self._metrics: dict[str, Any] = {}
        arguments: dict[str, Any] = {} if registry is None else {"registry": registry}
        for name, metric in CATALOGUE.items():
            full = PREFIX + name
            if metric.kind == "counter":
                made: Any = prometheus_client.Counter(full, metric.help, metric.labels, **arguments)
            elif metric.kind == "histogram":
                made = prometheus_client.Histogram(
                    full + "_seconds", metric.help, metric.labels, buckets=metric.buckets, **arguments
                )
            else:
                made = prometheus_client.Gauge(
                    full, metric.help, metric.labels, multiprocess_mode=metric.mode, **arguments
                )
            self._metrics[name] = made
        self._children: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}

    def _child(self, name: str, labels: dict[str, str]) -> Any:
        if not labels:
            return self._metrics[name]
        key = (name, tuple(labels.items()))
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._metrics[name].labels(**labels)
        return child

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add to a counter."""
        self._child(name, labels).inc(amount)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Record a duration."""
        self._child(name, labels).observe(seconds)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._child(name, labels).set(value)

    def decided(self, decision: Decision, seconds: float) -> None:
        """Record one decision: its result, the filter that left none, what each filter took out."""
        refused, placed = decision.refusals, decision.placements
        if placed:
            self.count("schedule_attempts", result="scheduled")
        if refused:
            self.count("schedule_attempts", result="unschedulable")
        self.observe("scheduling_algorithm_duration", seconds)
        last = None
        for attempt in decision.explanation.rounds:
            for step in attempt.steps:
                if step.hosts_out < step.hosts_in:
                    self.count("filter_rejections", step.hosts_in - step.hosts_out, filter=step.name)
                last = step
        if refused:
            emptied = last is not None and last.hosts_out == 0
            self.count("no_valid_host", len(refused), filter=last.name if emptied and last else "none")

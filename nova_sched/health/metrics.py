"""The observer of a daemon: Prometheus metrics, merged over all worker processes of one service.

Workers write into files of a shared folder (see ``folder``), so the library is imported only when an observer is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nova_sched.health.catalogue import CATALOGUE, PREFIX
from nova_sched.model.decision import Decision
from nova_sched.model.explanation import Explanation

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

#: What ``no_valid_host`` says where no filter emptied the list.
NO_HOSTS, BEFORE, REQUEST = "no_hosts", "before", "request"


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
        placed = len(decision.placements)
        refused = len(decision.answers) - placed
        if placed:
            self.count("schedule_attempts", placed, result="scheduled")
        self.observe("scheduling_algorithm_duration", seconds)
        for attempt in decision.explanation.rounds:
            for step in attempt.steps:
                if step.hosts_out < step.hosts_in:
                    self.count("filter_rejections", step.hosts_in - step.hosts_out, filter=step.name)
        if refused:
            self.count("schedule_attempts", refused, result="unschedulable")
            self.count("no_valid_host", refused, filter=emptied_by(decision.explanation))


def emptied_by(explanation: Explanation) -> str:
    """The filter that left no host, or which other thing did."""
    last = explanation.rounds[-1] if explanation.rounds else None
    if last is not None and last.chosen is None:
        if last.steps and last.steps[-1].hosts_in and not last.steps[-1].hosts_out:
            return last.steps[-1].name
        return BEFORE if explanation.hosts_total else NO_HOSTS
    return REQUEST

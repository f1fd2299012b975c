"""What a worker says about itself between requests: gauges that probes and dashboards read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nova_sched.upkeep.periodic import Periodic

if TYPE_CHECKING:
    from nova_sched.bootstrap.worker import Worker

_EVERY_SECONDS = 1.0
_STARTING_SECONDS = 5.0


class Gauges(Protocol):
    """Sets gauges (``health.metrics.PrometheusObserver``)."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        ...


class GaugePulse:
    """Called in the loop's thread at every turn; writes at most once a second.

    :param version: of the service, for ``build_info``.
    """

    def __init__(self, gauges: Gauges, version: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._gauges = gauges
        self._version = version
        self._monotonic = monotonic
        self._due = float("-inf")

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Alive from the first moment on: a start that waits for its servers needs no restart."""
        self._alive()
        beat = Periodic("start", _STARTING_SECONDS, self._alive, self._monotonic)
        beat.start()
        try:
            yield
        finally:
            beat.stop()

    def _alive(self) -> None:
        self._gauges.gauge("loop_monotonic_seconds", self._monotonic())

    def __call__(self, worker: Worker) -> None:
        """Write what is known now."""
        now = self._monotonic()
        if now < self._due:
            return
        self._due = now + _EVERY_SECONDS
        gauge = self._gauges.gauge
        self._alive()
        gauge("build_info", 1.0, version=self._version, driver=worker.settings.scheduler.driver)
        gauge("broker_up", float(worker.consuming))
        gauge("broker_blocked", float(worker.publisher.blocked))
        gauge("store_up", float(worker.store_answers))
        gauge("pending_requests", float(worker.pending))
        if worker.refresher.age_seconds != float("inf"):
            for state, count in host_states(worker).items():
                gauge("hosts", float(count), state=state)


def host_states(worker: Worker) -> dict[str, int]:
    """Hosts of the worker's table by what ComputeFilter would say of them."""
    view = worker.refresher.table.view()
    down_time = worker.settings.scheduler.filters.service_down_time_seconds
    with np.errstate(invalid="ignore"):
        alive = np.abs(view.now_seconds - view.heartbeat_seconds) <= down_time
    disabled = view.disabled
    return {
        "up": int(np.count_nonzero(alive & ~disabled)),
        "down": int(np.count_nonzero(~alive & ~disabled)),
        "disabled": int(np.count_nonzero(disabled)),
    }

"""One worker of the service, put together as the daemon does it, with a clock on the stages of its loop.

Reads its configuration file, prints one JSON line when it serves and one when its standard input has ended.
"""

from __future__ import annotations

import time

_BEGAN = time.monotonic()

import argparse  # noqa: E402 - imports are what the first figure times
import cProfile  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from collections import Counter  # noqa: E402
from contextlib import nullcontext  # noqa: E402
from typing import Any  # noqa: E402

import psutil  # noqa: E402
from oslo_config import cfg  # noqa: E402

from nova_sched.bootstrap import logs  # noqa: E402
from nova_sched.bootstrap.worker import Worker  # noqa: E402
from nova_sched.conf import build  # noqa: E402
from nova_sched.health.metrics import PrometheusObserver  # noqa: E402

_IMPORTED = time.monotonic()
#: What the loop's thread did since the observer was last told of a stage, by what it is told now.
_STAGES = {"bus_messages": "take and acknowledge", "requests": "translate", "batch": "answer"}


class StageClock(PrometheusObserver):
    """The daemon's observer, which also gives the CPU time of the loop's thread to the stage that ended."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu_seconds: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self._marks: dict[int, float] = {}

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """As the daemon's; taking and translating have no durations of their own, so their counters end them."""
        super().count(name, amount, **labels)
        self.counts[".".join((name, *labels.values()))] += amount
        if name in _STAGES and labels.get("topic") != "scheduler_report":
            self._lap(_STAGES[name])

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """As the daemon's; the end of a stage."""
        super().observe(name, seconds, **labels)
        if name == "stage":
            self._lap(labels["stage"])
        elif name in _STAGES:
            self._lap(_STAGES[name])

    def _lap(self, stage: str) -> None:
        now, thread = time.thread_time(), threading.get_ident()
        self.cpu_seconds[stage] = self.cpu_seconds.get(stage, 0.0) + now - self._marks.get(thread, now)
        self._marks[thread] = now


class Pulse:
    """Lets the loop's thread switch the profile on, which sees one thread only."""

    def __init__(self, profile: cProfile.Profile | None) -> None:
        self._profile = profile

    def __call__(self, worker: Worker) -> None:
        """Called at the end of the start, by the main thread, and then before each batch ends."""
        if self._profile is not None and threading.current_thread() is not threading.main_thread():
            self._profile.enable()
            self._profile = None

    def starting(self) -> nullcontext[None]:
        """Nothing is watched while the service starts."""
        return nullcontext()


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config-file", required=True)
    parser.add_argument("--profile", help="file for the profile of the loop's thread")
    parser.add_argument("--upkeep", action="store_true")
    options = parser.parse_args()
    conf = build.parse(cfg.CONF, ["--config-file", options.config_file])
    logs.setup(conf, "benchmark")
    clock = StageClock()
    profile = cProfile.Profile(time.thread_time) if options.profile else None
    pulse = Pulse(profile)

    worker = Worker(conf, build.settings_from(conf), upkeep=options.upkeep, observer=clock, pulse=pulse)
    began = time.monotonic()
    worker.start()
    worker.refresher.idle()
    _say({"import_seconds": _IMPORTED - _BEGAN, "start_seconds": time.monotonic() - began})
    sys.stdin.read()
    threads = _thread_seconds()
    worker.stop(20.0)
    if profile is not None:
        profile.create_stats()
        profile.dump_stats(options.profile)
    dropped = worker.publisher.notifier.dropped
    _say(
        {
            "cpu_seconds": clock.cpu_seconds,
            "counts": clock.counts,
            "threads": threads,
            "process_seconds": time.process_time(),
            "dropped": dropped,
        }
    )


def _thread_seconds() -> dict[str, float]:
    """CPU seconds of each thread so far, by its name."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    return {
        names.get(one.id, str(one.id)): one.user_time + one.system_time for one in psutil.Process().threads()
    }


def _say(values: dict[str, Any]) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()

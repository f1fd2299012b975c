"""Worker processes as the daemon runs them, forked from one process that has imported everything.

``python -m tests.faults.harness.zygote <config file> <workers>``; a worker that dies is forked again at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

from oslo_config import cfg

from nova_sched.bootstrap import crash, logs
from nova_sched.bootstrap.worker import Worker
from nova_sched.conf import build


def main(config: str, workers: int) -> None:
    """Keep so many workers alive until SIGTERM."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    places: dict[int, int] = {}
    for place in range(workers):
        places[_fork(config, place)] = place
    while not stopping.is_set():
        ended = _reap()
        if ended in places and not stopping.is_set():
            place = places.pop(ended)
            places[_fork(config, place)] = place
        elif not ended:
            time.sleep(0.02)
    for pid in places:
        os.kill(pid, signal.SIGTERM)
    for pid in places:
        os.waitpid(pid, 0)


def _reap() -> int:
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return 0


def _fork(config: str, place: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        _work(config, place)
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def _work(config: str, place: int) -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    conf = build.parse(cfg.CONF, ["--config-file", config], prog="nova-sched-scheduler")
    settings = build.settings_from(conf)
    logs.setup(conf, "0")
    worker = Worker(
        conf, settings, upkeep=place == 0, crash_point=crash.crash_point(), name=f"scheduler-{place}"
    )
    starter = threading.Thread(target=worker.start, daemon=True)
    starter.start()
    stopping.wait()
    worker.stop(30)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

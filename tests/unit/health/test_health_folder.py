"""The folder of metrics: one per service, merged over its workers, gone with the service."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from nova_sched.health import folder

SERVICE = """
import os, sys, time
from nova_sched.health import folder
path = folder.make_folder(sys.argv[1])
workers = []
reading, writing = os.pipe()
told = []
for number in range(2):
    pid = os.fork()
    if not pid:
        from nova_sched.health.metrics import PrometheusObserver
        observer = PrometheusObserver()
        observer.count("requests", 2, method="ping")
        observer.gauge("pending_requests", 5)
        print(f"{os.getpid()}\\n", end="", flush=True)
        os.write(writing, b"x")
        if number:
            time.sleep(60)
        os._exit(0)
    workers.append(pid)
print(f"folder {path}\\n", end="", flush=True)
if sys.argv[2] == "wait":
    time.sleep(60)
while len(os.read(reading, 1)) and not told.append(1) and len(told) < 2:
    pass
os.kill(workers[1], 9)
os.waitpid(workers[0], 0), os.waitpid(workers[1], 0)
from nova_sched.health.server import merged_registry, samples_of
for (name, labels), value in samples_of(merged_registry()).items():
    print(name, *dict(labels).values(), value, flush=True)
"""


def start(base: Path, how: str) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if k != folder.FOLDER_VARIABLE}
    return subprocess.Popen(
        [sys.executable, "-c", SERVICE, str(base), how], stdout=subprocess.PIPE, text=True, env=environment
    )


def test_counters_of_dead_workers_count_and_their_gauges_do_not_and_a_clean_exit_leaves_nothing(
    tmp_path: Path,
):
    output, _ = start(tmp_path, "end").communicate(timeout=60)
    assert "nova_sched_requests_total ping 4.0" in output
    assert "nova_sched_pending_requests" not in output
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_service_left_goes_with_the_next_start_and_a_live_neighbour_stays(tmp_path: Path):
    victim = start(tmp_path, "wait")
    assert victim.stdout is not None
    lines = [victim.stdout.readline().split() for _ in range(3)]
    (path,) = tmp_path.iterdir()
    assert list(folder.stale_folders(tmp_path)) == []
    victim.kill()
    victim.wait()
    # A worker that outlives its parent still holds the folder.
    assert list(folder.stale_folders(tmp_path)) == []
    for words in lines:
        if words[0] != "folder":
            try:
                os.kill(int(words[0]), signal.SIGKILL)
            except ProcessLookupError:
                continue
    victim.stdout.close()
    for _ in range(200):
        if list(folder.stale_folders(tmp_path)):
            break
        time.sleep(0.02)
    assert list(folder.stale_folders(tmp_path)) == [path]
    start(tmp_path, "end").communicate(timeout=60)
    assert list(tmp_path.iterdir()) == []

"""Processes that are measured: started until they serve, watched, stopped by the end of their input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.results import FOLDER

_MEGABYTE = 1 << 20
_STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds and resident MiB of a process with all its children."""

    cpu_seconds: float
    rss_mb: float


def usage(pid: int) -> Usage:
    """Usage of a process and its children by now."""
    cpu, rss = 0.0, 0.0
    top = psutil.Process(pid)
    for process in [top, *top.children(recursive=True)]:
        try:
            times = process.cpu_times()
            cpu += times.user + times.system
            rss += process.memory_info().rss / _MEGABYTE
        except psutil.NoSuchProcess:
            continue
    return Usage(cpu, rss)


class Subject:
    """A process of ``python -m benchmarks.<module>``; ``ready``: what it said when it began to serve."""

    def __init__(
        self, module: str, arguments: Sequence[str], log: Path | None = None, **environment: str
    ) -> None:
        self._log = log
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", f"benchmarks.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=FOLDER.parent,
            env={**os.environ, **environment},
        )

    def wait(self) -> dict[str, Any]:
        """Wait until it serves. Raises RuntimeError when it ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended before it served")
        ready: dict[str, Any] = {} if line.strip() == "ready" else json.loads(line)
        return ready

    @property
    def usage(self) -> Usage:
        """CPU and memory by now."""
        return usage(self._process.pid)

    def stop(self) -> dict[str, Any]:
        """End its input and wait; what it says at its end."""
        out, _ = self._process.communicate(timeout=_STOP_SECONDS)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {}

    def last_words(self) -> str:
        """The end of its log."""
        if self._log is None or not self._log.exists():
            return ""
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])

    def kill(self) -> None:
        """End it at once; idempotent."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def relay(kind: str, url: str, threads: int = 1, quorum: bool = False) -> Subject:
    """A relay, see ``relay_subject``."""
    arguments = ["--kind", kind, "--url", url, "--threads", str(threads)]
    return Subject("relay_subject", arguments + (["--quorum"] if quorum else []))


def worker(
    folder: Path,
    url: str,
    database: str,
    *,
    quorum: bool = False,
    profile: Path | None = None,
    number: int = 0,
    options: str = "",
) -> Subject:
    """A worker of the service, with its configuration file in ``folder``."""
    path, log = folder / f"worker-{number}.conf", folder / f"worker-{number}.log"
    path.write_text(
        f"[DEFAULT]\ntransport_url = {url}\nhost = scheduler-{number}\nservice_down_time = 86400\n"
        f"log_file = {log}\n{options}\n"
        f"[database]\nconnection = {database}\n"
        f"[delivery]\nquorum_queues = {quorum}\n",
        encoding="utf-8",
    )
    metrics = folder / "metrics"
    metrics.mkdir(exist_ok=True)
    arguments = ["--config-file", str(path)] + (["--profile", str(profile)] if profile else [])
    return Subject("worker_subject", arguments, log, PROMETHEUS_MULTIPROC_DIR=str(metrics))

"""A small cloud as an operator has it: the daemon over a real broker, agents, health port, a shadow configuration."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from oslo_config import cfg

from nova_sched.agent import Agent
from nova_sched.cmd import client, manage
from nova_sched.cmd.compute import make_agent
from nova_sched.conf import build
from nova_sched.db import schema
from nova_sched.db.engine import Database
from nova_sched.settings import DatabaseSettings
from nova_sched.testing.servers import free_port

PROGRAMS = {"nova-sched": client.main, "nova-sched-manage": manage.main}
HOSTS = {"alder": 8192, "birch": 16384, "cedar": 24576}
FILTERS = (
    "RetryFilter,AvailabilityZoneFilter,RamFilter,CoreFilter,DiskFilter,ComputeFilter,ComputeCapabilitiesFilter,"
    "ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter"
)


def until(condition: Callable[[], Any], seconds: float = 30.0, what: str = "it") -> Any:
    """Wait for a condition and return its value, or fail."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds:.0f} s"
        time.sleep(0.05)
    return value


@dataclass(frozen=True)
class Said:
    """What a command line ended with."""

    code: int
    out: str
    err: str


class Cloud:
    """``config`` is the scheduler's file, ``client`` that of the command lines, ``shadow`` the shadow's."""

    def __init__(self, folder: Path, transport_url: str) -> None:
        self.folder = folder
        self.config = folder / "nova-sched.conf"
        self.client = folder / "client.conf"
        self.shadow = folder / "shadow.conf"
        self.log_file = folder / "scheduler.log"
        self.transport_url = transport_url
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._options: dict[str, dict[str, Any]] = {
            "DEFAULT": {
                "transport_url": transport_url,
                "log_file": self.log_file,
                "scheduler_default_filters": FILTERS,
                "ram_allocation_ratio": 1.0,
                "report_interval": 1,
                "service_down_time": 20,
                "workers": 2,
                "graceful_shutdown_timeout": 10,
            },
            "scheduler": {"shadow_config_file": self.shadow},
            "database": {"connection": f"sqlite:///{folder}/nova-sched.sqlite"},
            "health": {"port": self.port},
            "plugins": {"plugin_timeout_seconds": 1},
        }

    @property
    def log(self) -> str:
        """Everything logged so far."""
        return self.log_file.read_text() if self.log_file.exists() else ""

    def write(self, **default: Any) -> None:
        """Write the scheduler's file, with these options of ``[DEFAULT]`` changed."""
        options = {**self._options, "DEFAULT": {**self._options["DEFAULT"], **default}}
        self.config.write_text(_ini(options))

    def run(self, line: str | Sequence[str]) -> Said:
        """Run a command line of ours in this process, against this cloud."""
        words = line.split() if isinstance(line, str) else list(line)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = PROGRAMS[words[0]](["--config-file", str(self.client), *words[1:]], cfg.ConfigOpts())
        return Said(code, out.getvalue(), err.getvalue())

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page of the health port; 0 when nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metrics(self) -> Mapping[str, float]:
        """Every sample by its text form, e.g. ``nova_sched_hosts{state="up"}``."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if line and line[0] != "#"]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}

    def hang_up(self) -> None:
        """SIGHUP, as ``systemctl reload`` sends it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    def workers(self) -> list[int]:
        """Process ids of the daemon's children."""
        assert self.process is not None
        return [child.pid for child in psutil.Process(self.process.pid).children()]


@contextmanager
def open_cloud(folder: Path, transport_url: str) -> Iterator[Cloud]:
    """A cloud in which every host has reported and the service is ready."""
    cloud = Cloud(folder, transport_url)
    cloud.write()
    cloud.client.write_text(cloud.config.read_text())
    cloud.shadow.write_text("[DEFAULT]\nram_weight_multiplier = -1.0\n")
    database = Database(DatabaseSettings(connection=f"sqlite:///{folder}/nova-sched.sqlite"))
    schema.sync(database)
    database.close()
    with ExitStack() as stack:
        cloud.process = stack.enter_context(_daemon(cloud))
        for name, memory_mb in HOSTS.items():
            agent = _agent(cloud, name, memory_mb)
            stack.callback(agent.stop, 5.0)
            agent.start()
        until(lambda: cloud.get("/readyz")[0] == 200, 60, "readiness")
        until(lambda: cloud.metrics().get('nova_sched_hosts{state="up"}') == len(HOSTS), 30, "reports")
        yield cloud


def _agent(cloud: Cloud, name: str, memory_mb: int) -> Agent:
    path = cloud.folder / f"{name}.conf"
    path.write_text(
        _ini(
            {
                "DEFAULT": {"transport_url": cloud.transport_url, "host": name, "report_interval": 1},
                "agent": {"vcpus": 8, "memory_mb": memory_mb, "local_gb": 200, "build_seconds": 0.05},
            }
        )
    )
    conf = build.parse(cfg.ConfigOpts(), ["--config-file", str(path)])
    return make_agent(conf, build.settings_from(conf))


@contextmanager
def _daemon(cloud: Cloud) -> Iterator[subprocess.Popen[bytes]]:
    code = "import sys; from nova_sched.cmd.scheduler import main; sys.exit(main())"
    with open(cloud.folder / "scheduler.out", "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "--config-file", str(cloud.config)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(cloud.folder)},
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ini(sections: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for section, options in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {value}" for name, value in options.items()]
    return "\n".join(lines) + "\n"

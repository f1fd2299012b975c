"""The service as an operator runs it: configuration files, the daemon and agents as processes of their own."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psutil
from oslo_config import cfg

from nova_sched.bootstrap import transports
from nova_sched.conf import build
from nova_sched.db import schema
from nova_sched.db.engine import Database
from nova_sched.db.instances import InstanceDirectory
from nova_sched.rpcapi import ReportAPI, SchedulerAPI
from nova_sched.settings import DatabaseSettings
from nova_sched.testing.servers.process import Home, ServerProcess

T = TypeVar("T")
Options = Mapping[str, Mapping[str, Any]]

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(sys.executable).parent
QUICK: Options = {
    "DEFAULT": {"report_interval": 1, "service_down_time": 3, "graceful_shutdown_timeout": 20},
    "delivery": {"upkeep_interval_seconds": 0.5},
    "health": {"enabled": "false"},
    "oslo_messaging_rabbit": {"kombu_reconnect_delay": 0.1, "kombu_reconnect_splay": 0.1},
}


def until(what: Callable[[], T], why: Callable[[], str] | str, seconds: float = 30.0) -> T:
    """The first true value of ``what``, or a failure that says what never came."""
    deadline = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < deadline, f"never happened: {why if isinstance(why, str) else why()}"
        time.sleep(0.05)


class Deployment:
    """A context manager that leaves no process behind.

    :param options: groups of options over those of ``QUICK``.
    """

    def __init__(
        self, transport_url: str, sql_url: str | None = None, options: Options | None = None
    ) -> None:
        self.home = Home("service", pwd.getpwuid(os.geteuid()).pw_name)
        self.sql_url = sql_url or f"sqlite:///{self.home.path}/nova_sched.sqlite"
        self.transport_url = transport_url
        self.options = merged(QUICK, {
            "DEFAULT": {"transport_url": transport_url, "host": "sched-1", "rpc_response_timeout": 20},
            "database": {"connection": self.sql_url},
        }, options or {})  # fmt: skip
        self.config = self.write("nova-sched.conf", {})
        self._closers: list[Callable[[], object]] = []
        self.processes: dict[str, ServerProcess] = {}

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything."""
        while self._closers:
            self._closers.pop()()
        self.home.close()

    # Files and programs

    def write(self, name: str, options: Options) -> Path:
        """A configuration file with these options over the deployment's own."""
        lines = []
        for group, values in merged(self.options, options).items():
            lines.append(f"[{group}]")
            lines += [f"{name} = {value}" for name, value in values.items()]
        return self.home.write(name, "\n".join(lines) + "\n")

    def run(self, program: str, *words: str, config: Path | None = None) -> subprocess.CompletedProcess[str]:
        """One of the programs, to its end."""
        command = [str(PROGRAMS / program), "--config-file", str(config or self.config), *words]
        return subprocess.run(
            command,
            env=self.environment(),
            cwd=self.home.path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def start(self, name: str, program: str, config: Path | None = None) -> ServerProcess:
        """One of the programs, until the deployment ends; ``<home>/<name>.log`` has what it said."""
        command = [str(PROGRAMS / program), "--config-file", str(config or self.config)]
        process = self.home.process(name, command, self.environment())
        process.start()
        self.processes[name] = process
        return process

    def environment(self) -> dict[str, str]:
        """Of the programs: plugins of tests can be imported."""
        return self.home.environment(PYTHONPATH=str(ROOT))

    def sync(self) -> None:
        """Make the tables."""
        schema.sync(self.database)

    def daemon(self, name: str = "scheduler", config: Path | None = None) -> ServerProcess:
        """``nova-sched-scheduler``, once it answers."""
        process = self.start(name, "nova-sched-scheduler", config)
        self.ready(process)
        return process

    def agent(self, name: str, **options: Any) -> ServerProcess:
        """``nova-sched-compute`` of one host; ``options``: of ``[agent]``."""
        path = self.write(
            f"{name}.conf", {"DEFAULT": {"host": name}, "agent": {"node": f"{name}.lab", **options}}
        )
        return self.start(name, "nova-sched-compute", path)

    def ready(self, process: ServerProcess, seconds: float = 30.0) -> None:
        """Wait until the daemon answers a ping; fails at once when it has ended."""

        def answers() -> bool:
            assert process.running, f"the daemon has ended:\n{process.log_tail(60)}"
            return "scheduling with" in self.log(process)

        until(answers, lambda: f"the daemon serves:\n{process.log_tail(60)}", seconds)
        self.api.ping({}, "ready")

    @staticmethod
    def log(process: ServerProcess) -> str:
        """All that a process said."""
        return process.log_path.read_text(encoding="utf-8", errors="replace")

    @staticmethod
    def workers(process: ServerProcess) -> list[psutil.Process]:
        """Children of the daemon's parent."""
        return psutil.Process(process.pid).children()

    # The client's and the operator's view

    @property
    def database(self) -> Database:
        """The service's database."""
        if not hasattr(self, "_database"):
            self._database = Database(DatabaseSettings(connection=self.sql_url))
            self._closers.append(self._database.close)
        return self._database

    @property
    def directory(self) -> InstanceDirectory:
        """Instances and hosts as SQL has them."""
        return InstanceDirectory(self.database)

    @property
    def transport(self) -> Any:
        """A client's transport."""
        if not hasattr(self, "_transport"):
            self.conf = cfg.ConfigOpts()
            build.parse(self.conf, ["--config-file", str(self.config)])
            self.settings = build.settings_from(self.conf)
            self._transport = transports.rpc_transport(self.conf, self.settings)
            self._closers.append(self._transport.cleanup)
        return self._transport

    @property
    def api(self) -> SchedulerAPI:
        """A client of the scheduler topic."""
        transport = self.transport
        return SchedulerAPI(transport, self.settings.bus, timeout_seconds=20.0)

    @property
    def reports(self) -> ReportAPI:
        """A client of the report topic."""
        transport = self.transport
        return ReportAPI(transport, self.settings.bus)

    def hosts(self) -> dict[str, dict[str, Any]]:
        """Host rows by name."""
        return {row["host"]: dict(row) for row in self.directory.get_hosts(None, 1000)}

    def instances(self) -> dict[str, dict[str, Any]]:
        """Instance rows by uuid, tombstones included."""
        return {row["uuid"]: dict(row) for row in self.directory.list_instances(limit=100_000, deleted=True)}


def merged(*many: Options) -> dict[str, dict[str, Any]]:
    """Groups of options, later ones over earlier ones."""
    found: dict[str, dict[str, Any]] = {}
    for options in many:
        for group, values in options.items():
            found.setdefault(group, {}).update(values)
    return found


def terminate(process: ServerProcess, seconds: float = 25.0) -> None:
    """SIGTERM, and wait for the end; fails when it takes longer."""
    pid = process.pid
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    until(lambda: not process.running, lambda: f"the end of {pid}:\n{process.log_tail(30)}", seconds)


def report(
    number: int, free_ram_mb: int, sequence: int, total_mb: int = 65536
) -> tuple[dict[str, Any], list[Any]]:
    """Arguments of ``report_state`` for host ``node-<number>`` of node ``node-<number>.lab``."""
    values = {
        "vcpus": 32, "memory_mb": total_mb, "local_gb": 1000, "vcpus_used": 0, "memory_mb_used": total_mb - free_ram_mb,
        "local_gb_used": 0, "free_ram_mb": free_ram_mb, "free_disk_gb": 1000, "disk_available_least": 1000,
        "hypervisor_type": "QEMU", "hypervisor_version": 2000000, "cpu_info": "{}", "running_vms": 0,
        "supported_instances": '[["x86_64", "kvm", "hvm"]]', "host_ip": "127.0.0.1", "stats": "{}", "metrics": "[]",
    }  # fmt: skip
    name = f"node-{number}"
    service = {"host": name, "epoch": 1, "seq": sequence, "interval_seconds": 60, "version": "1.0"}
    return service, [{"hypervisor_hostname": f"{name}.lab", "values": values, "instances": [], "full": True}]

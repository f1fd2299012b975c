"""Where the demo plays: all in this process on an in-process bus, or separate programs over a private RabbitMQ."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from oslo_config import cfg

from nova_sched.agent import Agent
from nova_sched.bootstrap import logs
from nova_sched.bootstrap.connections import Connections
from nova_sched.bootstrap.worker import Worker
from nova_sched.cmd.compute import make_agent
from nova_sched.cmd.demo_scenario import HOSTS, OPTIONS, DemoHost
from nova_sched.conf import build
from nova_sched.db import schema

STOP_SECONDS = 20.0
EMBEDDED, RABBITMQ = "memory", "rabbitmq"


def write_config(folder: Path, name: str, transport_url: str, **groups: Mapping[str, Any]) -> Path:
    """A nova.conf of the demo; ``groups``: more options by group, ``DEFAULT`` among them."""
    default = {**OPTIONS, "transport_url": transport_url, "log_file": str(folder / f"{name}.log")}
    sections: dict[str, dict[str, Any]] = {
        "DEFAULT": {**default, **groups.pop("DEFAULT", {})},
        "database": {"connection": f"sqlite:///{folder}/nova_sched.sqlite"},
        "health": {"enabled": "false"},
        **{group: dict(options) for group, options in groups.items()},
    }
    lines = []
    for section, options in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{option} = {value}" for option, value in options.items()]
    path = folder / f"{name}.conf"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@contextmanager
def open_world(bus: str, folder: Path) -> Iterator[Connections]:
    """A scheduler and five agents that run until the block is left; connections of an API client."""
    with embedded(folder) if bus == EMBEDDED else processes(folder) as connections:
        yield connections


@contextmanager
def embedded(folder: Path) -> Iterator[Connections]:
    """Everything in this process."""
    path = write_config(folder, "demo", "fake://")
    connections = Connections(cfg.CONF, ["--config-file", str(path)])
    conf, settings = connections.conf, connections.settings
    logs.setup(conf, version("nova_sched"))
    schema.sync(connections.database(checked=False))
    with ExitStack() as stack:
        stack.callback(connections.close)
        worker = Worker(conf, settings)
        stack.callback(worker.stop, STOP_SECONDS)
        worker.start()
        agents = [_agent(host, folder) for host in HOSTS]
        stack.callback(_stop_all, agents)
        for agent in agents:
            agent.start()
        yield connections


@contextmanager
def processes(folder: Path) -> Iterator[Connections]:
    """A private broker, the daemon with two workers, one agent program per host."""
    from nova_sched.testing.servers import RabbitServer

    with ExitStack() as stack:
        rabbit = stack.enter_context(RabbitServer())
        url = rabbit.transport_url(rabbit.create_vhost())
        client = write_config(folder, "client", url)
        connections = Connections(cfg.CONF, ["--config-file", str(client)])
        stack.callback(connections.close)
        logs.setup(connections.conf, version("nova_sched"))
        schema.sync(connections.database(checked=False))
        scheduler = write_config(
            folder, "scheduler", url, DEFAULT={"workers": 2, "graceful_shutdown_timeout": 10}
        )
        stack.enter_context(_program("nova_sched.cmd.scheduler", scheduler))
        for host in HOSTS:
            path = write_config(folder, host.name, url, **_options(host))
            stack.enter_context(_program("nova_sched.cmd.compute", path))
        yield connections


def _options(host: DemoHost) -> dict[str, Mapping[str, Any]]:
    sizes = {"vcpus": host.vcpus, "memory_mb": host.memory_mb, "local_gb": host.local_gb}
    return {"DEFAULT": {"host": host.name}, "agent": {**sizes, "build_seconds": 0.1}}


def _agent(host: DemoHost, folder: Path) -> Agent:
    """An agent of this process, with a configuration of its own as a program would have."""
    path = write_config(folder, host.name, "fake://", **_options(host))
    conf = build.parse(cfg.ConfigOpts(), ["--config-file", str(path)])
    return make_agent(conf, build.settings_from(conf))


def _stop_all(agents: list[Agent]) -> None:
    """All at once, since each waits for its builds."""
    threads = [threading.Thread(target=agent.stop, args=(STOP_SECONDS,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def _program(module: str, config: Path) -> Iterator[None]:
    """A program of ours in a session of its own, told to stop at the end."""
    code = f"import sys; from {module} import main; sys.exit(main())"
    with open(config.with_suffix(".out"), "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "--config-file", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    try:
        yield
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        if process.poll() is None:
            process.kill()
            process.wait()

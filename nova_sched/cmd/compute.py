"""``nova-sched-compute``: the reference agent with a simulated hypervisor, one host per process."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Sequence
from importlib.metadata import version

from oslo_config import cfg

from nova_sched.agent import Agent, SimulatedHypervisor
from nova_sched.bootstrap import gmr, logs, transports
from nova_sched.cmd import exits
from nova_sched.conf import build
from nova_sched.errors import SchedulerError
from nova_sched.rpcapi import ReportAPI, SchedulerAPI
from nova_sched.settings import Settings

LOG = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None, conf: cfg.ConfigOpts | None = None) -> int:
    """Run until SIGTERM or SIGINT; the exit code."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    conf = conf or cfg.CONF
    said: list[str] = []
    try:
        args = sys.argv[1:] if argv is None else argv
        build.parse(conf, args, prog="nova-sched-compute", say=said.append, with_host=True)
        settings = build.settings_from(conf)
        logs.setup(conf, version("nova_sched"))
        for line in said:
            LOG.warning("%s", line)
        gmr.setup(conf)
        return run(make_agent(conf, settings), settings, stopping)
    except SchedulerError as error:
        print(f"nova-sched-compute: {exits.one_line(error)}", file=sys.stderr)
        return exits.exit_code(error)


def make_agent(conf: cfg.ConfigOpts, settings: Settings) -> Agent:
    """The agent that ``[agent]`` and ``host`` describe; nothing is connected yet."""
    transport = transports.rpc_transport(conf, settings)
    agent = settings.agent
    hypervisor = SimulatedHypervisor(
        settings.bus.host,
        vcpus=agent.vcpus,
        memory_mb=agent.memory_mb,
        local_gb=agent.local_gb,
        build_seconds=agent.build_seconds,
        failure_rate=agent.failure_rate,
        seed=agent.seed,
    )
    return Agent(
        transport,
        settings.bus.host,
        hypervisor,
        SchedulerAPI(transport, settings.bus),
        ReportAPI(transport, settings.bus),
        settings=agent,
        bus=settings.bus,
        delivery=settings.delivery,
    )


def run(agent: Agent, settings: Settings, stopping: threading.Event) -> int:
    """Run an agent until ``stopping`` is set, then let its builds end."""
    failure: list[BaseException] = []

    def start() -> None:
        try:
            agent.start()
        except Exception as error:
            failure.append(error)
            stopping.set()

    starter = threading.Thread(target=start, name="agent-start", daemon=True)
    starter.start()
    LOG.info("agent of host %s starts", settings.bus.host)
    stopping.wait()
    agent.stop(settings.graceful_shutdown_timeout_seconds or 3600)
    starter.join(5)
    for error in failure:
        LOG.error("the agent cannot start: %s", exits.one_line(error))
        return exits.exit_code(error)
    LOG.info("agent of host %s has stopped", settings.bus.host)
    return exits.YES

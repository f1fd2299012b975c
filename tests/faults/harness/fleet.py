"""Simulated compute hosts: the shipped agent library on simulated hypervisors, all of one run in one process.

``python -m tests.faults.harness.fleet <config file> <first> <count> <host options as JSON>``
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from dataclasses import replace

from oslo_config import cfg

from nova_sched.agent import Agent, SimulatedHypervisor
from nova_sched.bootstrap import logs, transports
from nova_sched.conf import build
from nova_sched.rpcapi import ReportAPI, SchedulerAPI

LOG = logging.getLogger(__name__)


def name_of(number: int) -> str:
    """Name of a compute host."""
    return f"h{number}"


def main(config: str, first: int, count: int, options: str) -> None:
    """Run the agents of hosts first … first + count − 1 until SIGTERM; says ``ready`` when all listen."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    conf = build.parse(cfg.CONF, ["--config-file", config], prog="nova-sched-compute")
    settings = build.settings_from(conf)
    logs.setup(conf, "0")
    transport = transports.rpc_transport(conf, settings)
    agents = []
    for number in range(first, first + count):
        name = name_of(number)
        agents.append(
            Agent(
                transport,
                name,
                SimulatedHypervisor(name, **json.loads(options)),
                SchedulerAPI(transport, settings.bus),
                ReportAPI(transport, settings.bus),
                settings=replace(settings.agent, workers=2),
                bus=settings.bus,
                delivery=replace(settings.delivery, prefetch=50, batch_max=50),
            )
        )
    starters = [threading.Thread(target=agent.start) for agent in agents]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join()
    print("ready", flush=True)
    stopping.wait()
    for agent in agents:
        agent.stop(10)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])

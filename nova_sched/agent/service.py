"""An agent put together: endpoint, reporter and outbox around one hypervisor, on one transport."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from nova_sched.agent.hypervisor import Hypervisor
from nova_sched.agent.manager import ComputeManager
from nova_sched.agent.outbox import Outbox
from nova_sched.agent.ports import ReportClient, SchedulerClient
from nova_sched.agent.reporter import Reporter, next_epoch
from nova_sched.rpc import Target
from nova_sched.rpc.bus.server import BusServer
from nova_sched.settings import AgentSettings, BusSettings, DeliverySettings


class Agent:
    """One compute host of one node.

    :param transport: from ``nova_sched.rpc.transport.get_transport``.
    :param host: name of the compute host, as in its service record; it listens to ``compute.<host>``.
    :param node: ``hypervisor_hostname``; default: the host's name.
    """

    def __init__(
        self,
        transport: Any,
        host: str,
        hypervisor: Hypervisor,
        scheduler: SchedulerClient,
        reports: ReportClient,
        *,
        node: str | None = None,
        settings: AgentSettings | None = None,
        bus: BusSettings | None = None,
        delivery: DeliverySettings | None = None,
    ) -> None:
        settings = settings or AgentSettings()
        bus = bus or BusSettings()
        node = node or settings.node or host
        state_path = Path(settings.state_path) if settings.state_path else None
        self.outbox = Outbox(f"outbox-{host}")
        self.reporter = Reporter(
            reports,
            hypervisor,
            host=host,
            node=node,
            interval_seconds=settings.report_interval_seconds,
            epoch=next_epoch(state_path, time.time()),
        )
        self.manager = ComputeManager(
            host=host,
            node=node,
            hypervisor=hypervisor,
            scheduler=scheduler,
            reports=reports,
            outbox=self.outbox,
            soon=self.reporter.soon,
            max_attempts=settings.max_attempts,
            workers=settings.workers,
        )
        self.server = BusServer(
            transport,
            Target(topic=bus.compute_topic, server=host),
            [self.manager],
            on_batch_end=self.manager.end_batch,
            delivery=delivery,
        )

    def start(self) -> None:
        """Report and take builds."""
        self.outbox.start()
        self.reporter.start()
        self.server.start()

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Take no more, let builds end, say what became of them, leave."""
        until = time.monotonic() + timeout_seconds
        self.server.stop(timeout_seconds)
        self.manager.stop()
        self.reporter.stop()
        self.outbox.stop(max(1.0, until - time.monotonic()))

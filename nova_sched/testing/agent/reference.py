"""Factory of the reference agent, and an example of one."""

from __future__ import annotations

from nova_sched.agent import Agent, BuildError, Guest, SimulatedHypervisor
from nova_sched.rpcapi import ReportAPI, SchedulerAPI
from nova_sched.settings import AgentSettings
from nova_sched.testing.agent.bed import AgentBed


class _Hypervisor(SimulatedHypervisor):
    """Fails when the bed says so."""

    def __init__(self, bed: AgentBed) -> None:
        super().__init__(vcpus=bed.vcpus, memory_mb=bed.memory_mb, local_gb=bed.local_gb, build_seconds=0.01)
        self._bed = bed

    def build(self, guest: Guest) -> None:
        """Build, or fail on demand."""
        super().build(guest)
        if self._bed.must_fail(guest.uuid):
            self.destroy(guest.uuid)
            raise BuildError("the kit wants this build to fail")


def make_agent(bed: AgentBed) -> Agent:
    """The reference agent on a simulated hypervisor."""
    return Agent(
        bed.transport,
        bed.host,
        _Hypervisor(bed),
        SchedulerAPI(bed.transport),
        ReportAPI(bed.transport),
        node=bed.node,
        settings=AgentSettings(report_interval_seconds=bed.interval_seconds, state_path=str(bed.state_path)),
    )

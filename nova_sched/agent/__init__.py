"""The compute side of the protocol: what a compute agent does with builds and how it reports.

An agent is an :class:`Agent` around a :class:`Hypervisor`; see ``doc/source/agent.rst`` for one in forty lines.
"""

from nova_sched.agent.hypervisor import BuildError, Guest, Hypervisor, SimulatedHypervisor, Usage
from nova_sched.agent.manager import ComputeManager
from nova_sched.agent.outbox import Outbox
from nova_sched.agent.reporter import Reporter
from nova_sched.agent.service import Agent

__all__ = [
    "Agent",
    "BuildError",
    "ComputeManager",
    "Guest",
    "Hypervisor",
    "Outbox",
    "Reporter",
    "SimulatedHypervisor",
    "Usage",
]

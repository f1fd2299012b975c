"""What a driver answers: per instance a placement or a refusal, and why."""

from __future__ import annotations

from dataclasses import dataclass

from nova_sched.model.explanation import Explanation
from nova_sched.model.facts import GroupFact
from nova_sched.model.limits import Limits
from nova_sched.model.numa import InstanceTopology
from nova_sched.model.pci import PciPool
from nova_sched.model.quick import quick_init
from nova_sched.model.request import HostNode, InstanceRef, SchedulingRequest


@quick_init
@dataclass(frozen=True, slots=True)
class Placement:
    """One instance and its host. ``host_id`` is the database id of the host row.

    ``limits`` is None where none must travel (forced placement, chance driver). ``weight`` is None for chance.
    ``host_generation``: allocation generation of the row as the decision saw it (guards PCI, NUMA, exact filters).
    """

    instance: InstanceRef
    host_id: int
    host: str
    node: str | None
    weight: float | None
    limits: Limits | None
    host_generation: int = 0
    numa_fit: InstanceTopology | None = None
    pci_pools: tuple[PciPool, ...] | None = None
    """Pools of the host after this guest's devices are taken; None when it asked for none."""
    group_uuid: str | None = None
    group_generation: int = 0

    @property
    def destination(self) -> HostNode:
        """(host, node)."""
        return (self.host, self.node)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One instance without a host. ``reason`` is one bounded sentence that names no host."""

    instance: InstanceRef
    reason: str


@quick_init
@dataclass(frozen=True, slots=True)
class Decision:
    """Answer of a driver; ``answers`` has one element per instance of the request, in its order."""

    request: SchedulingRequest
    answers: tuple[Placement | Refusal, ...]
    explanation: Explanation
    group: GroupFact | None = None
    """Server group of the request, the instances placed by this decision among its members."""

    @property
    def placements(self) -> tuple[Placement, ...]:
        """The instances that got a host, in order."""
        return tuple(a for a in self.answers if isinstance(a, Placement))

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The instances that got none, in order."""
        return tuple(a for a in self.answers if isinstance(a, Refusal))

"""Upper bounds of a chosen host that travel with the build and guard its claim."""

from __future__ import annotations

from dataclasses import dataclass

from nova_sched.model.numa import HostTopology
from nova_sched.model.quick import quick_init


@dataclass(frozen=True, slots=True)
class NumaLimits:
    """Limit of each cell of ``topology``: vCPUs and MB, after the allocation ratios."""

    topology: HostTopology
    cpu_ratio: float
    ram_ratio: float


@quick_init
@dataclass(frozen=True, slots=True)
class Limits:
    """What the enabled filters produced for the chosen row; None = that filter was not enabled.

    ``memory_mb``, ``vcpu``, ``disk_gb`` and ``numa`` travel (keys of Juno: memory_mb, vcpu, disk_gb, numa_topology);
    ``disk_mb``, ``num_instances`` and ``io_ops`` guard the claim only. All are inclusive upper bounds of
    used + claimed + asked (io_ops: of the operations before this guest, exclusive, as the filter compares).
    """

    memory_mb: float | None = None
    vcpu: float | None = None
    disk_gb: float | None = None
    disk_mb: float | None = None
    num_instances: int | None = None
    io_ops: int | None = None
    numa: NumaLimits | None = None
    exact_memory: bool = False
    exact_vcpu: bool = False
    exact_disk: bool = False
    """Exact* filters enabled: the host must still be as found, whole (guarded by generation)."""

"""What a plugin written for Nova reads of a host: one row of a view under the names of Nova's HostState.

Attributes are made when they are first read. Writing one changes this object only: nothing a plugin writes reaches the
table, another plugin, or the build.
"""

from __future__ import annotations

import uuid
from collections import namedtuple
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import orjson

from nova_sched.hosts.schema import Aggregate
from nova_sched.hosts.view import HostView
from nova_sched.model.facts import Facts, InstanceFact
from nova_sched.plugins.filters import _columns
from nova_sched.plugins.filters._attributes import plain
from nova_sched.plugins.nova.devices import PciStats, numa_topology
from nova_sched.settings import FilterSettings

_MB_PER_GB = 1024
_NAMESPACE = uuid.UUID("6d1f2e1c-7f0b-4b62-9f0c-1d6e5c9f3b58")

#: One entry of ``metrics`` as Juno had it.
MetricItem = namedtuple("MetricItem", ("value", "timestamp", "source"))

#: Nova's attribute → (column of the view, divisor).
_NUMBERS: Mapping[str, tuple[str, int]] = {
    "free_ram_mb": ("free_ram_mb", 1),
    "total_usable_ram_mb": ("ram_total_mb", 1),
    "free_disk_mb": ("free_disk_mb", 1),
    "total_usable_disk_gb": ("disk_total_mb", _MB_PER_GB),
    "disk_mb_used": ("disk_used_mb", 1),
    "vcpus_total": ("vcpus_total", 1),
    "vcpus_used": ("vcpus_used", 1),
    "num_instances": ("num_instances", 1),
    "num_io_ops": ("num_io_ops", 1),
    "running_vms": ("running_vms", 1),
    "current_workload": ("current_workload", 1),
    "failed_builds": ("failed_builds", 1),
    "hypervisor_version": ("hypervisor_version", 1),
}
_TEXTS = ("hypervisor_type", "cpu_info", "host_ip")
#: Nova's attribute → (column of reported ratios, option).
_RATIOS: Mapping[str, tuple[str, str]] = {
    "cpu_allocation_ratio": ("cpu_ratio", "cpu_allocation_ratio"),
    "ram_allocation_ratio": ("ram_ratio", "ram_allocation_ratio"),
    "disk_allocation_ratio": ("disk_ratio", "disk_allocation_ratio"),
}


class NovaAggregate:
    """An aggregate as Nova's object of that name: ``id name hosts metadata availability_zone``."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.id = aggregate.id
        self.uuid = str(uuid.uuid5(_NAMESPACE, f"aggregate {aggregate.id}"))
        self.name = aggregate.name
        self.hosts = sorted(aggregate.hosts)
        self.metadata = dict(aggregate.metadata)

    @property
    def availability_zone(self) -> str | None:
        """Its zone, None without."""
        return self.metadata.get("availability_zone")


class HostState:
    """One host. ``juno``: structured attributes (``metrics``, ``numa_topology``) in the form Juno had.

    Unknown numbers are None, as NULL was in Juno. ``uuid`` is made of host and node; it is not the compute node's.
    """

    def __init__(
        self, view: HostView, row: int, facts: Facts, settings: FilterSettings, *, juno: bool = False
    ) -> None:
        self._view = view
        self._row = row
        self._facts = facts
        self._settings = settings
        self._juno = juno
        self.host: str = view.hosts[row]
        self.nodename: str = view.nodes[row]
        self.hypervisor_hostname: str = self.nodename
        self.limits: dict[str, Any] = {}
        self.updated = None
        self.cell_uuid = None
        self.allocation_candidates: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        """Called for attributes that were neither read nor written before."""
        if name.startswith("_"):
            raise AttributeError(name)
        value = self._read(name)
        self.__dict__[name] = value
        return value

    def __repr__(self) -> str:
        return (
            f"({self.host}, {self.nodename}) ram: {self.free_ram_mb}MB disk: {self.free_disk_mb}MB "
            f"io_ops: {self.num_io_ops} instances: {self.num_instances}"
        )

    def _read(self, name: str) -> Any:
        if name in _NUMBERS:
            column, divisor = _NUMBERS[name]
            return plain(self._view.number(column)[self._row] / divisor)
        if name in _TEXTS:
            return self._view.coded(name)[self._row]
        if name in _RATIOS:
            column, option = _RATIOS[name]
            return plain(self._view.number(column)[self._row]) or getattr(self._settings, option)
        make = _MADE.get(name)
        if make is None:
            raise AttributeError(f"HostState has no attribute {name!r}")
        return make(self)

    def _text(self, column: str) -> Any:
        return self._view.coded(column)[self._row]

    def _aggregates(self) -> list[NovaAggregate]:
        return [NovaAggregate(aggregate) for aggregate in self._view.aggregates_of(self._row)]

    def _instances(self) -> dict[str, Any]:
        return {fact.uuid: _instance(fact) for fact in self._facts.instances_by_host.get(self.host, ())}

    def _stats(self) -> dict[str, Any]:
        return dict(_columns.stats(self._text("stats")) or {})

    def _metrics(self) -> Any:
        entries = [entry for entry in _columns.parse(self._text("metrics")) or [] if isinstance(entry, dict)]
        if self._juno:
            return {
                entry["name"]: MetricItem(entry.get("value"), entry.get("timestamp"), entry.get("source"))
                for entry in entries
                if entry.get("name")
            }
        return [SimpleNamespace(**entry) for entry in entries]

    def _supported_instances(self) -> list[list[str]]:
        return [list(triple) for triple in _columns.supported_instances(self._text("supported_instances"))]

    def _supported_hv_specs(self) -> list[Any]:
        names = ("arch", "hv_type", "vm_mode")
        return [
            SimpleNamespace(**dict(zip(names, triple, strict=False))) for triple in self.supported_instances
        ]

    def _numa_topology(self) -> Any:
        topology = self._view.topology(self._row)
        if topology is None:
            return None
        made = numa_topology(topology)
        return orjson.dumps(made.to_dict()).decode() if self._juno else made

    def _pci_stats(self) -> PciStats | None:
        return PciStats(self._view.pools(self._row) or ())

    def _service(self) -> dict[str, Any]:
        disabled = bool(self._view.disabled[self._row])
        return {"host": self.host, "disabled": disabled, "binary": "nova-compute", "topic": "compute"}


_MADE: Mapping[str, Callable[[HostState], Any]] = {
    "uuid": lambda host: str(uuid.uuid5(_NAMESPACE, f"{host.host}/{host.nodename}")),
    "aggregates": HostState._aggregates,
    "instances": HostState._instances,
    "stats": HostState._stats,
    "metrics": HostState._metrics,
    "supported_instances": HostState._supported_instances,
    "supported_hv_specs": HostState._supported_hv_specs,
    "numa_topology": HostState._numa_topology,
    "pci_stats": HostState._pci_stats,
    "service": HostState._service,
}


def _instance(fact: InstanceFact) -> Any:
    return SimpleNamespace(
        uuid=fact.uuid,
        host=fact.host,
        node=fact.node,
        project_id=fact.project_id,
        instance_type_id=fact.instance_type_id,
    )

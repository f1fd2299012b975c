"""Attributes of a host under the names that Juno's HostState had; requests name them in extra specs and queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nova_sched.hosts.view import Coded, HostView
from nova_sched.plugins.filters import _columns

_MB_PER_GB = 1024


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute. ``column``: numeric column behind it, divided by ``unit``; None for others.

    ``read``: values of all rows, each distinct one once; None = unknown.
    """

    read: Callable[[HostView], Coded]
    column: str | None = None
    unit: int = 1


def plain(value: float) -> int | float | None:
    """A cell of a float column as Nova would hold it: int where it is whole, None for NaN."""
    if np.isnan(value):
        return None
    return int(value) if value == int(value) else float(value)


def _number(column: str, unit: int = 1) -> Attribute:
    def read(view: HostView) -> Coded:
        distinct, codes = np.unique(view.number(column) / unit, return_inverse=True)
        return Coded(codes.astype(np.int32), [plain(value) for value in distinct])

    return Attribute(read, column, unit)


def _text(column: str, decode: Callable[[Any], Any] = lambda text: text) -> Attribute:
    def read(view: HostView) -> Coded:
        coded = view.coded(column)
        used = set(coded.codes.tolist())
        values = [decode(value) if code in used else None for code, value in enumerate(coded.values)]
        return Coded(coded.codes, values)

    return Attribute(read)


def _names(view: HostView, names: Any) -> Coded:
    return Coded(np.arange(len(view), dtype=np.int32), list(names))


def _service(view: HostView) -> Coded:
    rows = zip(view.hosts, view.disabled.tolist(), strict=True)
    return _names(view, [Service(host, disabled) for host, disabled in rows])


@dataclass(frozen=True, slots=True)
class Service:
    """The row of ``services`` as far as hosts carry it; members are read by :meth:`get`, as Juno's wrapper had it."""

    host: str
    disabled: bool

    def get(self, name: str, default: Any = None) -> Any:
        """One column of the row."""
        row = {"host": self.host, "disabled": self.disabled, "binary": "nova-compute", "topic": "compute"}
        return row.get(name, default)


ATTRIBUTES: Mapping[str, Attribute] = {
    "host": Attribute(lambda view: _names(view, view.hosts)),
    "nodename": Attribute(lambda view: _names(view, view.nodes)),
    "hypervisor_hostname": Attribute(lambda view: _names(view, view.nodes)),
    "total_usable_ram_mb": _number("ram_total_mb"),
    "total_usable_disk_gb": _number("disk_total_mb", unit=_MB_PER_GB),
    "vcpus_total": _number("vcpus_total"),
    "hypervisor_version": _number("hypervisor_version"),
    "free_ram_mb": _number("free_ram_mb"),
    "free_disk_mb": _number("free_disk_mb"),
    "disk_mb_used": _number("disk_used_mb"),
    "vcpus_used": _number("vcpus_used"),
    "num_instances": _number("num_instances"),
    "num_io_ops": _number("num_io_ops"),
    "hypervisor_type": _text("hypervisor_type"),
    "cpu_info": _text("cpu_info"),
    "host_ip": _text("host_ip"),
    "supported_instances": _text("supported_instances", _columns.parse),
    "numa_topology": _text("numa_topology"),
    "stats": _text("stats", _columns.stats),
    "metrics": _text("metrics", _columns.metrics),
    "service": Attribute(_service),
}


def stats_of(view: HostView) -> Coded:
    """Parsed ``stats`` of each row; None where they are broken."""
    return ATTRIBUTES["stats"].read(view)

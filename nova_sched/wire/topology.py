"""NUMA topologies and PCI requests between their wire forms and the model.

Juno writes a topology as JSON text, ``{"cells": [{"id", "cpus": "0,1", "mem": {"total"}}]}``; later releases send the
versioned object ``InstanceNUMATopology`` with ``cpuset`` and ``memory``. Both are read; Juno's text is written.
"""

from __future__ import annotations

import json
from typing import Any

from nova_sched.model.limits import NumaLimits
from nova_sched.model.numa import InstanceCell, InstanceTopology
from nova_sched.model.pci import PciRequest
from nova_sched.wire.objects import fields, unwrap
from nova_sched.wire.validate import AMOUNT_MAX, Refused, amount

CELLS_MAX = 256
CPU_ID_MAX = 65_535
PCI_REQUESTS_MAX = 256


def cpu_ids(spec: Any) -> frozenset[int]:
    """CPU ids of a text like ``0-3,^2,8`` or of a list of integers. Raises Refused."""
    if isinstance(spec, list | tuple):
        if not all(type(cpu) is int and 0 <= cpu <= CPU_ID_MAX for cpu in spec):
            raise Refused("numa_topology: CPU ids must be whole numbers")
        return frozenset(spec)
    if not isinstance(spec, str):
        raise Refused("numa_topology: cpus must be text or a list")
    taken: set[int] = set()
    left_out: set[int] = set()
    for part in filter(None, (part.strip() for part in spec.split(","))):
        wanted = left_out if part.startswith("^") else taken
        first, dash, last = part.removeprefix("^").partition("-")
        last = last if dash else first
        if not (_is_cpu_id(first) and _is_cpu_id(last)) or int(first) > int(last):
            raise Refused("numa_topology: cpus is not a list of CPU ids")
        wanted.update(range(int(first), int(last) + 1))
    return frozenset(taken - left_out)


def _is_cpu_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= CPU_ID_MAX


def instance_topology(value: Any) -> InstanceTopology | None:
    """What the guest asks for; None where nothing is asked (null, empty text, no cells). Raises Refused."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise Refused("numa_topology: not JSON") from None
    topology = fields(value)
    if topology is None:
        raise Refused("numa_topology: expected an object")
    cells = topology.get("cells") or ()
    if not isinstance(cells, list | tuple) or len(cells) > CELLS_MAX:
        raise Refused(f"numa_topology: cells must be a list of at most {CELLS_MAX}")
    return (
        InstanceTopology(tuple(_cell(number, cell) for number, cell in enumerate(cells))) if cells else None
    )


def _cell(number: int, value: Any) -> InstanceCell:
    cell = fields(value)
    if cell is None:
        raise Refused("numa_topology: a cell must be an object")
    memory = cell.get("memory")
    if memory is None:
        memory = (fields(cell.get("mem")) or {}).get("total")
    return InstanceCell(
        id=amount("numa_topology cell id", cell.get("id", number)),
        cpus=cpu_ids(cell["cpus"] if "cpus" in cell else cell.get("cpuset", ())),
        memory_mb=amount("numa_topology cell memory", memory),
    )


def instance_topology_text(topology: InstanceTopology) -> str:
    """A guest's topology as Juno writes it into instance_properties."""
    cells = [
        {"mem": {"total": cell.memory_mb}, "cpus": _cpu_text(cell.cpus), "id": cell.id}
        for cell in topology.cells
    ]
    return json.dumps({"cells": cells})


def limits_topology_text(limits: NumaLimits) -> str:
    """Limits of each host cell as Juno sends them to compute: vCPUs as a float, memory in whole MB."""
    cells = [
        {
            "id": cell.id,
            "cpus": _cpu_text(cell.cpus),
            "cpu_limit": float(len(cell.cpus) * limits.cpu_ratio),
            "mem": {"total": cell.memory_mb, "limit": int(cell.memory_mb * limits.ram_ratio)},
        }
        for cell in limits.topology.cells
    ]
    return json.dumps({"cells": cells})


def _cpu_text(cpus: frozenset[int]) -> str:
    return ",".join(str(cpu) for cpu in sorted(cpus))


def pci_requests(value: Any) -> tuple[PciRequest, ...]:
    """PCI devices asked for: the object InstancePCIRequests, its primitive, or a plain list. Raises Refused."""
    value = unwrap(value)
    if isinstance(value, dict):
        value = value.get("requests")
    if not value:
        return ()
    if not isinstance(value, list | tuple) or len(value) > PCI_REQUESTS_MAX:
        raise Refused(f"pci_requests: expected a list of at most {PCI_REQUESTS_MAX}")
    return tuple(_pci_request(item) for item in value)


def _pci_request(value: Any) -> PciRequest:
    item = unwrap(value)
    if not isinstance(item, dict):
        raise Refused("pci_requests: a request must be an object")
    given = item.get("spec") or ()
    specs = [unwrap(spec) for spec in given] if isinstance(given, list | tuple) else [given]
    if not all(isinstance(spec, dict) for spec in specs):
        raise Refused("pci_requests: spec must be a list of objects")
    count = amount("pci_requests count", item.get("count", 1), most=AMOUNT_MAX)
    return PciRequest(count, tuple({key: str(text) for key, text in spec.items()} for spec in specs))

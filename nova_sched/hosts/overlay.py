"""A batch's private consumption: guests chosen but not yet committed, over the columns of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.schema import AMOUNT_COLUMNS
from nova_sched.hosts.view import Column, HostView
from nova_sched.model.numa import HostTopology
from nova_sched.model.pci import PciPool
from nova_sched.model.request import Amounts

if TYPE_CHECKING:
    from nova_sched.hosts.table import HostTable


#: Column, sign and field of ``Amounts`` of everything that a guest takes.
_TAKEN = (
    ("free_ram_mb", -1, "memory_mb"),
    ("free_disk_mb", -1, "disk_mb"),
    ("vcpus_used", 1, "vcpus"),
    ("num_instances", 1, "instances"),
    ("num_io_ops", 1, "io_ops"),
)


@dataclass(slots=True)
class ConsumedDevices:
    """NUMA cells and PCI pools of the rows consumed from; other rows are the table's."""

    table: HostTable
    topologies: dict[int, HostTopology] = field(default_factory=dict)
    free_pools: dict[int, tuple[PciPool, ...]] = field(default_factory=dict)

    def topology(self, row: int) -> HostTopology | None:
        """NUMA cells of a table row with everything consumed so far; None when it has none or they do not parse."""
        found = self.topologies.get(row)
        return self.table.topology(row) if found is None else found

    def pools(self, row: int) -> tuple[PciPool, ...] | None:
        """Free PCI pools of a table row with everything consumed so far; None when unknown."""
        found = self.free_pools.get(row)
        return self.table.pools(row) if found is None else found


class Overlay:
    """Copies of the amount columns that a batch consumes from, with a log so that a failed request leaves no trace.

    ``touched``: table rows changed since the overlay was made. NUMA cells and PCI pools that were consumed from are
    kept beside the columns, by row. The view shows what is consumed as it happens; valid until the table's next apply.
    """

    def __init__(self, table: HostTable) -> None:
        frame = table.frame
        self._own: dict[str, Column] = {name: frame.numbers[name].copy() for name in AMOUNT_COLUMNS}
        numbers: dict[str, Column] = {**frame.numbers}
        for name, column in self._own.items():
            shared = column.view()
            shared.flags.writeable = False
            numbers[name] = shared
        self.table = table
        self._devices = ConsumedDevices(table)
        self.view = HostView(
            replace(frame, numbers=numbers), table.generation, table.now_seconds, self._devices
        )
        self._log: list[tuple[int, tuple[float, ...], HostTopology | None, tuple[PciPool, ...] | None]] = []

    @property
    def mark(self) -> int:
        """Where the log stands; give it to :meth:`rollback`."""
        return len(self._log)

    @property
    def touched(self) -> frozenset[int]:
        """Table rows consumed from so far."""
        return frozenset(entry[0] for entry in self._log)

    def touched_since(self, mark: int) -> list[int]:
        """Table rows consumed from since ``mark``, in order, repeats included."""
        return [entry[0] for entry in self._log[mark:]]

    def topology(self, row: int) -> HostTopology | None:
        """NUMA cells of a table row with everything consumed so far; None when it has none or they do not parse."""
        return self._devices.topology(row)

    def pools(self, row: int) -> tuple[PciPool, ...] | None:
        """Free PCI pools of a table row with everything consumed so far; None when unknown."""
        return self._devices.pools(row)

    def consume(
        self,
        row: int,
        amounts: Amounts,
        topology: HostTopology | None = None,
        pools: tuple[PciPool, ...] | None = None,
    ) -> None:
        """Take ``amounts`` from a table row; all or nothing. ``topology``/``pools``: the row's state afterwards.

        Unknown (NaN) amounts stay unknown.
        """
        own, devices = self._own, self._devices
        before = tuple(own[name].item(row) for name in AMOUNT_COLUMNS)
        self._log.append((row, before, devices.topologies.get(row), devices.free_pools.get(row)))
        own["free_ram_mb"][row] -= amounts.memory_mb
        own["free_disk_mb"][row] -= amounts.disk_mb
        own["vcpus_used"][row] += amounts.vcpus
        own["num_instances"][row] += amounts.instances
        own["num_io_ops"][row] += amounts.io_ops
        if topology is not None:
            devices.topologies[row] = topology
        if pools is not None:
            devices.free_pools[row] = pools

    def consume_from_all(self, guests: NDArray[np.float64], amounts: Amounts) -> None:
        """Take ``guests[row]`` times ``amounts`` from every table row (negative = give back), for good: no rollback."""
        for name, sign, taken in _TAKEN:
            self._own[name] += guests * (sign * getattr(amounts, taken))

    def settle(self) -> None:
        """Forget the log: what was consumed so far can no longer be rolled back, and is not ``touched`` any more."""
        self._log.clear()

    def rollback(self, mark: int) -> None:
        """Undo everything consumed since ``mark``."""
        while len(self._log) > mark:
            row, values, topology, pools = self._log.pop()
            for name, value in zip(AMOUNT_COLUMNS, values, strict=True):
                self._own[name][row] = value
            _restore(self._devices.topologies, row, topology)
            _restore(self._devices.free_pools, row, pools)

    def state(self, row: int) -> Mapping[str, float | None]:
        """Amounts of one table row for explanations; None = unknown."""
        return {
            name: None if np.isnan(value := self._own[name][row]) else float(value)
            for name in ("free_ram_mb", "free_disk_mb", "vcpus_used", "num_instances", "num_io_ops")
        }


def _restore(kept: dict[int, Any], row: int, value: Any) -> None:
    if value is None:
        kept.pop(row, None)
    else:
        kept[row] = value

"""Read-only columns of all hosts, or of some rows of them: all that plugins ever see.

A view is cheap: it shares the arrays of the table or of a batch's overlay, flagged read-only, and is valid until the
next refresh of that table. ``take`` gives a view of some rows that gathers a column only when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.schema import Aggregate
from nova_sched.model.numa import HostTopology
from nova_sched.model.pci import PciPool

Column = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Coded:
    """A dictionary-encoded column: ``values[codes[row]]`` is the value of a row.

    Plugins look at each distinct value once and spread the answer with :meth:`spread`.
    """

    codes: NDArray[np.int32]
    values: Sequence[Any]

    def spread(self, predicate: Callable[[Any], bool]) -> NDArray[np.bool_]:
        """Mask of the rows whose value satisfies ``predicate`` (asked once per distinct value in use)."""
        return self.map(predicate, np.bool_)

    def map(self, function: Callable[[Any], Any], dtype: Any = np.float64) -> NDArray[Any]:
        """Array of ``function(value)`` per row (asked once per distinct value in use)."""
        answers = np.zeros(len(self.values), dtype=dtype)
        in_use = np.zeros(len(self.values), dtype=np.bool_)
        in_use[self.codes] = True
        for code in np.flatnonzero(in_use).tolist():
            answers[code] = function(self.values[code])
        return answers[self.codes]

    def __getitem__(self, row: int) -> Any:
        return self.values[self.codes[row]]


class Devices(Protocol):
    """Where a view reads what does not fit into columns, by table row: the table, or a batch's overlay."""

    def topology(self, row: int) -> HostTopology | None:
        """NUMA cells with what live claims use; None when unknown or absent."""
        ...

    def pools(self, row: int) -> tuple[PciPool, ...] | None:
        """Free PCI pools without what live claims use; None when unknown or absent."""
        ...


class NameIndex:
    """Rows by host and by node name, built when first asked."""

    def __init__(self, hosts: NDArray[np.object_], nodes: NDArray[np.object_]) -> None:
        self._names = {"hosts": hosts, "nodes": nodes}
        self._rows: dict[str, dict[Any, list[int]]] = {}

    def forget(self) -> None:
        """Names changed in place; read them again when next asked."""
        self._rows.clear()

    def mask(self, column: str, names: Iterable[Any]) -> NDArray[np.bool_]:
        """Mask over the whole table of the rows whose name is one of these. ``column``: hosts or nodes."""
        rows = self._rows.get(column)
        if rows is None:
            rows = self._rows[column] = {}
            for row, name in enumerate(self._names[column].tolist()):
                rows.setdefault(name, []).append(row)
        found = np.zeros(len(self._names[column]), dtype=np.bool_)
        for name in names:
            if name in rows:
                found[rows[name]] = True
        return found


@dataclass(frozen=True, slots=True)
class Frame:
    """The arrays behind a view; all of one length, one element per host row in table order (database id).

    ``numbers``: float64 columns of ``schema`` (AMOUNT_, REPORTED_, STATIC_COLUMNS), NaN = unknown.
    ``coded``: text columns (STATIC_CODED, DYNAMIC_CODED); None = NULL.
    ``aggregates``: per row the tuple of :class:`Aggregate` its host is in, by id.
    ``row_generation``: table generation at which anything of the row last changed;
    ``static_generation``: the same for static columns, ``disabled`` and aggregates only.
    ``static_stamp``: the largest ``static_generation`` there ever was. ``origin``: equal for frames of one table only,
    so that nobody mixes masks of two tables. ``aggregate_keys``: every metadata key that any aggregate has.
    ``derived``: columns that plugins computed from static columns; empty again whenever one of those changes.
    """

    ids: NDArray[np.int64]
    hosts: NDArray[np.object_]
    nodes: NDArray[np.object_]
    numbers: Mapping[str, Column]
    coded: Mapping[str, Coded]
    aggregates: Coded
    disabled: NDArray[np.bool_]
    allocation_generation: NDArray[np.int64]
    row_generation: NDArray[np.int64]
    static_generation: NDArray[np.int64]
    names: NameIndex
    static_stamp: int = 0
    origin: object = None
    aggregate_keys: frozenset[str] = frozenset()
    derived: dict[Hashable, Column] = field(default_factory=dict)


class HostView:
    """Columns of the rows of one frame. ``generation``: of the table; ``now_seconds``: the database's clock."""

    def __init__(
        self,
        frame: Frame,
        generation: int,
        now_seconds: float,
        devices: Devices | None = None,
        rows: Rows | None = None,
    ) -> None:
        self._frame = frame
        self._rows = rows
        self._size = len(frame.ids) if rows is None else len(rows)
        self._devices = devices
        self._gathered: dict[Hashable, Any] = {}
        self.generation = generation
        self.now_seconds = now_seconds

    def __len__(self) -> int:
        return self._size

    def take(self, rows: Rows) -> HostView:
        """View of these rows (indices into this view), in the given order."""
        taken = rows if self._rows is None else self._rows[rows]
        return HostView(self._frame, self.generation, self.now_seconds, self._devices, taken)

    @property
    def whole(self) -> bool:
        """Whether this view has every row of the table, in its order."""
        return self._rows is None

    @property
    def origin(self) -> object:
        """Token of the table these columns belong to."""
        return self._frame.origin

    @property
    def static_stamp(self) -> int:
        """Generation of the newest change of a static part in the whole table."""
        return self._frame.static_stamp

    def on_hosts(self, hosts: Iterable[str]) -> NDArray[np.bool_]:
        """Mask of the rows of these service hosts; costs time per host named, not per row."""
        found = self._frame.names.mask("hosts", hosts)
        return found if self._rows is None else found[self._rows]

    def on_nodes(self, nodes: Iterable[str | None]) -> NDArray[np.bool_]:
        """Mask of the rows of these nodes; costs time per node named, not per row."""
        found = self._frame.names.mask("nodes", nodes)
        return found if self._rows is None else found[self._rows]

    def topology(self, row: int) -> HostTopology | None:
        """NUMA cells of one row with everything claimed and consumed; None when it has none or they do not parse."""
        return None if self._devices is None else self._devices.topology(self._table_row(row))

    def pools(self, row: int) -> tuple[PciPool, ...] | None:
        """Free PCI pools of one row, without everything claimed and consumed; None when unknown or absent."""
        return None if self._devices is None else self._devices.pools(self._table_row(row))

    def _table_row(self, row: int) -> int:
        return row if self._rows is None else int(self._rows[row])

    @cached_property
    def table_rows(self) -> Rows:
        """Row index in the whole table of each row of this view."""
        return np.arange(len(self._frame.ids), dtype=np.intp) if self._rows is None else self._rows

    def _array(self, name: str, whole: NDArray[Any]) -> Any:
        if self._rows is None:
            return whole
        found = self._gathered.get(name)
        if found is None:
            found = self._gathered[name] = whole[self._rows]
            found.flags.writeable = False
        return found

    def number(self, name: str) -> Column:
        """A float64 column by its name in ``schema``; NaN = unknown. Raises KeyError for other names."""
        column: Column = self._array(name, self._frame.numbers[name])
        return column

    def derived(self, key: Hashable, compute: Callable[[HostView], Column]) -> Column:
        """``compute(view)``, kept under ``key`` until a static part of the table changes. Read-only.

        ``compute`` may read static columns and aggregates only, and must depend on nothing else but ``key``.
        """
        kept = self._frame.derived.get(key)
        if kept is None:
            column = compute(self)
            if self._rows is None:
                column.flags.writeable = False
                self._frame.derived[key] = column
            return column
        return kept if self._rows is None else kept[self._rows]

    def once(self, key: Hashable, compute: Callable[[HostView], Column | NDArray[np.bool_]]) -> NDArray[Any]:
        """``compute(view)``, kept under ``key`` as long as this view of the whole table lives. Read-only.

        For what all requests of a batch ask alike: ``compute`` may read anything but the amounts that a batch consumes.
        """
        if self._rows is not None:
            return compute(self)
        kept: NDArray[Any] | None = self._gathered.get(key)
        if kept is None:
            kept = self._gathered[key] = compute(self)
            kept.flags.writeable = False
        return kept

    def coded(self, name: str) -> Coded:
        """A text column by its name in ``schema``. Raises KeyError for other names."""
        whole = self._frame.coded[name]
        return whole if self._rows is None else Coded(self._array(name, whole.codes), whole.values)

    @property
    def aggregates(self) -> Coded:
        """Per row: tuple of :class:`~nova_sched.hosts.schema.Aggregate`."""
        whole = self._frame.aggregates
        return whole if self._rows is None else Coded(self._array("aggregates", whole.codes), whole.values)

    @property
    def aggregate_keys(self) -> frozenset[str]:
        """Every metadata key that any aggregate of the table has; what is not among them need not be looked for."""
        return self._frame.aggregate_keys

    def aggregates_of(self, row: int) -> tuple[Aggregate, ...]:
        """Aggregates of one row's host."""
        found: tuple[Aggregate, ...] = self.aggregates[row]
        return found

    @property
    def ids(self) -> NDArray[np.int64]:
        """Database ids."""
        ids: NDArray[np.int64] = self._array("ids", self._frame.ids)
        return ids

    @property
    def hosts(self) -> NDArray[np.object_]:
        """Service host names."""
        hosts: NDArray[np.object_] = self._array("hosts", self._frame.hosts)
        return hosts

    @property
    def nodes(self) -> NDArray[np.object_]:
        """Hypervisor host names."""
        nodes: NDArray[np.object_] = self._array("nodes", self._frame.nodes)
        return nodes

    @property
    def disabled(self) -> NDArray[np.bool_]:
        """Whether an operator disabled the service."""
        disabled: NDArray[np.bool_] = self._array("disabled", self._frame.disabled)
        return disabled

    @property
    def allocation_generation(self) -> NDArray[np.int64]:
        """Generation of each row's claims; guards what is not arithmetic."""
        found: NDArray[np.int64] = self._array("allocation_generation", self._frame.allocation_generation)
        return found

    @property
    def row_generation(self) -> NDArray[np.int64]:
        """Table generation of each row's last change."""
        found: NDArray[np.int64] = self._array("row_generation", self._frame.row_generation)
        return found

    @property
    def static_generation(self) -> NDArray[np.int64]:
        """Table generation of each row's last change of a static part."""
        found: NDArray[np.int64] = self._array("static_generation", self._frame.static_generation)
        return found

    @property
    def vcpus_total(self) -> Column:
        """vCPUs the host has."""
        return self.number("vcpus_total")

    @property
    def vcpus_used(self) -> Column:
        """vCPUs in use: reported + claimed."""
        return self.number("vcpus_used")

    @property
    def ram_total_mb(self) -> Column:
        """RAM the host has, MB."""
        return self.number("ram_total_mb")

    @property
    def free_ram_mb(self) -> Column:
        """Reported free RAM − claimed, MB; may be negative."""
        return self.number("free_ram_mb")

    @property
    def disk_total_mb(self) -> Column:
        """Local disk the host has, MB."""
        return self.number("disk_total_mb")

    @property
    def free_disk_mb(self) -> Column:
        """Smaller of free_disk_gb and disk_available_least − claimed, MB; may be negative."""
        return self.number("free_disk_mb")

    @property
    def disk_used_mb(self) -> Column:
        """Reported local_gb_used, MB (claims not added: Juno's consumption leaves it alone)."""
        return self.number("disk_used_mb")

    @property
    def num_instances(self) -> Column:
        """Guests: reported in stats + claimed."""
        return self.number("num_instances")

    @property
    def num_io_ops(self) -> Column:
        """I/O-heavy operations: reported in stats + claimed."""
        return self.number("num_io_ops")

    @property
    def heartbeat_seconds(self) -> Column:
        """Last sign of life of the host's service, seconds since the epoch, database's clock."""
        return self.number("heartbeat_seconds")

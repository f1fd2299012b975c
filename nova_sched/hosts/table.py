"""The column table: all hosts of the cloud in memory, kept up to date by deltas.

Each applied delta is one generation. Rows changed by it carry that generation, so caches over the table recompute the
rows that changed and nothing else. When rows are removed or do not come in id order, all rows carry it, since rows
have moved.

Not safe for several threads: one owner applies deltas and decides, in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from nova_sched.hosts import numa, pci
from nova_sched.hosts.coding import Dictionary
from nova_sched.hosts.overlay import Overlay
from nova_sched.hosts.reported import numbers_of
from nova_sched.hosts.schema import (
    AMOUNT_COLUMNS,
    DYNAMIC_CODED,
    REPORTED_COLUMNS,
    STATIC_CODED,
    STATIC_COLUMNS,
    Aggregate,
    HostDelta,
)
from nova_sched.hosts.view import Coded, Frame, HostView, NameIndex
from nova_sched.model.numa import HostTopology
from nova_sched.model.pci import PciPool

_NUMBERS = AMOUNT_COLUMNS + REPORTED_COLUMNS + STATIC_COLUMNS
_TEXTS = STATIC_CODED + DYNAMIC_CODED
_PLAIN: dict[str, Any] = {
    "ids": np.int64,
    "hosts": np.object_,
    "nodes": np.object_,
    "disabled": np.bool_,
    "allocation_generation": np.int64,
    "row_generation": np.int64,
    "static_generation": np.int64,
    "aggregate_codes": np.int32,
}

Array = NDArray[Any]


class HostTable:
    """All hosts, one row each, in the order of their database ids. Empty until the first :meth:`apply`."""

    def __init__(self) -> None:
        self.generation = 0
        self.now_seconds = 0.0
        self._rows: dict[int, int] = {}
        self._arrays: dict[str, Array] = {name: np.empty(0, dtype) for name, dtype in _PLAIN.items()}
        self._arrays.update({name: np.empty(0) for name in _NUMBERS})
        self._arrays.update({name: np.empty(0, np.int32) for name in _TEXTS})
        self._dictionaries = {name: Dictionary() for name in _TEXTS}
        self._aggregate_values: list[tuple[Aggregate, ...]] = [()]
        self._aggregate_of_host: dict[str, int] = {}
        self._aggregate_keys: frozenset[str] = frozenset()
        self._origin = object()
        self._rows_of_host: dict[str, list[int]] | None = None
        self.frame = self._make_frame(static_stamp=0)

    def __len__(self) -> int:
        return len(self._rows)

    def view(self) -> HostView:
        """All rows, read-only; valid until the next :meth:`apply`."""
        return HostView(self.frame, self.generation, self.now_seconds, self)

    def overlay(self) -> Overlay:
        """A fresh private consumption over the rows as they are now."""
        return Overlay(self)

    def row_of(self, host_id: int) -> int | None:
        """Row of a database id; None when there is no such host."""
        return self._rows.get(host_id)

    def topology(self, row: int) -> HostTopology | None:
        """NUMA cells of a row: reported + live claims; None when absent or they do not parse."""
        cells = numa.parse_host_topology(self._text("numa_topology", row))
        if cells is None or (claims := self._text("claimed_devices", row)) is None:
            return cells
        return numa.use(cells, _claims(claims)[1])

    def pools(self, row: int) -> tuple[PciPool, ...] | None:
        """Free PCI pools of a row: reported − live claims; None when absent or they do not parse."""
        pools = pci.parse_pools(self._text("pci_stats", row))
        if pools is None or (claims := self._text("claimed_devices", row)) is None:
            return pools
        return pci.subtract(pools, _claims(claims)[0])

    def apply(self, delta: HostDelta) -> None:
        """Take over what changed. Costs time per changed row, and a copy of the columns when rows come or go."""
        self.now_seconds = delta.now_seconds
        ids = [int(value) for value in delta.columns.get("id", ())]
        gone = set(delta.removed)
        if delta.full:
            gone |= self._rows.keys() - set(ids)
        gone &= self._rows.keys()
        if delta.heartbeats:
            self._beat(delta.heartbeats)
        if not ids and not gone and delta.aggregates is None:
            return
        self.generation += 1
        rows_before = len(self._rows)
        moved = self._remove(gone) if gone else False
        if delta.aggregates is not None:
            self._apply_aggregates(delta.aggregates)
        if ids:
            moved |= self._write(ids, delta.columns)
        if moved:
            self._arrays["row_generation"][:] = self.generation
            self._arrays["static_generation"][:] = self.generation
        stamps = self._arrays["static_generation"]
        stamp = max(self.frame.static_stamp, int(stamps.max(initial=0)), self.generation if gone else 0)
        if moved or len(self._rows) != rows_before or delta.aggregates is not None:
            self.frame = self._make_frame(stamp)
        elif stamp != self.frame.static_stamp:
            self.frame = replace(self.frame, static_stamp=stamp, derived={})

    def _beat(self, heartbeats: Mapping[str, float]) -> None:
        """Take over heartbeats by service host. No generation: liveness depends on the clock, so nobody caches it."""
        if self._rows_of_host is None:
            self._rows_of_host = {}
            for row, host in enumerate(self._arrays["hosts"].tolist()):
                self._rows_of_host.setdefault(host, []).append(row)
        column = self._arrays["heartbeat_seconds"]
        for host, seconds in heartbeats.items():
            for row in self._rows_of_host.get(host, ()):
                column[row] = seconds

    def _write(self, ids: Sequence[int], columns: Mapping[str, Sequence[Any]]) -> bool:
        last = {host_id: index for index, host_id in enumerate(ids)}
        if len(last) != len(ids):
            picked = sorted(last.values())
            columns = {name: [values[i] for i in picked] for name, values in columns.items()}
            ids = [ids[i] for i in picked]
        known = np.array([host_id in self._rows for host_id in ids], dtype=np.bool_)
        plain = self._plain_arrays(ids, columns)
        plain.update(numbers_of(columns, len(ids)))
        texts = {name: columns.get(name) or (None,) * len(ids) for name in _TEXTS}
        if known.all():
            self._update(ids, plain, texts)
            return False
        if not known.any():
            return self._append(ids, plain, texts)
        here = np.flatnonzero(known)
        new = np.flatnonzero(~known)
        self._update([ids[i] for i in here.tolist()], *_pick(here, plain, texts))
        return self._append([ids[i] for i in new.tolist()], *_pick(new, plain, texts))

    def _plain_arrays(self, ids: Sequence[int], columns: Mapping[str, Sequence[Any]]) -> dict[str, Array]:
        count = len(ids)
        hosts = columns["host"]
        codes = self._aggregate_of_host
        return {
            "ids": np.array(ids, dtype=np.int64),
            "hosts": _objects(hosts),
            "nodes": _objects(columns.get("node") or (None,) * count),
            "disabled": np.array([bool(value) for value in columns.get("disabled") or (0,) * count]),
            "allocation_generation": np.array(
                [value or 0 for value in columns.get("allocation_generation") or (0,) * count], dtype=np.int64
            ),
            "aggregate_codes": np.array([codes.get(host, 0) for host in hosts], dtype=np.int32),
            "row_generation": np.full(count, self.generation, dtype=np.int64),
        }

    def _update(
        self, ids: Sequence[int], values: Mapping[str, Array], texts: Mapping[str, Sequence[str | None]]
    ) -> None:
        own = self._arrays
        rows = np.array([self._rows[host_id] for host_id in ids], dtype=np.intp)
        changed = own["disabled"][rows] != values["disabled"]
        changed |= own["aggregate_codes"][rows] != values["aggregate_codes"]
        renamed = (own["hosts"][rows] != values["hosts"]) | (own["nodes"][rows] != values["nodes"])
        if renamed.any():
            self.frame.names.forget()
            changed |= renamed
        for name in STATIC_COLUMNS:
            before, after = own[name][rows], values[name]
            changed |= (before != after) & ~(np.isnan(before) & np.isnan(after))
        for name in _TEXTS:
            before = own[name][rows]
            after = self._dictionaries[name].acquire(texts[name])
            self._dictionaries[name].release(before)
            if name in STATIC_CODED:
                changed |= before != after
            own[name][rows] = after
        for name, column in values.items():
            own[name][rows] = column
        own["static_generation"][rows[changed]] = self.generation

    def _append(
        self, ids: Sequence[int], values: dict[str, Array], texts: Mapping[str, Sequence[str | None]]
    ) -> bool:
        """Add rows; True when rows had to move to keep the order of ids."""
        self._rows_of_host = None
        first_new = len(self._rows)
        newest = int(self._arrays["ids"][-1]) if first_new else -1
        in_order = all(a < b for a, b in zip((newest, *ids), ids, strict=False))
        values["static_generation"] = values["row_generation"]
        for name in _TEXTS:
            values[name] = self._dictionaries[name].acquire(texts[name])
        for name, column in values.items():
            self._arrays[name] = np.concatenate((self._arrays[name], column))
        if in_order:
            self._rows.update(zip(ids, range(first_new, first_new + len(ids)), strict=True))
        else:
            self._select(np.argsort(self._arrays["ids"], kind="stable"))
        return not in_order

    def _remove(self, gone: Iterable[int]) -> bool:
        dropped = np.array(sorted(self._rows[host_id] for host_id in gone), dtype=np.intp)
        for name in _TEXTS:
            self._dictionaries[name].release(self._arrays[name][dropped])
        self._select(np.delete(np.arange(len(self._rows), dtype=np.intp), dropped))
        return True

    def _select(self, order: NDArray[np.intp]) -> None:
        self._rows_of_host = None
        self._arrays = {name: array[order] for name, array in self._arrays.items()}
        self._rows = {host_id: row for row, host_id in enumerate(self._arrays["ids"].tolist())}

    def _apply_aggregates(self, aggregates: Sequence[Aggregate]) -> None:
        of_host: dict[str, list[Aggregate]] = {}
        for aggregate in sorted(aggregates, key=lambda one: one.id):
            for host in aggregate.hosts:
                of_host.setdefault(host, []).append(aggregate)
        values: list[tuple[Aggregate, ...]] = [()]
        code_of_ids: dict[tuple[int, ...], int] = {}
        self._aggregate_of_host = {}
        for host, members in of_host.items():
            key = tuple(one.id for one in members)
            if key not in code_of_ids:
                code_of_ids[key] = len(values)
                values.append(tuple(members))
            self._aggregate_of_host[host] = code_of_ids[key]
        before = self._arrays["aggregate_codes"]
        after = np.array(
            [self._aggregate_of_host.get(host, 0) for host in self._arrays["hosts"]], dtype=np.int32
        )
        pairs, which = np.unique(before.astype(np.int64) * len(values) + after, return_inverse=True)
        differ = np.array(
            [
                self._aggregate_values[pair // len(values)] != values[pair % len(values)]
                for pair in pairs.tolist()
            ],
            dtype=np.bool_,
        )
        changed = differ[which] if len(pairs) else np.zeros(0, np.bool_)
        self._arrays["aggregate_codes"] = after
        self._arrays["row_generation"][changed] = self.generation
        self._arrays["static_generation"][changed] = self.generation
        self._aggregate_values = values
        self._aggregate_keys = frozenset(key for one in aggregates for key in one.metadata)

    def _text(self, name: str, row: int) -> str | None:
        return self._dictionaries[name].values[int(self._arrays[name][row])]

    def _make_frame(self, static_stamp: int) -> Frame:
        shown = {name: _read_only(array) for name, array in self._arrays.items()}
        return Frame(
            ids=shown["ids"],
            hosts=shown["hosts"],
            nodes=shown["nodes"],
            numbers={name: shown[name] for name in _NUMBERS},
            coded={name: Coded(shown[name], self._dictionaries[name].values) for name in _TEXTS},
            aggregates=Coded(shown["aggregate_codes"], self._aggregate_values),
            disabled=shown["disabled"],
            allocation_generation=shown["allocation_generation"],
            row_generation=shown["row_generation"],
            static_generation=shown["static_generation"],
            names=NameIndex(shown["hosts"], shown["nodes"]),
            static_stamp=static_stamp,
            origin=self._origin,
            aggregate_keys=self._aggregate_keys,
        )


def _pick(
    chosen: NDArray[np.intp], arrays: Mapping[str, Array], texts: Mapping[str, Sequence[str | None]]
) -> tuple[dict[str, Array], dict[str, Sequence[str | None]]]:
    rows = chosen.tolist()
    return (
        {name: array[chosen] for name, array in arrays.items()},
        {name: [values[row] for row in rows] for name, values in texts.items()},
    )


def _objects(values: Sequence[Any]) -> Array:
    found = np.empty(len(values), dtype=np.object_)
    found[:] = values
    return found


def _read_only(array: Array) -> Array:
    shown = array.view()
    shown.flags.writeable = False
    return shown


@lru_cache(maxsize=1 << 14)
def _claims(text: str) -> tuple[tuple[PciPool, ...], tuple[numa.CellUse, ...]]:
    """What live claims use, as the store writes it: ``{"pci": [{count, tags}], "numa": [{id, cpus, memory_mb}]}``."""
    claims = orjson.loads(text)
    return (
        tuple(PciPool(int(one["count"]), one["tags"]) for one in claims.get("pci", ())),
        tuple(
            numa.CellUse(int(one["id"]), _cpu_count(one["cpus"]), int(one["memory_mb"]))
            for one in claims.get("numa", ())
        ),
    )


def _cpu_count(cpus: Any) -> int:
    return cpus if isinstance(cpus, int) else len(numa.parse_cpus(cpus))

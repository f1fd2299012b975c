"""From rows as agents report them and SQL keeps them to the numbers of the table, by the rules of Juno's HostState.

One unreadable value costs that value only: it becomes NaN, "unknown", and comparisons with it are false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from nova_sched.hosts.view import Column

MB_PER_GB = 1024.0
_EMPTY_STATS = (0.0, 0.0)
_UNKNOWN_STATS = (np.nan, np.nan)


def numbers_of(columns: Mapping[str, Sequence[Any]], count: int) -> dict[str, Column]:
    """The float64 columns of the table for ``count`` rows; reported amounts with live claims added."""

    def number(name: str) -> Column:
        return as_numbers(columns.get(name), count)

    def claimed(name: str) -> Column:
        return np.nan_to_num(number(name), copy=False, nan=0.0)

    guests, io_ops = _stats_columns(columns.get("stats"), count)
    free_disk_gb = np.fmin(number("free_disk_gb"), number("disk_available_least"))
    return {
        "vcpus_used": number("vcpus_used") + claimed("claimed_vcpus"),
        "free_ram_mb": number("free_ram_mb") - claimed("claimed_memory_mb"),
        "free_disk_mb": free_disk_gb * MB_PER_GB - claimed("claimed_disk_mb"),
        "disk_used_mb": number("local_gb_used") * MB_PER_GB,
        "num_instances": guests + claimed("claimed_instances"),
        "num_io_ops": io_ops + claimed("claimed_io_ops"),
        "running_vms": number("running_vms"),
        "current_workload": number("current_workload"),
        "failed_builds": claimed("failed_builds"),
        "heartbeat_seconds": number("heartbeat_seconds"),
        "vcpus_total": number("vcpus"),
        "ram_total_mb": number("memory_mb"),
        "disk_total_mb": number("local_gb") * MB_PER_GB,
        "hypervisor_version": number("hypervisor_version"),
        "cpu_ratio": _ratio(number("cpu_allocation_ratio")),
        "ram_ratio": _ratio(number("ram_allocation_ratio")),
        "disk_ratio": _ratio(number("disk_allocation_ratio")),
    }


def as_numbers(values: Sequence[Any] | None, count: int) -> Column:
    """Values as a fresh float64 column; NULL, missing and unreadable ones are NaN."""
    if values is None:
        return np.full(count, np.nan)
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array([_as_number(value) for value in values], dtype=np.float64)


def _as_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _ratio(reported: Column) -> Column:
    """A ratio reported as 0 means "the configured default", like NULL."""
    reported[reported == 0.0] = np.nan
    return reported


def _stats_columns(texts: Sequence[Any] | None, count: int) -> tuple[Column, Column]:
    if texts is None:
        return np.zeros(count), np.zeros(count)
    known: dict[Any, tuple[float, float]] = {None: _EMPTY_STATS, "": _EMPTY_STATS}
    pairs = np.empty((count, 2))
    for row, text in enumerate(texts):
        pair = known.get(text)
        if pair is None:
            pair = known[text] = stats_amounts(text)
        pairs[row] = pair
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def stats_amounts(text: str) -> tuple[float, float]:
    """(num_instances, num_io_ops) of a ``stats`` text; absent keys are 0, what does not parse is NaN."""
    try:
        stats = orjson.loads(text)
    except ValueError:
        return _UNKNOWN_STATS
    if stats is None:
        return _EMPTY_STATS
    if not isinstance(stats, dict):
        return _UNKNOWN_STATS
    return _as_count(stats.get("num_instances", 0)), _as_count(stats.get("io_workload", 0))


def _as_count(value: Any) -> float:
    try:
        return float(int(value))
    except (TypeError, ValueError, OverflowError):
        return np.nan

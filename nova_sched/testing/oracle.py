"""An independent, row-by-row statement of what the engine must answer: plain Python, no NumPy, no shared helpers.

Hosts are dictionaries of plain numbers (None = unknown), filters are functions of one host. Slow and obvious on
purpose; tests hold the columns against it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nova_sched.hosts.schema import Aggregate
from nova_sched.model.request import SchedulingRequest
from nova_sched.settings import SchedulerSettings

Host = dict[str, Any]


@dataclass
class OracleRound:
    """``trace``: (filter, ids left) in order; ``weights`` by id; ``chosen``: id, None when no host was left."""

    trace: list[tuple[str, list[int]]] = field(default_factory=list)
    weights: dict[int, float] = field(default_factory=dict)
    chosen: int | None = None


class Oracle:
    """Decides like the filter driver with subset size 1, one host and one filter at a time.

    ``rows``: mappings by the names of ``hosts.schema.HOST_COLUMNS``. ``member_hosts``: where members of the request's
    group are; ``policies``: the group's. ``guests``: (host, instance type id, uuid) of existing instances.
    """

    def __init__(
        self,
        settings: SchedulerSettings,
        rows: Iterable[Mapping[str, Any]],
        aggregates: Sequence[Aggregate] = (),
        *,
        now_seconds: float = 0.0,
        policies: Iterable[str] = (),
        member_hosts: Iterable[str] = (),
        guests: Iterable[tuple[str, int, str]] = (),
    ) -> None:
        self.settings = settings
        self.aggregates = aggregates
        self.now_seconds = now_seconds
        self.policies = set(policies)
        self.has_group = bool(self.policies)
        self.member_hosts = list(member_hosts)
        self.guests = list(guests)
        self.hosts = [self._state(row) for row in sorted(rows, key=lambda row: row["id"])]

    def _state(self, row: Mapping[str, Any]) -> Host:
        stats = _stats(row.get("stats"))
        disks = [row[key] for key in ("free_disk_gb", "disk_available_least") if row.get(key) is not None]
        metadata = [one.metadata for one in self.aggregates if row["host"] in one.hosts]
        return {
            "id": row["id"],
            "host": row["host"],
            "node": row["node"],
            "host_ip": row.get("host_ip"),
            "vcpus_total": row.get("vcpus"),
            "vcpus_used": _plus(row.get("vcpus_used"), row.get("claimed_vcpus")),
            "ram_total": row.get("memory_mb"),
            "free_ram": _minus(row.get("free_ram_mb"), row.get("claimed_memory_mb")),
            "disk_total": _times(row.get("local_gb"), 1024),
            "free_disk": _minus(_times(min(disks) if disks else None, 1024), row.get("claimed_disk_mb")),
            "num_instances": _plus(_count(stats, "num_instances"), row.get("claimed_instances")),
            "num_io_ops": _plus(_count(stats, "io_workload"), row.get("claimed_io_ops")),
            "failed_builds": row.get("failed_builds") or 0,
            "cpu_ratio": row.get("cpu_allocation_ratio") or None,
            "ram_ratio": row.get("ram_allocation_ratio") or None,
            "disk_ratio": row.get("disk_allocation_ratio") or None,
            "heartbeat": row.get("heartbeat_seconds"),
            "disabled": bool(row.get("disabled")),
            "metadata": metadata,
        }

    def schedule(self, request: SchedulingRequest) -> list[OracleRound]:
        """One round per instance, ending with the one that finds no host."""
        left = [host for host in self.hosts if self._may_use(request, host)]
        rounds: list[OracleRound] = []
        for number in range(len(request.instances)):
            one = OracleRound()
            rounds.append(one)
            if not request.forced:
                left = self._filtered(request, left, one, first=number == 0)
            if not left:
                return rounds
            one.weights, demoted = self._weights(left)
            best = min(left, key=lambda host: (host["id"] in demoted, -one.weights[host["id"]], host["id"]))
            one.chosen = best["id"]
            self._consume(request, best)
        return rounds

    def _may_use(self, request: SchedulingRequest, host: Host) -> bool:
        if request.ignore_hosts is not None and host["host"] in request.ignore_hosts:
            return False
        if (host["host"], host["node"]) in request.excluded:
            return False
        if request.force_hosts is not None and host["host"] not in request.force_hosts:
            return False
        return request.force_nodes is None or host["node"] in request.force_nodes

    def _filtered(
        self, request: SchedulingRequest, left: list[Host], one: OracleRound, *, first: bool
    ) -> list[Host]:
        for name in self.settings.filters.enabled:
            if not left:
                break
            if not first and name in ONCE_PER_REQUEST:
                continue
            left = [host for host in left if FILTERS[name](self, request, host)]
            one.trace.append((name, [host["id"] for host in left]))
        return left

    def _weights(self, left: list[Host]) -> tuple[dict[int, float], set[int]]:
        total = {host["id"]: 0.0 for host in left}
        demoted: set[int] = set()
        for option, (amount, floor, sign, always) in WEIGHERS.items():
            factors = [sign * self._factor(option, host) for host in left]
            if not always and not any(factors):
                continue
            found = [amount(self, host) for host in left]
            demoted |= {host["id"] for host, value in zip(left, found, strict=True) if value is None}
            values = [0.0 if value is None else float(value) for value in found]
            low = min([*values, floor] if floor is not None else values)
            high = max(values)
            for host, value, factor in zip(left, values, factors, strict=True):
                if low != high:
                    total[host["id"]] += factor * ((value - low) / (high - low))
        return total, demoted

    def _factor(self, option: str, host: Host) -> float:
        own = self._smallest(host, option, float)
        return float(getattr(self.settings.weighers, option)) if own is None else own

    def _consume(self, request: SchedulingRequest, host: Host) -> None:
        taken = request.amounts
        host["free_ram"] = _minus(host["free_ram"], taken.memory_mb)
        host["free_disk"] = _minus(host["free_disk"], taken.disk_mb)
        host["vcpus_used"] = _plus(host["vcpus_used"], taken.vcpus)
        host["num_instances"] = _plus(host["num_instances"], taken.instances)
        host["num_io_ops"] = _plus(host["num_io_ops"], taken.io_ops)
        if self.has_group:
            self.member_hosts.append(host["host"])

    def _smallest(self, host: Host, key: str, parse: Callable[[str], float]) -> float | None:
        found = []
        for metadata in host["metadata"]:
            try:
                found.append(parse(metadata[key]))
            except (KeyError, ValueError):
                continue
        return min(found) if found else None

    def _ratio(self, host: Host, key: str, column: str, *, aggregates: bool) -> float:
        own = self._smallest(host, key, float) if aggregates else None
        if own is not None:
            return own
        return float(host[column] or getattr(self.settings.filters, key))

    def _fits(self, host: Host, asked: float, what: str, ratio: float) -> bool:
        total, used = host[f"{what}_total"], _used(host, what)
        if total is None or used is None:
            return False
        return bool(asked <= total and total * ratio - used >= asked)

    def _maximum(self, host: Host, key: str, *, aggregates: bool) -> float:
        own = self._smallest(host, key, int) if aggregates else None
        return getattr(self.settings.filters, key) if own is None else own

    def ram(self, request: SchedulingRequest, host: Host, *, aggregates: bool = False) -> bool:
        """RamFilter, AggregateRamFilter."""
        ratio = self._ratio(host, "ram_allocation_ratio", "ram_ratio", aggregates=aggregates)
        return self._fits(host, request.flavor.memory_mb, "ram", ratio)

    def cores(self, request: SchedulingRequest, host: Host, *, aggregates: bool = False) -> bool:
        """CoreFilter, AggregateCoreFilter."""
        if host["vcpus_total"] == 0:
            return True
        ratio = self._ratio(host, "cpu_allocation_ratio", "cpu_ratio", aggregates=aggregates)
        return self._fits(host, request.flavor.vcpus, "vcpus", ratio)

    def disk(self, request: SchedulingRequest, host: Host, *, aggregates: bool = False) -> bool:
        """DiskFilter, AggregateDiskFilter."""
        ratio = self._ratio(host, "disk_allocation_ratio", "disk_ratio", aggregates=aggregates)
        return self._fits(host, request.flavor.disk_mb, "disk", ratio)

    def below(self, host: Host, column: str, key: str, *, aggregates: bool = False) -> bool:
        """(Aggregate)IoOpsFilter, (Aggregate)NumInstancesFilter."""
        found = host[column]
        return found is not None and found < self._maximum(host, key, aggregates=aggregates)

    def up(self, request: SchedulingRequest, host: Host) -> bool:
        """ComputeFilter."""
        if host["disabled"] or host["heartbeat"] is None:
            return False
        age = abs(self.now_seconds - host["heartbeat"])
        return bool(age <= self.settings.filters.service_down_time_seconds)

    def in_zone(self, request: SchedulingRequest, host: Host) -> bool:
        """AvailabilityZoneFilter."""
        wanted = request.availability_zone
        if not wanted:
            return True
        zones = self._listed(host, "availability_zone")
        return wanted in (zones or [self.settings.filters.default_availability_zone])

    def allowed(self, host: Host, key: str, wanted: str | None) -> bool:
        """AggregateMultiTenancyIsolation, AggregateTypeAffinityFilter."""
        listed = self._listed(host, key)
        return not listed or wanted in listed

    def same_type(self, request: SchedulingRequest, host: Host) -> bool:
        """TypeAffinityFilter."""
        return all(kind == request.flavor.id for where, kind, _ in self.guests if where == host["host"])

    def isolated(self, request: SchedulingRequest, host: Host) -> bool:
        """IsolatedHostsFilter."""
        options = self.settings.filters
        image = request.image.id in options.isolated_images
        on_isolated = host["host"] in options.isolated_hosts
        if image:
            return on_isolated
        return not (on_isolated and options.restrict_isolated_hosts_to_isolated_images)

    def near(self, request: SchedulingRequest, host: Host, hint: str) -> bool:
        """Whether the host runs an instance that the hint names."""
        named = request.hints.get(hint) or ()
        return any(where == host["host"] and uuid in named for where, _, uuid in self.guests)

    def _listed(self, host: Host, key: str) -> list[str]:
        return [
            part.strip()
            for metadata in host["metadata"]
            if key in metadata
            for part in metadata[key].split(",")
        ]


def _stats(text: str | None) -> dict[str, Any] | None:
    if not text:
        return {}
    try:
        parsed = json.loads(text)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _count(stats: Mapping[str, Any] | None, key: str) -> int | None:
    if stats is None:
        return None
    try:
        return int(stats.get(key, 0))
    except (TypeError, ValueError):
        return None


def _plus(value: float | None, more: float | None) -> float | None:
    return None if value is None else value + (more or 0)


def _minus(value: float | None, less: float | None) -> float | None:
    return None if value is None else value - (less or 0)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _used(host: Host, what: str) -> float | None:
    if what == "vcpus":
        used: float | None = host["vcpus_used"]
        return used
    return _minus(host[f"{what}_total"], host[f"free_{what}"]) if host[f"free_{what}"] is not None else None


def _exactly(asked: float, free: float | None) -> bool:
    return free is not None and free == asked


def _free_vcpus(host: Host) -> float | None:
    if not host["vcpus_total"] or host["vcpus_used"] is None:
        return None
    return float(host["vcpus_total"] - host["vcpus_used"])


def _weighable_vcpus(oracle: Oracle, host: Host) -> float | None:
    if host["vcpus_total"] is None or host["vcpus_used"] is None:
        return None
    ratio = host["cpu_ratio"] or oracle.settings.filters.cpu_allocation_ratio
    return float(host["vcpus_total"] * ratio - host["vcpus_used"])


Filter = Callable[[Oracle, SchedulingRequest, Host], bool]

FILTERS: dict[str, Filter] = {
    "AllHostsFilter": lambda o, r, h: True,
    "RetryFilter": lambda o, r, h: (h["host"], h["node"]) not in r.tried,
    "ComputeFilter": Oracle.up,
    "AvailabilityZoneFilter": Oracle.in_zone,
    "RamFilter": Oracle.ram,
    "AggregateRamFilter": lambda o, r, h: o.ram(r, h, aggregates=True),
    "CoreFilter": Oracle.cores,
    "AggregateCoreFilter": lambda o, r, h: o.cores(r, h, aggregates=True),
    "DiskFilter": Oracle.disk,
    "AggregateDiskFilter": lambda o, r, h: o.disk(r, h, aggregates=True),
    "ExactRamFilter": lambda o, r, h: _exactly(r.flavor.memory_mb, h["free_ram"]),
    "ExactCoreFilter": lambda o, r, h: _exactly(r.flavor.vcpus, _free_vcpus(h)),
    "ExactDiskFilter": lambda o, r, h: _exactly(r.flavor.disk_mb, h["free_disk"]),
    "IoOpsFilter": lambda o, r, h: o.below(h, "num_io_ops", "max_io_ops_per_host"),
    "AggregateIoOpsFilter": lambda o, r, h: o.below(h, "num_io_ops", "max_io_ops_per_host", aggregates=True),
    "NumInstancesFilter": lambda o, r, h: o.below(h, "num_instances", "max_instances_per_host"),
    "AggregateNumInstancesFilter": lambda o, r, h: o.below(
        h, "num_instances", "max_instances_per_host", aggregates=True
    ),
    "AggregateMultiTenancyIsolation": lambda o, r, h: o.allowed(h, "filter_tenant_id", r.project_id),
    "AggregateTypeAffinityFilter": lambda o, r, h: o.allowed(h, "instance_type", r.flavor.name),
    "TypeAffinityFilter": Oracle.same_type,
    "IsolatedHostsFilter": Oracle.isolated,
    "DifferentHostFilter": lambda o, r, h: not o.near(r, h, "different_host"),
    "SameHostFilter": lambda o, r, h: not r.hints.get("same_host") or o.near(r, h, "same_host"),
    "ServerGroupAntiAffinityFilter": lambda o, r, h: (
        "anti-affinity" not in o.policies or h["host"] not in o.member_hosts
    ),
    "ServerGroupAffinityFilter": lambda o, r, h: (
        "affinity" not in o.policies or not o.member_hosts or h["host"] in o.member_hosts
    ),
}

ONCE_PER_REQUEST = frozenset(
    {
        "AllHostsFilter",
        "AvailabilityZoneFilter",
        "ComputeFilter",
        "AggregateMultiTenancyIsolation",
        "AggregateTypeAffinityFilter",
        "IsolatedHostsFilter",
        "DifferentHostFilter",
        "SameHostFilter",
    }
)

#: Option of the multiplier → (raw value, floor of the scale, sign, whether it counts while its multiplier is 0), in the
#: order in which the weighers are summed, so that equal weights come out equal to the last bit.
WEIGHERS: dict[str, tuple[Callable[[Oracle, Host], float | None], float | None, float, bool]] = {
    "soft_affinity_weight_multiplier": (
        lambda o, h: o.member_hosts.count(h["host"]) if "soft-affinity" in o.policies else 0,
        None,
        1.0,
        False,
    ),
    "soft_anti_affinity_weight_multiplier": (
        lambda o, h: -o.member_hosts.count(h["host"]) if "soft-anti-affinity" in o.policies else 0,
        None,
        1.0,
        False,
    ),
    "build_failure_weight_multiplier": (lambda o, h: h["failed_builds"], None, -1.0, False),
    "cpu_weight_multiplier": (_weighable_vcpus, None, 1.0, False),
    "disk_weight_multiplier": (lambda o, h: h["free_disk"], None, 1.0, False),
    "num_instances_weight_multiplier": (lambda o, h: h["num_instances"], None, 1.0, False),
    "io_ops_weight_multiplier": (lambda o, h: h["num_io_ops"], None, 1.0, False),
    "ram_weight_multiplier": (lambda o, h: h["free_ram"], 0.0, 1.0, True),
}

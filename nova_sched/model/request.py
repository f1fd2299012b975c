"""The one frozen request that travels inward.

``wire.inbound`` makes it from Nova's dictionaries, once, at the edge. Policy reads the typed fields only;
``passthrough`` is carried to the compute cast and to the adapters of Nova-style plugins, never consulted by policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from nova_sched.model.numa import InstanceTopology
from nova_sched.model.pci import PciRequest
from nova_sched.model.quick import quick_init

EMPTY: Mapping[str, Any] = MappingProxyType({})


def _empty() -> Mapping[str, Any]:
    return EMPTY


HostNode = tuple[str, str | None]


@quick_init
@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. ``wire`` holds the ``_context_*`` keys as received (prefix removed) and goes on to the compute cast."""

    request_id: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    is_admin: bool = False
    read_deleted: str = "no"
    wire: Mapping[str, Any] = field(default_factory=_empty, repr=False)


@quick_init
@dataclass(frozen=True, slots=True)
class Flavor:
    """Sizes that filters compare. Disk is GB on the wire, kept as given; ``swap_mb`` is MB.

    Without an ``instance_type`` in the message, ``wire.inbound`` fills it from ``instance_properties``.
    """

    id: int | None = None
    flavorid: str | None = None
    name: str | None = None
    vcpus: int = 0
    memory_mb: int = 0
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0
    extra_specs: Mapping[str, str] = field(default_factory=_empty)

    @property
    def disk_mb(self) -> int:
        """What the disk filters ask for: root + ephemeral (GB) + swap (MB), in MB."""
        return (self.root_gb + self.ephemeral_gb) * 1024 + self.swap_mb


@quick_init
@dataclass(frozen=True, slots=True)
class Amounts:
    """What one guest takes from its host once chosen (Juno: from ``instance_properties``; swap is not consumed)."""

    vcpus: int = 0
    memory_mb: int = 0
    disk_mb: int = 0
    instances: int = 1
    io_ops: int = 1


@quick_init
@dataclass(frozen=True, slots=True)
class Image:
    """Image reference and its properties, as text values."""

    id: str | None = None
    properties: Mapping[str, Any] = field(default_factory=_empty)


@quick_init
@dataclass(frozen=True, slots=True)
class InstanceRef:
    """One instance of the request. ``uuid`` is None only for select_destinations without uuids."""

    uuid: str | None
    launch_index: int


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry bookkeeping as it will be *sent* (for run_instance num_attempts already counts this attempt).

    Where nothing is counted (forced placement, scheduler_max_attempts = 1, select_destinations, prep_resize) the data
    travels as received; None on the request means that none was received, so none travels.
    """

    num_attempts: int
    hosts: tuple[HostNode, ...] = ()
    extras: Mapping[str, Any] = field(default_factory=_empty)


@quick_init
@dataclass(frozen=True, slots=True)
class Passthrough:
    """What goes on to compute unchanged. Never persisted, logged or put into an event."""

    request_spec: Mapping[str, Any] = field(default_factory=_empty, repr=False)
    filter_properties: Mapping[str, Any] = field(default_factory=_empty, repr=False)
    arguments: Mapping[str, Any] = field(default_factory=_empty, repr=False)
    """Remaining arguments of the RPC method: admin_password, injected_files, requested_networks, ..."""


@quick_init
@dataclass(frozen=True, slots=True)
class SchedulingRequest:
    """One run_instance, select_destinations, prep_resize or explain request.

    ``attempt``: number of this attempt, from 1 (key of idempotency together with the uuid).
    ``hints``: scheduler hints, lists as tuples, absent hints = empty mapping.
    ``limits_apply``: False for forced hosts or nodes: filters are skipped and no limit is produced.
    ``force_hosts``/``force_nodes``/``ignore_hosts``: None means not asked (an empty list on the wire is None).
    """

    method: str
    caller: Caller
    instances: tuple[InstanceRef, ...]
    flavor: Flavor = Flavor()
    amounts: Amounts = Amounts()
    image: Image = Image()
    project_id: str | None = None
    user_id: str | None = None
    os_type: str | None = None
    availability_zone: str | None = None
    instance_type_id: int | None = None
    attempt: int = 1
    retry: Retry | None = None
    tried: tuple[HostNode, ...] = ()
    """(host, node) pairs that RetryFilter excludes; the incoming retry.hosts, independent of what is sent."""
    hints: Mapping[str, Any] = field(default_factory=_empty)
    group: str | None = None
    """Server group asked by the ``group`` hint: uuid or name."""
    legacy_group_hosts: tuple[str, ...] | None = None
    """filter_properties.group_hosts as received from an older caller; None when absent."""
    legacy_group_policies: tuple[str, ...] = ()
    force_hosts: frozenset[str] | None = None
    force_nodes: frozenset[str] | None = None
    ignore_hosts: frozenset[str] | None = None
    excluded: frozenset[HostNode] = frozenset()
    """Hosts taken out by the service itself (cast came back undeliverable); never from the wire."""
    numa: InstanceTopology | None = None
    pci_requests: tuple[PciRequest, ...] = ()
    error: str | None = None
    """A request-level mistake found at the edge that must end as refused (absurd amounts, broken parts)."""
    passthrough: Passthrough = Passthrough()

    @property
    def forced(self) -> bool:
        """Whether an administrator named the host or node, which skips filters, limits and retry."""
        return self.force_hosts is not None or self.force_nodes is not None

    @property
    def uuids(self) -> tuple[str, ...]:
        """uuids of all instances that have one, in the order of the message."""
        return tuple(i.uuid for i in self.instances if i.uuid is not None)

    def only(self, instances: tuple[InstanceRef, ...]) -> SchedulingRequest:
        """The same request for some of its instances."""
        return replace(self, instances=instances)

    def excluding(self, *hosts: HostNode) -> SchedulingRequest:
        """The same request that may not use these (host, node) pairs any more."""
        return replace(self, excluded=self.excluded | frozenset(hosts))

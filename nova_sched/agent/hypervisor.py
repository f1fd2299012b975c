"""What an agent needs of a hypervisor, and one that only pretends: capacity, build time and failures by option."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

FAIL_ATTEMPTS = "fail_attempts"
"""Metadata key of a guest whose first N attempts fail on a simulated hypervisor (demonstrations and tests)."""


class BuildError(Exception):
    """A build failed on this host; the text is the reason that users see, so it names no secrets."""


@dataclass(frozen=True, slots=True)
class Guest:
    """One guest to build, read from a build cast. ``disk_mb`` is root and ephemeral disk."""

    uuid: str
    attempt: int
    vcpus: int
    memory_mb: int
    disk_mb: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    instance: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The ``instance`` argument as received, for hypervisors that need more of it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What is in use right now, with guests that are being built: the numbers that limits are held against."""

    vcpus: int
    memory_mb: int
    disk_gb: int


class Hypervisor(Protocol):
    """A virtualisation host. Methods may be called from several threads at once."""

    def report(self) -> tuple[Mapping[str, Any], frozenset[str]]:
        """Numbers of the host by Nova's ``compute_nodes`` column names, and the uuids of the guests they contain.

        Both are of one moment, guests being built included: the scheduler counts a claim until a report contains it.
        """
        ...

    def usage(self) -> Usage:
        """What is in use."""
        ...

    def reserve(self, guest: Guest) -> None:
        """Take the room of a guest, before it is built. Raises BuildError where it does not fit physically."""
        ...

    def build(self, guest: Guest) -> None:
        """Build a guest whose room is reserved; returns when it runs. Raises BuildError; the room is then free."""
        ...

    def destroy(self, uuid: str) -> None:
        """End a guest and free its room; nothing happens for an unknown one."""
        ...


class SimulatedHypervisor:
    """A hypervisor that builds by waiting.

    :param vcpus: physical CPUs; may be overcommitted, as the limits of the casts allow.
    :param memory_mb: RAM; likewise. :param local_gb: disk; likewise.
    :param build_seconds: how long a build takes.
    :param failure_rate: share of builds that fail, 0.0 to 1.0. The same guest and attempt always end alike for one
        ``seed`` and ``name``, whatever else is built meanwhile.
    """

    def __init__(
        self,
        name: str = "simulated",
        *,
        vcpus: int = 16,
        memory_mb: int = 32768,
        local_gb: int = 500,
        build_seconds: float = 0.1,
        failure_rate: float = 0.0,
        seed: int = 0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name = name
        self._vcpus = vcpus
        self._memory_mb = memory_mb
        self._local_gb = local_gb
        self._build_seconds = build_seconds
        self._failure_rate = failure_rate
        self._seed = seed
        self._sleep = sleep
        self._guests: dict[str, Guest] = {}
        self._building: set[str] = set()
        self._lock = threading.Lock()

    def report(self) -> tuple[Mapping[str, Any], frozenset[str]]:
        """All columns that a simulated host can know, and its guests."""
        with self._lock:
            guests = frozenset(self._guests)
            building = len(self._building)
            used = self._usage()
        values = {
            "vcpus": self._vcpus,
            "memory_mb": self._memory_mb,
            "local_gb": self._local_gb,
            "vcpus_used": used.vcpus,
            "memory_mb_used": used.memory_mb,
            "local_gb_used": used.disk_gb,
            "free_ram_mb": self._memory_mb - used.memory_mb,
            "free_disk_gb": self._local_gb - used.disk_gb,
            "disk_available_least": self._local_gb - used.disk_gb,
            "hypervisor_type": "fake",
            "hypervisor_version": 1,
            "cpu_info": '{"arch": "x86_64"}',
            "supported_instances": '[["x86_64", "fake", "hvm"]]',
            "host_ip": "127.0.0.1",
            "running_vms": len(guests),
            "current_workload": 0,
            "stats": f'{{"num_instances": {len(guests)}, "io_workload": {building}}}',
            "metrics": "[]",
            "pci_stats": None,
            "numa_topology": None,
        }
        return values, guests

    def usage(self) -> Usage:
        """Sums over all guests."""
        with self._lock:
            return self._usage()

    def _usage(self) -> Usage:
        guests = self._guests.values()
        return Usage(
            vcpus=sum(guest.vcpus for guest in guests),
            memory_mb=sum(guest.memory_mb for guest in guests),
            disk_gb=-(-sum(guest.disk_mb for guest in guests) // 1024),
        )

    def reserve(self, guest: Guest) -> None:
        """Take the room; a guest larger than the whole machine is refused, overcommitment is not."""
        for what, asked, total in (
            ("vCPUs", guest.vcpus, self._vcpus),
            ("MB of memory", guest.memory_mb, self._memory_mb),
            ("MB of disk", guest.disk_mb, self._local_gb * 1024),
        ):
            if asked > total:
                raise BuildError(f"asks for {asked} {what}, the machine has {total}")
        with self._lock:
            self._guests[guest.uuid] = guest

    def build(self, guest: Guest) -> None:
        """Wait ``build_seconds``, then succeed or fail."""
        with self._lock:
            self._building.add(guest.uuid)
        try:
            self._sleep(self._build_seconds)
        finally:
            with self._lock:
                self._building.discard(guest.uuid)
        if self._fails(guest):
            self.destroy(guest.uuid)
            raise BuildError(f"simulated failure of attempt {guest.attempt}")

    def destroy(self, uuid: str) -> None:
        """Forget the guest."""
        with self._lock:
            self._guests.pop(uuid, None)

    def _fails(self, guest: Guest) -> bool:
        wanted = guest.metadata.get(FAIL_ATTEMPTS, "")
        if wanted.isdecimal() and guest.attempt <= int(wanted):
            return True
        # Drawn from names instead of a running generator: independent of the order of builds.
        key = f"{self._seed}/{self._name}/{guest.uuid}/{guest.attempt}"
        draw = random.Random(key).random()  # nosec B311  # no secret depends on it
        return draw < self._failure_rate

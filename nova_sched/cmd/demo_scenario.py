"""What the demo plays: five hosts of different sizes, and requests of every kind of outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nova_sched.agent.hypervisor import FAIL_ATTEMPTS
from nova_sched.cmd.client.requests import NovaRequest, Order, nova_request


@dataclass(frozen=True, slots=True)
class DemoHost:
    """One simulated host."""

    name: str
    vcpus: int
    memory_mb: int
    local_gb: int


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """One message of the API client, and how each of its instances should end."""

    names: tuple[str, ...]
    request: NovaRequest
    ends: str
    """``active`` or ``error``."""


HOSTS = (
    DemoHost("alder", 4, 8_192, 80),
    DemoHost("birch", 8, 16_384, 160),
    DemoHost("cedar", 8, 24_576, 200),
    DemoHost("maple", 16, 32_768, 400),
    DemoHost("rowan", 32, 65_536, 800),
)

OPTIONS = {
    "scheduler_default_filters": "RetryFilter,AvailabilityZoneFilter,RamFilter,CoreFilter,DiskFilter,ComputeFilter,"
    "ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter",
    "ram_allocation_ratio": "1.0",
    "cpu_allocation_ratio": "4.0",
    "report_interval": "1",
    "service_down_time": "30",
}
"""Options of nova.conf: Juno's defaults but for the numbers that make the small hosts fill up."""

RATIOS = {"vcpus": 4.0, "memory_mb": 1.0, "disk_gb": 1.0}

_SIZES = ((1, 1_024, 10), (2, 2_048, 20), (1, 4_096, 20), (4, 8_192, 40))


def requests() -> Sequence[DemoRequest]:
    """Twenty one by one, a batch of six, one that fits nowhere, one whose first build fails."""
    played = [_one(f"vm-{number:02}", *_SIZES[number % len(_SIZES)]) for number in range(1, 21)]
    batch = nova_request(Order(name="batch", count=6, vcpus=1, ram_mb=2_048, disk_gb=10))
    played.append(DemoRequest(tuple(f"batch-{number}" for number in range(1, 7)), batch, "active"))
    huge = nova_request(Order(name="huge", vcpus=2, ram_mb=200_000, disk_gb=10))
    played.append(DemoRequest(("huge",), huge, "error"))
    stumbling = Order(name="stumbling", vcpus=1, ram_mb=1_024, disk_gb=10, metadata={FAIL_ATTEMPTS: "1"})
    played.append(DemoRequest(("stumbling",), nova_request(stumbling), "active"))
    return played


def _one(name: str, vcpus: int, ram_mb: int, disk_gb: int) -> DemoRequest:
    order = Order(name=name, vcpus=vcpus, ram_mb=ram_mb, disk_gb=disk_gb)
    return DemoRequest((name,), nova_request(order), "active")

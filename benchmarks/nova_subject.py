"""Nova's own filter and weigh code on host states in memory, timed. Runs inside a virtual environment that has Nova.

Prints one JSON object: ``{"hosts": N, "samples_ms": [...], "winner": name, "version": text}``. No SQL, no placement:
only ``HostFilterHandler`` and ``HostWeightHandler`` with Nova's default filters and all its weighers.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import logging
import time
from typing import Any

import nova.conf
from nova import objects
from nova.scheduler import filters, host_manager, weights
from nova.servicegroup import API


def build_states(count: int) -> list[host_manager.HostState]:
    """Host states of four sizes, with the free RAM spread so that exactly one host is best."""
    states = []
    for number in range(count):
        state = host_manager.HostState(
            f"host-{number}", f"node-{number}", "00000000-0000-4000-8000-000000000001"
        )
        size = 1 << (number % 4)
        state.uuid = f"00000000-0000-4000-8000-{number:012d}"
        state.vcpus_total, state.vcpus_used = 16 * size, number % 8
        state.total_usable_ram_mb = 32768 * size
        state.free_ram_mb = 32768 * size - (number * 7) % 16384
        state.total_usable_disk_gb, state.free_disk_mb, state.disk_mb_used = 500, 409600, 102400
        state.hypervisor_type, state.hypervisor_version, state.hypervisor_hostname = (
            "QEMU",
            2001000,
            f"node-{number}",
        )
        state.cpu_info, state.supported_instances = "{}", [["x86_64", "kvm", "hvm"]]
        state.cpu_allocation_ratio, state.ram_allocation_ratio, state.disk_allocation_ratio = 16.0, 1.5, 1.0
        state.stats, state.aggregates, state.instances = {}, [], {}
        state.service = {"host": state.host, "disabled": False, "last_seen_up": None}
        state.updated = None
        states.append(state)
    return states


def build_spec() -> objects.RequestSpec:
    """A plain request: 2 vCPUs, 2048 MB, 20 GB, one instance."""
    return objects.RequestSpec(
        flavor=objects.Flavor(
            id=7,
            flavorid="42",
            name="lab.small",
            vcpus=2,
            memory_mb=2048,
            root_gb=20,
            ephemeral_gb=0,
            swap=0,
            extra_specs={},
        ),
        image=objects.ImageMeta(properties=objects.ImageMetaProps()),
        instance_uuid="5a6e0000-0000-4000-8000-000000000001",
        project_id="project-1",
        user_id="user-1",
        num_instances=1,
        availability_zone=None,
        scheduler_hints={},
        instance_group=None,
        numa_topology=None,
        ignore_hosts=None,
        force_hosts=None,
        force_nodes=None,
        pci_requests=objects.InstancePCIRequests(requests=[]),
        requested_destination=None,
        retry=None,
        limits=None,
        request_level_params=objects.RequestLevelParams(),
        requested_resources=[],
        is_bfv=False,
    )


def main() -> None:
    """Time ``--samples`` decisions at ``--hosts`` hosts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--samples", type=int, default=7)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    objects.register_all()
    conf = nova.conf.CONF
    conf([], project="nova", default_config_files=[])
    enabled = set(conf.filter_scheduler.enabled_filters)
    always_up: Any = lambda self, service: True  # noqa: E731 - liveness needs a database, which this subject leaves out
    API.service_is_up = always_up
    filter_handler = filters.HostFilterHandler()
    chosen_filters = [
        cls()
        for cls in filter_handler.get_matching_classes(["nova.scheduler.filters.all_filters"])
        if cls.__name__ in enabled
    ]
    weight_handler = weights.HostWeightHandler()
    weighers = [cls() for cls in weight_handler.get_matching_classes(["nova.scheduler.weights.all_weighers"])]
    states, spec = build_states(options.hosts), build_spec()
    samples, winner = [], None
    for _ in range(options.samples):
        begin = time.perf_counter()
        passed = filter_handler.get_filtered_objects(chosen_filters, list(states), spec, 0)
        weighed = weight_handler.get_weighed_objects(weighers, list(passed), spec)
        samples.append((time.perf_counter() - begin) * 1000)
        winner = weighed[0].obj.host
    print(
        json.dumps(
            {
                "hosts": options.hosts,
                "samples_ms": samples,
                "winner": winner,
                "filters": [type(f).__name__ for f in chosen_filters],
                "weighers": [type(w).__name__ for w in weighers],
                "version": importlib.metadata.version("nova"),
            }
        )
    )


if __name__ == "__main__":
    main()

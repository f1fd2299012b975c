"""Why there was no host: for each filter, from a case this field has suffered, the sentence a user reads (no host names)
and the line an operator reads about one host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from nova_sched.drivers.filtering import FilterDriver
from nova_sched.drivers.narrator import REASON_MAX, TELLING_MAX
from nova_sched.health.metrics import emptied_by
from nova_sched.hosts.schema import Aggregate
from nova_sched.model.explanation import Detail
from nova_sched.model.facts import NO_FACTS, Facts
from nova_sched.model.numa import InstanceCell, InstanceTopology
from nova_sched.model.pci import PciRequest
from nova_sched.plugins import registry
from nova_sched.testing import builders
from nova_sched.testing.builders import aggregate, group, host, instance, request
from nova_sched.testing.deciding import settings

RUNNING = instance("a", "birch", instance_type_id=9)
CELL = {"cells": [{"id": 0, "cpus": "0,1", "mem": {"total": 1024, "used": 0}, "cpu_usage": 0}]}
POOL = [{"vendor_id": "8086", "product_id": "1520", "count": 1}]


@dataclass(frozen=True)
class Case:
    """Host ``alder`` (its columns given) is refused to this request; what the two sentences must say."""

    said: str
    about_alder: str
    asked: dict[str, Any] = field(default_factory=dict)
    alder: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    aggregates: tuple[Aggregate, ...] = ()
    facts: Facts = NO_FACTS
    weighing: dict[str, Any] = field(default_factory=dict)


def on_alder(**metadata: str) -> tuple[Aggregate, ...]:
    """An aggregate of alder alone."""
    return (aggregate("special", ["alder"], metadata),)


CASES: dict[str, Case] = {
    "RetryFilter": Case(  # LP: reschedule to another host
        "already tried for this instance",
        "already tried: alder, node alder.lab",
        asked={"tried": (("alder", "alder.lab"),)},
    ),
    "AvailabilityZoneFilter": Case(
        "not in availability zone east",
        "asks for zone east, the host is in nova",
        asked={"availability_zone": "east"},
    ),
    "ComputeFilter": Case(  # LP#867674
        "compute service disabled or down: 0 disabled, 1 down",
        "the compute service is down: last sign of life 90 s ago, allowed are 60 s",
        alder={"age_seconds": 90},
    ),
    "RamFilter": Case(  # LP#1016273
        "not enough RAM, most usable 1048 MB of 4096 MB asked",
        "asks for 4096 MB, usable are 1048 MB (total 4096 MB x 1.5 - 5096 used)",
        asked={"memory_mb": 4096},
        alder={"memory_mb": 4096, "free_ram_mb": -1000},
        options={"ram_allocation_ratio": 1.5},
    ),
    "AggregateRamFilter": Case(  # LP#1431746
        "not enough RAM, most usable 2048 MB of 4096 MB asked",
        "asks for 4096 MB, usable are 2048 MB (total 4096 MB x 1.5 - 4096 used)",
        asked={"memory_mb": 4096},
        alder={"memory_mb": 4096, "free_ram_mb": 0},
        aggregates=on_alder(ram_allocation_ratio="1.5"),
    ),
    "CoreFilter": Case(  # LP#1485631
        "not enough vCPUs, most usable 8 vCPUs of 16 vCPUs asked",
        "asks for 16 vCPUs, the host has 8 vCPUs in total",
        asked={"vcpus": 16},
        alder={"vcpus": 8},
    ),
    "AggregateCoreFilter": Case(  # LP#1804125
        "not enough vCPUs, most usable 0 vCPUs of 2 vCPUs asked",
        "asks for 2 vCPUs, usable are 0 vCPUs (total 8 vCPUs x 4 - 32 used)",
        asked={"vcpus": 2},
        alder={"vcpus": 8, "vcpus_used": 32},
        aggregates=on_alder(cpu_allocation_ratio="4"),
    ),
    "DiskFilter": Case(  # LP#1239009
        "not enough disk, most usable 11264 MB of 30720 MB asked",
        "asks for 30720 MB, usable are 11264 MB (total 51200 MB x 1 - 39936 used)",
        asked={"root_gb": 30},
        alder={"local_gb": 50, "free_disk_gb": 11},
    ),
    "AggregateDiskFilter": Case(
        "not enough disk, most usable 15360 MB of 30720 MB asked",
        "asks for 30720 MB, usable are 15360 MB (total 51200 MB x 1.2 - 46080 used)",
        asked={"root_gb": 30},
        alder={"local_gb": 50, "free_disk_gb": 5},
        aggregates=on_alder(disk_allocation_ratio="1.2"),
    ),
    "ExactRamFilter": Case(
        "free RAM is not exactly what is asked",
        "asks for exactly 1024 MB, free are 32768 MB",
        asked={"memory_mb": 1024},
    ),
    "ExactCoreFilter": Case(
        "free vCPUs are not exactly what is asked",
        "asks for exactly 3 vCPUs, free are 16 vCPUs",
        asked={"vcpus": 3},
    ),
    "ExactDiskFilter": Case(
        "free disk is not exactly what is asked",
        "asks for exactly 7168 MB, free are 512000 MB",
        asked={"root_gb": 7},
    ),
    "ComputeCapabilitiesFilter": Case(  # LP#1370948
        "lacks a capability: capabilities:cpu_info:vendor 'AMD'",
        "capabilities:cpu_info:vendor must be 'AMD', found 'Intel'",
        asked={"extra_specs": {"capabilities:cpu_info:vendor": "AMD"}},
    ),
    "AggregateInstanceExtraSpecsFilter": Case(  # LP#1198290
        "not in an aggregate with the extra specs: ssd 'true'",
        "aggregate metadata ssd must be 'true', found false",
        asked={"extra_specs": {"aggregate_instance_extra_specs:ssd": "true"}},
        aggregates=on_alder(ssd="false"),
    ),
    "ImagePropertiesFilter": Case(  # LP#2083518
        "does not support the image's properties: aarch64",
        "image asks for aarch64, the host supports i686/kvm/hvm, x86_64/kvm/hvm with hypervisor version 2.1",
        asked={"image": {"architecture": "aarch64"}},
    ),
    "GroupAffinityFilter": Case(
        "carries no member of the same server group",
        "policy legacy: members of the group are on birch, the host is alder",
        facts=Facts(group=group("legacy", members={"a": "birch"})),
    ),
    "GroupAntiAffinityFilter": Case(
        "carries a member of the same server group",
        "policy legacy: members of the group are on alder, the host is alder",
        facts=Facts(group=group("legacy", members={"a": "alder"})),
    ),
    "ServerGroupAffinityFilter": Case(
        "carries no member of the same server group",
        "policy affinity: members of the group are on birch, the host is alder",
        facts=Facts(group=group("affinity", members={"a": "birch"})),
    ),
    "ServerGroupAntiAffinityFilter": Case(  # LP#1781710
        "carries a member of the same server group",
        "policy anti-affinity: members of the group are on alder, the host is alder",
        facts=Facts(group=group("anti-affinity", members={"a": "alder"})),
    ),
    "IsolatedHostsFilter": Case(  # LP#1746483
        "image and host are not isolated together",
        "the host is isolated, image None is not",
        asked={"image_id": None},
        options={"isolated_hosts": ("alder",), "isolated_images": ("image-2",)},
    ),
    "AggregateImagePropertiesIsolation": Case(  # LP#1537062
        "its aggregates want other image properties",
        "aggregates want os in windows, the image has linux",
        asked={"image": {"os": "linux"}},
        aggregates=on_alder(os="windows"),
    ),
    "AggregateMultiTenancyIsolation": Case(  # LP#1413087
        "kept for other projects",
        "aggregates allow projects t1, t2, the request is of project-1",
        aggregates=on_alder(filter_tenant_id="t1, t2"),
    ),
    "IoOpsFilter": Case(  # LP#1295558
        "too many I/O operations, fewest found 8",
        "num_io_ops is 8, must be below 8",
        alder={"stats": {"io_workload": "8"}},
        options={"max_io_ops_per_host": 8},
    ),
    "AggregateIoOpsFilter": Case(
        "too many I/O operations, fewest found 3",
        "num_io_ops is 3, must be below 2",
        alder={"stats": {"io_workload": "3"}},
        aggregates=on_alder(max_io_ops_per_host="2"),
    ),
    "NumInstancesFilter": Case(
        "too many instances, fewest found 50",
        "num_instances is 50, must be below 50",
        alder={"stats": {"num_instances": "50"}},
    ),
    "AggregateNumInstancesFilter": Case(
        "too many instances, fewest found 6",
        "num_instances is 6, must be below 5",
        alder={"stats": {"num_instances": "6"}},
        aggregates=on_alder(max_instances_per_host="5"),
    ),
    "JsonFilter": Case(
        "does not match the query",
        'does not match the query [">=", "$free_ram_mb", 900000]',
        asked={"hints": {"query": '[">=", "$free_ram_mb", 900000]'}},
    ),
    "MetricsFilter": Case(  # LP#1499271
        "lacks a metric: cpu.percent",
        "does not report cpu.percent",
        weighing={"metrics_weight_setting": ("cpu.percent=-1.0",)},
    ),
    "NUMATopologyFilter": Case(  # LP#1369984
        "the guest's NUMA cells do not fit",
        "asks for cells of 2 CPUs 512 MB, 2 CPUs 512 MB; the host has cells with 0 of 2 CPUs and 0 of 1024 MB used",
        asked={
            "numa": InstanceTopology(
                (InstanceCell(0, frozenset({0, 1}), 512), InstanceCell(1, frozenset({2, 3}), 512))
            )
        },
        alder={"numa_topology": CELL},
    ),
    "PciPassthroughFilter": Case(  # LP#1986838
        "not enough matching PCI devices",
        "asks for 1 x [{'product_id': '1520'}], 1 x [{'vendor_id': '8086'}]; free are 1 x {'vendor_id': '8086', 'product_id': '1520'}",
        asked={
            "pci_requests": (
                PciRequest(1, ({"vendor_id": "8086"},)),
                PciRequest(1, ({"product_id": "1520"},)),
            )
        },
        alder={"pci_stats": POOL},
    ),
    "DifferentHostFilter": Case(  # LP#1017988
        "runs an instance that must be on a different host",
        "hint different_host: the instances are on alder, the host is alder",
        asked={"hints": {"different_host": "a"}},
        facts=Facts(hinted_instances={"a": instance("a", "alder")}),
    ),
    "SameHostFilter": Case(  # LP#1017988
        "runs none of the instances that must be on the same host",
        "hint same_host: the instances are on birch, the host is alder",
        asked={"hints": {"same_host": "a"}},
        facts=Facts(hinted_instances={"a": RUNNING}),
    ),
    "SimpleCIDRAffinityFilter": Case(
        "not in the network asked for",
        "wants an address in 192.0.2.0/24, the host has 10.20.0.5",
        asked={"hints": {"build_near_host_ip": "192.0.2.7", "cidr": "/24"}},
    ),
    "TrustedFilter": Case(  # LP#1373993
        "not at the trust level asked for",
        "asks for a trusted host, this one is untrusted",
        asked={"extra_specs": {"trust:trusted_host": "trusted"}},
        facts=Facts(trust_levels={"alder.lab": "untrusted"}),
    ),
    "TypeAffinityFilter": Case(
        "runs guests of another flavor",
        "runs guests of another flavor",
        facts=Facts(instances_by_host={"alder": (instance("a", "alder", instance_type_id=9),)}),
    ),
    "AggregateTypeAffinityFilter": Case(  # LP#1399204
        "kept for other flavors",
        "aggregates allow flavors m1.nano, m1.small, the request has lab.small",
        aggregates=on_alder(instance_type="m1.nano, m1.small"),
    ),
}


def decide(name: str, case: Case, detail: Detail):
    chosen = settings([name], options=case.options, weighing=case.weighing)
    table = builders.table(host("alder", **case.alder), aggregates=case.aggregates)
    driver = FilterDriver.from_settings(chosen)
    return driver.decide(request(**case.asked), table.overlay(), case.facts, np.random.default_rng(1), detail)


@pytest.mark.parametrize("name", CASES)
def test_the_sentence_of_each_filter(name: str):
    case = CASES[name]
    decision = decide(name, case, Detail.COUNTS)
    (refusal,) = decision.refusals
    assert refusal.reason == f"1 host: 1 {name} ({case.said})"
    assert "alder" not in refusal.reason
    assert emptied_by(decision.explanation) == name
    (step,) = decision.explanation.rounds[0].steps
    assert (step.hosts_in, step.hosts_out, step.reason) == (1, 0, case.said)
    ((who, why),) = step.refused
    assert who == ("alder", "alder.lab")
    assert why == case.about_alder


def test_every_filter_that_can_refuse_has_its_case():
    known = {source.path.rpartition(":")[2] for source in registry.known("filters")}
    assert known - set(CASES) == {"AllHostsFilter"}


def test_filters_that_refuse_one_after_the_other_are_all_told_and_earlier_tries_too():
    rows = [
        host("alder", free_ram_mb=1024),
        host("birch", age_seconds=900),
        host("cedar"),
        host("maple", disabled=True),
    ]
    asked = request(memory_mb=4096, tried=(("cedar", "cedar.lab"),), ignore_hosts=frozenset({"rowan"}))
    chosen = settings(["RetryFilter", "ComputeFilter", "RamFilter"], options={"ram_allocation_ratio": 1.0})
    driver = FilterDriver.from_settings(chosen)
    decision = driver.decide(asked, builders.table(*rows).overlay(), NO_FACTS, np.random.default_rng(1))
    assert decision.refusals[0].reason == (
        "4 hosts: 1 RetryFilter (already tried for this instance), 2 ComputeFilter (compute service disabled or down: "
        "1 disabled, 1 down), 1 RamFilter (not enough RAM, most usable 1024 MB of 4096 MB asked)"
    )


def test_the_sentence_and_the_names_in_the_record_are_bounded():
    rows = [host(f"host-{number:03}", free_ram_mb=1) for number in range(300)]
    chosen = settings(["RamFilter"], options={"ram_allocation_ratio": 1.0})
    driver = FilterDriver.from_settings(chosen)
    decision = driver.decide(request(), builders.table(*rows).overlay(), NO_FACTS, np.random.default_rng(1))
    assert len(decision.refusals[0].reason) <= REASON_MAX
    assert len(decision.explanation.rounds[0].steps[0].refused) == TELLING_MAX

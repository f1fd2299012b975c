"""What holds for every filter and weigher of the catalogue, whatever the hosts look like."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
import pytest

from nova_sched.hosts.schema import HOST_COLUMNS
from nova_sched.hosts.table import HostTable
from nova_sched.model.facts import Facts
from nova_sched.model.numa import InstanceCell, InstanceTopology
from nova_sched.model.pci import PciRequest
from nova_sched.plugins import registry
from nova_sched.testing import builders
from nova_sched.testing.builders import aggregate, group, host, instance, request
from nova_sched.testing.deciding import settings

FILTERS = sorted({source.path.rpartition(":")[2] for source in registry.known("filters")})
WEIGHERS = sorted({source.path.rpartition(":")[2] for source in registry.known("weighers")})

#: Filters that Juno asked in the first round of a request only.
ONCE = {
    "AllHostsFilter",
    "AvailabilityZoneFilter",
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "AggregateInstanceExtraSpecsFilter",
    "AggregateImagePropertiesIsolation",
    "AggregateMultiTenancyIsolation",
    "AggregateTypeAffinityFilter",
    "IsolatedHostsFilter",
    "DifferentHostFilter",
    "SameHostFilter",
    "SimpleCIDRAffinityFilter",
}
_IDENTITY = {"id": None, "host": "empty", "node": "empty.lab", "disabled": False, "allocation_generation": 0}


def rows() -> Iterator[dict]:
    """A healthy host, one of NULLs, one of broken texts, one of odd but valid JSON, one that nothing fits."""
    yield host("healthy")
    yield {column: _IDENTITY.get(column) for column in HOST_COLUMNS}
    texts = ("stats", "metrics", "pci_stats", "numa_topology", "cpu_info", "supported_instances")
    yield host("broken", **dict.fromkeys(texts, "{]"), host_ip="?")
    yield host(
        "odd",
        stats=[1],
        metrics={"a": 1},
        pci_stats=[1],
        numa_topology=[],
        cpu_info=[],
        supported_instances=["x"],
    )
    yield host(
        "full",
        free_ram_mb=-9,
        vcpus_used=999,
        free_disk_gb=-9,
        stats={"num_instances": 99, "io_workload": 99},
    )


def table() -> HostTable:
    """These rows with aggregates whose metadata make sense to nobody."""
    junk = {
        "ram_allocation_ratio": "x",
        "max_io_ops_per_host": "",
        "availability_zone": ",",
        "instance_type": "\u0442",
    }
    return builders.table(*rows(), aggregates=[aggregate("junk", ["healthy", "odd"], junk)])


ASKED = request(
    extra_specs={"capabilities:gpu": ">= 1", "hypervisor_type": "xen", "trust:trusted_host": "trusted"},
    image={"architecture": "aarch64", "os": "тест"},
    hints={
        "query": '["and", [">", "$free_ram_mb", 1], ["=", "$stats.a", "b"]]',
        "same_host": ("u1",),
        "different_host": ("u1",),
        "build_near_host_ip": "10.9.9.9",
    },
    availability_zone="nowhere",
    tried=(("healthy", "healthy.lab"),),
    numa=InstanceTopology((InstanceCell(0, frozenset({0}), 64),)),
    pci_requests=(PciRequest(1, ({"vendor_id": "8086"},)),),
)
FACTS = Facts(
    group=group("anti-affinity", "affinity", "legacy", "soft-affinity", members={"u1": "odd"}),
    hinted_instances={"u1": instance("u1", "odd")},
    instances_by_host={"odd": (instance("u1", "odd", instance_type_id=1),)},
)
OPTIONS = {"isolated_hosts": ("healthy",), "isolated_images": ("other",)}
WEIGHING = {"metrics_weight_setting": ("cpu=1",), "metrics_required": False}


@pytest.mark.parametrize("name", FILTERS)
def test_filter_keeps_its_contract(name, caplog):
    """With DEBUG logging on: a boolean per row, nothing raised, nothing changed, bounded sentences without host names."""
    caplog.set_level(logging.DEBUG)
    asked = registry.load_filters(settings([name], options=OPTIONS, weighing=WEIGHING))[0]
    hosts = table()
    view = hosts.overlay().view
    before = {column: hosts.frame.numbers[column].copy() for column in hosts.frame.numbers}
    asked.check(ASKED)
    mask = asked.mask(view, ASKED, FACTS)
    assert mask.dtype == np.bool_
    assert mask.shape == (len(view),)
    assert all(
        np.array_equal(before[column], hosts.frame.numbers[column], equal_nan=True) for column in before
    )
    refused = np.flatnonzero(~mask)
    if len(refused):
        summary = asked.summary(view, refused, ASKED, FACTS)
        assert 0 < len(summary) < 700
        assert not any(row["host"] in summary for row in rows() if row["host"] not in ("odd", "full"))
    for row in refused.tolist():
        assert asked.explain(view, row, ASKED, FACTS)
    for row in range(len(view)):
        assert set(asked.limits(view, row, ASKED)) <= {
            "memory_mb",
            "vcpu",
            "disk_gb",
            "disk_mb",
            "num_instances",
            "io_ops",
            "numa",
            "exact_memory",
            "exact_vcpu",
            "exact_disk",
        }


@pytest.mark.parametrize("name", FILTERS)
def test_answer_for_a_row_depends_on_that_row_only(name):
    """Asked about some rows, in another order, a filter says the same of each."""
    asked = registry.load_filters(settings([name], options=OPTIONS, weighing=WEIGHING))[0]
    view = table().overlay().view
    whole = asked.mask(view, ASKED, FACTS)
    order = np.array([3, 0, 4, 1])
    assert asked.mask(view.take(order), ASKED, FACTS).tolist() == whole[order].tolist()
    assert asked.mask(view.take(np.array([], dtype=np.intp)), ASKED, FACTS).tolist() == []


@pytest.mark.parametrize("name", FILTERS)
def test_asked_once_per_request_as_in_juno(name):
    """What does not depend on earlier guests of the same request is not asked again."""
    asked = registry.load_filters(settings([name]))[0]
    assert asked.name == name
    assert asked.run_once_per_request == (name in ONCE)


@pytest.mark.parametrize("name", FILTERS)
def test_cached_masks_read_static_columns_only(name):
    """A filter with a cache key says the same after every amount, report and claim has changed."""
    asked = registry.load_filters(settings([name], options=OPTIONS))[0]
    if asked.cache_key(ASKED) is None:
        assert name not in ("AllHostsFilter", "AvailabilityZoneFilter", "ImagePropertiesFilter")
        return
    changed = [
        {
            **row,
            **dict.fromkeys(("stats", "metrics", "free_ram_mb", "vcpus_used", "heartbeat_seconds")),
        }
        for row in rows()
    ]
    aggregates = [aggregate("junk", ["healthy", "odd"], {"availability_zone": "nowhere"})]
    before = builders.table(*rows(), aggregates=aggregates).overlay().view
    after = builders.table(*changed, aggregates=aggregates).overlay().view
    assert asked.mask(before, ASKED, FACTS).tolist() == asked.mask(after, ASKED, FACTS).tolist()


@pytest.mark.parametrize("name", WEIGHERS)
def test_weigher_keeps_its_contract(name):
    """A finite number per row and a multiplier, also for hosts of which nothing is known."""
    weigher = registry.load_weighers(settings(weighers=[name], weighing=WEIGHING))[0]
    view = table().overlay().view
    raw = weigher.raw(view, ASKED, FACTS)
    assert np.isfinite(raw.values).all()
    assert raw.values.shape == (len(view),)
    assert np.isfinite(weigher.multiplier(view))

"""Faults that filters of this field have had. Named after their reports; these tests stay as they are."""

from __future__ import annotations

import logging

import pytest

from nova_sched.model.facts import Facts
from nova_sched.model.numa import InstanceCell, InstanceTopology
from nova_sched.model.pci import PciRequest
from nova_sched.settings import Settings
from nova_sched.testing.builders import aggregate, host, instance, request
from nova_sched.testing.deciding import decide, passing, settings
from nova_sched.wire import inbound

ALDER = ["alder"]


@pytest.mark.parametrize(
    "free_mb, asked_mb, passes", [(0, 400, True), (0, 501, False), (-300, 200, True), (-300, 201, False)]
)
def test_lp1016273_overcommit_applies_to_the_whole_machine(free_mb, asked_mb, passes):
    """1000 MB x 1.5 minus what is used, not 1.5 x what is left; free RAM may be negative."""
    found = passing("RamFilter", [host(memory_mb=1000, free_ram_mb=free_mb)], request(memory_mb=asked_mb))
    assert found == (ALDER if passes else [])


@pytest.mark.parametrize(
    "name, row, asked, options",
    [
        ("CoreFilter", {"vcpus": 8}, {"vcpus": 16}, {"cpu_allocation_ratio": 16.0}),
        (
            "RamFilter",
            {"memory_mb": 8192, "free_ram_mb": 8192},
            {"memory_mb": 10240},
            {"ram_allocation_ratio": 2.0},
        ),
        ("DiskFilter", {"local_gb": 8, "free_disk_gb": 8}, {"root_gb": 10}, {"disk_allocation_ratio": 2.0}),
    ],
)
def test_lp1485631_one_guest_is_never_larger_than_the_machine(name, row, asked, options):
    """Overcommit is between guests."""
    assert passing(name, [host(**row)], request(**asked), options=options) == []


@pytest.mark.parametrize(
    "name, key, limit",
    [
        ("AggregateCoreFilter", "cpu_allocation_ratio", "vcpu"),
        ("AggregateRamFilter", "ram_allocation_ratio", "memory_mb"),
        ("AggregateDiskFilter", "disk_allocation_ratio", "disk_mb"),
    ],
)
def test_lp1431746_aggregate_ratios_compare_as_numbers(name, key, limit):
    """9 and 10 give 9, though '10' is the smaller text."""
    own = [aggregate("a", ["alder"], {key: "9"}), aggregate("b", ["alder"], {key: "10"})]
    row = host(vcpus=1000, memory_mb=1000, free_ram_mb=1000, local_gb=1000, free_disk_gb=1000)
    asked = request(vcpus=1, memory_mb=1, root_gb=1)
    limits = decide([row], asked, settings([name]), aggregates=own).placements[0].limits
    assert getattr(limits, limit) == 9 * (1024 * 1000 if limit == "disk_mb" else 1000)


def test_lp1804125_the_aggregate_ratio_is_the_only_ratio_of_its_hosts():
    """A host that is full by the global ratio takes guests up to its aggregate's."""
    own = [aggregate("a", ["alder"], {"cpu_allocation_ratio": "4"})]
    rows = [host(vcpus=4, vcpus_used=4), host("birch", vcpus=4, vcpus_used=4)]
    chosen = {"cpu_allocation_ratio": 1.0}
    assert passing("AggregateCoreFilter", rows, request(), options=chosen, aggregates=own) == ALDER


def test_lp1198290_extra_specs_of_own_scope_match_and_foreign_scopes_are_skipped():
    """The aggregate filter goes together with others."""
    own = [aggregate("a", ["alder"], {"ssd": "true"})]
    specs = {
        "aggregate_instance_extra_specs:ssd": "true",
        "capabilities:vcpus_total": ">= 900",
        "hw:mem": "any",
    }
    rows = [host(), host("birch")]
    assert (
        passing("AggregateInstanceExtraSpecsFilter", rows, request(extra_specs=specs), aggregates=own)
        == ALDER
    )


@pytest.mark.parametrize(
    "name, key, text, asked",
    [
        ("AggregateMultiTenancyIsolation", "filter_tenant_id", "t1, project-1", {}),
        ("AvailabilityZoneFilter", "availability_zone", "north,south", {"availability_zone": "south"}),
        ("AggregateImagePropertiesIsolation", "os", "linux , windows", {"image": {"os": "windows"}}),
        ("AggregateInstanceExtraSpecsFilter", "tier", "1,2", {"extra_specs": {"tier": "2"}}),
        ("AggregateTypeAffinityFilter", "instance_type", "lab.big,lab.small", {}),
    ],
)
def test_lp1413087_aggregate_metadata_are_comma_lists(name, key, text, asked):
    """Every value of the list counts, with or without blanks."""
    assert passing(name, [host()], request(**asked), aggregates=[aggregate("a", ALDER, {key: text})]) == ALDER


@pytest.mark.parametrize("image", [{}, {"os": "linux"}])
def test_lp1537062_free_form_metadata_harm_no_image(image):
    """A key that no image knows is skipped."""
    own = [aggregate("a", ALDER, {"rack": "r7"})]
    assert (
        passing("AggregateImagePropertiesIsolation", [host()], request(image=image), aggregates=own) == ALDER
    )


def test_unmarked_images_stay_off_marked_aggregates_on_request():
    """Isolation works both ways with the strict option (placement-req-filter-forbidden-aggregates)."""
    own = [aggregate("a", ALDER, {"os_distro": "windows", "availability_zone": "east"})]
    rows = [host(), host("birch")]
    strict = {"aggregate_image_properties_isolation_strict": True}

    def where(properties, options):
        asked = request(image=properties)
        return passing("AggregateImagePropertiesIsolation", rows, asked, aggregates=own, options=options)

    assert where({}, {}) == ["alder", "birch"]
    assert where({}, strict) == ["birch"]
    assert where({"os_distro": "windows"}, strict) == ["alder", "birch"]


def test_lp1986838_one_device_serves_one_request():
    """Two requests for one device each need two devices."""
    one = PciRequest(1, ({"vendor_id": "8086"},))
    rows = [
        host(pci_stats=[{"vendor_id": "8086", "count": 1}]),
        host("birch", pci_stats=[{"vendor_id": "8086", "count": 2}]),
    ]
    assert passing("PciPassthroughFilter", rows, request(pci_requests=(one, one))) == ["birch"]


def test_lp1239009_swap_counts_in_its_own_unit():
    """root 10 GB + swap 2048 MB do not fit 11 GB, and fit 12."""
    rows = [host(free_disk_gb=11), host("birch", free_disk_gb=12)]
    assert passing("DiskFilter", rows, request(root_gb=10, swap_mb=2048)) == ["birch"]


@pytest.mark.parametrize(
    "free_gb, least_gb, usable_gb",
    [(3072, 3333, 3072), (1024, None, 1024), (None, 512, 512), (8192, 8888, 8192)],
)
def test_lp1253599_free_disk_is_the_smaller_known_counter(free_gb, least_gb, usable_gb):
    """Of free_disk_gb and disk_available_least."""
    row = host(local_gb=9999, free_disk_gb=free_gb, disk_available_least=least_gb)
    exact = {"ephemeral_gb": 0}
    assert passing("ExactDiskFilter", [row], request(root_gb=usable_gb, **exact)) == ALDER


def test_lp1186881_numbers_equal_their_text():
    """A host's 1 meets a flavor's '1'."""
    specs = {"capabilities:opt1": "1", "capabilities:vcpus_total": "16"}
    assert (
        passing("ComputeCapabilitiesFilter", [host(stats={"opt1": 1})], request(extra_specs=specs)) == ALDER
    )


@pytest.mark.parametrize(
    "text, passes", [('{"topology": {"cores": 2}}', True), ('{"topology": 2}', False), ("{broken", False)]
)
def test_lp1331176_json_texts_are_descended_into(text, passes):
    """Broken JSON refuses that host with a reason, without a traceback."""
    asked = request(extra_specs={"capabilities:cpu_info:topology:cores": "2"})
    decision = decide([host(cpu_info=text)], asked, settings(["ComputeCapabilitiesFilter"]))
    assert bool(decision.placements) == passes
    assert passes or "capabilities:cpu_info:topology:cores" in decision.refusals[0].reason


@pytest.mark.parametrize(
    "requirement, passes",
    [
        ("<or> 11 <or> 12 <or>", True),
        ("<or> 11 <or>", False),
        (">=", False),
        ("s==", False),
        ("<in>", False),
        ("== x", False),
        (" ", False),
    ],
)
def test_lp1038979_no_operator_input_raises(requirement, passes):
    """A dangling <or> is ignored, an operator without operand matches nothing."""
    specs = {"capabilities:opt": requirement}
    found = passing("ComputeCapabilitiesFilter", [host(stats={"opt": "12"})], request(extra_specs=specs))
    assert found == (ALDER if passes else [])


@pytest.mark.parametrize("requirement, passes", [("x86_64", True), ("x86", False), ("s== x86_64", True)])
def test_lp1037503_plain_text_is_equality(requirement, passes):
    """No operator means s==."""
    specs = {"capabilities:cpu_info:arch": requirement}
    assert passing("ComputeCapabilitiesFilter", [host()], request(extra_specs=specs)) == (
        ALDER if passes else []
    )


@pytest.mark.parametrize(
    "value, requirement, passes", [("9", "= 8", True), ("9", "== 8", False), ("8.0", "== 8", True)]
)
def test_lp1037503_equals_sign_means_at_least(value, requirement, passes):
    """Historic, and == is numeric equality."""
    specs = {"capabilities:opt": requirement}
    row = host(stats={"opt": value})
    assert passing("ComputeCapabilitiesFilter", [row], request(extra_specs=specs)) == (
        ALDER if passes else []
    )


def message(**filter_properties):
    """A request as it comes over the wire."""
    spec = {
        "instance_properties": {"memory_mb": 1, "vcpus": 1},
        "instance_type": {
            "memory_mb": 1,
            "vcpus": 1,
            "root_gb": 1,
            "ephemeral_gb": 0,
            **filter_properties.pop("flavor", {}),
        },
        "instance_uuids": ["c0de0000-0000-4000-8000-000000000001"],
        "image": {},
    }
    args = {"request_spec": spec, "filter_properties": filter_properties}
    return inbound.of("run_instance", {"project_id": "p"}, args, Settings())


@pytest.mark.parametrize("flavor", [{}, {"extra_specs": None}, {"extra_specs": {}}])
def test_lp1512511_no_extra_specs_ask_for_nothing(flavor):
    """Missing, null and empty."""
    own = [aggregate("a", ALDER, {"ssd": "true"})]
    for name in ("AggregateInstanceExtraSpecsFilter", "ComputeCapabilitiesFilter"):
        assert passing(name, [host()], message(flavor=flavor), aggregates=own) == ALDER


@pytest.mark.parametrize("text", ["lab.nano,lab.small", "lab.small"])
def test_lp1399204_several_flavors_per_aggregate(text):
    """A list works, and so does one name."""
    own = [aggregate("a", ALDER, {"instance_type": text})]
    assert passing("AggregateTypeAffinityFilter", [host()], request(), aggregates=own) == ALDER


@pytest.mark.parametrize("restrict, names", [(True, ["birch"]), (False, ["alder", "birch"])])
def test_lp1746483_a_request_without_image_is_not_isolated(restrict, names):
    """Volume-backed: off the isolated hosts when these are restricted, else anywhere."""
    options = {
        "isolated_hosts": ("alder",),
        "isolated_images": ("x",),
        "restrict_isolated_hosts_to_isolated_images": restrict,
    }
    assert passing("IsolatedHostsFilter", [host(), host("birch")], message(), options=options) == names


@pytest.mark.parametrize(
    "version, asked, passes", [(2010000, ">=2.9", True), (2009000, ">=2.10", False), (2000000, ">=2.0", True)]
)
def test_lp2083518_versions_compare_as_numbers_without_distutils(version, asked, passes):
    """2.10 is newer than 2.9."""
    image = {"architecture": "x86_64", "hypervisor_version_requires": asked}
    found = passing("ImagePropertiesFilter", [host(hypervisor_version=version)], request(image=image))
    assert found == (ALDER if passes else [])


@pytest.mark.parametrize("hints", [{}, {"scheduler_hints": None}, {"scheduler_hints": {}}])
def test_lp1007573_no_hints_ask_for_nothing(hints):
    """None, empty and absent."""
    for name in ("DifferentHostFilter", "SameHostFilter", "SimpleCIDRAffinityFilter", "JsonFilter"):
        assert passing(name, [host()], message(**hints)) == ALDER


def test_lp1107156_deleted_guests_do_not_count_for_affinity():
    """Facts have live instances only; a uuid that is not among them keeps nobody away."""
    facts = Facts(hinted_instances={"live": instance("live", "birch")})
    asked = request(hints={"different_host": ("deleted", "live")})
    assert passing("DifferentHostFilter", [host(), host("birch")], asked, facts=facts) == ALDER


def test_lp1369984_the_topology_fits_as_a_whole():
    """Two guest cells need two host cells, however large one is."""
    big = {"id": 0, "cpus": "0-63", "mem": {"total": 65536, "used": 0}, "cpu_usage": 0}
    rows = [
        host(numa_topology={"cells": [big]}),
        host("birch", numa_topology={"cells": [big, {**big, "id": 1}]}),
    ]
    cells = tuple(InstanceCell(number, frozenset({number}), 512) for number in range(2))
    assert passing("NUMATopologyFilter", rows, request(numa=InstanceTopology(cells))) == ["birch"]


def test_lp1253875_logging_never_decides(caplog):
    """At DEBUG, a version that is too old is a refusal with wanted and found, not an error of a format string."""
    caplog.set_level(logging.DEBUG)
    image = {"architecture": "x86_64", "hypervisor_version_requires": ">=6.0"}
    decision = decide(
        [host(hypervisor_version=5000000)], request(image=image), settings(["ImagePropertiesFilter"])
    )
    ((_, why),) = decision.explanation.rounds[0].steps[0].refused
    assert ">=6.0" in why
    assert "version 5" in why


def test_lp1790126_any_text_is_safe_to_log(caplog):
    """Names of hosts, zones and hints that are not ASCII, or look like format strings."""
    caplog.set_level(logging.DEBUG)
    asked = request(availability_zone="тест %s {0}", hints={"query": '["=", "$host", "%d тест"]'})
    decision = decide([host("тест-%s")], asked, settings(["JsonFilter", "AvailabilityZoneFilter"]))
    assert decision.refusals

"""Filters on aggregate metadata, and on zones and isolation."""

from __future__ import annotations

import pytest

from nova_sched.testing.builders import aggregate, host, request
from nova_sched.testing.deciding import decide, passing, reason_of, settings

HOSTS = [host("alder"), host("birch"), host("cedar")]
ALL = ["alder", "birch", "cedar"]

SPECS = [
    aggregate("ssd", ["alder", "birch"], {"ssd": "true", "tier": "3", "note": ""}),
    aggregate("fast", ["birch"], {"tier": "5"}),
    aggregate("colon", ["cedar"], {"a:b": "x", "zone": "b, c"}),
]
EXTRA_SPECS = {
    "plain key": ({"ssd": "true"}, ["alder", "birch"]),
    "any value of the host may satisfy it": ({"aggregate_instance_extra_specs:tier": ">= 4"}, ["birch"]),
    "key with a colon": ({"aggregate_instance_extra_specs:a:b": "x"}, ["cedar"]),
    "other scopes are for others": ({"capabilities:vcpus_total": ">= 900"}, ALL),
    "key that nobody has": ({"gpu": "yes"}, []),
    "or": ({"tier": "<or> 1 <or> 3"}, ["alder", "birch"]),
    "comma list, trimmed": ({"zone": "c"}, ["cedar"]),
    "the empty text is a value": ({"note": ""}, ["alder", "birch"]),
    "nothing asked": ({}, ALL),
}


@pytest.mark.parametrize("specs, names", EXTRA_SPECS.values(), ids=EXTRA_SPECS)
def test_extra_specs(specs, names):
    """AggregateInstanceExtraSpecsFilter."""
    asked = request(extra_specs=specs)
    assert passing("AggregateInstanceExtraSpecsFilter", HOSTS, asked, aggregates=SPECS) == names


def test_extra_specs_or_without_value_is_refused():
    """The reason names the filter and the value."""
    chosen = settings(["AggregateInstanceExtraSpecsFilter"])
    reason = reason_of(decide(HOSTS, request(extra_specs={"tier": "<or>"}), chosen, aggregates=SPECS))
    assert "AggregateInstanceExtraSpecsFilter" in reason
    assert "<or>" in reason


IMAGES = [
    aggregate("win", ["alder"], {"lic": "yes", "os": "windows"}),
    aggregate("mix", ["birch"], {"os": "linux, windows", "iso.os": "windows"}),
]
ISOLATION = {
    "one of the values": ({"os": "windows"}, {}, ALL),
    "none of the values": ({"os": "linux"}, {}, ["birch", "cedar"]),
    "property the image lacks": ({"other": "x"}, {}, ALL),
    "every key counts": ({"lic": "no", "os": "windows"}, {}, ["birch", "cedar"]),
    "only the namespace counts": (
        {"os": "plan9", "iso.os": "linux"},
        {"namespace": "iso"},
        ["alder", "cedar"],
    ),
    "separator": ({"iso.os": "linux"}, {"namespace": "iso", "separator": ":"}, ALL),
    "strict keeps unmarked images off": ({}, {"strict": True}, ["cedar"]),
}


@pytest.mark.parametrize("properties, options, names", ISOLATION.values(), ids=ISOLATION)
def test_image_properties(properties, options, names):
    """AggregateImagePropertiesIsolation."""
    named = {f"aggregate_image_properties_isolation_{key}": value for key, value in options.items()}
    asked = request(image=properties)
    found = passing("AggregateImagePropertiesIsolation", HOSTS, asked, aggregates=IMAGES, options=named)
    assert found == names


def test_strict_isolation_leaves_own_keys_alone():
    """Zones, ratios and the like are no properties of images, so strictness does not ask images for them."""
    own = [aggregate("east", ["alder"], {"availability_zone": "east", "ram_allocation_ratio": "2"})]
    strict = {"aggregate_image_properties_isolation_strict": True}
    found = passing("AggregateImagePropertiesIsolation", HOSTS, request(), aggregates=own, options=strict)
    assert found == ALL


LISTS = {
    "project listed": ("AggregateMultiTenancyIsolation", "filter_tenant_id", "t2, project-1", ALL),
    "project not listed": ("AggregateMultiTenancyIsolation", "filter_tenant_id", "t2", ["birch", "cedar"]),
    "empty list allows nobody": (
        "AggregateMultiTenancyIsolation",
        "filter_tenant_id",
        "",
        ["birch", "cedar"],
    ),
    "flavor listed": ("AggregateTypeAffinityFilter", "instance_type", "lab.big,lab.small", ALL),
    "flavor not listed": ("AggregateTypeAffinityFilter", "instance_type", "lab.big", ["birch", "cedar"]),
}


@pytest.mark.parametrize("name, key, text, names", LISTS.values(), ids=LISTS)
def test_hosts_kept_for_some(name, key, text, names):
    """Hosts of the aggregate are for those it lists; others are for all."""
    own = [aggregate("g", ["alder"], {key: text})]
    assert passing(name, HOSTS, request(), aggregates=own) == names


def test_lists_of_several_aggregates_are_joined():
    """A host in two aggregates is for the projects of both."""
    own = [
        aggregate("a", ["alder"], {"filter_tenant_id": "t2"}),
        aggregate("b", ["alder"], {"filter_tenant_id": "project-1"}),
    ]
    assert passing("AggregateMultiTenancyIsolation", HOSTS, request(), aggregates=own) == ALL


ZONES = [
    aggregate("n", ["birch", "cedar"], {"availability_zone": "north"}),
    aggregate("s", ["cedar"], {"availability_zone": "south, west"}),
]


@pytest.mark.parametrize(
    "zone, names",
    [
        ("north", ["birch", "cedar"]),
        ("west", ["cedar"]),
        ("home", ["alder"]),
        ("", ALL),
        (None, ALL),
        ("z\u00fcrich", []),
    ],
)
def test_zone(zone, names):
    """A host in two zones matches either; one in none is in the default zone."""
    options = {"default_availability_zone": "home"}
    asked = request(availability_zone=zone)
    assert passing("AvailabilityZoneFilter", HOSTS, asked, aggregates=ZONES, options=options) == names


@pytest.mark.parametrize(
    "image, images, restrict, names",
    [
        ("iso", ["iso"], True, ["birch", "cedar"]),
        ("plain", ["iso"], True, ["alder"]),
        (None, ["iso"], True, ["alder"]),
        ("plain", ["iso"], False, ALL),
        ("iso", ["iso"], False, ["birch", "cedar"]),
        (None, [], True, ["alder"]),
        (None, [], False, ALL),
    ],
)
def test_isolated_hosts(image, images, restrict, names):
    """Isolated images on isolated hosts; names are trimmed."""
    options = {
        "isolated_hosts": (" birch", "cedar "),
        "isolated_images": tuple(images),
        "restrict_isolated_hosts_to_isolated_images": restrict,
    }
    assert passing("IsolatedHostsFilter", HOSTS, request(image_id=image), options=options) == names

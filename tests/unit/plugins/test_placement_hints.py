"""Retry, liveness, other instances, other guests' flavors, networks."""

from __future__ import annotations

import pytest

from nova_sched.model.facts import Facts
from nova_sched.testing.builders import host, instance, request
from nova_sched.testing.deciding import decide, passing, reason_of, settings

HOSTS = [host("alder"), host("birch"), host("cedar")]
ALL = ["alder", "birch", "cedar"]
RUNNING = {
    "a": instance("a", "alder"),
    "b": instance("b", "birch", instance_type_id=9),
    "c": instance("c", "cedar", project_id="project-2"),
}
FACTS = Facts(
    hinted_instances=RUNNING, instances_by_host={one.host: (one,) for one in RUNNING.values() if one.host}
)


def test_every_host_passes_all_hosts():
    """Also a disabled one."""
    assert passing("AllHostsFilter", [host(disabled=True)], request()) == ["alder"]


@pytest.mark.parametrize(
    "row, up",
    [
        (host(age_seconds=60), True),
        (host(age_seconds=60.5), False),
        (host(age_seconds=-30), True),
        (host(age_seconds=-90), False),
        (host(disabled=True), False),
        (host(heartbeat_seconds=None), False),
    ],
)
def test_compute_service_is_up(row, up):
    """Distance to the last sign of life, in both directions, within service_down_time (60 s)."""
    assert passing("ComputeFilter", [row], request()) == (["alder"] if up else [])


def test_compute_reason_tells_disabled_from_down():
    """Both are counted."""
    rows = [host("a", disabled=True), host("b", age_seconds=100), host("c", age_seconds=200)]
    reason = reason_of(decide(rows, request(), settings(["ComputeFilter"])))
    assert "1 disabled, 2 down" in reason


@pytest.mark.parametrize(
    "tried, names",
    [
        ((), ALL),
        ((("birch", "birch.lab"),), ["alder", "cedar"]),
        ((("alder", None), ("birch", "birch.lab")), ["alder", "cedar"]),
        ((("birch", "other"),), ALL),
    ],
)
def test_retry(tried, names):
    """Host and node must both match."""
    assert passing("RetryFilter", HOSTS, request(tried=tried)) == names


HINTS = {
    "different, one": ("DifferentHostFilter", {"different_host": "a"}, False, ["birch", "cedar"]),
    "different, list": ("DifferentHostFilter", {"different_host": ("a", "b")}, False, ["cedar"]),
    "different, unknown": ("DifferentHostFilter", {"different_host": ("nope",)}, False, ALL),
    "different, of another project": ("DifferentHostFilter", {"different_host": ("c",)}, False, ALL),
    "different, of another project, as admin": (
        "DifferentHostFilter",
        {"different_host": ("c",)},
        True,
        ["alder", "birch"],
    ),
    "different, empty": ("DifferentHostFilter", {"different_host": ()}, False, ALL),
    "same, one": ("SameHostFilter", {"same_host": "a"}, False, ["alder"]),
    "same, list": ("SameHostFilter", {"same_host": ("a", "b")}, False, ["alder", "birch"]),
    "same, unknown": ("SameHostFilter", {"same_host": ("nope",)}, False, []),
    "same, not asked": ("SameHostFilter", {}, False, ALL),
}


@pytest.mark.parametrize("name, hints, is_admin, names", HINTS.values(), ids=HINTS)
def test_hinted_instances(name, hints, is_admin, names):
    """Near or far from instances the caller may see."""
    assert passing(name, HOSTS, request(hints=hints, is_admin=is_admin), facts=FACTS) == names


def test_one_flavor_per_host():
    """A host that runs another flavor is refused; an empty one passes."""
    assert passing("TypeAffinityFilter", [*HOSTS, host("empty")], request(), facts=FACTS) == [
        "alder",
        "cedar",
        "empty",
    ]


NEAR = [
    host("n1", host_ip="10.7.1.5"),
    host("n2", host_ip="10.7.1.200"),
    host("n3", host_ip=None),
    host("n4", host_ip="x"),
]
NETWORKS = {
    "default /24": ({"build_near_host_ip": "10.7.1.77"}, ["n1", "n2"]),
    "/25": ({"build_near_host_ip": "10.7.1.77", "cidr": "/25"}, ["n1"]),
    "empty mask is one address": ({"build_near_host_ip": "10.7.1.5", "cidr": ""}, ["n1"]),
    "mask alone asks nothing": ({"cidr": "/25"}, ["n1", "n2", "n3", "n4"]),
    "IPv6": ({"build_near_host_ip": "fd00::1", "cidr": "/64"}, []),
}


@pytest.mark.parametrize("hints, names", NETWORKS.values(), ids=NETWORKS)
def test_network(hints, names):
    """A host without a usable address is never near."""
    assert passing("SimpleCIDRAffinityFilter", NEAR, request(hints=hints)) == names


@pytest.mark.parametrize(
    "address, mask",
    [
        ("10.7.1.77", "24"),
        ("10.7.1.7", "4"),
        ("10.7.1.300", "/24"),
        ("10.7.1.7", "/33"),
        (("10.7.1.7",), "/24"),
    ],
)
def test_broken_network_is_refused(address, mask):
    """The reason names the filter, the address and the mask."""
    asked = request(hints={"build_near_host_ip": address, "cidr": mask})
    reason = reason_of(decide(NEAR, asked, settings(["SimpleCIDRAffinityFilter"])))
    assert reason.startswith("SimpleCIDRAffinityFilter: ")
    assert mask in reason

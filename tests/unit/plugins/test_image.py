"""ImagePropertiesFilter: names, aliases and version ranges."""

from __future__ import annotations

import pytest

from nova_sched.testing.builders import host, request
from nova_sched.testing.deciding import decide, passing, reason_of, settings

HOSTS = [
    host("kvm"),
    host(
        "xen",
        hypervisor_version=4002001,
        supported_instances=[["x86_64", "xen", "xen"], ["x86_64", "xen", "hvm"]],
    ),
    host("arm", supported_instances=[["aarch64", "kvm", "hvm"]]),
    host("mute", supported_instances=None),
    host("odd", supported_instances='{"x86_64": "kvm"}'),
]
EVERYONE = ["arm", "kvm", "mute", "odd", "xen"]
IMAGES = {
    "architecture": ({"architecture": "x86_64"}, ["kvm", "xen"]),
    "alias": ({"architecture": "amd64"}, ["kvm", "xen"]),
    "upper case": ({"architecture": "X86_64"}, ["kvm", "xen"]),
    "i386 is i686": ({"architecture": "i386"}, ["kvm"]),
    "hypervisor": ({"hypervisor_type": "KVM"}, ["arm", "kvm"]),
    "xapi is xen": ({"hypervisor_type": "xapi"}, ["xen"]),
    "pv is xen": ({"vm_mode": "pv"}, ["xen"]),
    "hv is hvm": ({"vm_mode": "hv"}, ["arm", "kvm", "xen"]),
    "all in one triple": ({"architecture": "i686", "hypervisor_type": "xen"}, []),
    "empty texts are not set": ({"architecture": "", "hypervisor_type": "", "vm_mode": ""}, EVERYONE),
    "version alone is not looked at": ({"hypervisor_version_requires": ">=99.0"}, EVERYONE),
    "a broken range alone is not looked at": ({"hypervisor_version_requires": "newer"}, EVERYONE),
    "no properties": ({}, EVERYONE),
}


@pytest.mark.parametrize("properties, names", IMAGES.values(), ids=IMAGES)
def test_image(properties, names):
    """Which hosts an image may use."""
    assert passing("ImagePropertiesFilter", HOSTS, request(image=properties)) == names


@pytest.mark.parametrize(
    "version, asked, passes",
    [
        (4002001, ">=4.1,<4.3", True),
        (4002001, ">= 4.1 , < 4.2", False),
        (4002001, "==4.2.1", True),
        (4002000, "==4.2", True),
        (4002001, "!=4.2.1", False),
        (2010000, ">2.9", True),
        (2009000, "<2.10", True),
        (4002000, ">4.2b1", True),
        (None, ">=99.0", True),
        (0, ">=99.0", True),
    ],
)
def test_version_range(version, asked, passes):
    """Parts are compared as numbers; an unknown version passes, as in Juno."""
    properties = {"architecture": "x86_64", "hypervisor_version_requires": asked}
    found = passing("ImagePropertiesFilter", [host(hypervisor_version=version)], request(image=properties))
    assert found == (["alder"] if passes else [])


@pytest.mark.parametrize(
    "properties, value",
    [
        ({"hypervisor_type": "bhyve9"}, "bhyve9"),
        ({"architecture": "pdp11"}, "pdp11"),
        ({"vm_mode": "quantum"}, "quantum"),
        ({"architecture": "x86_64", "hypervisor_version_requires": "newer"}, "newer"),
        ({"architecture": "x86_64", "hypervisor_version_requires": ">=4"}, ">=4"),
        ({"architecture": "x86_64", "hypervisor_version_requires": ">=4.1,"}, ">=4.1,"),
    ],
)
def test_broken_property_is_refused(properties, value):
    """The reason names the filter and the value, before any host is looked at."""
    decision = decide(HOSTS, request(image=properties), settings(["ImagePropertiesFilter"]))
    assert "ImagePropertiesFilter" in reason_of(decision)
    assert value in reason_of(decision)
    assert decision.explanation.rounds == ()

"""Extra specs against hosts: operators, paths into attributes and stats, scopes."""

from __future__ import annotations

import pytest

from nova_sched.plugins.filters._operators import match
from nova_sched.testing.builders import host, request
from nova_sched.testing.deciding import decide, passing, reason_of, settings

OPERATORS = [
    ("8", "= 8", True),
    ("9", "= 8", True),
    ("7", "= 8", False),
    ("8", "== 8.0", True),
    ("8", "!= 8", False),
    ("9", ">= 10", False),
    ("10", "<= 10", True),
    ("10", "s< 9", True),
    ("b", "s> a", True),
    ("a", "s!= a", False),
    ("a", "s== a", True),
    ("QEMU", "s>= QEMU", True),
    ("QEMU", "s<= KVM", False),
    ("QEMU", "<in> EM", True),
    ("12", "<or> 11 <or> 12", True),
    ("12", "<or> 11 <or> 12 <or>", True),
    ("c", "<or> lx c <or> xen", False),
    ("x86_64", "x86_64", True),
    ("x86_64", "x86", False),
    ("8", "> 4", False),
    ("> 4", "> 4", True),
    ("8", ">=", False),
    ("", "", True),
    ("QEMU", ">= 4", False),
    ("8", ">= four", False),
    ("16", ">= 8 and <= 12", True),
]


@pytest.mark.parametrize("value, requirement, matches", OPERATORS)
def test_operator(value, requirement, matches):
    """A host's text against a requirement."""
    assert match(value, requirement) is matches


ROW = host(stats={"gpu": "yes", "rank": "10", "num_instances": "3", "nested": {"a": {"b": 1}}})
CAPABILITIES = {
    "attribute": ({"capabilities:vcpus_total": ">= 16"}, True),
    "free disk in MB": ({"capabilities:free_disk_mb": "512000"}, True),
    "disk total in GB": ({"capabilities:total_usable_disk_gb": "500"}, True),
    "whole numbers have no decimals": ({"capabilities:free_ram_mb": "s== 32768"}, True),
    "nested JSON text": ({"capabilities:cpu_info:topology:cores": "== 4"}, True),
    "list as text": ({"capabilities:cpu_info:features": "<in> aes"}, True),
    "path that is too deep": ({"capabilities:cpu_info:topology:cores:more": "4"}, False),
    "stats by fallback": ({"capabilities:gpu": "yes"}, True),
    "stats by path": ({"capabilities:stats:gpu": "s== yes"}, True),
    "deep path in stats": ({"capabilities:nested:a:b": "1"}, True),
    "attribute goes before stats": ({"capabilities:num_instances": "3"}, True),
    "unknown name in scope is strict": ({"capabilities:no_such": "1"}, False),
    "unknown name without scope is for others": ({"no_such": "1"}, True),
    "known name without scope counts": ({"hypervisor_type": "xen"}, False),
    "stats name without scope counts": ({"gpu": "no"}, False),
    "other scopes are for others": ({"hw:cpu_policy": "dedicated"}, True),
    "all must hold": ({"capabilities:gpu": "yes", "capabilities:rank": ">= 11"}, False),
    "text that is not ASCII": ({"capabilities:gpu": "s== z\u00fcrich"}, False),
    "nothing asked": ({}, True),
}


@pytest.mark.parametrize("specs, passes", CAPABILITIES.values(), ids=CAPABILITIES)
def test_capability(specs, passes):
    """One host against extra specs."""
    found = passing("ComputeCapabilitiesFilter", [ROW], request(extra_specs=specs))
    assert found == (["alder"] if passes else [])


BROKEN = {
    "stats a key needs": (host(stats="{"), {"capabilities:gpu": "yes"}, False),
    "stats an unscoped key may need": (host(stats="{"), {"gpu": "yes"}, False),
    "stats nobody needs": (host(stats="{"), {"capabilities:vcpus_total": "16"}, True),
    "unknown attribute falls back to stats": (
        host(hypervisor_type=None, stats={"hypervisor_type": "xen"}),
        {"hypervisor_type": "xen"},
        True,
    ),
    "unknown attribute in neither": (host(hypervisor_type=None), {"hypervisor_type": "xen"}, False),
    "broken cpu_info": (host(cpu_info="{x"), {"capabilities:cpu_info:vendor": "Intel"}, False),
    "empty cpu_info": (host(cpu_info=""), {"capabilities:cpu_info:vendor": "Intel"}, False),
}


@pytest.mark.parametrize("row, specs, passes", BROKEN.values(), ids=BROKEN)
def test_broken_row_costs_itself_only(row, specs, passes):
    """A broken part fails where it is needed; the healthy neighbour passes or fails on its own."""
    healthy = host("birch", hypervisor_type="xen", stats={"gpu": "yes"})
    found = passing("ComputeCapabilitiesFilter", [row, healthy], request(extra_specs=specs))
    assert found == (["alder", "birch"] if passes else ["birch"])


def test_or_without_a_value_is_refused():
    """The reason names the filter and the value."""
    asked = request(extra_specs={"capabilities:hypervisor_type": "<or>"})
    reason = reason_of(decide([ROW], asked, settings(["ComputeCapabilitiesFilter"])))
    assert "ComputeCapabilitiesFilter" in reason
    assert "<or>" in reason


def test_reason_names_the_requirement_that_failed():
    """Only what failed is said, with what was found."""
    asked = request(extra_specs={"capabilities:gpu": "yes", "capabilities:rank": ">= 11"})
    decision = decide([ROW], asked, settings(["ComputeCapabilitiesFilter"]))
    assert "lacks a capability: capabilities:rank '>= 11'" in reason_of(decision)
    ((_, why),) = decision.explanation.rounds[0].steps[0].refused
    assert why == "capabilities:rank must be '>= 11', found '10'"

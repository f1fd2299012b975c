"""The public package blazar-nova, installed as it is, runs in this scheduler: its filter, its options, its imports."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from nova_sched.plugins.nova import imports
from nova_sched.testing.builders import aggregate, host, request
from nova_sched.testing.deciding import decide, reason_of, settings

FILTER = "blazarnova.scheduler.filters.blazar_filter.BlazarFilter"

HOSTS = [host("free"), host("pool"), host("lease"), host("plain")]
AGGREGATES = [
    aggregate("freepool", ["free", "pool"], {}),
    aggregate("r-1", ["lease"], {"availability_zone": "blazar_r-1", "blazar:owner": "project-1"}),
    aggregate("r-2", ["pool"], {"availability_zone": "blazar_r-2", "blazar:owner": "project-2"}),
]


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory):
    """blazar-nova in a folder of its own; what it needs besides Nova is among our requirements."""
    folder = tmp_path_factory.mktemp("blazar")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder),
        "blazar-nova",
    ]
    subprocess.run(command, check=True, capture_output=True)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    yield
    sys.path.remove(str(folder))
    imports.remove()
    for name in [name for name in sys.modules if name.partition(".")[0] == "blazarnova"]:
        del sys.modules[name]


def passing(asked):
    """Hosts that BlazarFilter passes, and the whole decision."""
    available = ("nova.scheduler.filters.all_filters", FILTER)
    chosen = settings(["BlazarFilter", "RamFilter"], available=available, nova_imports=True)
    decision = decide(HOSTS, asked, chosen, aggregates=AGGREGATES)
    step = decision.explanation.rounds[0].steps[0]
    assert step.name == "BlazarFilter"
    return sorted(name for name, _ in step.hosts), decision


def test_without_a_reservation_pools_are_left_alone():
    """Hosts of the free pool and of leases are kept from ordinary requests."""
    assert passing(request())[0] == ["plain"]


def test_the_owner_of_a_lease_gets_its_hosts():
    """The hint names the aggregate, its metadata the owner."""
    assert passing(request(hints={"reservation": "r-1"}))[0] == ["lease"]
    assert passing(request(hints={"reservation": ("r-1",)}))[0] == ["lease"]


def test_somebody_elses_lease_is_refused():
    """The reason names the filter."""
    names, decision = passing(request(hints={"reservation": ("r-2",)}))
    assert names == []
    assert "BlazarFilter" in reason_of(decision)


def test_an_instance_reservation_is_left_to_other_filters():
    """The extra spec is another filter's business."""
    specs = {"aggregate_instance_extra_specs:reservation": "r-9"}
    assert passing(request(extra_specs=specs))[0] == ["free", "lease", "plain", "pool"]


def test_its_own_options_count():
    """Options that it registers on oslo.config's CONF work as in Nova."""
    config = importlib.import_module("oslo_config.cfg").CONF
    asked = request(extra_specs={"blazar:preemptible": "true"})
    assert passing(asked)[0] == ["plain"]
    config.set_override("allow_preemptibles", True, "blazar:physical:host")
    try:
        assert passing(asked)[0] == ["free"]
    finally:
        config.clear_override("allow_preemptibles", "blazar:physical:host")


def test_each_instance_of_a_request_is_placed():
    """It asks to be run once per request, and is."""
    _, decision = passing(request(count=2))
    assert [step.name for step in decision.explanation.rounds[1].steps] == ["RamFilter"]

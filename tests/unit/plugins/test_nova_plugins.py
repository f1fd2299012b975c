"""Filters and weighers written for Nova: which age they are of, what they read, what happens when they break."""

from __future__ import annotations

import importlib
import sys
import textwrap

import pytest

from nova_sched.errors import ConfigurationError, PluginError
from nova_sched.model.facts import NO_FACTS, Fact, Facts
from nova_sched.model.numa import InstanceCell, InstanceTopology
from nova_sched.model.pci import PciRequest
from nova_sched.model.request import Passthrough, Retry
from nova_sched.plugins import registry
from nova_sched.plugins.nova import imports
from nova_sched.testing.builders import aggregate, group, host, instance, instance_uuid, request
from nova_sched.testing.deciding import decide, hosts_chosen, settings, weights

HOSTS = [
    host(
        "alder", free_ram_mb=24000, metrics=[{"name": "cpu", "value": 0.5, "source": "s", "timestamp": "t"}]
    ),
    host(
        "birch",
        free_ram_mb=16000,
        numa_topology={"cells": [{"id": 0, "cpus": "0-3", "mem": {"total": 64, "used": 1}}]},
    ),
]
AGGREGATES = [aggregate("east", ["birch"], {"availability_zone": "east", "weight": "3"})]


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Write a module of plugins and get its dotted name; Nova's modules are importable meanwhile."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"plugins_{tmp_path.name.replace('-', '_')}"

    def write(source: str) -> str:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        return name

    yield write
    sys.modules.pop(name, None)
    imports.remove()


def run(path: str, asked, facts=NO_FACTS):
    """Decision with one foreign filter in front of RamFilter."""
    available = ("nova.scheduler.filters.all_filters", path)
    chosen = settings([path.rpartition(".")[2], "RamFilter"], available=available, nova_imports=True)
    return decide(HOSTS, asked, chosen, aggregates=AGGREGATES, facts=facts)


JUNO = """
    from oslo.config import cfg
    from nova.i18n import _LW
    from nova.openstack.common import log as logging
    from nova.scheduler import filters

    LOG = logging.getLogger(__name__)
    seen = {}

    class OldFilter(filters.BaseHostFilter):
        def host_passes(self, host_state, filter_properties):
            LOG.debug(_LW("looking at %s"), host_state)
            seen[host_state.host] = host_state.metrics, host_state.numa_topology
            seen["properties"] = filter_properties
            spec = filter_properties["request_spec"]
            host_state.limits["memory_mb"] = 1
            host_state.free_ram_mb = -10**9
            filter_properties["instance_type"]["memory_mb"] = 0
            spec["instance_properties"].clear()
            return host_state.nodename != "alder.lab"
"""


def test_a_filter_of_junos_time_gets_dictionaries(plugin):
    """It reads filter_properties as Juno had them; what it writes stays with it."""
    path = plugin(JUNO)
    given = Passthrough(
        request_spec={"instance_properties": {"display_name": "тест"}},
        filter_properties={"pci_requests": None},
    )
    asked = request(hints={"query": ("a",)}, passthrough=given)
    decision = run(f"{path}.OldFilter", asked, Facts(group=group("soft-affinity", members={"u": "birch"})))
    assert hosts_chosen(decision) == ["birch"]
    assert decision.placements[0].limits.memory_mb == 32768 * 1.5
    seen = sys.modules[path].seen
    assert seen["alder"][0]["cpu"].value == 0.5
    assert '"total":64' in seen["birch"][1]
    properties = seen["properties"]
    assert properties["scheduler_hints"] == {"query": ["a"]}
    assert properties["group_hosts"] == {"birch"}
    assert properties["context"].elevated().is_admin
    assert not properties["context"].is_admin
    assert properties["request_spec"]["image"] == {"properties": {}}
    assert given.request_spec["instance_properties"] == {"display_name": "тест"}


TODAY = """
    from nova.scheduler import filters
    from nova.scheduler.filters import utils

    seen = {}

    class NewFilter(filters.BaseHostFilter):
        run_filter_once_per_request = True
        RUN_ON_REBUILD = False

        def host_passes(self, host_state, spec_obj):
            seen["host"], seen["spec"] = host_state, spec_obj
            seen["values"] = utils.aggregate_values_from_key(host_state, "weight")
            return spec_obj.get_scheduler_hint("rack", "none") == "r1" and not host_state.instances
"""


def test_a_filter_of_today_gets_objects(plugin):
    """HostState and RequestSpec have the attributes that such filters read."""
    path = plugin(TODAY)
    asked = request(
        hints={"rack": ("r1",), "plain": "x"},
        extra_specs={"a": "b"},
        image={"architecture": "x86_64"},
        tried=(("x", "x.lab"),),
        retry=Retry(2),
        attempt=2,
        ignore_hosts=frozenset({"zeder"}),
        numa=InstanceTopology((InstanceCell(0, frozenset({0, 1}), 64),)),
        pci_requests=(PciRequest(1, ({"vendor_id": "8086"},)),),
    )
    facts = Facts(
        group=group("anti-affinity", members={"u": "alder"}),
        instances_by_host={"alder": (instance("u", "alder"),)},
    )
    available = ("nova.scheduler.filters.all_filters", f"{path}.NewFilter")
    names = ["NewFilter", "ServerGroupAntiAffinityFilter", "PciPassthroughFilter"]
    chosen = settings(names, available=available, nova_imports=True)
    decision = decide(HOSTS, asked, chosen, aggregates=AGGREGATES, facts=facts)
    assert [step.hosts_out for step in decision.explanation.rounds[0].steps] == [1, 1, 0]
    seen = sys.modules[path].seen
    found, spec = seen["host"], seen["spec"]
    assert seen["values"] == {"3"}
    assert (found.host, found.nodename, found.free_ram_mb, found.total_usable_disk_gb) == (
        "birch",
        "birch.lab",
        16000,
        500,
    )
    assert (found.cpu_allocation_ratio, found.ram_allocation_ratio, found.vcpus_total) == (16.0, 1.5, 16)
    assert [one.name for one in found.aggregates] == ["east"]
    assert found.aggregates[0].availability_zone == "east"
    assert found.numa_topology.cells[0].cpuset == {0, 1, 2, 3}
    assert found.supported_hv_specs[0].hv_type == "kvm"
    assert not found.pci_stats.support_requests(spec.pci_requests.requests)
    assert found.service["host"] == "birch"
    assert found.uuid != found.aggregates[0].uuid
    with pytest.raises(AttributeError, match="no_such"):
        _ = found.no_such
    assert repr(found).startswith("(birch, birch.lab) ram: 16000MB")
    assert spec.flavor.extra_specs == {"a": "b"}
    assert spec.image.properties.get("hw_architecture") == "x86_64"
    assert spec.image.properties.architecture == "x86_64"
    assert "hw_vm_mode" not in spec.image.properties
    assert spec.get_scheduler_hint("plain") == "x"
    assert spec.get_scheduler_hint("absent") is None
    assert spec.instance_group.policy == "anti-affinity"
    assert spec.instance_group.hosts == ["alder"]
    assert spec.retry.num_attempts == 2
    assert spec.retry.hosts[0].host == "x"
    assert (spec.ignore_hosts, spec.force_hosts, spec.is_bfv) == (["zeder"], None, False)
    assert (spec.vcpus, spec.memory_mb, spec.root_gb, spec.ephemeral_gb, spec.swap) == (2, 2048, 20, 0, 0)
    assert spec.numa_topology.cells[0].memory == 64
    assert spec.instance_uuid == instance_uuid(0)
    assert spec.requested_destination is None
    assert spec.to_legacy_request_spec_dict()["instance_type"]["vcpus"] == 2
    assert spec.obj_attr_is_set("flavor")


WEIGHER = """
    from nova.scheduler import utils, weights

    class OurWeigher(weights.BaseHostWeigher):
        minval = 0

        def weight_multiplier(self, host_state):
            return utils.get_weight_multiplier(host_state, "weight", 1.0)

        def _weigh_object(self, host_state, weight_properties):
            assert weight_properties.get("scheduler_hints") == {}
            assert weight_properties.flavor.vcpus == 2
            return host_state.free_ram_mb

    class OldWeigher(object):
        weight_multiplier = -1.0

        def _weigh_object(self, host_state, weight_properties):
            return host_state.num_instances
"""


def test_a_weigher_of_nova_weighs(plugin):
    """Floor, multiplier per host, and the older form without the base class."""
    path = plugin(WEIGHER)
    chosen = settings(weighers=[f"{path}.OurWeigher", f"{path}.OldWeigher"], nova_imports=True)
    assert weights(decide(HOSTS, request(), chosen, aggregates=AGGREGATES)) == {"birch": 2.0, "alder": 1.0}


def test_a_plugin_that_raises_is_named(plugin):
    """PluginError says which; the overlay is as before."""
    path = plugin("""
        class BadFilter:
            def host_passes(self, host_state, spec_obj):
                raise ZeroDivisionError("oops")
    """)
    with pytest.raises(PluginError, match="BadFilter failed: ZeroDivisionError: oops"):
        run(f"{path}.BadFilter", request())


@pytest.mark.parametrize(
    "source, why",
    [
        ("class Odd:\n    def host_passes(self): return True", "arguments for the host and the request"),
        (
            "class Odd:\n    def __init__(self, x): pass\n    def host_passes(self, h, s): return True",
            "without arguments",
        ),
    ],
)
def test_a_plugin_that_cannot_be_made_stops_the_start(plugin, source, why):
    """The option, the class and what is expected of it."""
    path = plugin(source)
    with pytest.raises(ConfigurationError, match=why):
        run(f"{path}.Odd", request())


@pytest.mark.parametrize("source, name, read", [(TODAY, "NewFilter", True), (JUNO, "OldFilter", False)])
def test_instances_are_loaded_for_plugins_that_read_them(plugin, source, name, read):
    """That read is large, so it is made only for code that names the attribute."""
    path = f"{plugin(source)}.{name}"
    adapted = registry.load_filters(settings([path], available=[path], nova_imports=True))[0]
    assert (Fact.INSTANCES_BY_HOST in adapted.needs) == read
    assert f"{type(adapted).__module__}.{type(adapted).__name__}" == path


def test_without_the_option_nothing_of_nova_is_importable():
    """The finder is opt-in, and undone by remove()."""
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nova.scheduler.filters")
    try:
        assert "nova" in imports.install()
        assert imports.install() == imports.install()
        assert importlib.import_module("nova.conf").CONF is importlib.import_module("oslo_config.cfg").CONF
        with pytest.raises(ModuleNotFoundError, match=r"nova\.compute"):
            importlib.import_module("nova.compute")
    finally:
        imports.remove()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nova.scheduler.filters")


def test_helpers_that_nova_plugins_call():
    """nova.scheduler.filters.utils and extra_specs_ops."""
    imports.install()
    try:
        utils = importlib.import_module("nova.scheduler.filters.utils")
        operators = importlib.import_module("nova.scheduler.filters.extra_specs_ops")
    finally:
        imports.remove()
    assert utils.validate_num_values({"10", "9"}, default=1) == 9
    assert utils.validate_num_values(set(), default=1) == 1
    assert operators.match("8", ">= 4")


def test_masks_are_booleans(plugin):
    """A truthy answer is a pass."""
    path = plugin("""
        class Truthy:
            def host_passes(self, host_state, filter_properties):
                return host_state.host == "birch" and "yes"
    """)
    decision = run(f"{path}.Truthy", request())
    assert decision.explanation.rounds[0].steps[0].hosts == (("birch", "birch.lab"),)

"""What arrives becomes one request, whatever release wrote it, and whatever is wrong with it gets a reason."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from nova_sched.errors import MalformedMessage
from nova_sched.model.numa import InstanceCell, InstanceTopology
from nova_sched.model.pci import PciRequest
from nova_sched.model.request import HostNode, InstanceRef
from nova_sched.settings import DeliverySettings, SchedulerSettings, Settings
from nova_sched.wire import inbound

UUID = "5a6e0000-0000-4000-8000-000000000001"
CONTEXT = {"user_id": "user-1", "project_id": "project-1", "request_id": "req-1"}
SETTINGS = Settings()


def arguments(spec: dict[str, Any] | None = None, **filter_properties: Any) -> dict[str, Any]:
    """Arguments of a small run_instance; ``spec`` is laid over its request_spec."""
    flavor = {
        "id": 7,
        "name": "small",
        "memory_mb": 2048,
        "vcpus": 2,
        "root_gb": 20,
        "ephemeral_gb": 1,
        "swap": 512,
    }
    properties = {"memory_mb": 2048, "vcpus": 2, "root_gb": 20, "ephemeral_gb": 1, "project_id": "project-9"}
    request_spec = {
        "instance_uuids": [UUID],
        "num_instances": 1,
        "instance_type": flavor,
        "instance_properties": properties,
        "image": {"properties": {"architecture": "x86_64"}},
    }
    return {"request_spec": {**request_spec, **(spec or {})}, "filter_properties": filter_properties}


def run(args: dict[str, Any], settings: Settings = SETTINGS) -> Any:
    """The request of a run_instance with these arguments."""
    return inbound.run_instance(CONTEXT, args, settings)


def primitive(name: str, data: dict[str, Any]) -> dict[str, Any]:
    """A versioned object as Nova serialises it."""
    return {"nova_object.name": name, "nova_object.version": "1.0", "nova_object.data": data}


class TestSizes:
    """Amounts, flavor and disk units."""

    def test_the_guest_takes_what_instance_properties_say_and_swap_counts_for_the_filters_only(self):
        """Consumption leaves swap out, the disk filters count it; GB become MB once."""
        request = run(arguments())
        assert (request.amounts.vcpus, request.amounts.memory_mb, request.amounts.disk_mb) == (
            2,
            2048,
            21 * 1024,
        )
        assert request.flavor.disk_mb == 21 * 1024 + 512

    def test_without_a_flavor_the_sizes_come_from_instance_properties(self):
        """instance_type null is no error."""
        request = run(arguments({"instance_type": None}))
        assert (request.flavor.memory_mb, request.flavor.vcpus, request.flavor.root_gb) == (2048, 2, 20)
        assert request.error is None

    def test_without_sizes_in_instance_properties_the_flavor_gives_them(self):
        """Other callers describe the guest by its flavor only."""
        assert run(arguments({"instance_properties": {}})).amounts.disk_mb == 21 * 1024

    def test_a_resize_takes_the_new_flavor(self):
        """The chosen host has to hold the new size, not the old one."""
        args = arguments({"instance_type": None})
        args |= {"instance": {"uuid": UUID}, "instance_type": {"memory_mb": 4096, "vcpus": 4, "root_gb": 40}}
        request = inbound.prep_resize(CONTEXT, args, SETTINGS)
        assert (request.amounts.memory_mb, request.amounts.vcpus) == (4096, 4)
        assert request.instances == (InstanceRef(UUID, 0),)

    @pytest.mark.parametrize(
        "value", [-1, 2**31, 2**53 + 1, 1.5, "2048", True, float("nan"), float("inf"), [1]]
    )
    def test_absurd_amounts_refuse_the_request_and_keep_its_instances(self, value):
        """Each named instance can then end in ERROR with the reason."""
        args = arguments()
        args["request_spec"]["instance_properties"]["memory_mb"] = value
        request = run(args)
        assert request.error is not None
        assert request.uuids == (UUID,)

    def test_the_largest_amount_is_taken(self):
        """2^31−1 is a size."""
        args = arguments()
        args["request_spec"]["instance_properties"]["root_gb"] = 2**31 - 1
        args["request_spec"]["instance_properties"]["ephemeral_gb"] = 0
        assert run(args).amounts.disk_mb == (2**31 - 1) * 1024


class TestOptionalParts:
    """Missing parts are not errors."""

    @pytest.mark.parametrize("hints", [None, {}])
    def test_no_hints_are_no_hints(self, hints):
        """None and {} are the same as absent (LP#1007573)."""
        assert dict(run(arguments(scheduler_hints=hints)).hints) == dict(run(arguments()).hints) == {}

    @pytest.mark.parametrize("image", [None, {}, {"properties": None}])
    def test_a_boot_from_volume_has_no_image(self, image):
        """No id and no properties (LP#1746483)."""
        request = run(arguments({"image": image}))
        assert request.image.id is None
        assert dict(request.image.properties) == {}

    def test_the_project_comes_from_the_spec_and_else_from_the_context(self):
        """Filtering is by the project of the request."""
        assert run(arguments()).project_id == "project-9"
        assert run(arguments({"instance_properties": {}})).project_id == "project-1"

    def test_missing_filter_properties_are_empty_ones(self):
        """Null and absent filter_properties ask for nothing."""
        args = arguments()
        assert run({"request_spec": args["request_spec"]}).error is None
        assert run({**args, "filter_properties": None}).error is None

    def test_empty_extra_specs_ask_for_nothing(self):
        """Missing, None and {} are the same (LP#1512511)."""
        for extra_specs in (None, {}):
            args = arguments()
            args["request_spec"]["instance_type"]["extra_specs"] = extra_specs
            assert dict(run(args).flavor.extra_specs) == {}


class TestNames:
    """Lists of hosts and nodes."""

    @pytest.mark.parametrize("key", ["force_hosts", "force_nodes", "ignore_hosts"])
    def test_a_text_is_one_name_and_an_empty_list_is_none(self, key):
        """Never letter by letter (LP#1017988)."""
        assert getattr(run(arguments(**{key: "node-1"})), key) == {"node-1"}
        assert getattr(run(arguments(**{key: ["a", "b", "a"]})), key) == {"a", "b"}
        assert getattr(run(arguments(**{key: []})), key) is None
        assert getattr(run(arguments(**{key: None})), key) is None

    @pytest.mark.parametrize("value", [[1], [None], [""], {"a": 1}, 7, ["x" * 256], ["n"] * 10_001])
    def test_what_is_no_list_of_names_is_refused(self, value):
        """The reason names the list."""
        assert "force_hosts" in run(arguments(force_hosts=value)).error

    def test_group_lists_of_older_callers_become_tuples(self):
        """JSON turned their sets into lists (LP#1301982)."""
        request = run(arguments(group_hosts=["h2", "h1"], group_policies=["legacy"]))
        assert request.legacy_group_hosts == ("h1", "h2")
        assert request.legacy_group_policies == ("legacy",)
        assert run(arguments(group_hosts=[])).legacy_group_hosts == ()
        assert run(arguments()).legacy_group_hosts is None


class TestHints:
    """Scheduler hints."""

    def test_lists_become_tuples_and_texts_stay_texts(self):
        """Hints are immutable inside."""
        hints = run(
            arguments(scheduler_hints={"same_host": ["a"], "different_host": "b", "query": "[]"})
        ).hints
        assert dict(hints) == {"same_host": ("a",), "different_host": "b", "query": "[]"}

    @pytest.mark.parametrize("group", ["web", ["web"], ("web",)])
    def test_the_group_is_a_name_or_uuid_alone_or_in_a_list(self, group):
        """Later API services send a list of one."""
        assert run(arguments(scheduler_hints={"group": group})).group == "web"

    @pytest.mark.parametrize(
        "hints",
        [
            "query",
            ["query"],
            {"group": 7},
            {"group": ["a", "b"]},
            {"query": "x" * 65_536},
            {"same_host": ["u"] * 10_001},
            {str(number): "x" for number in range(257)},
        ],
    )
    def test_oversized_and_wrong_hints_are_refused(self, hints):
        """Bounded before any plugin sees them."""
        assert "scheduler_hints" in run(arguments(scheduler_hints=hints)).error


class TestRetry:
    """populate_retry of Juno."""

    @pytest.mark.parametrize("retry", [None, {}])
    def test_the_first_attempt_gets_fresh_retry_data(self, retry):
        """Always sent, or a compute could not reschedule (LP#1671648)."""
        request = run(arguments(retry=retry))
        assert (request.attempt, request.retry.num_attempts, request.retry.hosts) == (1, 1, ())

    def test_attempts_are_counted_and_tried_hosts_excluded_as_pairs(self):
        """Lists become pairs (LP#1096196); the old error does not travel on."""
        tried: list[list[str | None]] = [["h1", "n1"], ["h2", None]]
        request = run(arguments(retry={"num_attempts": 1, "hosts": tried, "exc": ["boom"], "more": 1}))
        pairs: tuple[HostNode, ...] = (("h1", "n1"), ("h2", None))
        assert (request.attempt, request.retry.num_attempts) == (2, 2)
        assert request.tried == request.retry.hosts == pairs
        assert dict(request.retry.extras) == {"more": 1}

    def test_more_attempts_than_allowed_refuse_the_request(self):
        """The error of the compute comes first and is masked (LP#1361097)."""
        exc = ["Traceback (most recent call last):\n", "Boom: no space left, password=canary\n"]
        request = run(arguments(retry={"num_attempts": 3, "hosts": [], "exc": exc}))
        assert request.error.startswith("Boom: no space left")
        assert "max scheduling attempts 3" in request.error
        assert "canary" not in request.error
        assert request.attempt == 4

    def test_forced_placement_is_one_attempt_and_counts_nothing(self):
        """Retry data that came along travels as it came (case fuzz_012); none is made."""
        assert run(arguments(force_hosts=["h1"])).retry is None
        request = run(arguments(force_nodes=["n1"], retry={"num_attempts": 7, "hosts": [["h1", "n1"]]}))
        assert (request.attempt, request.retry.num_attempts, request.error) == (1, 7, None)

    def test_one_attempt_allowed_means_no_retry_data(self):
        """scheduler_max_attempts = 1."""
        request = run(arguments(), Settings(scheduler=SchedulerSettings(max_attempts=1)))
        assert (request.attempt, request.retry) == (1, None)

    def test_select_destinations_counts_no_attempt(self):
        """Its caller did (case 323)."""
        args = arguments(retry={"num_attempts": 3, "hosts": [["h1", "n1"]]})
        request = inbound.select_destinations(CONTEXT, args, SETTINGS)
        assert (request.retry.num_attempts, request.error) == (3, None)
        assert request.tried == (("h1", "n1"),)
        assert inbound.select_destinations(CONTEXT, arguments(), SETTINGS).retry is None

    @pytest.mark.parametrize(
        "retry",
        [
            {"num_attempts": -1},
            {"num_attempts": "2"},
            {"hosts": ["h1"]},
            {"hosts": [["h1"]]},
            {"hosts": [[1, 2]]},
        ],
    )
    def test_wrong_retry_data_is_refused(self, retry):
        """Never taken for a first attempt."""
        assert "retry" in run(arguments(retry=retry)).error


class TestInstances:
    """Who is asked for."""

    def test_uuids_govern_and_repeats_are_one(self):
        """launch_index is the position in the message."""
        request = run(arguments({"instance_uuids": ["u-1", "u-2", "u-1"], "num_instances": 9}))
        assert request.instances == (InstanceRef("u-1", 0), InstanceRef("u-2", 1))
        assert request.passthrough.request_spec["instance_uuids"] == ["u-1", "u-2"]

    def test_select_destinations_without_uuids_goes_by_number(self):
        """Instances without a name, in order."""
        request = inbound.select_destinations(
            CONTEXT, arguments({"instance_uuids": None, "num_instances": 2}), SETTINGS
        )
        assert request.instances == (InstanceRef(None, 0), InstanceRef(None, 1))

    def test_no_uuids_and_no_number_are_nothing_to_do(self):
        """run_instance of nobody (case 319)."""
        request = run(arguments({"instance_uuids": [], "num_instances": 0}))
        assert (request.instances, request.error) == ((), None)

    @pytest.mark.parametrize(
        "spec",
        [
            {"instance_uuids": [], "num_instances": 1},
            {"instance_uuids": None, "num_instances": 3},
            {"instance_uuids": [1, None, ""]},
            {"instance_uuids": "5a6e"},
            {"instance_uuids": [f"u-{number}" for number in range(10_001)]},
            {"instance_uuids": ["x" * 37]},
            {"instance_uuids": ["\ud800"]},
            {"num_instances": -1, "instance_uuids": None},
        ],
    )
    def test_a_message_that_names_nobody_is_malformed(self, spec):
        """There is no instance to set to ERROR."""
        with pytest.raises(MalformedMessage):
            run(arguments(spec))

    def test_too_many_instances_are_refused_by_name(self):
        """Each of them ends in ERROR; nothing is built of a part."""
        settings = Settings(delivery=DeliverySettings(max_instances_per_request=3))
        request = run(arguments({"instance_uuids": ["a", "b", "c", "d"]}), settings)
        assert request.uuids == ("a", "b", "c", "d")
        assert "at most 3" in request.error

    def test_a_million_instances_are_refused_without_making_them(self):
        """The whole message is put aside."""
        with pytest.raises(MalformedMessage, match="1000000 instances"):
            run(arguments({"instance_uuids": ["u"] * 1_000_000}))
        request = inbound.select_destinations(
            CONTEXT, arguments({"instance_uuids": None, "num_instances": 10**6}), SETTINGS
        )
        assert "1000000 instances" in request.error
        assert len(request.instances) == 1

    def test_one_uuid_that_is_none_refuses_the_others(self):
        """Nothing half done."""
        request = run(arguments({"instance_uuids": ["u-1", 7]}))
        assert request.uuids == ("u-1",)
        assert "instance_uuids" in request.error

    @pytest.mark.parametrize("args", [None, [], "x", {}, {"request_spec": None}, {"request_spec": []}])
    def test_arguments_of_a_wrong_shape_are_malformed(self, args):
        """A message without a request_spec is no request."""
        with pytest.raises(MalformedMessage):
            run(args)

    def test_a_resize_without_its_instance_is_malformed(self):
        """There is nobody to move."""
        with pytest.raises(MalformedMessage):
            inbound.prep_resize(CONTEXT, {**arguments(), "instance": {}}, SETTINGS)


class TestObjects:
    """Versioned objects, NUMA and PCI."""

    def test_versioned_objects_read_as_their_data(self):
        """Any part may come as a primitive."""
        plain = arguments()["request_spec"]
        spec = {
            **plain,
            "instance_type": primitive("Flavor", plain["instance_type"]),
            "instance_properties": primitive("Instance", plain["instance_properties"]),
            "image": primitive(
                "ImageMeta",
                {"id": "i-1", "properties": primitive("ImageMetaProps", {"hw_architecture": "x86_64"})},
            ),
        }
        args = {"request_spec": primitive("RequestSpec", spec), "filter_properties": {}}
        request, expected = run(args), run(arguments())
        assert (request.flavor, request.amounts) == (expected.flavor, expected.amounts)
        assert request.image.id == "i-1"
        assert request.image.properties["architecture"] == "x86_64"
        assert request.passthrough.request_spec["instance_properties"] == plain["instance_properties"]

    @pytest.mark.parametrize(
        "topology",
        [
            '{"cells": [{"id": 0, "cpus": "0-1,^1", "mem": {"total": 512}}, {"id": 1, "cpus": "1", "mem": {"total": 512}}]}',
            {
                "cells": [
                    {"id": 0, "cpus": "0", "mem": {"total": 512}},
                    {"id": 1, "cpus": "1", "mem": {"total": 512}},
                ]
            },
            primitive(
                "InstanceNUMATopology",
                {"cells": [primitive("Cell", {"id": i, "cpuset": [i], "memory": 512}) for i in (0, 1)]},
            ),
        ],
    )
    def test_numa_topologies_of_all_forms_are_the_same(self, topology):
        """JSON text, object and primitive."""
        args = arguments()
        args["request_spec"]["instance_properties"]["numa_topology"] = topology
        cells = (InstanceCell(0, frozenset({0}), 512), InstanceCell(1, frozenset({1}), 512))
        assert run(args).numa == InstanceTopology(cells)

    @pytest.mark.parametrize(
        "topology", ["{", "[]", {"cells": [7]}, {"cells": [{"cpus": "a"}]}, {"cells": [{"cpus": "0-99999"}]}]
    )
    def test_broken_numa_topologies_are_refused(self, topology):
        """The reason names the part."""
        args = arguments()
        args["request_spec"]["instance_properties"]["numa_topology"] = topology
        assert "numa_topology" in run(args).error

    def test_pci_requests_come_as_objects_or_lists(self):
        """Count and spec are what matters."""
        plain = [{"count": 2, "spec": [{"vendor_id": "8086", "product_id": 1520}]}]
        wrapped = primitive("InstancePCIRequests", {"requests": [primitive("InstancePCIRequest", plain[0])]})
        wanted = (PciRequest(2, ({"vendor_id": "8086", "product_id": "1520"},)),)
        assert run(arguments(pci_requests=plain)).pci_requests == wanted
        assert run(arguments(pci_requests=wrapped)).pci_requests == wanted
        assert "pci_requests" in run(arguments(pci_requests=[{"count": -1}])).error

    @pytest.mark.parametrize("spec", [1.5, True, "8086", ["8086"], {"vendor_id": "8086"}])
    def test_a_pci_spec_is_a_list_of_objects(self, spec):
        """One object stands for a list of one; anything else is refused."""
        found = run(arguments(pci_requests=[{"count": 1, "spec": spec}]))
        assert found.pci_requests if isinstance(spec, dict) else "pci_requests" in found.error

    @pytest.mark.parametrize("state", [None, [], {}, 7, "spawning"])
    def test_task_states_that_are_none_load_no_disks(self, state):
        """Only the names of the heavy ones count."""
        args = arguments()
        args["request_spec"]["instance_properties"].update(vm_state="active", task_state=state)
        assert run(args).amounts.io_ops == 0

    def test_rows_read_as_dictionaries(self):
        """extra_specs as key/value rows, as some releases send them."""
        args = arguments()
        args["request_spec"]["instance_type"]["extra_specs"] = [{"key": "a", "value": "1"}]
        assert dict(run(args).flavor.extra_specs) == {"a": "1"}


def test_the_context_of_any_release_is_read_and_kept():
    """user/tenant are the older names; keys that nobody knows travel on, unsendable ones do not."""
    context = {
        "_context_user": "u",
        "_context_tenant": "t",
        "_context_new": {"x": [1]},
        "_context_bad": float("nan"),
    }
    who = inbound.run_instance(context, arguments(), SETTINGS).caller
    assert (who.user_id, who.project_id) == ("u", "t")
    assert dict(who.wire) == {"user": "u", "tenant": "t", "new": {"x": [1]}}


@pytest.mark.parametrize("value", [float("nan"), 2**60, "\ud800", "a\0b", {7: 1}, {1, 2}])
def test_what_cannot_be_stored_or_sent_refuses_the_request_and_does_not_travel(value):
    """The ERROR about it must itself be sendable."""
    args = arguments({"security_group": ["default", value]})
    request = run(args)
    assert request.error is not None
    assert value not in request.passthrough.request_spec["security_group"]


def test_a_deeply_nested_message_is_refused():
    """Depth is bounded before anything walks it."""
    nested: Any = "x"
    for _ in range(500):
        nested = [nested]
    assert "nested" in run(arguments({"security_group": nested})).error


def test_an_empty_retry_and_tuples_leave_the_message_as_it_was():
    """Reading changes nothing."""
    args = arguments(retry={"hosts": [("h1", "n1")]}, scheduler_hints={"same_host": ("a",)})
    before = copy.deepcopy(args)
    run(args)
    assert args == before

"""What must hold of the edge for any message at all."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_sched.errors import MalformedMessage
from nova_sched.model.decision import Placement
from nova_sched.model.limits import Limits
from nova_sched.settings import BusSettings, Settings
from nova_sched.wire import inbound, validate
from nova_sched.wire.outbound import Outbound

NOW = datetime(2026, 12, 1, tzinfo=UTC)
METHODS = ("run_instance", "select_destinations", "prep_resize", "explain")
SECRET = "canary-canary"

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.sampled_from(["", "0-3", '{"cells": [{}]}', "u-1"])
)
anything: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["nova_object.data", "key", "value", "cells", "hosts", "requests", "count", "spec", "id", "x"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


def some_of(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A dictionary with some of these keys, each as its strategy says or as anything else."""
    return st.fixed_dictionaries({}, optional={key: value | anything for key, value in strategies.items()})


SIZES = {key: st.integers(0, 10**6) for key in ("memory_mb", "vcpus", "root_gb", "ephemeral_gb", "swap")}
PROPERTIES = some_of(
    **SIZES, metadata=anything, system_metadata=anything, info_cache=anything, numa_topology=anything,
    user_data=st.just(SECRET), availability_zone=anything, created_at=anything,
)  # fmt: skip
SPEC = some_of(
    instance_uuids=st.lists(st.sampled_from(["u-1", "u-2"]), max_size=3),
    num_instances=st.integers(0, 5),
    instance_properties=PROPERTIES,
    instance_type=some_of(**SIZES, extra_specs=anything, name=anything),
    image=some_of(properties=anything, id=anything),
)
FILTER_PROPERTIES = some_of(
    retry=some_of(num_attempts=st.integers(0, 5), hosts=anything, exc=anything),
    scheduler_hints=some_of(group=anything, query=anything, same_host=anything),
    force_hosts=anything, force_nodes=anything, ignore_hosts=anything, group_hosts=anything,
    group_policies=anything, pci_requests=anything,
)  # fmt: skip
ARGUMENTS = st.fixed_dictionaries(
    {"request_spec": SPEC | anything},
    optional={
        "filter_properties": FILTER_PROPERTIES | anything,
        "instance": some_of(uuid=st.just("u-1"), vm_state=anything, user_data=st.just(SECRET)),
        "instance_type": some_of(**SIZES),
        "admin_password": st.just(SECRET),
        "injected_files": st.just([["/x", SECRET]]),
    },
)
CONTEXT = st.dictionaries(
    st.sampled_from(["user_id", "tenant", "roles", "is_admin", "request_id"]), anything
).map(lambda context: {**context, "auth_token": SECRET})


@given(method=st.sampled_from(METHODS), context=CONTEXT, args=ARGUMENTS | anything)
@settings(max_examples=400, deadline=None)
def test_any_message_is_a_request_or_malformed(method, context, args):
    """Nothing but MalformedMessage is raised, and whatever comes of a request can be sent without its secrets."""
    try:
        request = inbound.of(method, context, args, Settings())
    except MalformedMessage:
        return
    made = Outbound(BusSettings()).of(request)
    events = [made.start(NOW), made.end(NOW)]
    for instance in request.instances:
        events.append(made.error(instance, request.error or "no room", NOW))
        events.append(made.update(instance, "error", NOW))
        placement = Placement(instance, 1, "h", "n", 1.0, Limits(memory_mb=1.0))
        if request.error is None:
            events.append(made.scheduled(placement, NOW))
            assert validate.insane(dict(made.cast(placement, NOW).arguments)) is None
    for event in filter(None, events):
        text = json.dumps([event.payload, dict(event.context)], allow_nan=False)
        assert SECRET not in text
        assert validate.insane([event.payload, dict(event.context)]) is None


@given(value=anything)
@settings(max_examples=200, deadline=None)
def test_scrubbed_values_are_sane(value):
    """What scrubbing leaves can always be stored and sent."""
    assert validate.insane(validate.scrubbed(value)) is None


@pytest.mark.parametrize("name", validate.SCHEMAS)
def test_published_schemas_are_schemas(name):
    """Each file is valid by its own dialect and says what it is for."""
    schema = validate.schema(name)
    jsonschema.Draft7Validator.check_schema(schema)
    assert schema["title"]
    assert schema["description"]


@given(args=ARGUMENTS)
@settings(max_examples=100, deadline=None)
def test_the_compiled_schemas_agree_with_the_published_ones(args):
    """An author who validates with any JSON Schema library gets our answer."""
    published = jsonschema.Draft7Validator(validate.schema("run_instance"))
    plain = validate.scrubbed(args)
    assert (validate.fault("run_instance", plain) is None) == published.is_valid(plain)

"""Recorded messages of a Juno scheduler, translated in and out again, compared key by key and type by type.

Free are the order of keys, ids, times and the wording of reasons; the deviations that are wanted are applied to the
recording by ``as_wanted`` before the comparison.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nova_sched.model.decision import Placement
from nova_sched.model.limits import Limits
from nova_sched.model.request import InstanceRef
from nova_sched.settings import BusSettings, Settings
from nova_sched.wire import inbound, validate
from nova_sched.wire.outbound import Outbound, RequestMessages

CAPTURES = Path(__file__).parents[2] / "golden" / "captures"
SCENARIOS = sorted(path.stem for path in CAPTURES.glob("*.json") if path.stem.startswith(("run_", "select_")))
NOW = datetime(2026, 12, 1, 12, 13, 48, 311180, tzinfo=UTC)
CONTEXT = "_context_"
#: Values that only Juno's database or clock knew; the keys and their types are compared, the values are not.
FREE = {
    "created_at",
    "updated_at",
    "scheduled_at",
    "audit_period_beginning",
    "audit_period_ending",
    "id",
    "reason",
}
#: Names of the second instance came from Juno's database; ours come from the request.
FREE_OF_SECOND = {"display_name", "display_description", "hostname", "name"}


def recording(scenario: str) -> list[dict[str, Any]]:
    """Messages of one scenario, in the order in which the broker routed them."""
    text = (CAPTURES / f"{scenario}.json").read_text(encoding="utf-8")
    return json.loads(text)["messages"]


def context_of(message: dict[str, Any]) -> dict[str, Any]:
    """The flat context of a message."""
    return {key.removeprefix(CONTEXT): value for key, value in message.items() if key.startswith(CONTEXT)}


def translated(scenario: str) -> RequestMessages:
    """What leaves for the recorded request of that scenario."""
    first = recording(scenario)[0]["message"]
    request = inbound.of(first["method"], context_of(first), first["args"], Settings())
    return Outbound(BusSettings(host="sched-1")).of(request)


def placement_of(cast: dict[str, Any]) -> Placement:
    """The decision behind a recorded cast to compute."""
    args = cast["message"]["args"]
    limits = args["filter_properties"].get("limits")
    return Placement(
        instance=InstanceRef(args["instance"]["uuid"], args["instance"]["launch_index"]),
        host_id=1,
        host=cast["routing_key"].removeprefix("compute."),
        node=args["node"],
        weight=1.0,
        limits=None if limits is None else Limits(memory_mb=limits["memory_mb"]),
    )


def as_wanted(message: dict[str, Any], received: dict[str, Any]) -> dict[str, Any]:
    """A recorded message with the wanted deviations: what ours has to look like.

    - the context of a notification has no token, and the caller's roles stay his own;
    - filter_properties carry neither config_options nor a copy of request_spec;
    - ``.end`` and ERROR name all uuids of the request and describe it as received; ``user_data`` is nowhere;
    - the reason of an ERROR is text.
    """
    wanted = json.loads(json.dumps(message))
    for key in [key for key in wanted if key.startswith(CONTEXT)]:
        wanted[key] = received[key]
    if "payload" in wanted:
        wanted["_context_auth_token"] = None
        if wanted["priority"] == "ERROR":
            wanted["payload"]["reason"] = "text"
        if wanted["priority"] == "ERROR" or wanted["event_type"].endswith(".end"):
            wanted["payload"]["request_spec"] = received["args"]["request_spec"]
        if wanted["event_type"] == "compute.instance.update":
            wanted["payload"]["image_ref_url"] = received["args"]["request_spec"]["instance_properties"][
                "image_ref"
            ]
    else:
        wanted["args"]["filter_properties"].pop("config_options")
        wanted["args"]["filter_properties"].pop("request_spec")
    return wanted


def assert_same(ours: Any, theirs: Any, where: str = "", free: set[str] = FREE) -> None:
    """Both have the same keys, types and values, but for the values under the keys in ``free``."""
    assert type(ours) is type(theirs), f"{where}: {ours!r} against {theirs!r}"
    if isinstance(ours, dict):
        assert set(ours) == set(theirs), where
        for key in ours:
            if key in free:
                assert type(ours[key]) is type(theirs[key]), (
                    f"{where}.{key}: {ours[key]!r} against {theirs[key]!r}"
                )
            else:
                assert_same(ours[key], theirs[key], f"{where}.{key}", free)
    elif isinstance(ours, list):
        if ours and isinstance(ours[0], dict) and "key" in ours[0]:
            ours, theirs = (sorted(rows, key=lambda row: row["key"]) for rows in (ours, theirs))
        assert len(ours) == len(theirs), where
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f"{where}[{number}]", free)
    else:
        assert ours == theirs, where


def recorded(scenario: str, kind: str) -> list[dict[str, Any]]:
    """Recorded messages of one kind (event type, or ``cast``), as wanted."""
    first, *others = recording(scenario)
    name = "run_instance" if kind == "cast" else kind
    found = [m for m in others if name == (m["message"].get("method") or m["message"].get("event_type"))]
    if kind == "cast":
        found = [m for m in found if "args" in m["message"]]
    return [as_wanted(m["message"], first["message"]) for m in found]


def event_body(event: Any) -> dict[str, Any]:
    """An event as the messaging driver of Juno writes it, without its transport's own id."""
    body = {f"{CONTEXT}{key}": value for key, value in event.context.items()}
    body.update(
        message_id=event.message_id,
        publisher_id=event.publisher_id,
        event_type=event.event_type,
        priority=event.priority,
        payload=event.payload,
        timestamp=event.timestamp,
    )
    return json.loads(json.dumps(body))


def assert_event(event: Any, wanted: dict[str, Any], free: set[str] = FREE) -> None:
    """Our event has the shape of the recorded one and fits the published schema."""
    wanted.pop("_unique_id")
    body = event_body(event)
    assert validate.fault("event", body) is None
    assert_same(body, wanted, event.event_type, free | {"message_id", "timestamp"})


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recorded_requests_fit_the_published_schemas(scenario):
    """What a real Juno client sent is what our schema of that method describes."""
    message = recording(scenario)[0]["message"]
    assert validate.fault(message["method"], message["args"]) is None


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name.startswith("run_")])
def test_casts_to_compute_are_as_recorded(scenario):
    """Each build cast of the recording comes out again, to the same host, at the same version."""
    messages = translated(scenario)
    casts = [m for m in recording(scenario)[1:] if m["routing_key"].startswith("compute.")]
    for recorded_cast, wanted in zip(casts, recorded(scenario, "cast"), strict=True):
        placement = placement_of(recorded_cast)
        cast = messages.cast(placement, NOW)
        assert f"{cast.topic}.{cast.server}" == recorded_cast["routing_key"]
        assert (cast.method, cast.version) == (wanted["method"], wanted["version"])
        assert {f"{CONTEXT}{key}": value for key, value in cast.context.items()} == {
            key: value for key, value in wanted.items() if key.startswith(CONTEXT)
        }
        free = FREE | (FREE_OF_SECOND if placement.instance.launch_index else set())
        arguments = json.loads(json.dumps(cast.arguments))
        assert_same(arguments, wanted["args"], "cast", free)
        assert validate.fault("compute_run_instance", arguments) is None


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_start_and_end_are_as_recorded(scenario):
    """``.start`` and ``.end`` name the whole request; ``.end`` also where Juno forgot it."""
    messages = translated(scenario)
    method = recording(scenario)[0]["message"]["method"]
    (start,) = recorded(scenario, f"scheduler.{method}.start")
    assert_event(messages.start(NOW), start)
    for end in recorded(scenario, f"scheduler.{method}.end"):
        assert_event(messages.end(NOW), end)
    assert messages.end(NOW).payload == messages.start(NOW).payload


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name.startswith("run_")])
def test_scheduled_events_are_as_recorded(scenario):
    """One ``.scheduled`` per placed instance, naming it and its host."""
    messages = translated(scenario)
    casts = [m for m in recording(scenario)[1:] if m["routing_key"].startswith("compute.")]
    events = recorded(scenario, "scheduler.run_instance.scheduled")
    for cast, wanted in zip(casts, events, strict=True):
        assert_event(messages.scheduled(placement_of(cast), NOW), wanted)


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name.startswith("run_")])
def test_error_and_update_events_are_as_recorded(scenario):
    """A refused instance is told by ``compute.instance.update`` and an ERROR whose reason is text."""
    messages = translated(scenario)
    for wanted in [m for m in recorded(scenario, "scheduler.run_instance") if "payload" in m]:
        instance = InstanceRef(wanted["payload"]["instance_id"], 0)
        assert_event(messages.error(instance, "no host fits", NOW), wanted)
    for wanted in recorded(scenario, "compute.instance.update"):
        update = messages.update(InstanceRef(wanted["payload"]["instance_id"], 0), "error", NOW)
        assert_event(update, wanted)


def test_the_answer_of_select_destinations_is_as_recorded():
    """A list of host, nodename and limits, one per instance."""
    wanted = recording("select_destinations_ok")[3]["message"]["result"]
    placements = [
        Placement(InstanceRef(None, number), 1, item["host"], item["nodename"], 1.0, Limits(**item["limits"]))
        for number, item in enumerate(wanted)
    ]
    assert_same(translated("select_destinations_ok").destinations(placements), wanted)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_translation_leaves_the_received_message_alone(scenario):
    """Nothing that arrives is changed, so that a redelivery and the dead-letter queue see what was sent."""
    first = recording(scenario)[0]["message"]
    before = json.dumps(first)
    messages = Outbound(BusSettings()).of(
        inbound.of(first["method"], context_of(first), first["args"], Settings())
    )
    placement = Placement(InstanceRef("u-1", 1), 1, "h", "n", 1.0, Limits(memory_mb=1.0))
    messages.start(NOW), messages.scheduled(placement, NOW), messages.cast(placement, NOW), messages.end(NOW)
    assert json.dumps(first) == before


def test_exhausted_retries_say_the_last_real_error_first():
    """The reason begins with what the compute said, so that a narrow column keeps it."""
    first = recording("run_instance_retries_exceeded")[0]["message"]
    request = inbound.run_instance(context_of(first), first["args"], Settings())
    assert request.error == (
        "boom -- Exceeded max scheduling attempts 3 for instance 5a6e0000-0000-4000-8000-000000000005."
    )

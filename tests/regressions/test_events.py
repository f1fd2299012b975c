"""Notifications: what must hold of them whatever a request asks for."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from nova_sched.model.messages import Event
from nova_sched.rpc.bus.render import render_event
from nova_sched.rpc.bus.settings import Topology
from nova_sched.settings import BusSettings, Settings
from nova_sched.wire import inbound
from nova_sched.wire.outbound import NAMED_MAX, Outbound

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def _error_event_size(instances: int) -> int:
    uuids = [f"{number:032x}" for number in range(instances)]
    request = inbound.run_instance({}, {"request_spec": {"instance_uuids": uuids}}, Settings())
    event = Outbound(BusSettings()).of(request).error(request.instances[0], "too many", NOW)
    assert uuids[0] in event.payload["request_spec"]["instance_uuids"]
    return len(json.dumps(dict(event.payload)))


def test_error_events_of_an_absurd_request_do_not_grow_with_it() -> None:
    """10,000 refused instances, each event naming all of them, were 4 GB of outbox and a worker that never came back."""
    assert _error_event_size(10_000) < 1000
    assert _error_event_size(NAMED_MAX) > NAMED_MAX * 32


def test_everything_sent_has_a_unique_id_of_its_own_and_repeats_keep_their_message_id() -> None:
    """With one id for two messages a stock receiver dropped the second as a duplicate, unacknowledged for ever."""
    event = Event(str(UUID(int=7)), "scheduler.s1", "scheduler.run_instance", "ERROR", {}, "2026-12-01", {})

    def sent() -> list[dict[str, Any]]:
        rendered = [
            render_event(event, topic, form, Topology())
            for topic in ("notifications", "monitor")
            for form in ("messaging", "messagingv2")
        ]
        bodies = [json.loads(one.body) for one in rendered]
        return [json.loads(body["oslo.message"]) if "oslo.message" in body else body for body in bodies]

    twice = sent() + sent()
    assert len({message["_unique_id"] for message in twice}) == 8
    assert {message["message_id"] for message in twice} == {event.message_id}

"""The real edges of the service for replays of cases: options, requests and casts as the daemon reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from nova_sched.conf.mapping import settings_from_mapping
from nova_sched.lab.replay import Translator
from nova_sched.model.decision import Placement
from nova_sched.model.facts import GroupFact
from nova_sched.model.request import SchedulingRequest
from nova_sched.settings import Settings
from nova_sched.wire import inbound
from nova_sched.wire.outbound import Outbound, wire_limits


def translator() -> Translator:
    """A translator made of :mod:`nova_sched.conf` and :mod:`nova_sched.wire`."""
    return Translator(settings_from_mapping, inbound.of, _cast, _destinations, wire_limits)


def _cast(
    request: SchedulingRequest,
    placement: Placement,
    group: GroupFact | None,
    now: datetime,
    settings: Settings,
) -> Mapping[str, Any]:
    return Outbound(settings.bus).of(request).cast(placement, now, None, group).arguments


def _destinations(
    request: SchedulingRequest, placements: Sequence[Placement], settings: Settings
) -> list[dict[str, Any]]:
    return Outbound(settings.bus).of(request).destinations(placements)

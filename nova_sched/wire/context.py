"""The caller's context: read from any release's keys, passed on to compute whole, cut down for notifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova_sched.model.request import Caller
from nova_sched.model.secrets import SHOWN_CONTEXT
from nova_sched.wire.validate import NAME_MAX, insane

_PREFIX = "_context_"

#: Keys that stay visible without their value, since consumers of Juno's notifications expect them to be there.
_NULLED = frozenset({"auth_token"})
_EMPTIED = frozenset({"service_catalog"})


def caller(context: Mapping[str, Any]) -> Caller:
    """Who asks, from a flat context with or without the ``_context_`` prefix; what cannot be sent on is left out."""
    given = dict(context)
    if insane(given) is not None:
        given = {key: value for key, value in given.items() if insane({key: value}) is None}
    wire = {key.removeprefix(_PREFIX): value for key, value in given.items()}
    read_deleted = wire.get("read_deleted")
    return Caller(
        request_id=_name(wire.get("request_id")),
        user_id=_name(wire.get("user_id")) or _name(wire.get("user")),
        project_id=_name(wire.get("project_id")) or _name(wire.get("tenant")),
        is_admin=wire.get("is_admin") is True,
        read_deleted=read_deleted if isinstance(read_deleted, str) else "no",
        wire=wire,
    )


def event_context(who: Caller) -> dict[str, Any]:
    """The part of the caller's context that a notification carries: an allow-list, tokens emptied."""
    wire = who.wire
    kept = {key: value for key, value in wire.items() if key in SHOWN_CONTEXT}
    kept.update(dict.fromkeys(_NULLED.intersection(wire)))
    kept.update((key, []) for key in _EMPTIED.intersection(wire))
    return kept


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= NAME_MAX else None

"""``run_instance`` casts as an API service sends them: the size and the parts of one recorded from Juno."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import cache
from typing import Any
from uuid import UUID

import orjson

from benchmarks.results import FOLDER

CAPTURE = FOLDER.parent / "tests" / "golden" / "captures" / "run_instance_one.json"


@cache
def _recorded() -> Mapping[str, Any]:
    """The first message of the recording: a cast that names one instance."""
    message: Mapping[str, Any] = json.loads(CAPTURE.read_text(encoding="utf-8"))["messages"][0]["message"]
    return message


def uuid_of(number: int) -> str:
    """The uuid of the ``number``-th instance of a run."""
    return str(UUID(int=(0xBE7C << 112) + number))


def run_instance(first: int, count: int = 1, memory_mb: int | None = None) -> dict[str, Any]:
    """The message for ``count`` instances, numbered from ``first``; ``memory_mb``: of each, None = as recorded."""
    message = copy.deepcopy(dict(_recorded()))
    if memory_mb is not None:
        spec = message["args"]["request_spec"]
        parts = (
            spec["instance_type"],
            spec["instance_properties"],
            message["args"]["filter_properties"]["instance_type"],
        )
        for part in parts:
            part["memory_mb"] = memory_mb
    spec, uuids = message["args"]["request_spec"], [uuid_of(first + index) for index in range(count)]
    spec["instance_uuids"], spec["num_instances"] = uuids, count
    spec["instance_properties"]["uuid"] = uuids[0]
    message["_unique_id"] = UUID(uuids[0]).hex
    message["_context_request_id"] = f"req-{uuids[0]}"
    return message


def body(message: Mapping[str, Any]) -> bytes:
    """The message in oslo.messaging's envelope 2.0."""
    inner = orjson.dumps(message).decode()
    return orjson.dumps({"oslo.version": "2.0", "oslo.message": inner})


def bodies(first: int, count: int, memory_mb: int | None = None) -> list[bytes]:
    """``count`` messages for one instance each. Made by replacing ids in one text, which costs little."""
    template = body(run_instance(first, memory_mb=memory_mb))
    uuid, marker = uuid_of(first).encode(), UUID(uuid_of(first)).hex.encode()
    found = []
    for number in range(first, first + count):
        other = uuid_of(number)
        found.append(template.replace(uuid, other.encode()).replace(marker, UUID(other).hex.encode()))
    return found

"""Twenty secrets that can be told apart, each in its place, and a search for them that no quoting hides from."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from tests.unit.wire.test_captures import recording

_CORES = (
    '"quoted"',
    "it's",
    "line\nline",
    "пароль-ü",
    "back\\slash",
    "{brace} %s %(name)s",
    "<tag>&amp;",
    "tab\tand  blanks",
    "'; --",
    "]}),",
)
PATTERN = re.compile(rb"zqcanary(\d\d)[ht]")


def canary(number: int) -> str:
    """Secret ``number``: awkward characters between two marks, so that a half-masked one is found too."""
    return f"zqcanary{number:02d}h-{_CORES[number % len(_CORES)]}-zqcanary{number:02d}t"


def found_in(what: bytes | str) -> dict[str, str]:
    """Numbers of the secrets in it, each with what stands around the first hit."""
    text = what.encode() if isinstance(what, str) else what
    hits: dict[str, str] = {}
    for match in PATTERN.finditer(text):
        around = text[max(0, match.start() - 120) : match.end() + 40]
        hits.setdefault(match.group(1).decode(), around.decode(errors="replace"))
    return hits


#: Secrets of the message, by number; 16 to 20 are those of the configuration.
OF_MESSAGES = range(1, 16)
BROKER, SQL, ATTESTATION, KEYSTONE, EVENTS = range(16, 21)


def message(uuid: str, **properties: Any) -> dict[str, Any]:
    """A ``run_instance`` message as Juno's clients send it, with secrets 1 to 15 in it.

    :param properties: of ``instance_properties``; ``memory_mb`` also of the flavor.
    """
    found = copy.deepcopy(recording("run_instance_one")[0]["message"])
    found["_unique_id"] = uuid.replace("-", "")
    found["_context_request_id"] = f"req-{uuid}"
    found["_context_auth_token"] = canary(4)
    found["_context_service_catalog"] = [{"type": "volume", "endpoints": [{"adminURL": canary(5)}]}]
    found["_context_key_of_a_later_release"] = {"whatever": canary(14)}
    args = found["args"]
    args["admin_password"] = canary(1)
    args["injected_files"] = [["/root/.ssh/id_rsa", canary(2)]]
    args["token"] = canary(13)
    spec = args["request_spec"]
    spec["instance_uuids"] = [uuid]
    spec["block_device_mapping"][0]["connection_info"] = {"data": {"auth_password": canary(6)}}
    spec["adminPass"] = canary(9)
    spec["personality"] = [{"path": "/etc/shadow", "contents": canary(10)}]
    spec["instance_properties"].update(
        {"uuid": uuid, "user_data": canary(3), "access_token": canary(8), "secret": canary(11), "new_pass": canary(12), "password": canary(15)},
    )  # fmt: skip
    spec["instance_properties"].update(properties)
    if "memory_mb" in properties:
        spec["instance_type"]["memory_mb"] = properties["memory_mb"]
    args["filter_properties"]["context"] = {"auth_token": canary(7)}
    return found


def body(content: Any) -> str:
    """The message in its envelope."""
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(content)})

"""What is written into an envelope and what is accepted out of one."""

from __future__ import annotations

import bz2
import contextlib
import json
import math
import zlib
from decimal import Decimal
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_messaging._drivers import common

from nova_sched.rpc.bus.envelope import (
    BodyLimits,
    Poison,
    decode_message,
    dump_json,
    encode_message,
    split_context,
)
from nova_sched.rpc.bus.inbox import read_delivery

LIMITS = BodyLimits(max_bytes=100_000, max_depth=50)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(arguments=st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_oslo_messaging_opens_our_envelopes_and_we_open_its(arguments: dict[str, Any]) -> None:
    """Both directions give the same message, whatever it carries."""
    message = {"method": "run_instance", "version": "3.0", "args": arguments, "_unique_id": "u"}
    assert common.deserialize_msg(json.loads(encode_message(message))) == message
    theirs = json.dumps(common.serialize_msg(message)).encode()
    assert decode_message(theirs, LIMITS) == message


def test_values_of_ours_become_plain_json() -> None:
    """Read-only mappings, tuples, sets and decimals are written as what they mean."""
    value = {"a": MappingProxyType({"b": (1, 2)}), "s": frozenset({"y", "x"}), "d": Decimal("1.5"), 3: None}
    assert json.loads(dump_json(value)) == {"a": {"b": [1, 2]}, "s": ["x", "y"], "d": 1.5, "3": None}
    with pytest.raises(TypeError, match="object"):
        dump_json({"x": object()})


def enveloped(inner: str, version: str = "2.0") -> bytes:
    return json.dumps({"oslo.version": version, "oslo.message": inner}).encode()


POISON = {
    "text": (b"hello", "not JSON"),
    "empty": (b"", "not JSON"),
    "invalid UTF-8": (b'{"method": "\xff\xfe"}', "not JSON"),
    "a list": (b"[1]", "list, not an object"),
    "too large": (b'{"method": "' + b"x" * 100_001 + b'"}', "bytes"),
    "too deep": (b"[" * 100_000, "deeper than 50"),
    "too deep inside": (
        enveloped('{"method":"m","args":{"a":' + "[" * 60 + "]" * 60 + "}}"),
        "deeper than 50",
    ),
    "old envelope": (enveloped("{}", "1.0"), "version 1.0"),
    "new envelope": (enveloped("{}", "3.0"), "version 3.0"),
    "no version": (b'{"oslo.message": "{}"}', "no version"),
    "no text": (b'{"oslo.version": "2.0", "oslo.message": {}}', "no message text"),
    "no method": (enveloped('{"args": {}}'), "no method"),
    "method is a number": (enveloped('{"method": 1}'), "no method"),
    "arguments are a list": (enveloped('{"method": "m", "args": []}'), "arguments"),
    "version is words": (enveloped('{"method": "m", "version": "latest"}'), "version"),
    "namespace is a list": (enveloped('{"method": "m", "namespace": []}'), "namespace"),
    "reply queue is a list": (enveloped('{"method": "m", "_reply_q": []}'), "_reply_q"),
    "NaN": (enveloped('{"method": "m", "args": {"a": NaN}}'), "NaN"),
    "lone surrogate": (enveloped('{"method": "m", "args": {"a": "\\ud800"}}'), "half characters"),
}


@pytest.mark.parametrize("body, said", POISON.values(), ids=POISON.keys())
def test_poison_is_refused_with_a_reason(body: bytes, said: str) -> None:
    """Every kind of broken body is refused by name; none escapes as another exception."""
    with pytest.raises(Poison) as refused:
        decode_message(body, LIMITS)
    assert said in refused.value.reason


def test_a_message_with_nan_can_still_be_read_for_its_instances() -> None:
    """It is refused, but what it asked for is known, so that its instances can end in ERROR."""
    with pytest.raises(Poison) as refused:
        decode_message(enveloped('{"method": "run_instance", "args": {"a": NaN, "u": "x"}}'), LIMITS)
    assert refused.value.message is not None
    assert refused.value.message["args"]["u"] == "x"
    assert math.isnan(refused.value.message["args"]["a"])


def test_brackets_inside_of_texts_are_not_depth() -> None:
    """A text full of brackets is a text."""
    message = {"method": "m", "args": {"a": "[{" * 500}}
    assert decode_message(encode_message(message), LIMITS) == message


@given(st.binary(max_size=200))
def test_bytes_are_refused_or_read_never_more(body: bytes) -> None:
    """No bytes at all raise anything but Poison."""
    with contextlib.suppress(Poison):
        assert decode_message(body, LIMITS)["method"]


def delivery(body: Any, **properties: Any) -> Any:
    info = {"delivery_tag": 5, "redelivered": True, "exchange": "nova", "routing_key": "scheduler"}
    return SimpleNamespace(body=body, properties=properties, delivery_info=info)


def test_a_delivery_is_split_into_context_addresses_and_message() -> None:
    """The dispatcher sees method, arguments, version; the context has no prefix; ids are apart."""
    body = encode_message(
        {
            "method": "ping", "namespace": "baseapi", "version": "1.0", "args": {"arg": 1}, "_unique_id": "u1",
            "_msg_id": "m1", "_reply_q": "reply_1", "_timeout": 30, "_context_request_id": "req-1", "_context_new_key": [1],
        }
    )  # fmt: skip
    taken = read_delivery(delivery(body), LIMITS)
    assert taken.message == {"method": "ping", "namespace": "baseapi", "version": "1.0", "args": {"arg": 1}}
    assert taken.ctxt == {"request_id": "req-1", "new_key": [1]}
    assert (taken.unique_id, taken.msg_id, taken.reply_q) == ("u1", "m1", "reply_1")
    assert (taken.tag, taken.redelivered, taken.exchange, taken.routing_key) == (5, True, "nova", "scheduler")
    assert taken.wants_reply
    assert taken.monitor_timeout_seconds == 30
    assert taken.client_timeout is None


@pytest.mark.parametrize(
    "name, pack", [("application/x-gzip", zlib.compress), ("application/x-bz2", bz2.compress)]
)
def test_compressed_bodies_are_read_within_the_limit(name: str, pack: Any) -> None:
    """A sender with kombu_compression is understood; a bomb is refused before it is unpacked whole."""
    headers = {"compression": name}
    good = read_delivery(delivery(pack(encode_message({"method": "m"})), application_headers=headers), LIMITS)
    assert good.poison is None
    assert good.method == "m"
    bomb = read_delivery(delivery(pack(b" " * 50_000_000), application_headers=headers), LIMITS)
    assert bomb.poison is not None
    assert "bytes" in bomb.poison


def test_a_poisoned_delivery_keeps_its_body_for_the_dead_letter() -> None:
    """What is given up is kept whole, and has an id even without one of its own."""
    taken = read_delivery(delivery(b"rubbish"), LIMITS)
    assert taken.poison is not None
    assert taken.body == b"rubbish"
    assert len(taken.message_id) == 64


def test_context_keys_are_taken_out_of_the_message() -> None:
    """Keys of any release, with the prefix removed."""
    message = {"method": "m", "_context_a": 1, "_context_": 2}
    assert split_context(message) == {"a": 1, "": 2}
    assert message == {"method": "m"}

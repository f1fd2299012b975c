"""oslo.messaging's envelope 2.0: what is written, and what is accepted before anybody else sees it.

A body is refused (``Poison``) before it is parsed when it is too large or nested too deeply, and afterwards when it
is no message: a caller's mistake must never end the consumer, and must be answered once, with a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson

ENVELOPE_VERSION = "2.0"
CONTEXT_PREFIX = "_context_"
UNIQUE_ID = "_unique_id"
_VERSION_KEY, _MESSAGE_KEY = "oslo.version", "oslo.message"
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_BRACES_AS_BRACKETS = bytes.maketrans(b"{}", b"[]")
_VERSION = re.compile(r"^\d{1,9}(\.\d{1,9})*$")
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """What a body may cost before it is parsed."""

    max_bytes: int = 4 * 1024 * 1024
    max_depth: int = 100


class Poison(Exception):
    """A body that cannot be processed, now or later.

    :ivar reason: one line, without contents of the message.
    :ivar message: what could be read of it all the same (for the instances' faults), or None.
    """

    def __init__(self, reason: str, message: dict[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message


def encode_message(message: Mapping[str, Any]) -> bytes:
    """Body of an inner message in its envelope.

    :raises TypeError: a value has no JSON form.
    """
    inner = dump_json(message).decode()
    return orjson.dumps({_VERSION_KEY: ENVELOPE_VERSION, _MESSAGE_KEY: inner})


def dump_json(value: Any) -> bytes:
    """JSON of a value; mappings, sets, tuples and decimals are written as their plain forms.

    :raises TypeError: a value has no JSON form, or is an integer beyond 64 bits.
    """
    return orjson.dumps(value, default=_plain, option=_OPTIONS)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value, key=str)
    if isinstance(value, tuple | list):
        return list(value)
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def decode_message(body: bytes, limits: BodyLimits) -> dict[str, Any]:
    """The inner message of a body, checked for the shape every handler relies on.

    :raises Poison: too large, too deep, not JSON, wrong envelope, not an RPC message.
    """
    if len(body) > limits.max_bytes:
        raise Poison(f"the body has {len(body)} bytes, {limits.max_bytes} are allowed")
    outer = _parse(body, limits)
    if not isinstance(outer, dict):
        raise Poison(f"the body is a JSON {type(outer).__name__}, not an object")
    message: Any = outer
    if _VERSION_KEY in outer or _MESSAGE_KEY in outer:
        message = _open_envelope(outer, limits)
    problem = shape_problem(message)
    if problem:
        raise Poison(problem, message if isinstance(message, dict) else None)
    return dict(message)


def shape_problem(message: Any) -> str | None:
    """Why a decoded value is no RPC message, or None."""
    if not isinstance(message, dict):
        return f"the message is a JSON {type(message).__name__}, not an object"
    if not isinstance(message.get("method"), str):
        return "the message names no method"
    if not isinstance(message.get("args", {}), dict):
        return "the arguments are not an object"
    version = message.get("version", "1.0")
    if not isinstance(version, str) or not _VERSION.match(version):
        return "the version is not of the form N.N"
    if not isinstance(message.get("namespace"), str | None):
        return "the namespace is not a text"
    for key in ("_msg_id", "_reply_q", UNIQUE_ID):
        if not isinstance(message.get(key), str | None):
            return f"{key} is not a text"
    return None


def split_context(message: dict[str, Any]) -> dict[str, Any]:
    """Take the ``_context_*`` keys out of a message; returns them without the prefix."""
    start = len(CONTEXT_PREFIX)
    names = [key for key in message if key.startswith(CONTEXT_PREFIX)]
    return {key[start:]: message.pop(key) for key in names}


def _open_envelope(outer: dict[str, Any], limits: BodyLimits) -> Any:
    version = outer.get(_VERSION_KEY)
    if not isinstance(version, str) or not _VERSION.match(version):
        raise Poison("the envelope names no version")
    if version.split(".")[0] != "2" or version not in ("2", ENVELOPE_VERSION):
        raise Poison(f"envelope version {version[:20]} is not supported, only {ENVELOPE_VERSION}")
    inner = outer.get(_MESSAGE_KEY)
    if not isinstance(inner, str):
        raise Poison("the envelope holds no message text")
    return _parse(inner.encode("utf-8", "surrogatepass"), limits)


def _parse(raw: bytes, limits: BodyLimits) -> Any:
    if _too_deep(raw, limits.max_depth):
        raise Poison(f"the message is nested deeper than {limits.max_depth} levels")
    try:
        return orjson.loads(raw)
    except ValueError as error:
        raise Poison(*_second_reading(raw, limits, str(error))) from None


def _second_reading(raw: bytes, limits: BodyLimits, said: str) -> tuple[str, dict[str, Any] | None]:
    """What Python's own parser makes of a text that strict JSON refuses (NaN, lone surrogates).

    Such a message is refused all the same; reading it only serves to name its instances.
    """
    problem = f"the body is not JSON: {said}"
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return problem, None
    if isinstance(value, dict) and isinstance(value.get(_MESSAGE_KEY), str):
        return _second_reading(value[_MESSAGE_KEY].encode("utf-8", "surrogatepass"), limits, said)
    reason = f"the message holds what JSON has no form for (NaN, Infinity or half characters): {said}"
    return reason, value if isinstance(value, dict) else None


def _too_deep(raw: bytes, max_depth: int) -> bool:
    """Whether brackets outside of strings nest deeper; the first line answers for nearly all messages."""
    if raw.count(b"[") + raw.count(b"{") <= max_depth:
        return False
    brackets = _STRINGS.sub(b"", raw).translate(_BRACES_AS_BRACKETS, _NOT_BRACKETS)
    for _ in range(max_depth):
        shorter = brackets.replace(b"[]", b"")
        if len(shorter) == len(
            brackets
        ):  # nothing closes any more: the parser will say so unless it is deep, too
            return shorter.count(b"[") > max_depth
        brackets = shorter
    return bool(brackets)

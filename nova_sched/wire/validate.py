"""Checks at the edge: JSON Schemas for shapes, plain functions for amounts, names and text that nothing could store.

Two kinds of refusal come out of here: :class:`Refused` for a request that can still be answered (its instances are
known), and :class:`~nova_sched.errors.MalformedMessage` for a message that cannot.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import fastjsonschema

from nova_sched.errors import MalformedMessage

INTEGER_MAX = 2**53
AMOUNT_MAX = 2**31 - 1
DEPTH_MAX = 100
NAME_MAX = 255

SCHEMAS = (
    "run_instance",
    "select_destinations",
    "prep_resize",
    "report_state",
    "update_instance",
    "terminate_instance",
    "compute_run_instance",
    "event",
)


class Refused(Exception):
    """A part of a request is wrong; caught by ``inbound``, which turns it into the request's ``error``."""


def schema(name: str) -> Mapping[str, Any]:
    """The published JSON Schema of that name (one of ``SCHEMAS``)."""
    if name not in SCHEMAS:
        raise KeyError(name)
    text = files("nova_sched.wire").joinpath("schemas", f"{name}.json").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


@cache
def _validator(name: str) -> Callable[[Any], Any]:
    compiled: Callable[[Any], Any] = fastjsonschema.compile(dict(schema(name)), use_default=False)
    return compiled


def fault(name: str, value: Any) -> str | None:
    """What contradicts the schema of that name, in one sentence without the value; None if nothing does."""
    try:
        _validator(name)(value)
    except fastjsonschema.JsonSchemaValueException as exc:
        where = ".".join(exc.path[1:]) or "message"
        return f"{where}: {exc.message.removeprefix(exc.name or '').strip()}"[:255]
    return None


def check(name: str, value: Any) -> None:
    """Raise MalformedMessage where ``value`` contradicts the schema or holds what no store could keep."""
    if not isinstance(value, dict):
        raise MalformedMessage(f"{name}: arguments must be an object, not {type(value).__name__}")
    found = insane(value) or fault(name, value)
    if found is not None:
        raise MalformedMessage(f"{name}: {found}")


def amount(name: str, value: Any, most: int = AMOUNT_MAX) -> int:
    """A size or count: a whole number in 0…``most``; null counts as 0. Raises Refused."""
    if value is None:
        return 0
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise Refused(f"{name}: expected a whole number, found {type(value).__name__}")
    if not 0 <= value <= most:
        raise Refused(f"{name}: {value if abs(value) < INTEGER_MAX else 'the number'} is outside 0..{most}")
    return value


def text(name: str, value: Any, longest: int = NAME_MAX) -> str | None:
    """Text of at most ``longest`` characters; null and empty text are None. Raises Refused."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise Refused(f"{name}: expected text, found {type(value).__name__}")
    if len(value) > longest:
        raise Refused(f"{name}: longer than {longest} characters")
    return value


def insane(value: Any, depth: int = DEPTH_MAX) -> str | None:
    """Name of what cannot be stored or sent on, anywhere inside ``value``; None if all of it can.

    That is: integers outside ±2^53, NaN and infinities, NUL characters, lone surrogates, keys that are no text, nesting
    deeper than ``depth`` and values that JSON does not have.
    """
    texts: list[str] = []
    found = _insane_items((value,), depth + 1, texts)
    if found is not None:
        return found
    try:
        whole = "".join(texts)
        if not whole.isascii():
            whole.encode("utf-8")
    except TypeError:
        return "a key that is no text"
    except UnicodeEncodeError:
        return "text that is no Unicode"
    return "text with a NUL character" if "\0" in whole else None


def _insane_items(items: Iterable[Any], depth: int, texts: list[str]) -> str | None:
    """The walk of ``insane``; texts are gathered, since one look at all of them is cheaper than one at each."""
    if depth <= 0:
        return f"nested deeper than {DEPTH_MAX} levels"
    for item in items:
        kind = type(item)
        if kind is str:
            texts.append(item)
        elif item is None or kind is bool:
            continue
        elif kind is int:
            if not -INTEGER_MAX <= item <= INTEGER_MAX:
                return "an integer outside ±2^53"
        elif kind is float:
            if not math.isfinite(item):
                return "a number that is not finite"
        elif kind is dict:
            texts.extend(item)
            found = _insane_items(item.values(), depth - 1, texts)
            if found is not None:
                return found
        elif kind is list or kind is tuple:
            found = _insane_items(item, depth - 1, texts)
            if found is not None:
                return found
        else:
            return f"a value of type {kind.__name__}"
    return None


def scrubbed(value: Any, depth: int = DEPTH_MAX) -> Any:
    """A copy of ``value`` without what ``insane`` objects to, so that an ERROR about it can be sent and stored."""
    if isinstance(value, dict):
        if depth <= 0:
            return {}
        return {_plain(key): scrubbed(item, depth - 1) for key, item in value.items() if isinstance(key, str)}
    if isinstance(value, list | tuple):
        return [scrubbed(item, depth - 1) for item in value] if depth > 0 else []
    if isinstance(value, str):
        return _plain(value)
    if isinstance(value, int):
        return value if -INTEGER_MAX <= value <= INTEGER_MAX else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return None


def _plain(value: str) -> str:
    return value.replace("\0", "").encode("utf-8", "replace").decode("utf-8")

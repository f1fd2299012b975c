"""Compares what a replay answered with what a case expects, by the rules of the cases' README.

Where the choice among equals differs from the recorded one but is one of ``choices``, the rest of the case follows
from that other choice and is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

TOLERANCE = 1e-9

#: Members of a filter_properties whose lists have no order.
_UNORDERED = frozenset({"group_hosts", "group_policies"})
_COMPARED = ("outcome", "method", "casts", "destinations", "instance_errors", "notifications")
_ROUND = ("index", "instance_uuid", "filtered", "limits", "after", "choices")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One difference. ``where``: path within the results, e.g. ``results[0].rounds[1].chosen``."""

    where: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        return f"{self.where}: expected {self.expected!r}, found {self.actual!r}"


def compare(expected: Sequence[Mapping[str, Any]], actual: Sequence[Mapping[str, Any]]) -> list[Mismatch]:
    """All differences that matter, in the order of the results; empty = the same."""
    if len(expected) != len(actual):
        return [Mismatch("results", f"{len(expected)} results", f"{len(actual)} results")]
    found: list[Mismatch] = []
    for number, (wanted, got) in enumerate(zip(expected, actual, strict=True)):
        where = f"results[{number}]"
        strayed = _strayed(wanted.get("rounds", ()), got.get("rounds", ()))
        found += _result(where, wanted, got, strayed)
        if strayed is not None:
            break
    return found


def _strayed(expected: Sequence[Mapping[str, Any]], actual: Sequence[Mapping[str, Any]]) -> int | None:
    """Index of the first round that chose another one of the allowed choices; None if there is none."""
    for number, (wanted, got) in enumerate(zip(expected, actual, strict=False)):
        if wanted.get("chosen") != got.get("chosen"):
            return number if got.get("chosen") in wanted.get("choices", ()) else None
    return None


def _result(
    where: str, expected: Mapping[str, Any], actual: Mapping[str, Any], strayed: int | None
) -> Iterator[Mismatch]:
    if expected.get("outcome") != actual.get("outcome"):
        yield Mismatch(f"{where}.outcome", expected.get("outcome"), actual.get("outcome"))
        return
    yield from _rounds(where, expected, actual, strayed)
    yield from _reasons(where, expected, actual)
    if strayed is not None:
        return
    for member in _COMPARED:
        if member in expected:
            yield from _differences(f"{where}.{member}", expected[member], actual.get(member))
    if expected.get("host_states"):
        yield from _differences(f"{where}.host_states", expected["host_states"], actual.get("host_states"))


def _rounds(
    where: str, expected: Mapping[str, Any], actual: Mapping[str, Any], strayed: int | None
) -> Iterator[Mismatch]:
    wanted, got = expected.get("rounds", ()), actual.get("rounds", ())
    refused = "reason_contains" in expected
    if len(got) < len(wanted) or (len(got) > len(wanted) and not refused):
        yield Mismatch(f"{where}.rounds", f"{len(wanted)} rounds", f"{len(got)} rounds")
        return
    for number, (one, other) in enumerate(zip(wanted, got, strict=False)):
        if strayed is not None and number > strayed:
            return
        yield from _round(f"{where}.rounds[{number}]", one, other, number == strayed)


def _round(
    where: str, expected: Mapping[str, Any], actual: Mapping[str, Any], strayed: bool
) -> Iterator[Mismatch]:
    wanted, got = expected.get("filter_trace", []), actual.get("filter_trace", [])
    if not (_nobody_entered(wanted) and _nobody_entered(got)):
        yield from _differences(f"{where}.filter_trace", wanted, got)
    for member in _ROUND:
        if member in expected and not (strayed and member in ("limits", "after")):
            yield from _differences(f"{where}.{member}", expected[member], actual.get(member))
    if "chosen" in expected and not strayed:
        yield from _differences(f"{where}.chosen", expected["chosen"], actual.get("chosen"))
    if "weighed" in expected:
        yield from _differences(f"{where}.weighed", _weights(expected), _weights(actual))


def _nobody_entered(trace: Sequence[Any]) -> bool:
    return not trace or (len(trace) == 1 and _is_list(trace[0]) and list(trace[0][1:]) == [[]])


def _weights(one: Mapping[str, Any]) -> dict[str, float]:
    return {f"{entry['host']}/{entry['node']}": entry["weight"] for entry in one.get("weighed", ())}


def _reasons(where: str, expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[Mismatch]:
    reasons = actual.get("reasons", [])
    if expected.get("outcome") in ("no_valid_host", "partial") and not (reasons and all(reasons)):
        yield Mismatch(f"{where}.reasons", "a reason for each refusal", reasons)
    for wanted in expected.get("reason_contains", ()):
        for reason in reasons:
            if _bare(wanted) not in _bare(reason):
                yield Mismatch(f"{where}.reasons", f"a reason that contains {wanted}", reason)


def _bare(text: str) -> str:
    """Text without quotes and backslashes, which say nothing about what is named."""
    return text.translate({ord(mark): None for mark in "\"'\\`"})


def _differences(where: str, expected: Any, actual: Any) -> Iterator[Mismatch]:
    """Differences of two JSON values; numbers are equal within TOLERANCE, whole or not."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key in sorted(expected.keys() | actual.keys()):
            if key not in expected or key not in actual:
                yield Mismatch(f"{where}.{key}", expected.get(key, "<absent>"), actual.get(key, "<absent>"))
            elif (
                (key in _UNORDERED or key == "pci_pools")
                and _is_list(expected[key])
                and _is_list(actual[key])
            ):
                yield from _differences(f"{where}.{key}", _sorted(expected[key]), _sorted(actual[key]))
            else:
                yield from _differences(f"{where}.{key}", expected[key], actual[key])
    elif _is_list(expected) and _is_list(actual):
        if len(expected) != len(actual):
            yield Mismatch(where, expected, actual)
            return
        for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from _differences(f"{where}[{number}]", one, other)
    elif _is_number(expected) and _is_number(actual):
        if not isclose(expected, actual, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            yield Mismatch(where, expected, actual)
    elif expected != actual or isinstance(expected, bool) != isinstance(actual, bool):
        yield Mismatch(where, expected, actual)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _sorted(values: Sequence[Any]) -> list[Any]:
    return sorted(values, key=_in_key_order)


def _in_key_order(value: Any) -> str:
    """Text that is the same for equal members, whatever the order of their keys."""
    return repr(sorted(value.items())) if isinstance(value, Mapping) else repr(value)

"""The language of JsonFilter: ``["and", [">=", "$free_ram_mb", 1024], ["in", "$host", "a", "b"]]``.

:func:`parse` makes a tree of a text, :meth:`Call.over` evaluates it for all rows of a view at once. Numbers compare
with numbers and texts with texts only. Per row, arguments that are missing (unknown variables, null, "") are dropped;
a comparison that is left with fewer than two arguments is false.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nova_sched.hosts.view import Column, HostView
from nova_sched.plugins.api import Mask
from nova_sched.plugins.filters._attributes import ATTRIBUTES, Service

_DEEPEST = 50


class BrokenQuery(Exception):
    """The text is no query; the message says what is wrong and with which part."""


@dataclass(frozen=True, slots=True)
class Values:
    """One argument for all rows. ``numbers``: NaN where it is no number. ``texts``: None where it is no text.

    ``present``: rows that have a value at all; ``truth``: rows whose value counts as true.
    """

    present: Mask
    truth: Mask
    numbers: Column
    texts: NDArray[np.object_] | None

    @classmethod
    def of_objects(cls, values: Sequence[Any]) -> Values:
        """From one Python value per row; None = missing."""
        numbers = [float(value) if isinstance(value, (int, float)) else np.nan for value in values]
        texts = np.array([value if isinstance(value, str) else None for value in values], dtype=np.object_)
        return cls(
            np.array([value is not None for value in values], dtype=np.bool_),
            np.array([bool(value) for value in values], dtype=np.bool_),
            np.array(numbers, dtype=np.float64),
            texts,
        )

    @classmethod
    def of_numbers(cls, numbers: Column) -> Values:
        """From a column; NaN = missing."""
        present = ~np.isnan(numbers)
        return cls(present, present & (numbers != 0.0), numbers, None)

    def take(self, rows: NDArray[Any]) -> Values:
        """Some rows of it."""
        texts = None if self.texts is None else self.texts[rows]
        return Values(self.present[rows], self.truth[rows], self.numbers[rows], texts)


@dataclass(frozen=True, slots=True)
class Constant:
    """The same value for every row; None = missing."""

    value: Any

    def over(self, view: HostView) -> Values:
        """Its values."""
        one = Values.of_objects([self.value])
        return one.take(np.zeros(len(view), dtype=np.intp))


@dataclass(frozen=True, slots=True)
class Variable:
    """``$attribute`` of a host, or ``$attribute.member...``."""

    path: tuple[str, ...]

    def over(self, view: HostView) -> Values:
        """Its values; missing where the host has no such attribute or member."""
        attribute = ATTRIBUTES.get(self.path[0])
        if attribute is None:
            return Constant(None).over(view)
        if attribute.column is not None and len(self.path) == 1:
            return Values.of_numbers(view.number(attribute.column) / attribute.unit)
        coded = attribute.read(view)
        return Values.of_objects([self._member(value) for value in coded.values]).take(coded.codes)

    def _member(self, value: Any) -> Any:
        for name in self.path[1:]:
            value = value.get(name) if isinstance(value, (Mapping, Service)) else None
        return value


@dataclass(frozen=True, slots=True)
class Call:
    """An operator and its arguments."""

    sign: str
    arguments: tuple[Constant | Variable | Call, ...]

    def over(self, view: HostView) -> Values:
        """Its answer per row; never missing."""
        arguments = [argument.over(view) for argument in self.arguments]
        answer = (
            _LOGIC[self.sign](arguments, len(view))
            if self.sign in _LOGIC
            else self._compared(arguments, view)
        )
        return Values(np.ones(len(view), dtype=np.bool_), answer, answer.astype(np.float64), None)

    def _compared(self, arguments: list[Values], view: HostView) -> Mask:
        if all(argument.present.all() for argument in arguments):
            return self._holds(arguments, len(view))
        # Rows that lack the same arguments are compared together.
        patterns, group = np.unique(
            np.stack([argument.present for argument in arguments], axis=1), axis=0, return_inverse=True
        )
        answer = np.zeros(len(view), dtype=np.bool_)
        for index, pattern in enumerate(patterns):
            rows = np.flatnonzero(group.reshape(-1) == index)
            left = [argument.take(rows) for argument, kept in zip(arguments, pattern, strict=True) if kept]
            answer[rows] = self._holds(left, len(rows))
        return answer

    def _holds(self, arguments: list[Values], count: int) -> Mask:
        if len(arguments) < 2:
            return np.zeros(count, dtype=np.bool_)
        first, *others = arguments
        pairs = np.stack([_compare(first, other, _COMPARISONS[self.sign]) for other in others])
        answer: Mask = np.any(pairs, axis=0) if self.sign == "in" else np.all(pairs, axis=0)
        return answer


def _compare(left: Values, right: Values, holds: Callable[[Any, Any], Any]) -> Mask:
    answer: Mask = holds(left.numbers, right.numbers)
    if left.texts is None or right.texts is None:
        return answer
    for row, (one, other) in enumerate(zip(left.texts, right.texts, strict=True)):
        if one is not None and other is not None:
            answer[row] = holds(one, other)
    return answer


def _any(arguments: list[Values], count: int) -> Mask:
    answer = np.zeros(count, dtype=np.bool_)
    for argument in arguments:
        answer |= argument.present & argument.truth
    return answer


def _all(arguments: list[Values], count: int) -> Mask:
    answer = np.ones(count, dtype=np.bool_)
    for argument in arguments:
        answer &= ~argument.present | argument.truth
    return answer


def _any_not(arguments: list[Values], count: int) -> Mask:
    answer = np.zeros(count, dtype=np.bool_)
    for argument in arguments:
        answer |= argument.present & ~argument.truth
    return answer


_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "in": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_LOGIC: Mapping[str, Callable[[list[Values], int], Mask]] = {"and": _all, "or": _any, "not": _any_not}


def parse(text: str) -> Call | None:
    """The tree of a query; None for an empty one, which every host passes. Raises BrokenQuery."""
    try:
        query = json.loads(text)
    except (ValueError, RecursionError):
        raise BrokenQuery("it is not valid JSON") from None
    if not query:
        return None
    if not isinstance(query, list):
        raise BrokenQuery("it is not a list")
    return _call(query, 1)


def _call(query: list[Any], depth: int) -> Call:
    if depth > _DEEPEST:
        raise BrokenQuery(f"it is nested deeper than {_DEEPEST}")
    sign, *arguments = query
    if not isinstance(sign, str) or (sign not in _COMPARISONS and sign not in _LOGIC):
        raise BrokenQuery(f"unknown operator {sign!r}")
    return Call(sign, tuple(_argument(argument, depth) for argument in arguments))


def _argument(argument: Any, depth: int) -> Constant | Variable | Call:
    if isinstance(argument, list):
        return _call(argument, depth + 1) if argument else Constant(True)
    if isinstance(argument, str):
        if argument.startswith("$"):
            return Variable(tuple(argument[1:].split(".")))
        return Constant(argument or None)
    if isinstance(argument, int) and argument.bit_length() > 1023:
        raise BrokenQuery(f"number of {argument.bit_length()} bits")
    return Constant(argument)

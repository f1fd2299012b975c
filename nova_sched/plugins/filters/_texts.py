"""Sentences of explanations: short, bounded, the same form in all filters."""

from __future__ import annotations

import math
from collections.abc import Iterable

_SHOWN = 5
_LONGEST = 200


def amount(value: float, unit: str = "") -> str:
    """``2048 MB``, ``0.5``, ``unknown``."""
    if math.isnan(value):
        return "unknown"
    text = str(int(value)) if value == int(value) else f"{value:g}"
    return f"{text} {unit}" if unit else text


def some(items: Iterable[object]) -> str:
    """The first few items in order of their texts, then how many more there are; ``none`` for none."""
    texts = sorted(str(item) for item in items)
    if not texts:
        return "none"
    rest = len(texts) - _SHOWN
    shown = ", ".join(clipped(text) for text in texts[:_SHOWN])
    return f"{shown} and {rest} more" if rest > 0 else shown


def clipped(value: object) -> str:
    """Text of a value from a request, cut to a length that a reason can carry."""
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."

"""Option types that remember what they refused and can say what they would have taken.

oslo.config reports a wrong value as a sentence; an operator needs option, value and expectation apart. Each type here
raises :class:`Refused`, which ``conf.section`` turns into a ConfigurationError.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from oslo_config import types


class Refused(ValueError):
    """A value outside of what its type takes.

    :ivar value: the text or object found.
    :ivar expected: what would be taken, as the end of the sentence "expected …".
    """

    def __init__(self, value: Any, expected: str) -> None:
        super().__init__(f"found {value!r}, expected {expected}")
        self.value = value
        self.expected = expected


class Whole(types.Integer):
    """A whole number within bounds; nothing else, not even an empty text."""

    def __call__(self, value: Any) -> int:
        """Return the number. Raises Refused."""
        if isinstance(value, bool) or value is None or str(value).strip() == "":
            raise Refused(value, self.expected())
        try:
            return int(super().__call__(value) or 0)
        except (TypeError, ValueError):
            raise Refused(value, self.expected()) from None

    def expected(self) -> str:
        """Say the bounds."""
        return f"a whole number {_bounds(self.min, self.max)}"


class Real(types.Float):
    """A finite number within bounds."""

    def __call__(self, value: Any) -> float:
        """Return the number. Raises Refused."""
        if isinstance(value, bool) or value is None or str(value).strip() == "":
            raise Refused(value, self.expected())
        try:
            number = float(super().__call__(value) or 0)
        except (TypeError, ValueError):
            raise Refused(value, self.expected()) from None
        if not math.isfinite(number):
            raise Refused(value, self.expected())
        return number

    def expected(self) -> str:
        """Say the bounds."""
        return f"a number {_bounds(self.min, self.max)}"


class Flag(types.Boolean):
    """True or false, in oslo.config's spellings."""

    def __call__(self, value: Any) -> bool:
        """Return the truth value. Raises Refused."""
        try:
            return bool(super().__call__(value if isinstance(value, bool) else str(value)))
        except (TypeError, ValueError):
            raise Refused(value, self.expected()) from None

    def expected(self) -> str:
        """Say the spellings."""
        return "true or false"


class Text(types.String):
    """A trimmed text; of a fixed set where choices are given. An empty text means "not set" to callers that allow it."""

    def __init__(self, choices: Sequence[str] | None = None, *, required: bool = False) -> None:
        super().__init__(choices=list(choices) if choices else None)
        self.required = required

    def __call__(self, value: Any) -> str:
        """Return the text. Raises Refused."""
        text = str(value).strip()
        if self.required and not text:
            raise Refused(value, self.expected())
        try:
            return str(super().__call__(text))
        except ValueError:
            raise Refused(value, self.expected()) from None

    def expected(self) -> str:
        """Say the choices."""
        if self.choices:
            return "one of " + ", ".join(str(choice) for choice in self.choices)
        return "a text that is not empty" if self.required else "a text"


class Names(types.List):
    """A comma list; items are trimmed and empty ones dropped, as ``a, b,`` is written by people."""

    def __init__(self) -> None:
        super().__init__(item_type=types.String())

    def __call__(self, value: Any) -> list[str]:
        """Return the items. Raises Refused."""
        if not isinstance(value, str | list | tuple):
            raise Refused(value, self.expected())
        return trimmed([value] if isinstance(value, str) else value)

    def expected(self) -> str:
        """Say the form."""
        return "a comma list"


def trimmed(values: Iterable[Any]) -> list[str]:
    """Split each value at commas, trim, drop what is empty."""
    return [item for value in values for item in (part.strip() for part in str(value).split(",")) if item]


def _bounds(low: float | None, high: float | None) -> str:
    if low is None:
        return f"up to {high:g}" if high is not None else "of any size"
    return f"of {low:g} or more" if high is None else f"from {low:g} to {high:g}"

"""Argument texts that several commands read."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Iterable

from nova_sched.cmd.exits import UsageError


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """KEY=VALUE texts as a mapping. Raises UsageError."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"{text!r} is not KEY=VALUE")
        found[key] = value
    return found


def natural(text: str) -> int:
    """A whole number from 0, for argparse."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if not 0 <= number < 2**31:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {2**31 - 1}")
    return number


def uuid_text(text: str) -> str:
    """A uuid as messages spell it, for argparse."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a uuid") from None


def positive(text: str) -> int:
    """A whole number from 1, for argparse."""
    number = natural(text)
    if not number:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number

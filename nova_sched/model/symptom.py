"""One line of a check-up: what was looked at, what was found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How good a finding is. Only ``WRONG`` makes a check-up fail."""

    FINE = "ok"
    ODD = "odd"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Symptom:
    """``remedy`` is empty for what is fine."""

    check: str
    state: State
    found: str
    remedy: str = ""


def fine(check: str, found: str) -> Symptom:
    """Nothing to do."""
    return Symptom(check, State.FINE, found)


def odd(check: str, found: str, remedy: str) -> Symptom:
    """Worth knowing; the service does its work."""
    return Symptom(check, State.ODD, found, remedy)


def wrong(check: str, found: str, remedy: str) -> Symptom:
    """Somebody will suffer."""
    return Symptom(check, State.WRONG, found, remedy)

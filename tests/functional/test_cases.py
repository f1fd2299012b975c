"""Every recorded decision, replayed through the real engine: 0 mismatches."""

from __future__ import annotations

from pathlib import Path

import pytest

from nova_sched.lab.case import load
from nova_sched.lab.replay import Translator, check
from nova_sched.testing.cases import translator

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted((GOLDEN / "cases").glob("*/*.json"))
#: Of our own making: expected by hand or by a second, plain implementation of the rules.
OWN_CASES = sorted((GOLDEN / "cases_own").glob("*.json"))


@pytest.fixture(scope="module")
def edges() -> Translator:
    return translator()


def test_all_cases_are_there() -> None:
    """The golden folder has not lost files."""
    assert len(CASES) == 277
    assert len(OWN_CASES) >= 87


@pytest.mark.parametrize("path", CASES + OWN_CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case_comes_out_as_expected(path: Path, edges: Translator) -> None:
    """Outcome, traces, weights, choices, limits, consumed state, casts and events are those of the file."""
    assert [str(difference) for difference in check(load(path), edges)] == []

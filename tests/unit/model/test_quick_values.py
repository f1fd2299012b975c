"""Values with a quick ``__init__`` behave as the frozen dataclasses they are."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from nova_sched.model.quick import quick_init


@quick_init
@dataclass(frozen=True, slots=True)
class Point:
    """Two plain fields, one with a default and one made anew for each value."""

    x: int
    y: int = 2
    notes: list[str] = field(default_factory=list)


def test_fields_are_set_by_position_by_name_and_by_default() -> None:
    assert (Point(1).x, Point(1).y, Point(1).notes) == (1, 2, [])
    assert Point(1, y=3) == Point(x=1, y=3)
    assert Point(1).notes is not Point(1).notes


def test_wrong_arguments_are_refused() -> None:
    for arguments in ((), (1, 2, [], 4)):
        with pytest.raises(TypeError):
            Point(*arguments)
    with pytest.raises(TypeError):
        Point(1, z=3)  # type: ignore[call-arg]


def test_values_stay_frozen_and_can_be_replaced_and_copied() -> None:
    point = Point(1, 5, ["a"])
    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    assert replace(point, x=7) == Point(7, 5, ["a"])
    assert copy.deepcopy(point) == point == pickle.loads(pickle.dumps(point))


def test_a_post_init_still_runs() -> None:
    @quick_init
    @dataclass(frozen=True, slots=True)
    class Positive:
        x: int

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("below zero")

    assert Positive(1).x == 1
    with pytest.raises(ValueError, match="below zero"):
        Positive(-1)


def test_fields_that_cannot_be_set_quickly_are_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Odd:
        x: int = field(kw_only=True)

    with pytest.raises(TypeError, match="x"):
        quick_init(Odd)

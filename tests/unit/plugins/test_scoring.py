"""Weights: stretching, ties, subsets, chance, demotion."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from nova_sched.hosts.view import HostView
from nova_sched.model.facts import NO_FACTS, Facts
from nova_sched.model.request import SchedulingRequest
from nova_sched.plugins.api import Column, HostWeigher, RawWeights
from nova_sched.plugins.guard import PluginGuard
from nova_sched.plugins.scores import Scores, normalised
from nova_sched.plugins.scoring import Scorer
from nova_sched.testing.builders import host, request, table


@pytest.mark.parametrize(
    ("values", "floor", "wanted"),
    [
        ([1.0, 3.0, 2.0], None, [0.0, 1.0, 0.5]),
        ([1.0, 4.0], 0.0, [0.25, 1.0]),
        ([-2.0, -1.0], 0.0, [0.0, 1.0]),
        ([5.0, 5.0], None, [0.0, 0.0]),
        ([0.0, 0.0], 0.0, [0.0, 0.0]),
        ([7.0], 0.0, [1.0]),
        ([1.0, np.nan, 3.0], None, [0.0, 0.0, 1.0]),
        ([np.nan, np.nan], None, [0.0, 0.0]),
        ([], 0.0, []),
    ],
)
def test_values_are_stretched_between_their_smallest_and_largest(
    values: list[float], floor: float | None, wanted: list[float]
) -> None:
    """lo = min (for RAM at most 0), hi = max, equal = 0 for all, unknown = the smallest."""
    assert normalised(np.array(values), floor).tolist() == wanted


def scores(weights: list[float], demoted: list[bool] | None = None) -> Scores:
    mask = None if demoted is None else np.array(demoted)
    return Scores(np.arange(len(weights)), np.array(weights), mask, ())


def test_ties_keep_the_order_of_the_table() -> None:
    """LP#1711184, the deterministic half: among equals the smallest database id."""
    assert scores([1.0, 2.0, 2.0, 0.0]).ranked().tolist() == [1, 2, 0, 3]


def test_demoted_hosts_rank_after_all_others_whatever_their_weight() -> None:
    """Unknown free RAM never wins over known, also with a negative multiplier."""
    board = scores([9.0, 1.0, 2.0], [True, False, False])
    assert board.ranked().tolist() == [2, 1, 0]
    assert board.top(2) == [2, 1]
    assert board.choices(1).tolist() == [2]
    assert board.choices(3).tolist() == [0, 1, 2]


def test_only_demoted_hosts_are_still_hosts() -> None:
    """When nobody's RAM is known, the best of the unknown is taken."""
    assert scores([1.0, 3.0], [True, True]).choices(1).tolist() == [1]


@pytest.mark.parametrize(
    ("size", "wanted"), [(1, [1]), (2, [1, 2, 3]), (3, [1, 2, 3]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3, 4])]
)
def test_choices_are_the_best_and_whoever_ties_with_the_last_of_them(size: int, wanted: list[int]) -> None:
    """What a draw among the best ``size`` could have chosen under another order of equals."""
    assert scores([1.0, 5.0, 3.0, 3.0, 0.0]).choices(size).tolist() == wanted


def test_the_best_few_of_many_are_found_without_sorting_all() -> None:
    """Same answer as the full ranking, ties included."""
    weights = np.random.default_rng(3).integers(0, 20, size=500).astype(float)
    board = Scores(np.arange(500), weights, None, ())
    assert board.top(7) == board.ranked()[:7].tolist()


class Fixed(HostWeigher):
    """Weighs by free vCPUs of the row's own, times a given multiplier."""

    name = "Fixed"

    def __init__(self, multiplier: Any = 1.0, values: Any = None) -> None:
        self._multiplier, self._values = multiplier, values
        self.asked: list[int] = []

    def raw(self, view: HostView, request: SchedulingRequest, facts: Facts) -> RawWeights:
        self.asked.append(len(view))
        return RawWeights(view.free_ram_mb if self._values is None else self._values)

    def multiplier(self, view: HostView) -> float | Column:
        return self._multiplier


def board_of(*weighers: HostWeigher, rows: int = 3, **options: Any) -> tuple[Scorer, Scores]:
    made = table(*(host(f"h{number}", free_ram_mb=number * 1024) for number in range(rows)))
    scorer = Scorer(weighers, PluginGuard(), **options)
    return scorer, scorer.weighing(request()).scores(made.view(), NO_FACTS)


def test_a_multiplier_may_differ_from_host_to_host() -> None:
    """Per-aggregate multipliers: one number per row."""
    assert board_of(Fixed(np.array([1.0, 2.0, -1.0])))[1].weights.tolist() == [0.0, 1.0, -1.0]


def test_a_weigher_without_influence_is_not_asked() -> None:
    """Multiplier 0 costs nothing, unless the weigher has more to say than weights."""
    silent = Fixed(0.0)
    board_of(silent)
    assert silent.asked == []


def test_identical_requests_get_identical_weights_whatever_ran_before() -> None:
    """LP#1816360's cousin LP#1870096: smallest and largest belong to one call, never to the weigher object."""
    weigher = Fixed()
    first = board_of(weigher, rows=3)[1].weights.tolist()
    board_of(weigher, rows=50)
    assert board_of(weigher, rows=3)[1].weights.tolist() == first


@pytest.mark.parametrize("values", [np.zeros(1), "abc", [1, 2]], ids=["length", "text", "list"])
def test_weights_of_a_wrong_shape_name_the_weigher(values: Any) -> None:
    """A broken weigher is an error with its name."""
    with pytest.raises(Exception, match="Fixed failed"):
        board_of(Fixed(values=values))


def test_later_rounds_ask_about_consumed_rows_only_and_stretch_anew() -> None:
    """Raw values are reused, smallest and largest are those of the hosts left."""
    weigher = Fixed()
    made = table(*(host(f"h{number}", free_ram_mb=number * 1024) for number in range(4)))
    overlay = made.overlay()
    weighing = Scorer([weigher], PluginGuard()).weighing(request())
    weighing.scores(overlay.view, NO_FACTS)
    overlay.consume(3, request(memory_mb=2048).amounts)
    assert weighing.scores(overlay.view, NO_FACTS, [3]).weights.tolist() == [0.0, 0.5, 1.0, 0.5]
    left = overlay.view.take(np.array([1, 3]))
    assert weighing.scores(left, NO_FACTS, [2]).weights.tolist() == [0.0, 0.0]
    assert weigher.asked == [4, 1]


def drawn(scorer: Scorer, board: Scores) -> Counter[int]:
    return Counter(scorer.draw(board, np.random.default_rng(seed)) for seed in range(300))


def test_a_subset_is_drawn_from_evenly() -> None:
    """scheduler_host_subset_size 2 of 5: the best two, each about half of the time."""
    found = drawn(*board_of(Fixed(), rows=5, subset_size=2))
    assert found.keys() == {4, 3}
    assert abs(found[4] - 150) < 60


@pytest.mark.parametrize("size", [0, -1])
def test_a_subset_below_one_is_one(size: int) -> None:
    """As Juno (case 098)."""
    assert drawn(*board_of(Fixed(), rows=5, subset_size=size)).keys() == {4}


def test_equal_best_hosts_may_be_shuffled() -> None:
    """LP#1711184: with the option, equals share the load; off, the order of the table decides."""
    same = Fixed(values=np.array([1.0, 1.0, 0.0]))
    assert drawn(*board_of(same)).keys() == {0}
    assert drawn(*board_of(same, shuffle=True)).keys() == {0, 1}

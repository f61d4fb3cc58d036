"""Ranks and gaps, ties to the lowest index."""

from __future__ import annotations

import numpy as np
import pytest

from pate.mechanisms.gap_selection import Ranking
from pate.mechanisms.noise.noisy_order import largest_in_order
from pate.mechanisms.top_k import falling_order, stable_sort


def test_ranks_by_hand() -> None:
    ranking = Ranking.of(np.array([[2, 5, 5, 0], [1, 1, 1, 1]]))
    np.testing.assert_array_equal(ranking.sorted_counts, [[5, 5, 2, 0], [1, 1, 1, 1]])
    np.testing.assert_array_equal(ranking.gaps(padded=False, num_teachers=7), [[0, 3, 2], [0, 0, 0]])
    np.testing.assert_array_equal(ranking.gaps(padded=True, num_teachers=7), [[2, 0, 3, 2, 0], [6, 0, 0, 0, 1]])


@pytest.mark.parametrize(
    ("k", "expected"),
    [(0, [0, 0, 0, 0]), (1, [0, 1, 0, 0]), (2, [0, 1, 1, 0]), (3, [1, 1, 1, 0]), (4, [1, 1, 1, 1])],
)
def test_top_sets_by_hand(k: int, expected: list[int]) -> None:
    ranking = Ranking.of(np.array([[2, 5, 5, 0]]))
    np.testing.assert_array_equal(ranking.top(np.array([k])), [expected])


def test_ties_go_to_the_lowest_index_and_k_may_differ_by_row() -> None:
    ranking = Ranking.of(np.full((4, 3), 9))
    np.testing.assert_array_equal(ranking.top(np.arange(4)), [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]])


def test_against_a_stable_sort() -> None:
    counts = np.random.default_rng(0).integers(0, 6, size=(500, 7))
    ranking = Ranking.of(counts)
    order = np.argsort(-counts, axis=1, kind="stable")
    for k in range(8):
        expected = np.zeros_like(counts, dtype=bool)
        np.put_along_axis(expected, order[:, :k], True, axis=1)
        np.testing.assert_array_equal(ranking.top(np.full(500, k)), expected)


@pytest.mark.parametrize("largest", [3, 2**40, 2**61])
def test_stable_sort_is_stable_whether_or_not_value_and_place_share_an_integer(largest: int) -> None:
    values = np.array([[largest, 0, largest, 1, 0], [0, 0, 0, 0, largest]])
    order, rising = stable_sort(values)
    assert order.tolist() == [[1, 4, 3, 0, 2], [0, 1, 2, 3, 4]]
    assert rising.tolist() == [[0, 0, 1, largest, largest], [0, 0, 0, 0, largest]]


def test_falling_order_breaks_ties_by_the_lowest_index() -> None:
    order, falling = falling_order(np.array([[5, 9, 5, 0]]))
    assert order.tolist() == [[1, 0, 2, 3]]
    assert falling.tolist() == [[9, 5, 5, 0]]


def test_largest_in_order() -> None:
    values = np.array([[0.5, 3.0, -1.0, 2.0], [4.0, 1.0, 2.0, 3.0]])
    for k in range(1, 5):
        assert largest_in_order(values, k).tolist() == [[1, 3, 0, 2][:k], [0, 3, 2, 1][:k]]

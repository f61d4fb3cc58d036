"""docs/proofs/adjacency.md, step by step, on all small histograms; sorted and compared without the package."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from pate.accounting import Adjacency

SMALL = [(1, 4), (2, 4), (3, 4), (4, 3)]
Histogram = tuple[int, ...]


def neighbors(adjacency: Adjacency, num_labels: int, num_teachers: int) -> Iterator[tuple[Histogram, Histogram]]:
    """Every ordered pair of neighboring histograms."""
    moves = (-1, 0, 1) if adjacency is Adjacency.REPLACE_ONE else (0, 1)
    for counts in itertools.product(range(num_teachers + 1), repeat=num_labels):
        for change in itertools.product(moves, repeat=num_labels):
            moved = tuple(a + b for a, b in zip(counts, change, strict=True))
            if max(moved) <= num_teachers and min(moved) >= 0:
                yield counts, moved
                if adjacency is Adjacency.ADD_REMOVE:
                    yield moved, counts


def padded_gaps(counts: Histogram, num_teachers: int) -> np.ndarray:
    falling = [num_teachers, *sorted(counts, reverse=True), 0]
    return -np.diff(falling)


def best(counts: Histogram, k: int) -> set[int]:
    return set(sorted(range(len(counts)), key=lambda label: (-counts[label], label))[:k])


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_bounds_of_the_table_hold_and_are_attained(adjacency: Adjacency) -> None:
    largest = {"sorted count": 0, "gap": 0, "difference of two gaps": 0, "padding gap": 0}
    for num_labels, num_teachers in SMALL:
        for counts, moved in neighbors(adjacency, num_labels, num_teachers):
            change = np.sort(moved) - np.sort(counts)
            gaps = padded_gaps(moved, num_teachers) - padded_gaps(counts, num_teachers)
            here = {
                "sorted count": np.abs(change).max(),
                "gap": np.abs(gaps).max(),
                "difference of two gaps": gaps.max() - gaps.min(),
                "padding gap": np.abs(gaps[[0, -1]]).max(),
            }
            largest = {name: max(largest[name], int(here[name])) for name in largest}
            if adjacency is Adjacency.ADD_REMOVE:
                assert change.max() <= 0 or change.min() >= 0
    assert largest == {
        "sorted count": 1,
        "gap": adjacency.gap_sensitivity,
        "difference of two gaps": adjacency.gap_range,
        "padding gap": 1,
    }


@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_top_k_set_changes_only_where_both_gaps_are_at_most_sens(adjacency: Adjacency) -> None:
    largest = 0
    for num_labels, num_teachers in SMALL:
        for counts, moved in neighbors(adjacency, num_labels, num_teachers):
            before, after = padded_gaps(counts, num_teachers), padded_gaps(moved, num_teachers)
            for k in range(num_labels + 1):
                if best(counts, k) != best(moved, k):
                    largest = max(largest, int(before[k]), int(after[k]))
    assert largest == adjacency.gap_sensitivity


def test_the_page_s_counterexample_to_a_floor_of_one_under_replace_one() -> None:
    assert best((5, 5, 5), 1) != best((4, 4, 6), 1)
    threshold = 1 + ndtri(1 - 0.001)  # floor 1, test_std 1
    assert ndtr(2 - threshold) / 0.001 == pytest.approx(18.3, abs=0.05)

"""docs/proofs/top_k.md, step by step."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest

from pate.accounting import Adjacency
from tests.privacy.histograms import neighbors


def spread(moves: np.ndarray) -> float:
    """By how much two losses `[P, n]` of one pair of neighbors move against each other, at most."""
    return float((moves.max(axis=1) - moves.min(axis=1)).max())


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_losses_of_sequences_move_against_each_other_by_at_most_twice_w(adjacency: Adjacency) -> None:
    outcomes = np.array(list(permutations(range(4), 2)))

    def losses(counts: np.ndarray) -> np.ndarray:
        best = -np.sort(-counts, axis=1)[:, None, :2]
        return (best - counts[:, outcomes]).max(axis=2)

    first, second = neighbors(4, 3, adjacency)
    width = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    assert spread(losses(second) - losses(first)) == 2 * width


@pytest.mark.parametrize("gamma", [0.0, 0.25, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_losses_of_sets_move_against_each_other_by_at_most_w(adjacency: Adjacency, gamma: float) -> None:
    sets = list(combinations(range(4), 2))
    outside = [[i for i in range(4) if i not in chosen] for chosen in sets]

    def losses(counts: np.ndarray) -> np.ndarray:
        worst = counts[:, np.array(sets)].min(axis=2)
        largest = np.maximum(counts[:, np.array(outside)].max(axis=2), worst)
        return (1 - gamma) * largest - gamma * worst

    first, second = neighbors(4, 3, adjacency)
    width = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    assert spread(losses(second) - losses(first)) == pytest.approx(width)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_lost_index_has_at_most_w_more_than_the_best_count_outside(adjacency: Adjacency) -> None:
    first, second = neighbors(4, 3, adjacency)
    width = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    ranks = [np.argsort(np.argsort(-counts, axis=1, kind="stable"), axis=1) for counts in (first, second)]
    for size in (1, 2, 3):
        lost = (ranks[0] < size) & (ranks[1] >= size)
        excess = first - (-np.sort(-first, axis=1))[:, [size]]
        assert excess[lost].max() == width


@pytest.mark.parametrize("epsilon", [0.2, 1e-3])
@pytest.mark.parametrize("log_ratio", [np.log(40), 10.0, 30.0])
def test_the_constants_for_sets_of_many_fit(epsilon: float, log_ratio: float) -> None:
    def h(u: np.ndarray) -> np.ndarray:
        return (1 + u) * np.log1p(u) - u

    k = log_ratio * np.geomspace(16, 1e6, 500)
    step = epsilon / (4 * np.sqrt(k * log_ratio))  # m / b
    t = 0.9785 * epsilon / (1.95 * np.sqrt(k * log_ratio))
    assert (step <= epsilon / (16 * log_ratio) * (1 + 1e-12)).all()
    assert (2 * step * np.exp(step) <= t).all()
    assert (0.9785 * epsilon + step < epsilon).all()
    most = k + 1.9 * np.sqrt(k * log_ratio)
    assert (most <= 1.4872 * k).all()
    assert (most * h(1 - k / most) >= log_ratio).all()
    assert (t**2 * most <= 0.0213 * epsilon).all()
    assert (1 / (1 - t) <= 1.0073).all()
    largest, variance = 1.0073 * t, 1.509 * t**2 * k
    fall = (0.9785 - 0.0213) * epsilon
    assert (variance / largest**2 * h(largest * fall / variance) >= 1.08 * log_ratio).all()

"""Laplace top-k: its scales, where the approximate price is valid, and the exact deltas behind it."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from pate.accounting import Adjacency, ApproximateEvent, PureDpEvent
from pate.mechanisms import LaplaceTopK
from pate.validation import InvalidValue


def test_scales() -> None:
    assert LaplaceTopK(k=5, epsilon=2.0).noise_scale(num_counts=9) == 5.0
    assert LaplaceTopK(k=5, epsilon=2.0, adjacency="add_remove").noise_scale(num_counts=9) == 2.5
    assert LaplaceTopK(k=5, epsilon=2.0, max_labels=3).noise_scale(num_counts=9) == 3.0
    assert LaplaceTopK(k=5, epsilon=2.0, max_labels=8).noise_scale(num_counts=9) == 5.0


def test_the_scale_with_a_failure_is_that_of_one_shot_until_k_is_large() -> None:
    for k, moves in ((73, 73.0), (74, 2 * math.sqrt(74 * math.log(100)))):  # 16 log 100 = 73.7
        approximate = LaplaceTopK(k=k, epsilon=0.1, failure_prob=0.05, adjacency="add_remove")
        assert approximate.noise_scale(num_counts=5) == pytest.approx(10 * moves)
        assert approximate.event == ApproximateEvent(PureDpEvent(0.1), 0.05)


def test_with_a_failure_the_order_of_the_noise_is_not_released() -> None:
    mechanism = LaplaceTopK(k=3, epsilon=0.2, failure_prob=0.05)
    drawn = mechanism(np.full((50, 6), 7), rng=np.random.default_rng(0)).indices
    assert (np.diff(drawn, axis=1) > 0).all()
    distribution = mechanism.distribution(np.array([2, 1, 1, 0]))
    assert list(distribution) == [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    assert sum(distribution.values()) == pytest.approx(1, abs=1e-12)


def test_the_approximate_price_is_refused_outside_its_range() -> None:
    with pytest.raises(InvalidValue, match=r"epsilon=0\.3: expected at most 0\.2 with a failure_prob"):
        LaplaceTopK(k=1, epsilon=0.3, failure_prob=0.01)
    for failure_prob in (0.0, 0.06, math.nan):
        with pytest.raises(InvalidValue, match=r"failure_prob=.*: expected a number in \(0, 0\.05\]"):
            LaplaceTopK(k=1, epsilon=0.1, failure_prob=failure_prob)
    with pytest.raises(InvalidValue, match="max_labels=2: expected None with a failure_prob"):
        LaplaceTopK(k=1, epsilon=0.1, failure_prob=0.01, max_labels=2)
    with pytest.raises(InvalidValue, match="max_labels=0: expected a whole number >= 1"):
        LaplaceTopK(k=1, epsilon=0.1, max_labels=0)


def hockey_sticks(mechanism: LaplaceTopK, counts: np.ndarray, *, epsilon: float) -> list[float]:
    """Of all neighbors of one histogram, both ways."""
    up = [0, 1] if mechanism.adjacency is Adjacency.ADD_REMOVE else [-1, 0, 1]
    distribution, deltas = mechanism.distribution(counts), []
    for move in product(up, repeat=len(counts)):
        other = mechanism.distribution(counts + np.array(move))
        pairs = [(distribution[y], other[y]) for y in distribution]
        deltas += [
            sum(max(0.0, p - math.exp(epsilon) * q) for p, q in side) for side in (pairs, [x[::-1] for x in pairs])
        ]
    return deltas


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_approximate_price_covers_small_instances(adjacency: Adjacency) -> None:
    mechanism = LaplaceTopK(k=2, epsilon=0.2, failure_prob=0.05, adjacency=adjacency)
    assert max(hockey_sticks(mechanism, np.array([3, 1, 1]), epsilon=0.2)) <= 0.05
    assert max(hockey_sticks(mechanism, np.array([3, 1, 1]), epsilon=0.001)) > 0  # the check can fail


def chosen_distribution(values: tuple[float, float]) -> np.ndarray:
    """How many of the first are among the 200 largest of 200 of one value and 200 of another, plus noise: `[201]`."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = np.unique([*np.linspace(-6, 6, 61), *values])
    half = np.diff(edges)[:, None] / 2
    points, weight = (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
    away = [points - value for value in values]
    density = [np.exp(-np.abs(x)) / 2 for x in away]
    exceeds = [np.where(x > 0, f, 1 - f) for x, f in zip(away, density, strict=True)]
    count = np.arange(201)[:, None]
    last_is_first = 200 * binom.pmf(count - 1, 199, exceeds[0]) * binom.pmf(200 - count, 200, exceeds[1]) * density[0]
    last_is_second = 200 * binom.pmf(count, 200, exceeds[0]) * binom.pmf(199 - count, 199, exceeds[1]) * density[1]
    return np.asarray((last_is_first + last_is_second) @ weight)


@pytest.mark.slow
@pytest.mark.parametrize("lead", [0, 3, 15])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_approximate_price_covers_many_counts_of_two_kinds(adjacency: Adjacency, lead: int) -> None:
    """Those of the first kind lead by some votes; all moves of the kinds, and a thirtieth of the noise."""
    mechanism = LaplaceTopK(k=200, epsilon=0.2, failure_prob=0.05, adjacency=adjacency)
    scale = mechanism.noise_scale(num_counts=400)
    assert scale < 200 * mechanism.adjacency.gap_sensitivity / 0.2  # less noise than one shot takes
    steps = [0, 1] if adjacency is Adjacency.ADD_REMOVE else [-1, 0, 1]
    for share, covered in ((1.0, True), (1 / 30, False)):
        distribution = chosen_distribution((lead / scale / share, 0.0))
        assert distribution.sum() == pytest.approx(1)
        deltas = []
        for first, second in product(steps, steps):
            other = chosen_distribution(((lead + first) / scale / share, second / scale / share))
            deltas += [
                np.maximum(p - math.exp(0.2) * q, 0).sum() for p, q in ((distribution, other), (other, distribution))
            ]
        assert (max(deltas) <= 0.05) == covered

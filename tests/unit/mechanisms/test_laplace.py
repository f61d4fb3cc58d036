"""Laplace top-k: its scales, where the approximate price is valid, and the exact deltas behind it."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from pate.accounting import Adjacency, ApproximateEvent, PureDpEvent
from pate.mechanisms import LaplaceTopK
from pate.validation import InvalidValue


def test_scales() -> None:
    assert LaplaceTopK(k=5, epsilon=2.0).noise_scale(num_counts=9) == 5.0
    assert LaplaceTopK(k=5, epsilon=2.0, adjacency="add_remove").noise_scale(num_counts=9) == 2.5
    assert LaplaceTopK(k=5, epsilon=2.0, max_labels=3).noise_scale(num_counts=9) == 3.0
    assert LaplaceTopK(k=5, epsilon=2.0, max_labels=8).noise_scale(num_counts=9) == 5.0
    approximate = LaplaceTopK(k=4, epsilon=0.1, failure_prob=0.01, adjacency="add_remove")
    assert approximate.noise_scale(num_counts=100) == pytest.approx(80 * math.sqrt(4 * math.log(10_000)))
    assert approximate.event == ApproximateEvent(PureDpEvent(0.1), 0.01)


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
    """Of all neighbours of one histogram, both ways."""
    up = [0, 1] if mechanism.adjacency is Adjacency.ADD_REMOVE else [-1, 0, 1]
    law, deltas = mechanism.distribution(counts), []
    for move in product(up, repeat=len(counts)):
        other = mechanism.distribution(counts + np.array(move))
        pairs = [(law[y], other[y]) for y in law]
        deltas += [
            sum(max(0.0, p - math.exp(epsilon) * q) for p, q in side) for side in (pairs, [x[::-1] for x in pairs])
        ]
    return deltas


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_approximate_price_covers_small_instances(adjacency: Adjacency) -> None:
    mechanism = LaplaceTopK(k=2, epsilon=0.2, failure_prob=0.05, adjacency=adjacency)
    assert max(hockey_sticks(mechanism, np.array([3, 1, 1]), epsilon=0.2)) <= 0.05
    assert max(hockey_sticks(mechanism, np.array([3, 1, 1]), epsilon=0.001)) > 0  # the check can fail

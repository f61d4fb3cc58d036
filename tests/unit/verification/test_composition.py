from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from pate.accounting import gaussian_delta
from pate.verification.divergences import compose, hockey_stick, largest_renyi


def test_randomized_response_is_exact() -> None:
    """n releases of epsilon-DP randomized response: the binomial formula of Kairouz, Oh and Viswanath."""
    epsilon, count = 0.3, 11
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    first, second = compose(np.array([p, 1 - p]), np.array([1 - p, p]), count)
    assert len(first) == count + 1
    losses = (2 * np.arange(count + 1) - count) * epsilon
    for target in (0.0, 0.5, 2.0):
        expected = (binom.pmf(np.arange(count + 1), count, p) * np.maximum(0, 1 - np.exp(target - losses))).sum()
        assert hockey_stick(first[None], second[None], [target])[0, 0] == pytest.approx(expected, rel=1e-9)


def test_divergences_add_up_while_nothing_is_merged() -> None:
    first, second = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.4, 0.2])
    once = largest_renyi(first[None], second[None], [2.0, 8.0])
    both = compose(first, second, 5)
    assert largest_renyi(both[0][None], both[1][None], [2.0, 8.0]) == pytest.approx(5 * once, rel=1e-9)


@pytest.mark.slow
def test_merged_outcomes_never_cost_more_and_little_less() -> None:
    """A Gaussian with std 20, in cells, 100 times: mu = 1/2."""
    edges = np.concatenate([[-np.inf], np.arange(-160, 160, 1.0), [np.inf]])
    first, second = np.diff(norm.cdf(edges / 20)), np.diff(norm.cdf((edges - 1) / 20))
    composed = compose(first, second, 100)
    assert len(composed[0]) <= 1100
    for epsilon in (0.5, 1.5):
        exact = gaussian_delta(0.5, epsilon=epsilon)
        found = hockey_stick(composed[0][None], composed[1][None], [epsilon])[0, 0]
        assert 0.98 * exact < found <= exact * (1 + 1e-9)


def test_mass_of_one_side_only_stays_apart() -> None:
    first, second = compose(np.array([0.9, 0.1, 0.0]), np.array([0.9, 0.0, 0.1]), 20, num_cells=16)
    assert hockey_stick(first[None], second[None], [50.0])[0, 0] == pytest.approx(1 - 0.9**20)
    assert first.sum() == pytest.approx(1)
    assert second.sum() == pytest.approx(1)

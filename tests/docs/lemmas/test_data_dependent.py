"""docs/proofs/data_dependent.md, step by step."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

RNG = np.random.default_rng(7)


def test_the_worst_change_multiplies_a_subset() -> None:
    """Random y in [1, e**e] never beats the best subset, in either moment."""
    distribution, order, top = np.array([0.5, 0.3, 0.15, 0.05]), 3.0, np.exp(0.8)
    subsets = top ** ((np.arange(16)[:, None] >> np.arange(4)) & 1)
    inside = np.exp(RNG.uniform(0, 0.8, (20_000, 4)))

    def moments(y: np.ndarray) -> np.ndarray:
        mean = y @ distribution
        return np.array(
            [mean ** (order - 1) * (y ** (1 - order) @ distribution), (y**order @ distribution) / mean**order]
        )

    assert (moments(inside).max(axis=1) <= moments(subsets).max(axis=1)).all()


def moments_of_a_mass(t: np.ndarray, rest: np.ndarray, epsilon: float, a: float) -> tuple[np.ndarray, np.ndarray]:
    """Both logarithms of the claim on gap selection; rest is 1 - t."""
    z = t * np.exp(epsilon) + rest
    first = (a - 1) * np.log(z) + np.log(t * np.exp(-epsilon * (a - 1)) + rest)
    return first, np.log(t * np.exp(epsilon * a) + rest) - a * np.log(z)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("a", [1.01, 1.7, 2.0, 2.5, 8.0, 60.0])
def test_one_half_of_the_masses_is_enough(epsilon: float, a: float) -> None:
    t = np.linspace(0, 0.5, 5001)
    (low, back_low), (high, back_high) = (moments_of_a_mass(*masses, epsilon, a) for masses in ((t, 1 - t), (1 - t, t)))
    sign = 1 if a >= 2 else -1
    assert (sign * (high - low) >= -1e-12).all()
    assert (back_low >= back_high - 1e-12).all()


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("a", [1.01, 2.0, 8.0, 60.0])
def test_the_cost_is_concave_in_the_mass_of_the_others(epsilon: float, a: float) -> None:
    t = np.linspace(0, 0.5, 2001)
    first = [np.maximum.accumulate(moments_of_a_mass(*masses, epsilon, a)[0]) for masses in ((t, 1 - t), (1 - t, t))]
    second = np.maximum.accumulate(moments_of_a_mass(t, 1 - t, epsilon, a)[1])
    for moment in (first[a >= 2], second):
        assert (np.diff(moment, 2) <= 1e-12 * max(1, moment.max())).all()


def test_the_backward_moment_is_not_concave_beyond_its_peak() -> None:
    """So the concavity of the cost rests on stopping there."""
    t = np.linspace(0, 1, 2001)
    assert (np.diff(moments_of_a_mass(t, 1 - t, 1.0, 8.0)[1], 2) > 1e-9).any()


@pytest.mark.parametrize("std", [0.8, 4.0, 50.0])
def test_the_condition_on_the_order_is_concave_and_begins_with_that_on_h(std: float) -> None:
    for x in (1.2, 3.0, 9.0):
        a = np.linspace(1, std * x * 0.999, 400)
        if len(a) < 3 or a[-1] <= 1:
            continue
        left = a * (2 * x / std - 1 / std**2) + np.log1p(-a / (std * x))
        assert (np.diff(left, 2) <= 1e-10).all()
        slope_of_h = np.exp(2 * x / std - 1 / std**2) * (1 - 1 / (std * x))
        np.testing.assert_allclose(left[0], np.log(slope_of_h), atol=1e-12)


def test_log_odds_of_every_set_move_by_at_most_the_range() -> None:
    distributions = RNG.dirichlet(np.ones(5), 500)
    moved = distributions * np.exp(RNG.uniform(0, 0.6, distributions.shape))
    moved /= moved.sum(axis=1, keepdims=True)
    masks = (np.arange(1, 31)[:, None] >> np.arange(5)) & 1
    odds = [
        np.log(distribution @ masks.T) - np.log(distribution @ (1 - masks).T) for distribution in (distributions, moved)
    ]
    assert np.abs(odds[0] - odds[1]).max() <= 0.6
    tops = [
        np.log(distribution.max(axis=1)) - np.log1p(-distribution.max(axis=1))
        for distribution in (distributions, moved)
    ]
    assert np.abs(tops[0] - tops[1]).max() <= 0.6


@pytest.mark.parametrize("std", [1.5, 4.0])
def test_best_orders_of_the_hoelder_bounds(std: float) -> None:
    """exp(-(x -+ 1/s)**2) and m are the extrema over the orders, here by search."""
    x, a = 4.0, 3.0
    log_q, orders = -x * x, np.linspace(1.001, 60, 400_000)
    upper = ((log_q + orders / std**2) * (orders - 1) / orders).min()
    lower = (log_q * orders / (orders - 1) - orders / std**2).max()
    allowed = orders[orders >= a]
    moves = (log_q * (1 - a / allowed) + (allowed - 1) * a / std**2).min()
    np.testing.assert_allclose(upper, -((x - 1 / std) ** 2), rtol=1e-6)
    np.testing.assert_allclose(lower, -((x + 1 / std) ** 2), rtol=1e-6)
    np.testing.assert_allclose(moves, -x * x + 2 * a * x / std - a / std**2, rtol=1e-6)


def test_equal_deficits_have_the_least_q_after_one_change() -> None:
    tails, shift = RNG.uniform(1e-6, 0.5, (5000, 4)), 0.7
    after = ndtr(ndtri(tails) - shift).sum(axis=1)
    assert (after >= 4 * ndtr(ndtri(tails.mean(axis=1)) - shift)).all()


def test_one_vote_moves_every_deficit_by_at_most_two() -> None:
    votes = RNG.multinomial(9, [0.4, 0.3, 0.2, 0.1], 3000)
    votes = votes[votes[:, 0] > 0]
    moved = votes + np.array([-1, 0, 1, 0])
    deficits = [np.sort(rows)[:, -1:] - np.sort(rows)[:, ::-1] for rows in (votes, moved)]
    assert np.abs(deficits[0] - deficits[1]).max() == 2


def test_the_divergence_of_two_normals_by_quadrature() -> None:
    order, multiplier, ratio = 3.0, 2.0, 0.8
    grid = np.linspace(-40, 40, 200_001)
    first = -0.5 * grid**2 - 0.5 * np.log(2 * np.pi)
    second = -0.5 * (grid - np.sqrt(ratio) / multiplier) ** 2 / ratio - 0.5 * np.log(2 * np.pi * ratio)
    moment = np.exp(order * first + (1 - order) * second).sum() * (grid[1] - grid[0])
    mixed = 1 + order * (ratio - 1)
    shift = order * min(1, ratio) / (2 * multiplier**2 * mixed)
    formula = shift + (order * np.log(ratio) - np.log(mixed)) / (2 * (order - 1))
    np.testing.assert_allclose(np.log(moment) / (order - 1), formula, rtol=1e-9)

"""Single steps of docs/proofs/floats.md."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
from scipy import stats
from scipy.integrate import quad


def test_quantiles_are_at_most_twice_as_steep_as_one_over_the_nearer_end() -> None:
    u = np.concatenate([np.geomspace(1e-12, 0.5, 400), 1 - np.geomspace(1e-12, 0.5, 400)])
    near = np.minimum(u, 1 - u)
    kinds = (stats.norm, stats.gumbel_r, stats.laplace, stats.logistic, stats.halflogistic, stats.expon)
    for kind in kinds:
        slope = 1 / kind.pdf(kind.ppf(u))
        assert (slope * near <= 2 * (1 + 1e-6)).all(), kind
    assert (1 / stats.cauchy.pdf(stats.cauchy.ppf(u)) * near > 2).any()  # tails that are too heavy


def test_the_weight_of_the_boundary_rises_with_every_weight() -> None:
    def boundary(weights: tuple[int, ...]) -> Fraction:
        return min(Fraction(sum(weights) - max(weights)), Fraction(sum(weights), 2))

    for weights in product(range(5), repeat=3):
        for place in range(3):
            more = tuple(weight + (index == place) for index, weight in enumerate(weights))
            assert boundary(weights) <= boundary(more)


def test_coins_and_a_uniform_winner_are_exponential_noise() -> None:
    """The sum over sets of lifted indices against w_i times the integral of prod (1 - w_j z) dz."""
    chances = np.array([1.0, 0.6, 0.35, 0.02])
    by_coins = np.zeros(4)
    for lifted in product((False, True), repeat=4):
        probability = np.where(lifted, chances, 1 - chances).prod()
        by_coins += probability * np.array(lifted) / max(sum(lifted), 1)
    for index, chance in enumerate(chances):
        others = np.delete(chances, index)
        integral, _ = quad(lambda z, others=others: float((1 - others * z).prod()), 0, 1)
        assert abs(by_coins[index] - chance * integral) < 1e-12


def test_running_sums_in_floats_are_off_by_less_than_the_margin() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 40, 1000):
        weights = np.exp(-rng.exponential(8.0, n))
        exact, worst = Fraction(0), Fraction(0)
        for weight, found in zip(weights.tolist(), np.cumsum(weights).tolist(), strict=True):
            exact += Fraction(weight)
            worst = max(worst, abs(Fraction(found) - exact))
        assert worst < (2.0**-46 + n * 2.0**-49) * float(exact) / 8

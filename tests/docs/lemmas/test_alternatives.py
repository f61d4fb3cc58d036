"""Single steps of docs/proofs/alternatives.md."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from pate.accounting import SampledGaussianEvent
from pate.accounting.sampled_gaussian import sampled_gaussian_rdp


def test_mixtures_with_a_part_in_common_leave_a_part_of_the_difference() -> None:
    rng = np.random.default_rng(0)
    common, first, second = rng.random((3, 5))
    for q, gamma in ((0.1, 3.0), (0.7, 1.0), (1.0, 20.0)):
        outer = 1 + q * (gamma - 1)
        beta = outer / gamma
        assert 0 < beta <= 1
        left = (1 - q) * common + q * first - outer * ((1 - q) * common + q * second)
        right = q * (first - gamma * ((1 - beta) * common + beta * second))
        np.testing.assert_allclose(left, right, atol=1e-12)


def hockey_stick(gamma: float, z: float) -> float:
    x = math.log(gamma)
    return float(norm.cdf(-x * z + 1 / (2 * z)) - gamma * norm.cdf(-x * z - 1 / (2 * z)))


@pytest.mark.parametrize(("z", "q"), [(0.7, 0.2), (2.0, 0.05), (5.0, 0.6)])
def test_the_curve_is_the_integral_of_the_profile_from_above(z: float, q: float) -> None:
    orders = np.array([1.05, 1.5, 2.0, 3.5, 8.0])
    found = sampled_gaussian_rdp(SampledGaussianEvent(z, q), orders)
    for order, curve in zip(orders.tolist(), found.tolist(), strict=True):

        def integrand(outer: float, a: float = order) -> float:
            profile = q * hockey_stick(1 + (math.exp(outer) - 1) / q, z)
            return a * (a - 1) * (math.exp((a - 1) * outer) + math.exp(-a * outer)) * profile

        total = quad(integrand, 0, 1, limit=400)[0] + quad(integrand, 1, 40 / z, limit=400)[0]
        exact = min(math.log1p(total) / (order - 1), order / (2 * z * z))
        assert exact * (1 - 1e-6) <= curve <= exact * 1.01


def test_the_curve_covers_two_mixtures_and_half_the_sensitivity_does_not() -> None:
    """Renyi divergence by quadrature, of a unit that counts for +1 and for -1."""
    q, std = 0.3, 1.0
    orders = np.array([1.5, 2.0, 4.0])
    right = sampled_gaussian_rdp(SampledGaussianEvent(std / 2, q), orders)
    wrong = sampled_gaussian_rdp(SampledGaussianEvent(std, q), orders)
    for order, enough, too_little in zip(orders.tolist(), right.tolist(), wrong.tolist(), strict=True):

        def integrand(x: float, a: float = order) -> float:
            p, other = ((1 - q) * norm.pdf(x) + q * norm.pdf(x, shift) for shift in (1.0, -1.0))
            return float(p**a * other ** (1 - a))

        divergence = math.log(quad(integrand, -12, 12, limit=400)[0]) / (order - 1)
        assert too_little < divergence <= enough

"""docs/proofs/centered_votes.md, step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_softmax, logsumexp, ndtr

RNG = np.random.default_rng(0)


def clipped(votes: np.ndarray, clip: float) -> np.ndarray:
    return votes * min(1.0, clip / max(float(np.linalg.norm(votes)), 1e-300))


def test_two_clipped_matrices_are_at_most_two_clips_apart_and_rounding_adds_the_root_of_the_entries() -> None:
    furthest = 0.0
    for _ in range(300):
        size = int(RNG.integers(1, 7))
        one, other = RNG.normal(size=size) * 10 ** RNG.uniform(-3, 3), RNG.normal(size=size) * 10 ** RNG.uniform(-3, 3)
        for opposite in (other, -one):
            apart = np.rint(clipped(one, 9.3)) - np.rint(clipped(opposite, 9.3))
            assert np.linalg.norm(apart) <= 2 * 9.3 + math.sqrt(size)
            furthest = max(furthest, float(np.linalg.norm(apart)))
    assert furthest > 18.6


def test_clipping_query_by_query_pays_for_the_longest_query_everywhere() -> None:
    residuals = np.array([[3.0, 4.0], [0.0, 0.1], [0.1, 0.0]])
    joint = (np.square(residuals)).sum()
    assert joint == pytest.approx(25.02)
    assert 3 * np.square(residuals).sum(axis=1).max() == pytest.approx(75)


def test_an_orthonormal_span_keeps_lengths() -> None:
    span = np.linalg.qr(RNG.normal(size=(20, 5)))[0]
    weights = RNG.normal(size=(5, 3))
    assert np.linalg.norm(span @ weights) == pytest.approx(np.linalg.norm(weights))


def test_candidates_that_are_kept_are_half_a_normal() -> None:
    for x in np.linspace(0, 9, 91):
        m = math.floor(x)
        kept = math.exp(m - 0.5 - x * x / 2)
        assert kept <= 1 + 1e-12
        density = math.exp(-m) * (1 - math.exp(-1)) * kept
        assert density == pytest.approx(math.exp(-x * x / 2) * (1 - math.exp(-1)) * math.exp(-0.5))
    chance = sum(
        quad(
            lambda u, m=m: math.exp(-m) * (1 - math.exp(-1)) * math.exp(-((m - 1) ** 2) / 2 - u * m - u * u / 2), 0, 1
        )[0]
        for m in range(12)
    )
    assert chance == pytest.approx((1 - math.exp(-1)) * math.exp(-0.5) * math.sqrt(math.pi / 2))


def rounded_distribution(std: float, at: int = 0) -> np.ndarray:
    values = np.abs(np.arange(-60, 61) - at)
    return np.asarray(ndtr(-(values - 0.5) / std) - ndtr(-(values + 0.5) / std))


def hockey_stick(one: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum())


def gaussian_delta(mu: float, epsilon: float) -> float:
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("std", [0.6, 1.0, 2.5])
def test_rounded_noise_costs_no_more_than_the_gaussian(std: float) -> None:
    for shift in (1, 2, 3):
        for epsilon in np.linspace(0, 6, 25):
            spent = hockey_stick(rounded_distribution(std, shift), rounded_distribution(std), epsilon)
            assert spent <= gaussian_delta(shift / std, epsilon) + 1e-15
    if std >= 1:  # on a coarser grid rounding hides more than a tenth of the noise
        assert hockey_stick(rounded_distribution(std * 0.9, 1), rounded_distribution(std * 0.9), 1.0) > gaussian_delta(
            1 / std, 1.0
        )


def test_the_discrete_gaussian_exceeds_the_profile_of_the_continuous_one() -> None:
    """Its Renyi divergences are bounded by the Gaussian's, its deltas are not."""
    values, std = np.arange(-60, 61), 1.0
    worst = 0.0
    for shift in (1, 2):
        logs = [log_softmax(-((values - at) ** 2) / (2 * std**2)) for at in (shift, 0)]
        one, other = np.exp(logs[0]), np.exp(logs[1])
        for order in (1.5, 2.0, 8.0):
            power = logsumexp(order * logs[0] + (1 - order) * logs[1]) / (order - 1)
            assert power <= order * shift**2 / (2 * std**2) * (1 + 1e-9)
        for epsilon in np.linspace(0, 6, 121):
            worst = max(worst, hockey_stick(one, other, epsilon) / gaussian_delta(shift / std, epsilon))
    assert worst > 1.01


def test_adaptive_gaussian_steps_add_in_squares() -> None:
    multipliers = [2.0 / math.sqrt(share) for share in (0.1, 0.3, 0.6)]
    assert sum(1 / m**2 for m in multipliers) == pytest.approx(1 / 4)

"""docs/proofs/exact_composition.md: the recursion against exhaustive search, and its single steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, logit

from pate.accounting import ApproximateEvent, GaussianEvent, OneBitEvent, PureDpEvent
from pate.accounting.exact import ExactAccountant

Pair = tuple[float, float]


def probability(up: float, down: float) -> float:
    return math.expm1(-down) / (math.exp(-down) - math.exp(-up))


def best_play(families: list[list[Pair]], x: float) -> float:
    """V at x by trying every choice after every past."""
    if not families:
        return max(0.0, -math.expm1(x))
    here, later = families[0], families[1:]

    def play(up: float, down: float) -> float:
        p = probability(up, down)
        return p * best_play(later, x - up) + (1 - p) * best_play(later, x - down)

    return max(play(*pair) for pair in here)


def bit_family(probabilities: list[float], reach: int) -> list[Pair]:
    """Every pair of statistics at most `reach` apart, in both roles, not only those at the full reach."""
    pairs = []
    for i, p in enumerate(probabilities):
        for q in probabilities[i + 1 : i + 1 + reach]:
            one, zero = math.log(q / p), math.log((1 - q) / (1 - p))
            pairs += [(one, zero), (-zero, -one)]
    return pairs


def bounded_range_family(epsilon: float, size: int) -> list[Pair]:
    return [(t, t - epsilon) for t in np.linspace(0, epsilon, size + 2)[1:-1].tolist()]


BITS = [0.05, 0.2, 0.45, 0.8, 0.9]
BIT_EVENT = OneBitEvent(tuple(logit(BITS).tolist()), reach=2)


def test_choosing_after_seeing_the_past_beats_every_fixed_choice() -> None:
    family = bounded_range_family(0.8, 15)
    fixed = max(best_play([[a], [b], [c]], 0.5) for a in family for b in family for c in family)
    assert fixed < best_play([family] * 3, 0.5)


def test_gaussian_steps_may_come_in_any_order_and_their_failures_add_up() -> None:
    first = ExactAccountant().compose(GaussianEvent(2.0)).compose(PureDpEvent(0.3)).compose(GaussianEvent(3.0))
    merged = GaussianEvent((1 / 4 + 1 / 9) ** -0.5)
    second = ExactAccountant().compose(PureDpEvent(0.3)).compose(merged)
    assert first.get_epsilon(1e-4) == pytest.approx(second.get_epsilon(1e-4), rel=1e-9)
    failing = ExactAccountant().compose(PureDpEvent(0.3)).compose(ApproximateEvent(merged, 4e-5))
    assert failing.get_epsilon(1e-4) == pytest.approx(second.get_epsilon(6e-5), rel=1e-3)


def test_a_gaussian_before_a_bit_against_a_quadrature() -> None:
    mu, epsilon = 0.5, 2.5
    pairs = bit_family(BITS, 2)
    losses = np.linspace(mu * mu / 2 - 9 * mu, mu * mu / 2 + 9 * mu, 4001)
    weights = np.exp(-0.5 * ((losses - mu * mu / 2) / mu) ** 2)
    searched = float(np.dot(weights / weights.sum(), [best_play([pairs], epsilon - loss) for loss in losses]))
    charged = ExactAccountant().compose(GaussianEvent(1 / mu)).compose(BIT_EVENT).get_delta(epsilon)
    assert searched <= charged <= searched * 1.02
    assert expit(BIT_EVENT.logits[0]) == pytest.approx(BITS[0])

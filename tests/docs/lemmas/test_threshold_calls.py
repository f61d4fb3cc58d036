"""docs/proofs/threshold_calls.md: its steps, with rational numbers and code of their own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest


def upper_tail(k: int, x: Fraction) -> Fraction:
    """P(z >= k) by the geometric series on either side."""
    return x**k / (1 + x) if k >= 0 else 1 - x ** (1 - k) / (1 + x)


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize("x", [Fraction(1, 50), Fraction(1, 2), Fraction(19, 20), Fraction(999, 1000)])
def test_between_is_hit_as_often_as_claimed_for_all_positions(sensitivity: int, x: Fraction) -> None:
    growth, equalities = x**-sensitivity, 0
    for width in range(1, 7):
        claimed = (1 - x**width) / (growth + 1)
        for value in range(-9, width + 9):
            for moved in range(value + 1, value + sensitivity + 1):
                above, above_moved = upper_tail(width - value, x), upper_tail(width - moved, x)
                below, below_moved = upper_tail(value + 1, x), upper_tail(moved + 1, x)
                between = min(1 - above - below, 1 - above_moved - below_moved)
                rest = growth * (1 - above - below_moved) - (1 - above_moved - below)
                assert claimed * rest <= (growth - 1) * between
                equalities += claimed * rest == (growth - 1) * between
    assert equalities > 0


def test_given_a_refusal_an_outcome_is_twice_as_far() -> None:
    """Distributions within e^epsilon are within e^(2 epsilon) given one set, and that is reached."""
    rng, largest = np.random.default_rng(1), 0.0
    for _ in range(500):
        first = rng.dirichlet(np.full(5, 0.3)) + 1e-9
        tilted = first * np.exp(rng.choice([-0.5, 0.5], 5))
        second = tilted / tilted.sum()
        epsilon = np.abs(np.log(first / first.sum() / second)).max()
        kept = rng.random(5) < 0.6
        if kept.any() and epsilon > 0.1:
            ratio = np.log((first[kept] / first[kept].sum()) / (second[kept] / second[kept].sum()))
            largest = max(largest, np.abs(ratio).max() / epsilon)
    assert 1.3 < largest <= 2 * (1 + 1e-9)

"""docs/proofs/target_charging.md: its steps, with code of their own."""

from __future__ import annotations

import math

import numpy as np
import pytest


def wrapped(distribution: np.ndarray) -> tuple[np.ndarray, float]:
    """The outcomes' probabilities in the boundary wrapper, and the boundary's."""
    rest = min(1 - distribution.max(), 0.5)
    return distribution / (1 + rest), rest / (1 + rest)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 3.0])
def test_the_wrapper_adds_at_most_a_third_and_a_rare_outcome_attains_its_epsilon(epsilon: float) -> None:
    growth = math.exp(epsilon)
    added = math.log(1.5 / (1 + 1 / (2 * growth)))
    assert added == pytest.approx(math.log(3 * growth / (2 * growth + 1)))
    assert added <= epsilon / 3
    share, rare = 1 / (2 * growth), 1e-8
    first = np.array([1 - share, share - growth * rare, growth * rare])
    second = np.array([0.5, 0.5 - rare, rare])
    assert np.abs(np.log(first / second)).max() <= epsilon + 1e-4
    assert math.log((wrapped(first)[0] / wrapped(second)[0])[2]) == pytest.approx(epsilon + added, abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_the_published_boundary_is_below_the_tight_one(epsilon: float) -> None:
    growth, wide = math.exp(epsilon), math.exp(4 * epsilon / 3)
    assert growth * (2 * wide + 1) - wide - 2 <= 2 * (growth * wide - 1)

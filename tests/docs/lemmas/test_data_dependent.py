"""docs/proofs/data_dependent.md, step by step."""

from __future__ import annotations

import numpy as np
import pytest

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

"""docs/proofs/verification.md, step by step, with code that is not the package's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from pate.verification.divergences import trimmed

RNG = np.random.default_rng(11)


def cap(first: np.ndarray, second: np.ndarray, failure_prob: float) -> float:
    """The root of sum of min(first, c second) = 1 - f by bisection."""
    return float(brentq(lambda c: np.minimum(first, c * second).sum() - (1 - failure_prob), 0.0, 1e9, xtol=1e-13))


def random_pair(size: int = 5) -> tuple[np.ndarray, np.ndarray]:
    return RNG.dirichlet(np.ones(size)), RNG.dirichlet(np.ones(size))


def hockey_stick(first: np.ndarray, second: np.ndarray, gamma: float) -> float:
    return float(np.maximum(first - gamma * second, 0).sum())


def moment(first: np.ndarray, second: np.ndarray, order: float) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(first == 0, 0.0, first**order * second ** (1 - order)).sum())


def admissible(distribution: np.ndarray, failure_prob: float) -> np.ndarray:
    """A random distribution below distribution / (1 - f): random failures of probability f."""
    given_up = np.zeros_like(distribution)
    while given_up.sum() < failure_prob * (1 - 1e-12):
        share = RNG.dirichlet(np.full(len(distribution), 0.3)) * (failure_prob - given_up.sum())
        given_up = np.minimum(given_up + share, distribution)
    return (distribution - given_up) / (distribution - given_up).sum()


@pytest.mark.parametrize("failure_prob", [0.01, 0.1])
def test_the_trimmed_pair_has_the_form_of_the_page(failure_prob: float) -> None:
    for _ in range(30):
        first, second = random_pair()
        if np.maximum(first - second, 0).sum() <= failure_prob:
            continue
        up, down = cap(first, second, failure_prob), cap(second, first, failure_prob)
        assert min(up, down) > 1
        kept = [side[0] for side in trimmed(first[None], second[None], failure_prob)]
        np.testing.assert_allclose(kept[0], np.minimum(first, up * second) / (1 - failure_prob), rtol=1e-6)
        np.testing.assert_allclose(kept[1], np.minimum(second, down * first) / (1 - failure_prob), rtol=1e-6)
        np.testing.assert_allclose(kept[0] / kept[1], np.clip(first / second, 1 / down, up), rtol=1e-6)
        assert hockey_stick(first, second, up) == pytest.approx(failure_prob, rel=1e-6)


@pytest.mark.parametrize("failure_prob", [0.01, 0.1])
def test_no_random_choice_of_failures_is_closer_at_any_order_or_epsilon(failure_prob: float) -> None:
    for _ in range(20):
        first, second = random_pair()
        best = [side[0] for side in trimmed(first[None], second[None], failure_prob)]
        for _ in range(20):
            other = admissible(first, failure_prob), admissible(second, failure_prob)
            for one, two in ((0, 1), (1, 0)):
                for gamma in (0.5, 1.0, 1.5, 3.0):
                    ours = hockey_stick(best[one], best[two], gamma)
                    assert ours <= hockey_stick(other[one], other[two], gamma) + 1e-9
                for order in (1.5, 4.0):
                    moments = [moment(pair[one], pair[two], order) for pair in (best, other)]
                    assert moments[0] <= moments[1] * (1 + 1e-9)


def test_equal_distributions_are_left_exactly_up_to_the_total_variation() -> None:
    for _ in range(20):
        first, second = random_pair()
        distance = np.maximum(first - second, 0).sum()
        for factor, equal in ((1.01, True), (0.99, False)):
            kept = trimmed(first[None], second[None], factor * distance)
            assert np.allclose(*kept, rtol=1e-9) is equal

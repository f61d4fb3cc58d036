"""Composition by docs/proofs/composition.md on random trees of releases, with exact distributions."""

import numpy as np
import pytest

from pate.accounting.conversion import rdp_to_deltas
from tests.privacy.divergences import largest_delta, largest_renyi

DEPTH = 3
OUTCOMES = 3
ORDERS = np.array([1.5, 2.0, 4.0, 8.0])
EPSILONS = (0.2, 1.0, 3.0)


def both_ways(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pairs (p, q) and (q, p) of two distributions over n outcomes, each stacked to an array `[2, n]`."""
    return np.stack([p, q]), np.stack([q, p])


def draw_step(
    rng: np.random.Generator, closeness: float, failure_prob: float
) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns the laws of a random release on both neighbors, and the Renyi divergences of their good parts.

    Each law is (1 - failure_prob) * good + failure_prob * bad, over `OUTCOMES` outcomes. The divergences are those of
    the worse direction, at each Renyi order of `ORDERS`.

    Args:
        rng: the source of the good and bad parts.
        closeness: the good parts differ by at most this in the logarithm of each probability, before normalization.
        failure_prob: the probability of the bad part.
    """
    base = rng.dirichlet(np.ones(OUTCOMES)) + 0.05
    tilted = base * np.exp(rng.uniform(-closeness, closeness, OUTCOMES))
    distributions = (base / base.sum(), tilted / tilted.sum())
    bad = rng.permutation(np.eye(OUTCOMES))[:2]
    mixtures = [
        (1 - failure_prob) * g + failure_prob * b for g, b in zip(distributions, bad, strict=True)
    ]
    return mixtures, largest_renyi(*both_ways(*distributions), ORDERS)


def walk(
    rng: np.random.Generator, parameters: list[tuple[float, float]]
) -> tuple[list, list, list]:
    """Returns the two probabilities of each path on the neighbors, its sum of Renyi curves, and its sum of failures.

    `parameters` has a pair (closeness, failure) for all releases. Of two pairs, the first is for releases after the
    outcome 0 and the second for all others, so that prices depend on the past.
    """
    paths: list[tuple[float, float, np.ndarray, float, int]] = [
        (1.0, 1.0, np.zeros(len(ORDERS)), 0.0, 1)
    ]
    for _ in range(DEPTH):
        grown = []
        for p, q, curve, failure, last in paths:
            closeness, rate = parameters[0 if last == 0 else -1]
            mixtures, step_curve = draw_step(rng, closeness, failure_prob=rate)
            for outcome, (a, b) in enumerate(zip(*mixtures, strict=True)):
                grown.append((p * a, q * b, curve + step_curve, failure + rate, outcome))
        paths = grown
    return [x[:2] for x in paths], [x[2] for x in paths], [x[3] for x in paths]


def exact_delta(distributions: list, epsilon: float) -> float:
    """Returns the exact delta of two laws over all paths, in the worse direction."""
    return largest_delta(*both_ways(*np.array(distributions).T), epsilon)


def claimed_delta(curve: np.ndarray, epsilon: float, renyi_orders: np.ndarray = ORDERS) -> float:
    """Returns the delta at epsilon to which a Renyi curve converts, the smallest over the Renyi orders."""
    return float(rdp_to_deltas(renyi_orders, rdp=curve, target_epsilon=epsilon).min())


@pytest.mark.parametrize("seed", range(40))
def test_prices_that_depend_on_the_past_hold_at_every_single_order(seed: int) -> None:
    """In a random tree of releases, prices and failures depend on earlier outcomes.

    At each single Renyi order, the exact delta is at most that of the largest sum of curves, plus
    the largest sum of failures.
    """
    rng = np.random.default_rng(seed)
    distributions, curves, failures = walk(rng, parameters=[(0.9, 0.05), (0.2, 0.01)])
    assert len({round(f, 9) for f in failures}) > 1
    for epsilon in EPSILONS:
        for index in range(len(ORDERS)):
            largest = np.array([max(curve[index] for curve in curves)])
            claim = claimed_delta(largest, epsilon, renyi_orders=ORDERS[index : index + 1]) + max(
                failures
            )
            assert exact_delta(distributions, epsilon) <= claim + 1e-12


def test_without_the_failure_probabilities_the_claim_is_false() -> None:
    """In 40 random trees, the exact delta is at most the converted delta plus the failures.

    Without the failures, the claim is exceeded in all 40.
    """
    broken = 0
    for seed in range(40):
        distributions, curves, failures = walk(
            np.random.default_rng(seed), parameters=[(0.05, 0.2)]
        )
        curve = np.max(curves, axis=0)
        epsilon = 0.5
        exact = exact_delta(distributions, epsilon)
        assert exact <= claimed_delta(curve, epsilon) + failures[0]
        broken += exact > claimed_delta(curve, epsilon)
    assert broken == 40

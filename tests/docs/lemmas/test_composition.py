"""Composition by docs/proofs/composition.md on random trees of releases, with exact distributions."""

from dataclasses import dataclass

import numpy as np
import pytest

from pate.accounting.conversion import rdp_to_deltas
from tests.privacy.divergences import largest_delta, largest_renyi

DEPTH = 3  # releases one after another
NUM_OUTCOMES = 3  # of each release
ORDERS = np.array([1.5, 2.0, 4.0, 8.0])
EPSILONS = (0.2, 1.0, 3.0)


@dataclass(frozen=True)
class Release:
    """The parameters of a random release.

    Attributes:
        max_log_ratio: the largest difference of log-probabilities of the good parts of both laws, before normalization.
        failure_prob: the probability of the bad part.
    """

    max_log_ratio: float
    failure_prob: float


@dataclass(frozen=True)
class Path:
    """The outcomes of some releases, one after another.

    Attributes:
        first_prob: the probability of the path on the data set.
        second_prob: the probability of the path on its neighbor.
        rdp_curve: the sum of the Renyi curves of all releases, at the orders `ORDERS`.
        failure_prob: the sum of the failure probabilities of all releases.
        last_outcome: the outcome of the last release.
    """

    first_prob: float
    second_prob: float
    rdp_curve: np.ndarray
    failure_prob: float
    last_outcome: int


def larger_renyi(first_law: np.ndarray, second_law: np.ndarray) -> np.ndarray:
    """Returns the Renyi divergence of two laws in the worse direction, at each order of `ORDERS`."""
    return largest_renyi(
        first_laws=np.stack([first_law, second_law]),
        second_laws=np.stack([second_law, first_law]),
        renyi_orders=ORDERS,
    )


def draw_laws(
    rng: np.random.Generator, release: Release
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the laws of a random release on both neighbors, and the Renyi curve of their good parts.

    Each law is (1 - failure_prob) * good + failure_prob * bad, over `NUM_OUTCOMES` outcomes.
    """
    first_weights = rng.dirichlet(np.ones(NUM_OUTCOMES)) + 0.05
    log_ratios = rng.uniform(-release.max_log_ratio, release.max_log_ratio, size=NUM_OUTCOMES)
    second_weights = first_weights * np.exp(log_ratios)
    first_good = first_weights / first_weights.sum()
    second_good = second_weights / second_weights.sum()
    first_bad, second_bad = rng.permutation(np.eye(NUM_OUTCOMES))[:2]
    good_prob = 1 - release.failure_prob
    return (
        good_prob * first_good + release.failure_prob * first_bad,
        good_prob * second_good + release.failure_prob * second_bad,
        larger_renyi(first_good, second_good),
    )


def draw_paths(
    rng: np.random.Generator, *, after_zero: Release, after_others: Release
) -> list[Path]:
    """Returns all paths through a random tree of releases.

    Args:
        rng: the source of the laws.
        after_zero: the parameters of each release that follows the outcome 0.
        after_others: the parameters of all other releases. If they differ from `after_zero`, prices depend on the past.
    """
    paths = [
        Path(
            first_prob=1.0,
            second_prob=1.0,
            rdp_curve=np.zeros(len(ORDERS)),
            failure_prob=0.0,
            last_outcome=1,
        )
    ]
    for _ in range(DEPTH):
        longer_paths = []
        for path in paths:
            release = after_zero if path.last_outcome == 0 else after_others
            first_law, second_law, rdp_curve = draw_laws(rng, release=release)
            for outcome in range(NUM_OUTCOMES):
                longer_path = Path(
                    first_prob=path.first_prob * first_law[outcome],
                    second_prob=path.second_prob * second_law[outcome],
                    rdp_curve=path.rdp_curve + rdp_curve,
                    failure_prob=path.failure_prob + release.failure_prob,
                    last_outcome=outcome,
                )
                longer_paths.append(longer_path)
        paths = longer_paths
    return paths


def exact_delta(paths: list[Path], epsilon: float) -> float:
    """Returns the exact delta of the laws over all paths, in the worse direction."""
    first_law = np.array([path.first_prob for path in paths])
    second_law = np.array([path.second_prob for path in paths])
    return largest_delta(
        first_laws=np.stack([first_law, second_law]),
        second_laws=np.stack([second_law, first_law]),
        epsilon=epsilon,
    )


def claimed_delta(
    rdp_curve: np.ndarray, epsilon: float, renyi_orders: np.ndarray = ORDERS
) -> float:
    """Returns the delta at epsilon to which a Renyi curve converts, the smallest over the Renyi orders."""
    return float(rdp_to_deltas(renyi_orders, rdp=rdp_curve, target_epsilon=epsilon).min())


@pytest.mark.parametrize("seed", range(40))
def test_prices_that_depend_on_the_past_hold_at_every_single_order(seed: int) -> None:
    """In a random tree of releases whose prices depend on earlier outcomes, each single Renyi order bounds delta.

    The largest sum of Renyi divergences over all paths is converted to a delta, to which the largest sum of failure
    probabilities is added.
    """
    paths = draw_paths(
        np.random.default_rng(seed),
        after_zero=Release(max_log_ratio=0.9, failure_prob=0.05),
        after_others=Release(max_log_ratio=0.2, failure_prob=0.01),
    )
    assert len({round(path.failure_prob, 9) for path in paths}) > 1
    largest_rdp_curve = np.max([path.rdp_curve for path in paths], axis=0)
    largest_failure_prob = max(path.failure_prob for path in paths)
    for epsilon in EPSILONS:
        exact = exact_delta(paths, epsilon=epsilon)
        for index in range(len(ORDERS)):
            one_order = slice(index, index + 1)
            converted = claimed_delta(
                largest_rdp_curve[one_order], epsilon=epsilon, renyi_orders=ORDERS[one_order]
            )
            assert exact <= converted + largest_failure_prob + 1e-12


def test_without_the_failure_probabilities_the_claim_is_false() -> None:
    """In 40 random trees of releases, the exact delta is at most the converted delta plus the failure probabilities.

    Negative control: without these, it is exceeded in all 40.
    """
    release = Release(max_log_ratio=0.05, failure_prob=0.2)
    epsilon = 0.5
    for seed in range(40):
        rng = np.random.default_rng(seed)
        paths = draw_paths(rng, after_zero=release, after_others=release)
        largest_rdp_curve = np.max([path.rdp_curve for path in paths], axis=0)
        converted = claimed_delta(largest_rdp_curve, epsilon=epsilon)
        exact = exact_delta(paths, epsilon=epsilon)
        assert converted < exact <= converted + paths[0].failure_prob

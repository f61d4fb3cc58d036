"""The mechanisms of target charging on all small neighboring inputs, under both adjacencies.

Each q against the exact optimum of its definition, where 5% more is refuted.
"""

import math

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.accounting.target_charging import boundary_distribution, exact_hit_prob, revise, run_twice, tight_boundary
from pate.mechanisms import AboveThreshold, BetweenThresholds, BoundaryWrapper, DiscreteLaplace, RunTwice
from tests.privacy.call_distributions import (
    above_pairs,
    between_pairs,
    distribution_pairs,
    selection,
    smallest,
    three_lumps,
)

EPSILONS = (0.05, 0.5, 2.0)
ADJACENCIES = tuple(Adjacency)
STATISTICS = [("count", Adjacency.REPLACE_ONE), ("gap", Adjacency.REPLACE_ONE), ("gap", Adjacency.ADD_REMOVE)]
MORE = 1.05


# ------------------------------------------------------------------------------------------------ threshold calls


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("statistic", "adjacency"), STATISTICS)
def test_releases_above_a_threshold(epsilon: float, statistic: str, adjacency: Adjacency) -> None:
    test = AboveThreshold(threshold=3, epsilon=epsilon, statistic=statistic, adjacency=adjacency)
    exact = smallest(above_pairs(test), test.target.epsilon)
    assert test.target.hit_prob <= exact * (1 + 1e-9) < test.target.hit_prob * MORE


@pytest.mark.parametrize("width", [1, 2, 7])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("statistic", "adjacency"), STATISTICS)
def test_falling_between_thresholds(epsilon: float, width: int, statistic: str, adjacency: Adjacency) -> None:
    test = BetweenThresholds(lower=3, upper=3 + width, epsilon=epsilon, statistic=statistic, adjacency=adjacency)
    exact = smallest(between_pairs(test), test.target.epsilon)
    assert test.target.hit_prob <= exact * (1 + 1e-9) < test.target.hit_prob * MORE


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_gap_charged_like_a_count_is_refuted(epsilon: float) -> None:
    """Under replace-one a gap moves by 2: distributions made for 1 are farther apart than epsilon."""
    count = AboveThreshold(threshold=3, epsilon=epsilon)
    first, second = (three_lumps(float(count.noise.rate), value, (3,)) for value in (0, 2))
    assert np.abs(np.log(first / second)).max() > 1.5 * epsilon


# ------------------------------------------------------------------------------------------------ wrappers


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("noise", ["gumbel", "exponential", "laplace"])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_the_boundary_of_gap_selection(noise: str, adjacency: Adjacency, scale: float) -> None:
    """Every wrapped pair keeps t and q."""
    wrapper = BoundaryWrapper(selection(noise, adjacency, scale))
    first, second = distribution_pairs(wrapper, adjacency)
    assert np.abs(np.log(first / second)).max() <= wrapper.target.epsilon * (1 + 1e-9)
    at_boundary = np.arange(first.shape[1]) == first.shape[1] - 1
    pairs = (((one, other), at_boundary) for one, other in zip(first, second, strict=True))
    assert wrapper.target.hit_prob <= smallest(pairs, wrapper.target.epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_wrapper_of_the_worst_pairs_attains_its_target(epsilon: float) -> None:
    """A rare outcome beside two that are about equally likely attains t; a rare second outcome attains q."""
    growth, target, rare = math.exp(epsilon), tight_boundary(epsilon), 1e-7
    share = 1 / (2 * growth)
    first = boundary_distribution([1 - share, share - growth * rare, growth * rare])
    second = boundary_distribution([0.5, 0.5 - rare, rare])
    assert math.log(first[2] / second[2]) == pytest.approx(target.epsilon, rel=1e-5)
    near, far = (boundary_distribution([1 - p, p]) for p in (rare, growth * rare))
    exact = exact_hit_prob(near, far, in_target=[False, False, True], epsilon=target.epsilon)
    assert exact == pytest.approx(target.hit_prob, rel=1e-5)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_running_gap_selection_twice(adjacency: Adjacency, scale: float) -> None:
    twice = RunTwice(selection("gumbel", adjacency, scale))
    first, second = distribution_pairs(twice.mechanism, adjacency)
    differ = ~np.eye(first.shape[1], dtype=bool).ravel()
    pairs = (
        ((np.outer(one, one).ravel(), np.outer(other, other).ravel()), differ)
        for one, other in zip(first, second, strict=True)
    )
    assert twice.target.hit_prob <= smallest(pairs, twice.target.epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_worst_pairs_of_running_twice_attain_its_q(epsilon: float) -> None:
    growth = math.exp(epsilon)
    rare, even = 1e-7, growth / (1 + growth)
    exact = min(
        exact_hit_prob(
            np.outer(one, one).ravel(),
            np.outer(other, other).ravel(),
            in_target=[False, True, True, False],
            epsilon=2 * epsilon,
        )
        for one, other in (((1 - rare, rare), (1 - growth * rare, growth * rare)), ((even, 1 - even), (1 - even, even)))
    )
    assert run_twice(epsilon).hit_prob == pytest.approx(exact, rel=1e-5)


# ------------------------------------------------------------------------------------------------ revising


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_asking_again_for_a_noisy_count(epsilon: float) -> None:
    """A stored noisy count known to be below one threshold, asked for above a lower one: twice epsilon, and its q."""
    target, rate = revise(epsilon), float(DiscreteLaplace.at_most(epsilon).rate)
    smallest_found = 1.0
    for known, asked in ((5, 4), (5, 0), (5, -20), (0, -1)):
        for value in range(-30, 30):
            edges = (asked, *range(asked + 1, known + 1))
            first, second = (three_lumps(rate, at, edges)[:-1] for at in (value, value + 1))
            pair = (first / first.sum(), second / second.sum())
            assert np.abs(np.log(pair[0] / pair[1])).max() <= 2 * epsilon * (1 + 1e-9)
            released = np.arange(len(pair[0])) > 0
            smallest_found = min(smallest_found, exact_hit_prob(*pair, in_target=released, epsilon=target.epsilon))
    assert target.hit_prob <= smallest_found * (1 + 1e-9)

"""The price of StableFixedTopK on all neighboring histograms, step by step and as released."""

from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.aggregators import StableFixedTopK
from tests.privacy.distributions import distributions_of, pairs_of
from tests.privacy.divergences import (
    assert_covered,
    assert_delta_covered,
    assert_refuted,
    largest_delta,
    largest_renyi,
    price_curve,
)

ADJACENCIES = tuple(Adjacency)
TESTS: dict[str, dict[str, Any]] = {
    "gaussian": {"test": "gaussian", "test_std": 2.0, "failure_prob": 0.3},
    "table": {"test": "table", "table_order": 4.0, "table_budget": 0.2, "failure_prob": 0.05},
    "strict": {"test": "gaussian", "test_std": 0.5, "failure_prob": 1e-3},
}


def fixed(k: int, adjacency: Adjacency, test: str = "gaussian", **fields: Any) -> StableFixedTopK:
    scales = {"selection_scale": 1.0, "peel_scale": 1.5, "penalty": 0.5}
    return StableFixedTopK(k=k, adjacency=adjacency, **(scales | TESTS[test] | fields))


def assert_priced(aggregator: StableFixedTopK, num_labels: int, num_teachers: int) -> float:
    """Outside the failure against the curve; with it, every step and the released set against delta."""
    event = aggregator.event_for(num_queries=1, num_labels=num_labels, num_teachers=num_teachers)
    distributions = distributions_of(aggregator, num_labels, num_teachers)
    rows = pairs_of(num_labels, num_teachers, aggregator.adjacency)
    same = distributions.masks[rows[0]] == distributions.masks[rows[1]]
    assert np.where(same, 0.0, distributions.passed[rows[0]]).max() <= aggregator.failure_prob
    ratio = assert_covered(largest_renyi(*(distributions.steps(side, same) for side in rows)), price_curve(event))
    first, second = (distributions.steps(side) for side in rows)
    np.testing.assert_allclose(first.sum(axis=1), 1, rtol=1e-9)
    assert_delta_covered(first, second, event)
    assert_delta_covered(*(distributions.released(side, aggregator.k) for side in (first, second)), event)
    return ratio


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_covers_all_neighbors_of_three_labels(adjacency: Adjacency, k: int, test: str, padded: bool) -> None:
    for scales in ({}, {"selection_scale": 4.0, "peel_scale": 6.0, "penalty": 0.0}):
        assert_priced(fixed(k, adjacency, test, padded=padded, **scales), 3, 5)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_covers_all_neighbors_of_four_labels(adjacency: Adjacency, k: int) -> None:
    assert_priced(fixed(k, adjacency, "table", padded=k == 3, max_k=None if k < 3 else 2), 4, 3)


@pytest.mark.parametrize("noise", ["gaussian", "exponential", "laplace"])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_covers_other_noise_and_smaller_instances(adjacency: Adjacency, noise: str) -> None:
    for num_labels, num_teachers, max_k in ((2, 1, None), (2, 5, None), (3, 1, 1), (3, 3, None)):
        assert_priced(fixed(1, adjacency, selection_noise=noise, max_k=max_k), num_labels, num_teachers)


@pytest.mark.parametrize("votes", [(6, 6, 0, 0), (6, 5, 4, 1), (3, 3, 3, 3), (0, 0, 0, 0), (1, 6, 2, 6)])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_packages_distribution_is_the_one_written_down_here(k: int, votes: tuple[int, ...]) -> None:
    for padded in (False, True):
        aggregator = fixed(k, Adjacency.REPLACE_ONE, padded=padded)
        distributions = distributions_of(aggregator, 4, 6)
        row = np.array(votes) @ 7 ** np.arange(3, -1, -1)
        expected = np.sort(distributions.released(distributions.steps(row[None]), k)[0])
        distribution = aggregator.distribution(np.array(votes), num_teachers=6)
        np.testing.assert_allclose(np.sort(list(distribution.values())), expected[expected > 0], rtol=1e-9)
        assert all(len(labels) == k for labels in distribution)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_price_10_percent_too_small_fails(adjacency: Adjacency) -> None:
    """Two tied labels and a test that says nothing: the peel is all there is, and attains its price."""
    aggregator = fixed(1, adjacency, "strict", test_std=1e4, peel_scale=4.0)
    distributions, rows = distributions_of(aggregator, 2, 6), pairs_of(2, 6, adjacency)
    same = distributions.masks[rows[0]] == distributions.masks[rows[1]]
    exact = largest_renyi(*(distributions.steps(side, same) for side in rows))
    price = price_curve(aggregator.event_for(num_queries=1, num_labels=2, num_teachers=6))
    assert_covered(exact, price)
    assert_refuted(exact, 0.9 * price)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_two_picks_with_the_noise_of_one_fail(adjacency: Adjacency) -> None:
    """The scale has to grow with the root of the number of picks."""
    aggregator = fixed(2, adjacency, "strict", selection_scale=1e4, test_std=1e4, peel_scale=4.0)
    event = aggregator.event_for(num_queries=1, num_labels=4, num_teachers=4)
    rows = pairs_of(4, 4, adjacency)
    for growth in (0.5, 0.0):
        distributions = distributions_of(aggregator, 4, 4, growth=growth)
        same = distributions.masks[rows[0]] == distributions.masks[rows[1]]
        exact = largest_renyi(*(distributions.steps(side, same) for side in rows))
        if growth:
            assert assert_covered(exact, price_curve(event)) > 0.9
        else:
            assert_refuted(exact, price_curve(event))


def test_noise_and_price_for_add_remove_fail_for_replace_one() -> None:
    aggregator = fixed(1, Adjacency.ADD_REMOVE, "strict")
    event = aggregator.event_for(num_queries=1, num_labels=3, num_teachers=6)
    distributions, rows = distributions_of(aggregator, 3, 6), pairs_of(3, 6, Adjacency.REPLACE_ONE)
    with pytest.raises(AssertionError, match="of its price"):
        assert_delta_covered(*(distributions.released(distributions.steps(side), 1) for side in rows), event)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_failure_probability_10_percent_too_small_fails(adjacency: Adjacency, test: str) -> None:
    """One size competes, so its unstable set passes with the failure probability itself."""
    aggregator = fixed(1, adjacency, test)
    distributions, rows = distributions_of(aggregator, 2, 6), pairs_of(2, 6, adjacency)
    exact = largest_delta(*(distributions.steps(side) for side in rows), 50.0)
    assert 0.9 * aggregator.failure_prob < exact <= aggregator.failure_prob

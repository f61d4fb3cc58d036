"""The price of StableTopK, end to end, against its exact distributions on all neighboring histograms."""

from dataclasses import replace
from typing import Any

import pytest

from pate.accounting import Adjacency, Event
from pate.aggregators import StableTopK
from pate.mechanisms.gap_selection import SELECTION_NOISES
from tests.privacy.distributions import distributions_end_to_end, distributions_outside_failure, failure_mass
from tests.privacy.divergences import (
    assert_covered,
    assert_delta_covered,
    assert_refuted,
    largest_delta,
    largest_renyi,
    price_curve,
)
from tests.privacy.histograms import GapPairs, gap_pairs

ADJACENCIES = tuple(Adjacency)
TESTS: dict[str, dict[str, Any]] = {
    "gaussian": {"test": "gaussian", "test_std": 2.0, "failure_prob": 0.3},
    "laplace": {"test": "laplace", "test_std": 1.0, "failure_prob": 0.05},
    "table": {"test": "table", "table_order": 4.0, "table_budget": 0.2, "failure_prob": 0.3},
    "strict": {"test": "gaussian", "test_std": 0.5, "failure_prob": 1e-3},
}
TIGHT: dict[Adjacency, list[tuple[str, float, str]]] = {
    Adjacency.REPLACE_ONE: [("gumbel", 3.0, "laplace"), ("gumbel", 0.5, "table"), ("exponential", 0.5, "table")],
    Adjacency.ADD_REMOVE: [("gumbel", 0.5, "laplace"), ("exponential", 1.0, "laplace"), ("gumbel", 3.0, "gaussian")],
}


def aggregator_of(noise: str, scale: float, test: str, adjacency: Adjacency, *, padded: bool = False) -> StableTopK:
    return StableTopK(selection_noise=noise, selection_scale=scale, padded=padded, adjacency=adjacency, **TESTS[test])


def price_of(aggregator: StableTopK, pairs: GapPairs) -> Event:
    return aggregator.event_for(num_queries=1, num_labels=pairs.num_labels, num_teachers=pairs.num_teachers)


def assert_priced(aggregator: StableTopK, pairs: GapPairs) -> None:
    event = price_of(aggregator, pairs)
    assert failure_mass(aggregator, pairs) <= aggregator.failure_prob
    assert_covered(largest_renyi(*distributions_outside_failure(aggregator, pairs)), price_curve(event))
    assert_delta_covered(*distributions_end_to_end(aggregator, pairs), event)


@pytest.mark.slow
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("noise", SELECTION_NOISES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_covers_all_neighbors(adjacency: Adjacency, noise: str, test: str, padded: bool) -> None:
    for scale in (0.5, 3.0):
        aggregator = aggregator_of(noise, scale, test, adjacency, padded=padded)
        assert_priced(aggregator, gap_pairs(4, 6, adjacency, padded=padded))


@pytest.mark.slow
@pytest.mark.parametrize("noise", SELECTION_NOISES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_covers_all_smaller_instances(adjacency: Adjacency, noise: str) -> None:
    for padded, num_labels in ((True, 1), (False, 2), (True, 2), (False, 3), (True, 3), (False, 4)):
        for num_teachers in range(1, 6):
            aggregator = aggregator_of(noise, 1.0, "laplace", adjacency, padded=padded)
            assert_priced(aggregator, gap_pairs(num_labels, num_teachers, adjacency, padded=padded))


@pytest.mark.parametrize("max_k", [1, 2])
@pytest.mark.parametrize("test", ["laplace", "table"])
@pytest.mark.parametrize("noise", SELECTION_NOISES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_covers_an_unknown_domain(adjacency: Adjacency, noise: str, test: str, max_k: int) -> None:
    """Only the first gaps compete; the labels below the best max_k + 1 are as in any histogram."""
    pairs = gap_pairs(4, 6, adjacency, padded=False)
    first_gaps = replace(pairs, **{name: getattr(pairs, name)[:, :max_k] for name in ("first", "second", "same_set")})
    aggregator = replace(aggregator_of(noise, 0.5, test, adjacency), max_k=max_k)
    assert_priced(aggregator, first_gaps)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_price_10_percent_too_small_fails(adjacency: Adjacency) -> None:
    """Exact divergence over price: 0.944, 0.943, 0.951 under replace-one, 0.97 to 1.00 under add/remove."""
    pairs = gap_pairs(4 if adjacency == Adjacency.ADD_REMOVE else 3, 6, adjacency, padded=False)
    for noise, scale, test in TIGHT[adjacency]:
        aggregator = aggregator_of(noise, scale, test, adjacency)
        exact = largest_renyi(*distributions_outside_failure(aggregator, pairs))
        price = price_curve(price_of(aggregator, pairs))
        assert_covered(exact, price)
        assert_refuted(exact, 0.9 * price)


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_failure_probability_10_percent_too_small_fails(adjacency: Adjacency, test: str) -> None:
    """Where selection hardly matters, the unstable set is released with the failure probability itself."""
    pairs = gap_pairs(2, 6, adjacency, padded=False)
    aggregator = aggregator_of("gumbel", 1.0, test, adjacency)
    exact = largest_delta(*distributions_end_to_end(aggregator, pairs), 50.0)
    assert 0.9 * aggregator.failure_prob < exact <= aggregator.failure_prob


@pytest.mark.parametrize("padded", [False, True])
def test_two_queries_cost_at_most_twice_the_charge(padded: bool) -> None:
    """Independent releases on two queries that change together: the product distribution against the doubled price."""
    adjacency = Adjacency.REPLACE_ONE
    pairs = gap_pairs(3, 4, adjacency, padded=padded)
    aggregator = aggregator_of("gumbel", 1.0, "laplace", adjacency, padded=padded)
    event = aggregator.event_for(num_queries=2, num_labels=3, num_teachers=4)
    first, second = (
        (distribution[:, :, None] * distribution[:, None, :]).reshape(len(distribution), -1)
        for distribution in distributions_end_to_end(aggregator, pairs)
    )
    assert_delta_covered(first, second, event)

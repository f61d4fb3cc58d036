"""Prices that were published or are easy to get wrong: the same checks that pass for ours refute each of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pate.accounting import Adjacency, BoundedRangeEvent, ComposedEvent, PureDpEvent
from pate.accounting.events import leaves
from pate.aggregators import StableTopK
from pate.mechanisms import StabilityTest
from pate.validation import InvalidValue
from tests.privacy.distributions import selection_distribution
from tests.privacy.divergences import ORDERS, assert_covered, assert_delta_covered, largest_renyi, price_curve
from tests.privacy.histograms import gap_pairs
from tests.privacy.top_k_distributions import distributions_end_to_end, distributions_outside_failure, failure_mass

Array = NDArray[np.float64]


def selection_distributions(
    noise: str, scale: float, adjacency: Adjacency, *, num_labels: int = 4, num_teachers: int = 6
) -> tuple[Array, Array]:
    pairs = gap_pairs(num_labels, num_teachers, adjacency, padded=False)
    return selection_distribution(noise, pairs.first, scale), selection_distribution(noise, pairs.second, scale)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_noisy_max_is_no_gaussian_release_of_one_gap(adjacency: Adjacency) -> None:
    """Zhu & Wang's headline figure: a sens**2 / (2 std**2), as if only one gap were released."""
    exact = largest_renyi(*selection_distributions("gaussian", 3.0, adjacency))
    with pytest.raises(AssertionError, match="of its price"):
        assert_covered(exact, ORDERS * adjacency.gap_sensitivity**2 / (2 * 3.0**2))


def test_noisy_max_exceeds_the_sensitivity_1_price_by_1_27_with_three_labels() -> None:
    """The pair of gaps (1, 1) and (0, 2): 1.27 times the false price for large noise at order 8 (spec 1.2)."""
    exact = largest_renyi(
        *selection_distributions("gaussian", 50.0, Adjacency.ADD_REMOVE, num_labels=3), np.array([8.0])
    )
    assert exact[0] / (8 / (2 * 50.0**2)) == pytest.approx(1.27, abs=0.01)


def test_permute_and_flip_is_no_exponential_mechanism() -> None:
    for adjacency in Adjacency:
        exact = largest_renyi(*selection_distributions("exponential", 3.0, adjacency))
        epsilon = adjacency.gap_range / 3.0
        assert_covered(exact, price_curve(PureDpEvent(epsilon)))
        with pytest.raises(AssertionError, match="of its price"):
            assert_covered(exact, price_curve(BoundedRangeEvent(epsilon)))


@pytest.mark.parametrize("noise", ["gumbel", "exponential", "laplace"])
def test_range_of_one_gap_is_not_enough(noise: str) -> None:
    """Two gaps move in opposite ways: charging sens / scale in place of 2 sens / scale."""
    for adjacency in Adjacency:
        exact = largest_renyi(*selection_distributions(noise, 1.0, adjacency))
        kind = BoundedRangeEvent if noise == "gumbel" else PureDpEvent
        with pytest.raises(AssertionError, match="of its price"):
            assert_covered(exact, price_curve(kind(adjacency.gap_sensitivity / 1.0)))


def test_floor_1_releases_unstable_sets_under_replace_one() -> None:
    """The paper's floor f = 1: the sets of (5, 5, 5) and (4, 4, 6) differ although the second gap is 2."""
    paper = StableTopK(selection_scale=1.0, test_std=1.0, failure_prob=0.05, adjacency=Adjacency.ADD_REMOVE)
    pairs = gap_pairs(3, 6, Adjacency.REPLACE_ONE, padded=False)
    assert failure_mass(paper, pairs) == pytest.approx(5.19 * 0.05, rel=2e-3)
    ours = StableTopK(selection_scale=1.0, test_std=1.0, failure_prob=0.05)
    assert failure_mass(ours, pairs) <= 0.05


def test_floor_1_under_replace_one_cannot_be_built() -> None:
    paper = StabilityTest.gaussian(test_std=1.0, failure_prob=0.05, num_teachers=6, adjacency=Adjacency.ADD_REMOVE)
    with pytest.raises(InvalidValue, match=r"pass_probs=0\.25\d*: expected at most failure_prob=0\.05 up to the sens"):
        StabilityTest(pass_probs=paper.pass_probs, failure_prob=0.05, adjacency=Adjacency.REPLACE_ONE)


@pytest.mark.parametrize("test", ["gaussian", "laplace"])
@pytest.mark.parametrize("noise", ["gumbel", "exponential", "laplace"])
def test_add_remove_parameters_do_not_protect_one_record(noise: str, test: str) -> None:
    """An aggregator made and priced for add/remove, run where one record is replaced."""
    aggregator = StableTopK(
        selection_noise=noise,
        selection_scale=2.0,
        test=test,
        test_std=2.0,
        failure_prob=0.01,
        adjacency=Adjacency.ADD_REMOVE,
    )
    event = aggregator.event_for(num_queries=1, num_labels=3, num_teachers=6)
    own = gap_pairs(3, 6, Adjacency.ADD_REMOVE, padded=False)
    assert_covered(largest_renyi(*distributions_outside_failure(aggregator, own)), price_curve(event))
    assert_delta_covered(*distributions_end_to_end(aggregator, own), event)
    record = gap_pairs(3, 6, Adjacency.REPLACE_ONE, padded=False)
    with pytest.raises(AssertionError, match="of its price"):
        assert_covered(largest_renyi(*distributions_outside_failure(aggregator, record)), price_curve(event))
    with pytest.raises(AssertionError, match="of its price"):
        assert_delta_covered(*distributions_end_to_end(aggregator, record), event)


def test_dropping_the_price_of_the_test_is_refuted() -> None:
    """The selection's price alone, as in code that drops the confidence check's cost."""
    aggregator = StableTopK(selection_scale=3.0, test_std=0.5, failure_prob=0.05)
    pairs = gap_pairs(3, 6, Adjacency.REPLACE_ONE, padded=False)
    exact = largest_renyi(*distributions_outside_failure(aggregator, pairs))
    with pytest.raises(AssertionError, match="of its price"):
        assert_covered(exact, price_curve(aggregator.gap_selection(num_labels=3, num_teachers=6).event))


def test_dropping_the_failure_probability_is_refuted() -> None:
    """At a large epsilon the failure is all that is left of delta, and the Renyi price alone promises less."""
    aggregator = StableTopK(selection_scale=1.0, test_std=1.0, failure_prob=0.05)
    distributions = distributions_end_to_end(aggregator, gap_pairs(3, 6, Adjacency.REPLACE_ONE, padded=False))
    event = aggregator.event_for(num_queries=1, num_labels=3, num_teachers=6)
    assert_delta_covered(*distributions, event)
    without_failure = ComposedEvent(tuple(leaf for leaf, _ in leaves(event)))
    with pytest.raises(AssertionError, match="of its price"):
        assert_delta_covered(*distributions, without_failure)

"""Sums of the noise that holders send follow the laws that the price counts on."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import norm

from pate.array_types import IntArray
from pate_federated.distributed_votes import DistributedVotes
from tests.statistical.chi_square import chi_square_p_value
from tests.statistical.test_whole_numbers import discrete_gaussian


def noise_sum_of(aggregator: DistributedVotes, *, num_present: int, num_queries: int) -> IntArray:
    """Returns the sum of the contributions of holders without votes, which is only noise, `[num_queries]`.

    Args:
        aggregator: the aggregator that draws the noise.
        num_present: the number of holders in the sum.
        num_queries: the number of queries, with one label each.
    """
    no_votes = np.zeros((num_queries, 1), dtype=np.int64)
    rngs = [np.random.default_rng([7, holder]) for holder in range(num_present)]
    parts = [aggregator.contribution(no_votes, num_teachers=3, rng=rng) for rng in rngs]
    return np.asarray(np.sum(parts, axis=0)).ravel()


@pytest.mark.parametrize("num_present", [6, 5, 4])
def test_sum_is_discrete_gaussian_for_any_number_of_dropouts(num_present: int) -> None:
    """The noise of 4, 5 or 6 of 6 holders adds up to a discrete Gaussian with 4, 5 or 6 times the variance of a share.

    A chi-square test accepts this law, and rejects one with a variance that is smaller by the factor n / (n + 1) for n
    holders. The variance is at least the priced one, which counts four shares.
    """
    aggregator = DistributedVotes(noise_std=4.0, num_holders=6, max_dropouts=2)
    num_draws_of_sum = Counter(
        noise_sum_of(aggregator, num_present=num_present, num_queries=40_000).tolist()
    )
    variance = num_present * aggregator.shares.share_variance
    assert (
        chi_square_p_value(
            count_by_outcome=num_draws_of_sum, prob_by_outcome=discrete_gaussian(variance)
        )
        > 1e-3
    )
    assert (
        chi_square_p_value(
            count_by_outcome=num_draws_of_sum,
            prob_by_outcome=discrete_gaussian(variance * num_present / (num_present + 1)),
        )
        < 1e-6
    )
    assert variance >= aggregator.shares.variance * aggregator.shares.steps**2


def test_labels_are_those_of_one_gaussian() -> None:
    """A label is released as often with noise of one place, or of four holders, as with one normal distribution.

    The frequencies agree within 4 standard errors. A standard deviation of 5 in place of 6 is rejected.
    """
    aggregator = DistributedVotes(noise_std=6.0, num_holders=4)
    counts = np.full((20_000, 1), 13)
    yes_share_with_central_noise = aggregator.aggregate(
        counts, num_teachers=20, rng=np.random.default_rng(1)
    ).labels.mean()
    total = (
        noise_sum_of(aggregator, num_present=4, num_queries=20_000)[:, None]
        + 13 * aggregator.shares.steps
    )
    yes_share_with_noise_of_holders = aggregator.release_of(
        total, num_teachers=20, num_contributions=4
    ).labels.mean()
    votes_above_threshold = 3
    expected_yes_share = norm.cdf(votes_above_threshold / aggregator.noise_std)
    for yes_share in (yes_share_with_central_noise, yes_share_with_noise_of_holders):
        assert (
            abs(yes_share - expected_yes_share)
            < 4 * (expected_yes_share * (1 - expected_yes_share) / 20_000) ** 0.5
        )
        assert (
            abs(yes_share - norm.cdf(votes_above_threshold / 5))
            > 4 * (expected_yes_share * (1 - expected_yes_share) / 20_000) ** 0.5
        )


def test_shares_of_different_holders_are_independent() -> None:
    """The noise of two holders with different seeds is uncorrelated within 5 standard deviations, in 20,000 draws."""
    aggregator = DistributedVotes(noise_std=20.0, num_holders=2)
    no_votes = np.zeros((20_000, 1), dtype=np.int64)
    rngs = (np.random.default_rng(seed) for seed in (0, 1))
    noise_of_holder, noise_of_other_holder = (
        aggregator.contribution(no_votes, num_teachers=1, rng=rng).ravel() for rng in rngs
    )
    assert abs(np.corrcoef(noise_of_holder, noise_of_other_holder)[0, 1]) < 5 / np.sqrt(20_000)

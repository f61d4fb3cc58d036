"""Distributed votes, whose noise is the sum of holders' shares: sums, prices and refusals."""

import numpy as np
import pytest

from pate.accounting import Adjacency, RdpAccountant, ZCdpEvent, gaussian_epsilon
from pate.aggregators import Aggregator, GaussianVotes
from pate_federated.distributed_votes import DistributedVotes
from tests.refusals import refused_parameter

COUNTS_WITH_CLEAR_MAJORITIES = np.array([[100, 0, 51], [0, 100, 49]])


def price_of_600_queries(aggregator: Aggregator) -> float:
    """Returns the epsilon of 600 queries of 40 labels by 400 teachers, by Renyi divergences at delta 1e-6."""
    event = aggregator.event_for(num_queries=600, num_labels=40, num_teachers=400)
    return RdpAccountant().compose(event).get_epsilon(target_delta=1e-6)


def test_sum_of_contributions_gives_clear_majorities() -> None:
    """From the sum of five holders' counts with narrow noise, the labels with over half of 100 votes are released.

    All queries are answered, and the event is that of `event_for`.
    """
    aggregator = DistributedVotes(noise_std=0.1, num_holders=5)
    counts_of_holders = [
        COUNTS_WITH_CLEAR_MAJORITIES // 5 + (holder < COUNTS_WITH_CLEAR_MAJORITIES % 5)
        for holder in range(5)
    ]
    rngs = map(np.random.default_rng, range(5))
    contributions = [
        aggregator.contribution(counts, num_teachers=20, rng=next(rngs))
        for counts in counts_of_holders
    ]
    release = aggregator.release_of(
        np.sum(contributions, axis=0), num_teachers=100, num_contributions=5
    )
    np.testing.assert_array_equal(release.labels, [[True, False, True], [False, True, False]])
    assert release.answered.all()
    assert release.event == aggregator.event_for(num_queries=2, num_labels=3, num_teachers=100)


def test_teachers_of_an_absent_holder_vote_for_no_label() -> None:
    """The threshold is half of all 100 teachers, even if 40 of them are absent, so that 39 votes are too few."""
    aggregator = DistributedVotes(noise_std=0.1, num_holders=5, max_dropouts=2)
    contributions = [
        aggregator.contribution([[20, 13]], num_teachers=20, rng=np.random.default_rng(seed))
        for seed in range(3)
    ]
    release = aggregator.release_of(sum(contributions), num_teachers=100, num_contributions=3)
    np.testing.assert_array_equal(release.labels, [[True, False]])


def test_price_covers_the_noisy_counts() -> None:
    """The epsilon for 40 holders is above those of the continuous Gaussian and of `GaussianVotes`, and below 20.1."""
    epsilon = price_of_600_queries(DistributedVotes(noise_std=50.0, num_holders=40))
    assert gaussian_epsilon((600 * 40) ** 0.5 / 50.0, target_delta=1e-6) < epsilon < 20.1
    assert epsilon > price_of_600_queries(GaussianVotes(noise_std=50.0))


def test_teachers_with_few_votes_cost_less_and_under_add_remove_half() -> None:
    """With `max_votes=4`, the zCDP cost is for 8 counts that move under replace_one, and for 4 under add_remove.

    Under replace_one the cost is for all 40 counts if `max_votes` is 30, more than half of the labels, or None.
    """

    def rho(adjacency: Adjacency, max_votes: int | None) -> float:
        aggregator = DistributedVotes(
            noise_std=50.0, num_holders=1, max_votes=max_votes, adjacency=adjacency
        )
        event = aggregator.event_for(num_queries=10, num_labels=40, num_teachers=8)
        assert isinstance(event, ZCdpEvent)
        return event.rho

    assert rho(Adjacency.REPLACE_ONE, max_votes=4) == pytest.approx(10 * 8 / 5000)
    assert rho(Adjacency.ADD_REMOVE, max_votes=4) == pytest.approx(10 * 4 / 5000)
    assert (
        rho(Adjacency.REPLACE_ONE, max_votes=30)
        == rho(Adjacency.REPLACE_ONE, max_votes=None)
        == pytest.approx(10 * 40 / 5000)
    )


def test_too_few_or_too_many_contributions_are_refused() -> None:
    """If two of five holders may be missing, 2 and 6 contributions are refused, and 3 and 5 accepted."""
    aggregator = DistributedVotes(noise_std=1.0, num_holders=5, max_dropouts=2)
    total = np.zeros((1, 2), dtype=np.int64)
    for count in (2, 6):
        with refused_parameter("num_contributions", value=count, rule_words="3"):
            aggregator.release_of(total, num_teachers=10, num_contributions=count)
    for count in (3, 5):
        assert aggregator.release_of(total, num_teachers=10, num_contributions=count).answered.all()


def test_invalid_numbers_of_a_secure_sum_are_refused() -> None:
    """Counts of 3 and 1 by three teachers with `max_votes=1`, a total of floats, and one with one axis are refused."""
    aggregator = DistributedVotes(noise_std=1.0, num_holders=2, max_votes=1)
    with refused_parameter("votes[0]", rule_words="a sum of"):
        aggregator.contribution([[3, 1]], num_teachers=3, rng=np.random.default_rng(0))
    with refused_parameter("total.dtype", value="float64"):
        aggregator.release_of(np.zeros((1, 2)), num_teachers=3, num_contributions=2)
    with refused_parameter("total.shape", value=(2,)):
        aggregator.release_of(np.zeros(2, dtype=np.int64), num_teachers=3, num_contributions=2)

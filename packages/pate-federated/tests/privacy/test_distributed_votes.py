"""The price of distributed noise against the exact law of its sum, on all neighboring histograms of small instances."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from pate.accounting import Adjacency, ZCdpEvent
from pate.array_types import FloatArray, IntArray
from pate_federated.distributed_votes import DistributedVotes
from tests.privacy.divergences import (
    ORDERS,
    assert_covered,
    assert_delta_covered,
    assert_refuted,
    price_curve,
)
from tests.privacy.histograms import neighbors

ADJACENCIES = tuple(Adjacency)
ARE_LOW_ORDERS = ORDERS <= 8  # higher ones look at masses below the smallest float
AGGREGATORS = (
    DistributedVotes(noise_std=1.0, num_holders=3),
    DistributedVotes(noise_std=0.6, num_holders=4, max_dropouts=1),
    DistributedVotes(noise_std=2.0, num_holders=4, max_dropouts=1, max_colluders=2),
)


def law_of_one_share(variance: int) -> FloatArray:
    """Returns the probabilities of a discrete Gaussian up to 25 standard deviations, without code of the package."""
    reach = int(25 * variance**0.5)
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2.0 * variance))
    return np.asarray(weights / weights.sum())


def law_of_sum(aggregator: DistributedVotes, num_shares: int) -> FloatArray:
    """Returns the distribution of the sum of several holders' shares of noise, by convolution."""
    share = law_of_one_share(aggregator.shares.share_variance)
    law = share
    for _ in range(num_shares - 1):
        law = np.convolve(law, share)
    cut = len(law) // 5  # the ends miss what lies beyond the reach of a single share
    return law[cut:-cut]


def shifted_divergence(law: FloatArray, *, shift: int) -> FloatArray:
    """Returns the Renyi divergences of a shifted law from the law itself, one for each order of `ORDERS`."""
    moved, fixed = (law[:-shift], law[shift:]) if shift else (law, law)
    are_positive = (moved > 1e-200) & (fixed > 1e-200)
    first = np.log(moved[are_positive])
    second = np.log(fixed[are_positive])
    terms = ORDERS[:, None] * first - (ORDERS[:, None] - 1) * second
    top = terms.max(axis=1)
    return np.asarray((top + np.log(np.exp(terms - top[:, None]).sum(axis=1))) / (ORDERS - 1))


def largest_divergence(
    first_counts: IntArray,
    second_counts: IntArray,
    noise_law: FloatArray,
    noise_steps: int,
) -> FloatArray:
    """Returns the largest Renyi divergence between the noisy counts of neighbors, one for each order of `ORDERS`.

    Labels are independent, so divergences add up over the labels whose count changes.

    Args:
        first_counts: the counts of each pair of neighbors, `[num_pairs, num_labels]`.
        second_counts: the neighbors' counts, `[num_pairs, num_labels]`.
        noise_law: the probability of each point of the noise's grid, `[num_points]`, symmetric around 0. So both
            directions between neighbors have the same divergence.
        noise_steps: the number of steps of the noise's grid in one vote.
    """
    num_moved_counts = int(np.abs(first_counts - second_counts).sum(axis=1).max())
    assert int(np.abs(first_counts - second_counts).max()) == 1
    return num_moved_counts * shifted_divergence(noise_law, shift=noise_steps)


def price_of(aggregator: DistributedVotes, num_labels: int, num_teachers: int) -> FloatArray:
    """Returns the price of one query, one Renyi divergence for each order of `ORDERS` up to 8."""
    event = aggregator.event_for(num_queries=1, num_labels=num_labels, num_teachers=num_teachers)
    return price_curve(event)[ARE_LOW_ORDERS]


@pytest.mark.parametrize("aggregator_of_case", AGGREGATORS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_covers_all_neighbors_and_is_almost_attained(
    adjacency: Adjacency, aggregator_of_case: DistributedVotes
) -> None:
    """For 1 to 4 labels and teachers, the price is at least the exact divergence of all neighbors.

    Over 99% of the price is attained. Negative control: 90% of the price is refuted.
    """
    aggregator = replace(aggregator_of_case, adjacency=adjacency)
    law = law_of_sum(aggregator, num_shares=aggregator.shares.num_counted)
    for num_labels, num_teachers in product(range(1, 5), repeat=2):
        first_counts, second_counts = neighbors(
            num_labels=num_labels, num_teachers=num_teachers, adjacency=adjacency
        )
        exact = largest_divergence(
            first_counts, second_counts, noise_law=law, noise_steps=aggregator.shares.steps
        )
        price = price_of(aggregator, num_labels=num_labels, num_teachers=num_teachers)
        assert assert_covered(renyi_divergence=exact[ARE_LOW_ORDERS], renyi_price=price) > 0.99
        assert_refuted(renyi_divergence=exact[ARE_LOW_ORDERS], renyi_price=0.9 * price)


def changes_of_counts(num_labels: int, max_votes: int, adjacency: Adjacency) -> IntArray:
    """Returns each change that one teacher can make to the counts, `[num_pairs, num_labels]`.

    Args:
        num_labels: the number of labels.
        max_votes: the largest number of labels that a teacher votes for.
        adjacency: whether a teacher is replaced or added.
    """
    votes = np.array([row for row in product((0, 1), repeat=num_labels) if sum(row) <= max_votes])
    moves = (
        (votes[:, None] - votes).reshape(-1, num_labels)
        if adjacency is Adjacency.REPLACE_ONE
        else votes
    )
    return np.asarray(moves, dtype=np.int64)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_covers_teachers_with_few_votes_and_not_those_with_more(adjacency: Adjacency) -> None:
    """The price for `max_votes=1` covers teachers with one vote.

    Negative control: teachers with two votes refute it.
    """
    aggregator = DistributedVotes(
        noise_std=1.0, num_holders=3, max_dropouts=1, max_votes=1, adjacency=adjacency
    )
    law = law_of_sum(aggregator, num_shares=2)
    price = price_of(aggregator, num_labels=4, num_teachers=5)

    def exact_divergences(max_votes: int) -> FloatArray:
        moves = changes_of_counts(num_labels=4, max_votes=max_votes, adjacency=adjacency)
        return largest_divergence(
            first_counts=moves,
            second_counts=np.zeros_like(moves),
            noise_law=law,
            noise_steps=aggregator.shares.steps,
        )[ARE_LOW_ORDERS]

    assert assert_covered(renyi_divergence=exact_divergences(max_votes=1), renyi_price=price) > 0.99
    assert_refuted(renyi_divergence=exact_divergences(max_votes=2), renyi_price=price)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_delta_of_two_noisy_counts_is_covered(adjacency: Adjacency) -> None:
    """The exact delta of two noisy counts is at most the priced delta, and above 30% of it."""
    aggregator = DistributedVotes(noise_std=0.8, num_holders=3, max_dropouts=1, adjacency=adjacency)
    law = law_of_sum(aggregator, num_shares=2)
    steps_of_a_vote = aggregator.shares.steps
    padded_law = np.pad(law, steps_of_a_vote)
    law_of_moved_count = np.roll(padded_law, steps_of_a_vote)
    law_of_fixed_count = padded_law
    moved_laws = np.outer(law_of_moved_count, law_of_moved_count).reshape(1, -1)
    fixed_laws = np.outer(law_of_fixed_count, law_of_fixed_count).reshape(1, -1)
    event = aggregator.event_for(num_queries=1, num_labels=2, num_teachers=3)
    assert 0.3 < assert_delta_covered(moved_laws, second_laws=fixed_laws, event=event) <= 1


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("max_dropouts", "max_colluders"),
    [(1, 0), (0, 1), (1, 1)],
    ids=["dropout", "colluder", "dropout and colluder"],
)
def test_price_without_dropouts_and_colluders_is_too_small(
    adjacency: Adjacency, max_dropouts: int, max_colluders: int
) -> None:
    """Negative control: a price that counts the shares of all four holders is refuted if shares are missing in the sum.

    A price that allows for the missing shares, by `max_dropouts` and `max_colluders`, covers this sum.
    """
    aggregator_for_all_shares = DistributedVotes(noise_std=5.0, num_holders=4, adjacency=adjacency)
    num_shares = 4 - max_dropouts - max_colluders
    law = law_of_sum(aggregator_for_all_shares, num_shares=num_shares)
    first_counts, second_counts = neighbors(num_labels=3, num_teachers=3, adjacency=adjacency)
    exact = largest_divergence(
        first_counts,
        second_counts,
        noise_law=law,
        noise_steps=aggregator_for_all_shares.shares.steps,
    )[ARE_LOW_ORDERS]
    assert_refuted(
        renyi_divergence=exact,
        renyi_price=price_of(aggregator_for_all_shares, num_labels=3, num_teachers=3),
    )
    counted_variance = aggregator_for_all_shares.shares.share_variance * num_shares
    aggregator_for_missing_shares = replace(
        aggregator_for_all_shares,
        noise_std=counted_variance**0.5 / aggregator_for_all_shares.shares.steps * (1 - 1e-9),
        max_dropouts=max_dropouts,
        max_colluders=max_colluders,
    )
    assert (
        aggregator_for_missing_shares.shares.share,
        aggregator_for_missing_shares.shares.steps,
    ) == (aggregator_for_all_shares.shares.share, aggregator_for_all_shares.shares.steps)
    assert_covered(
        renyi_divergence=exact,
        renyi_price=price_of(aggregator_for_missing_shares, num_labels=3, num_teachers=3),
    )


def test_price_covers_every_query_and_one_share_never_fails() -> None:
    """One holder's noise for 30 queries of 4 labels costs rho = 30 * 4 / (2 noise_std**2) zCDP, and no delta."""
    aggregator = DistributedVotes(noise_std=10.0, num_holders=1)
    event = aggregator.event_for(num_queries=30, num_labels=4, num_teachers=9)
    assert isinstance(event, ZCdpEvent)
    assert event.rho == pytest.approx(30 * 4 / (2 * 10.0**2), rel=1e-9)

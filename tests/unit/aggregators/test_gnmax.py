"""GNMax, PowersetGNMax and ConfidentVotes: the votes that one change moves, the cap on votes, screening and prices."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, ndtr

from pate.accounting import Adjacency, ComposedEvent, Ledger, RdpAccountant, ThresholdEvent
from pate.aggregators import (
    ConfidentGNMax,
    ConfidentVotes,
    GaussianVotes,
    GNMax,
    PowersetGNMax,
    Release,
)
from pate.aggregators.thresholds import squared_sensitivity
from pate.votes.arrays import VoteBlocks
from tests.refusals import refused_parameter

CONFIDENT_VOTES = ConfidentVotes(screening_std=2.0, threshold_share=0.75, noise_std=3.0)


@pytest.mark.parametrize(
    ("max_votes", "num_labels", "num_moved_by_replacing", "num_moved_by_removing"),
    [(1, 40, 2, 1), (3, 40, 6, 3), (3, 5, 5, 3), (9, 5, 5, 5)],
)
def test_votes_that_one_change_moves(
    max_votes: int, num_labels: int, num_moved_by_replacing: int, num_moved_by_removing: int
) -> None:
    """One teacher with at most `max_votes` votes moves up to `num_moved_by_replacing` counts if it is replaced.

    The teacher moves up to `num_moved_by_removing` counts if it is removed.
    """
    assert num_moved_by_replacing == squared_sensitivity(
        max_votes, num_labels=num_labels, adjacency=Adjacency.REPLACE_ONE
    )
    assert num_moved_by_removing == squared_sensitivity(
        max_votes, num_labels=num_labels, adjacency=Adjacency.ADD_REMOVE
    )


def test_counts_beyond_max_votes_are_refused() -> None:
    """GNMax and ConfidentGNMax refuse a histogram whose sum exceeds `max_votes` times the number of teachers.

    By default `max_votes` is 1. GNMax accepts a sum of exactly this size.
    """
    vote_counts = np.array([[4, 4, 0], [5, 4, 0]])
    rng = np.random.default_rng(0)
    assert GNMax(noise_std=1.0).aggregate(vote_counts, num_teachers=9, rng=rng).num_answered == 2
    with refused_parameter("votes[1]", rule_words="sum of"):
        GNMax(noise_std=1.0).aggregate(vote_counts, num_teachers=8, rng=rng)
    release = GNMax(noise_std=1.0, max_votes=2).aggregate(vote_counts, num_teachers=8, rng=rng)
    assert release.num_answered == 2
    with refused_parameter("votes[1]", rule_words="a sum of at most 8"):
        ConfidentGNMax(screening_std=1.0, threshold_share=0.5, noise_std=1.0).aggregate(
            vote_counts, num_teachers=8, rng=rng
        )


def test_blocks_of_teachers_are_merged_in_one_order() -> None:
    """The summary of label sets is the same for one block of 60 teachers and for three blocks.

    For each query it counts 60 teachers and lists exactly the sets that were voted for.
    """
    votes = np.random.default_rng(0).random(size=(60, 7, 11)) < 0.15
    aggregator = PowersetGNMax(noise_std=1.0)
    summary_of_all = aggregator.summarize(VoteBlocks(votes, num_teachers=60))
    blocks = iter([votes[:13], votes[13:14], votes[14:]])
    summary_of_blocks = aggregator.summarize(VoteBlocks(blocks, num_teachers=60))
    np.testing.assert_array_equal(summary_of_all, summary_of_blocks)
    teachers_of_query = np.bincount(summary_of_all["query"], weights=summary_of_all["count"])
    assert teachers_of_query.tolist() == [60.0] * 7
    for query in range(7):
        voted_sets = {tuple(label_set) for label_set in votes[:, query].tolist()}
        listed = summary_of_all["labels"][summary_of_all["query"] == query]
        assert {tuple(label_set) for label_set in listed.tolist()} == voted_sets


@pytest.mark.slow
def test_powerset_works_with_more_sets_than_a_float_can_count() -> None:
    """Powerset GNMax answers queries over 2000 labels, whose 2^2000 sets exceed any float.

    Five teachers vote for the empty set. The noisy winner is a random set of over 800 labels, because the largest noise
    of all unseen sets is about 50 standard deviations.
    """
    votes = np.zeros((5, 2, 2000), dtype=bool)
    release = PowersetGNMax(noise_std=1.0).aggregate(
        votes, num_teachers=5, rng=np.random.default_rng(0)
    )
    assert (release.labels.sum(axis=1) > 800).all()


def release_of_equal_queries(
    aggregator: ConfidentVotes,
    counts_of_query: list[int],
    num_queries: int = 50,
    ledger: Ledger | None = None,
) -> Release:
    """Returns a release of `num_queries` equal histograms of 20 teachers."""
    rng = np.random.default_rng(0)
    counts = np.tile(counts_of_query, (num_queries, 1))
    return aggregator.aggregate(counts, num_teachers=20, rng=rng, ledger=ledger)


def test_price_is_one_bit_for_the_screening_and_one_for_each_label() -> None:
    """The event of 50 queries is 50 screening bits and the event of Gaussian votes.

    A screening bit has the probability of passing at each count.
    """
    event = CONFIDENT_VOTES.event_for(num_queries=50, num_labels=3, num_teachers=20)
    assert isinstance(event, ComposedEvent)
    screening, answers = event.events
    screening_bit = screening.event
    assert isinstance(screening_bit, ThresholdEvent)
    assert (screening.count, screening_bit.reach) == (50, 1)
    pass_probs = expit(screening_bit.log_odds)
    expected_pass_probs = ndtr((np.arange(21) - 15) / 2.0)
    np.testing.assert_allclose(pass_probs, expected_pass_probs, rtol=1e-9)
    assert answers == GaussianVotes(noise_std=3.0).event_for(
        num_queries=50, num_labels=3, num_teachers=20
    )


def test_screening_uses_the_smallest_majority() -> None:
    """The labels' majorities are 18, 18 and 11 of 20: a query passes with probability Phi((11 - 15) / 2).

    Answered queries have labels with the probabilities of Gaussian votes.
    """
    release = release_of_equal_queries(
        aggregator=CONFIDENT_VOTES, counts_of_query=[18, 2, 11], num_queries=40_000
    )
    smallest_majority = 11
    threshold = 15
    pass_prob = ndtr((smallest_majority - threshold) / 2.0)
    five_stds = 5 * math.sqrt(pass_prob / 40_000)
    assert release.num_answered / 40_000 == pytest.approx(pass_prob, abs=five_stds)
    label_frequencies = release.labels[release.answered].mean(axis=0)
    votes_above_half = np.array([8, -8, 1])
    label_probs = ndtr(votes_above_half / 3.0)
    assert label_frequencies == pytest.approx(label_probs, abs=0.06)


def test_queries_after_max_answers_are_refused() -> None:
    """With `max_answers=7`, the same queries are answered as without the limit, up to the seventh answer.

    Later queries are not answered, and queries without an answer have no label.
    """
    capped_aggregator = replace(CONFIDENT_VOTES, max_answers=7)
    capped = release_of_equal_queries(aggregator=capped_aggregator, counts_of_query=[20, 0, 20])
    uncapped = release_of_equal_queries(aggregator=CONFIDENT_VOTES, counts_of_query=[20, 0, 20])
    assert capped.num_answered == 7
    assert uncapped.num_answered > 40
    num_served = int(np.flatnonzero(capped.answered)[-1]) + 1
    np.testing.assert_array_equal(capped.answered[:num_served], uncapped.answered[:num_served])
    assert not capped.answered[num_served:].any()
    assert not capped.labels[~capped.answered].any()


def test_price_falls_with_the_cap_and_not_with_refusals() -> None:
    """With `max_answers=7`, the price has 50 screenings and 7 answers, and is below the price without the limit.

    Whether the votes are clear or not, the same price is charged.
    """

    def renyi_epsilon(aggregator: ConfidentVotes) -> float:
        event = aggregator.event_for(num_queries=50, num_labels=3, num_teachers=20)
        return RdpAccountant().compose(event).get_epsilon(target_delta=1e-5)

    capped = replace(CONFIDENT_VOTES, max_answers=7)
    screening, answers = capped.event_for(num_queries=50, num_labels=3, num_teachers=20).events
    # Every screening is paid for, because a refusal also reveals the result of the screening.
    assert screening.count == 50
    assert answers.count == 7 * 3
    assert renyi_epsilon(aggregator=capped) < renyi_epsilon(aggregator=CONFIDENT_VOTES)
    assert (
        renyi_epsilon(aggregator=replace(CONFIDENT_VOTES, max_answers=50))
        == renyi_epsilon(aggregator=replace(CONFIDENT_VOTES, max_answers=999))
        == renyi_epsilon(aggregator=CONFIDENT_VOTES)
    )
    for aggregator in (CONFIDENT_VOTES, capped):
        spent_epsilons = []
        for vote_counts in ([20, 0, 20], [10, 10, 10]):
            ledger = Ledger(target_delta=1e-5, accountant=RdpAccountant)
            release_of_equal_queries(
                aggregator=aggregator, counts_of_query=vote_counts, ledger=ledger
            )
            spent_epsilons.append(ledger.epsilon)
        price = renyi_epsilon(aggregator=aggregator)
        assert spent_epsilons[0] == spent_epsilons[1] == pytest.approx(price)

"""`ClippedVotes` on all votes of small ensembles: how far one change moves the counts, and the released bits."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr

from pate.accounting import Adjacency
from pate.aggregators import ClippedVotes
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.votes.arrays import VoteBlocks
from tests.privacy.divergences import (
    assert_covered,
    assert_delta_covered,
    assert_refuted,
    largest_renyi,
    price_curve,
)

ADJACENCIES = tuple(Adjacency)
NORMS = ("l1", "l2")


def all_vote_vectors(num_labels: int) -> BoolArray:
    """Returns all vote vectors of one teacher, bool `[2**num_labels, num_labels]`."""
    return np.array(list(product((False, True), repeat=num_labels)))


def all_clipped_votes(
    num_labels: int, vote_clip: int, norm: str, query_index: int = 0
) -> FloatArray:
    """Returns what each possible vote vector of one teacher adds to the counts of a query, `[2**L, L]`.

    With norm l1, the place of the query among all queries decides which of the votes are kept.
    """
    aggregator = ClippedVotes(noise_std=1.0, vote_clip=vote_clip, norm=norm)
    votes = np.zeros((1, query_index + 1, num_labels), dtype=bool)
    clipped_votes = []
    for vote_vector in all_vote_vectors(num_labels):
        votes[0, query_index] = vote_vector
        counts = aggregator.summarize(VoteBlocks(votes, num_teachers=1))
        clipped_votes.append(counts[query_index])
    return np.array(clipped_votes, dtype=np.float64)


@pytest.mark.parametrize("norm", NORMS)
def test_one_change_moves_counts_by_exactly_the_claimed_distance(norm: str) -> None:
    """The largest squared move of the counts of L labels is min(2 vote_clip, L) if a teacher is replaced.

    If a teacher is removed, it is min(vote_clip, L).
    """
    for num_labels in range(1, 7):
        for vote_clip in range(1, num_labels + 2):
            clipped_votes = all_clipped_votes(
                num_labels, vote_clip=vote_clip, norm=norm, query_index=num_labels // 2
            )
            squared_replace_move = (
                ((clipped_votes[:, None] - clipped_votes) ** 2).sum(axis=-1).max()
            )
            squared_remove_move = (clipped_votes**2).sum(axis=-1).max()
            assert squared_replace_move == pytest.approx(min(2 * vote_clip, num_labels), rel=1e-9)
            assert squared_remove_move == pytest.approx(min(vote_clip, num_labels), rel=1e-9)
            assert squared_replace_move <= min(2 * vote_clip, num_labels)  # rounding is downwards


def test_a_teacher_never_counts_for_what_it_did_not_vote() -> None:
    """The clipped votes of a teacher lie between 0 and 1, and are above 0 only for labels that it voted for."""
    vote_clips = (1, 2, 3)
    for norm, vote_clip in product(NORMS, vote_clips):
        clipped_votes = all_clipped_votes(num_labels=4, vote_clip=vote_clip, norm=norm)
        vote_vectors = all_vote_vectors(num_labels=4)
        assert (clipped_votes[~vote_vectors] == 0).all()
        assert ((clipped_votes >= 0) & (clipped_votes <= 1)).all()
        assert (clipped_votes.sum(axis=1) > 0).tolist() == vote_vectors.any(axis=1).tolist()


def neighboring_counts(
    adjacency: Adjacency, vote_clip: int, norm: str, num_labels: int = 3
) -> tuple[FloatArray, FloatArray]:
    """Returns the counts of all ensembles of three teachers, and the counts after one teacher's votes change.

    They are two arrays `[P, L]`, with every pair in both directions.
    """
    votes = all_clipped_votes(num_labels, vote_clip=vote_clip, norm=norm)
    counts_of_two = np.unique((votes[:, None] + votes).reshape(-1, num_labels), axis=0)
    removed = np.zeros((1, num_labels))
    changed_votes = votes if adjacency is Adjacency.REPLACE_ONE else removed
    first_counts, second_counts = np.broadcast_arrays(
        counts_of_two[:, None, None] + votes[:, None], counts_of_two[:, None, None] + changed_votes
    )
    first_counts = first_counts.reshape(-1, num_labels)
    second_counts = second_counts.reshape(-1, num_labels)
    return (
        np.concatenate([first_counts, second_counts]),
        np.concatenate([second_counts, first_counts]),
    )


def bits_distributions(counts: FloatArray, noise_std: float) -> FloatArray:
    """Returns the probability of each pattern of L bits, `[P, 2**L]`, for noisy counts and a threshold of 1.5 votes."""
    positive_probs = ndtr((counts - 1.5) / noise_std)
    patterns = all_vote_vectors(num_labels=counts.shape[1])
    probs = np.where(patterns, positive_probs[:, None], 1 - positive_probs[:, None])
    return np.asarray(probs.prod(axis=-1))


@pytest.mark.parametrize("noise_std", [0.6, 2.0])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_covers_all_ensembles(adjacency: Adjacency, norm: str, noise_std: float) -> None:
    """The exact Renyi divergence and delta of all neighboring ensembles of three teachers stay within the price.

    Negative control: 90% of the price (l2: 30%) is exceeded.
    """
    for vote_clip in (1, 2, 3):
        aggregator = ClippedVotes(
            noise_std=noise_std, vote_clip=vote_clip, norm=norm, adjacency=adjacency
        )
        event = aggregator.event_for(num_queries=1, num_labels=3, num_teachers=3)
        first_laws, second_laws = (
            bits_distributions(counts, noise_std)
            for counts in neighboring_counts(adjacency, vote_clip, norm)
        )
        exact = largest_renyi(first_laws, second_laws)
        price = price_curve(event)
        ratio = assert_covered(renyi_divergence=exact, renyi_price=price)
        assert ratio == pytest.approx(1, rel=1e-9) if norm == "l1" else ratio > 0.3
        assert_refuted(renyi_divergence=exact, renyi_price=(0.9 if norm == "l1" else 0.3) * price)
        assert_delta_covered(first_laws, second_laws, event)


def test_what_one_teacher_keeps_is_independent_of_the_other_teachers() -> None:
    """The counts of all teachers are the sum of the counts of each teacher alone, in one block of votes and in two."""
    rng = np.random.default_rng(0)
    votes = rng.random(size=(5, 4, 6)) < 0.7
    blocks_of_teachers = [votes[:2], votes[2:]]
    for norm in NORMS:
        aggregator = replace(ClippedVotes(noise_std=1.0, vote_clip=2), norm=norm)
        sum_of_single_summaries = sum(
            aggregator.summarize(VoteBlocks(votes[teacher : teacher + 1], num_teachers=1))
            for teacher in range(5)
        )
        in_one_block = aggregator.summarize(VoteBlocks(votes, num_teachers=5))
        in_two_blocks = aggregator.summarize(
            VoteBlocks(votes_or_blocks=iter(blocks_of_teachers), num_teachers=5)
        )
        np.testing.assert_array_equal(in_one_block, sum_of_single_summaries)
        np.testing.assert_array_equal(in_two_blocks, sum_of_single_summaries)


def test_a_cap_chosen_by_looking_at_others_moves_more() -> None:
    """Negative control: if each teacher keeps only its vote for the most popular label, counts move further.

    A change of one teacher can then change the votes of three others. The squared move of the counts exceeds 2.
    """
    votes = np.array([[1, 1, 0]] * 3 + [[0, 1, 0]])
    neighboring_votes = np.array([[1, 1, 0]] * 3 + [[1, 0, 0]])

    def counts_of_most_popular(ensemble_votes: IntArray) -> FloatArray:
        most_popular = ensemble_votes.sum(axis=0).argmax()
        single_votes = [
            most_popular if teacher_votes[most_popular] else teacher_votes.argmax()
            for teacher_votes in ensemble_votes
        ]
        return np.eye(3)[single_votes].sum(axis=0)

    moves = counts_of_most_popular(votes) - counts_of_most_popular(neighboring_votes)
    assert (moves**2).sum() > 2

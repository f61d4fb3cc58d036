"""Steps of docs/proofs/adjacency.md, on all small histograms."""

import itertools
import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from pate.accounting import Adjacency, ExactAccountant, gaussian_delta
from pate.aggregators import PowersetGNMax
from pate.votes.clipping import ClippedSum
from tests.privacy.histograms import gaps_of, neighbors
from tests.privacy.rival_distributions import noisy_max_distribution

Histogram = tuple[int, ...]


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_bounds_of_the_table_hold_and_are_attained(adjacency: Adjacency) -> None:
    """On all neighbors of small instances, each bound holds and is attained.

    One teacher moves a sorted count by at most 1, a gap by at most the gap sensitivity, the difference of two gaps by
    at most the gap range, and a padding gap by at most 1. Under add-remove, all sorted counts move in one direction.
    """
    largest_moves = []
    for num_labels, num_teachers in ((1, 4), (2, 4), (3, 4), (4, 3)):
        counts, moved = neighbors(num_labels, num_teachers, adjacency)
        change = np.sort(moved, axis=1) - np.sort(counts, axis=1)
        gaps = np.subtract(
            *(
                gaps_of(counts_of_side, num_teachers=num_teachers, padded=True)
                for counts_of_side in (moved, counts)
            )
        )
        spread = gaps.max(axis=1) - gaps.min(axis=1)
        largest_moves.append(
            [int(np.abs(moves).max()) for moves in (change, gaps, spread, gaps[:, [0, -1]])]
        )
        if adjacency is Adjacency.ADD_REMOVE:
            assert ((change <= 0).all(axis=1) | (change >= 0).all(axis=1)).all()
    # a sorted count, a gap, the difference of two gaps, a padding gap
    assert np.max(largest_moves, axis=0).tolist() == [
        1,
        adjacency.gap_sensitivity,
        adjacency.gap_range,
        1,
    ]


# ------------------------------------------------------------------------------------------------ absent is not zero


def test_centered_votes_of_zero_move_twice_as_far_as_absent_ones() -> None:
    """Removing a teacher moves the centered sum by at most the l2 sensitivity under add-remove.

    Replacing its votes by zeros moves the sum by up to twice this sensitivity (within 1%), over all 16 arrays of votes
    0 or 1 for 2 queries with 2 labels.
    """
    shape = (2, 2)
    clip = 0.7
    clipped = ClippedSum(clip, shape, adjacency=Adjacency.ADD_REMOVE)
    vote_rows = np.array(list(itertools.product((0.0, 1.0), repeat=4))).reshape(-1, *shape)
    for center in (0.4, 0.5):
        zero = clipped.total(np.zeros((1, *shape)), center=center, num_teachers=1)
        sums = np.array(
            [clipped.total(votes[None], center=center, num_teachers=1) for votes in vote_rows]
        )
        absent_moves = np.linalg.norm(sums.reshape(len(vote_rows), -1), axis=1)
        zero_moves = np.linalg.norm((sums - zero).reshape(len(vote_rows), -1), axis=1)
        assert absent_moves.max() <= clipped.l2_sensitivity  # the price's sensitivity
        assert zero_moves.max() == pytest.approx(2 * clipped.l2_sensitivity, rel=0.01)
        assert (
            zero_moves.max()
            <= ClippedSum(clip, shape, adjacency=Adjacency.REPLACE_ONE).l2_sensitivity
        )


def powerset_pairs(
    replaced_by: str, num_sets: int, num_teachers: int
) -> Iterator[tuple[Histogram, Histogram]]:
    """Yields all histograms of `num_teachers` votes for sets of labels, each with the histogram without one vote.

    Set 0 is the empty set. If the vote is replaced by "the empty set", the teacher votes for that set instead; if it is
    replaced by "nothing", the teacher leaves.
    """
    for counts in itertools.product(range(num_teachers + 1), repeat=num_sets):
        if sum(counts) == num_teachers:
            for vote in range(num_sets):
                moved = list(counts)
                moved[vote] -= 1
                moved[0] += replaced_by == "the empty set"
                if moved[vote] >= 0 and tuple(moved) != counts:
                    yield counts, tuple(moved)


@cache
def released(counts: Histogram) -> np.ndarray:
    """Returns the probability that each set of labels wins, at noise std 1."""
    return noisy_max_distribution(np.array(counts), noise_std=1.0)


def worst_delta(replaced_by: str, epsilon: float) -> float:
    """Returns the largest delta at `epsilon` of one answer of PowersetGNMax(noise_std=1), over all pairs of histograms.

    The pairs are those of `powerset_pairs` for the 4 sets of 2 labels and for 4 teachers, each in both directions.
    """
    pairs = [
        pair
        for neighbors_of_set in powerset_pairs(replaced_by, num_sets=4, num_teachers=4)
        for pair in (neighbors_of_set, neighbors_of_set[::-1])
    ]
    return max(
        float(np.maximum(released(a) - math.exp(epsilon) * released(b), 0).sum()) for a, b in pairs
    )


def test_the_empty_set_costs_powerset_votes_six_times_their_delta() -> None:
    """Under add-remove at epsilon 2.4, removing a teacher has at most the delta 0.00815 that the exact accountant
    charges.

    A teacher that votes for the empty set instead has delta 0.0500, which is 6.1 times as much. The Gaussian bound on
    that is 8.8 times as much.
    """
    epsilon = 2.4
    event = PowersetGNMax(noise_std=1.0, adjacency=Adjacency.ADD_REMOVE).event_for(
        num_queries=1, num_labels=2, num_teachers=4
    )
    paid = ExactAccountant().compose(event).get_delta(target_epsilon=epsilon)
    zero = worst_delta(replaced_by="the empty set", epsilon=epsilon)
    bound = gaussian_delta(math.sqrt(2), epsilon=epsilon)
    assert worst_delta(replaced_by="nothing", epsilon=epsilon) <= paid < zero <= bound
    assert (paid, zero) == (pytest.approx(0.00815, abs=1e-5), pytest.approx(0.0500, abs=1e-4))
    assert zero / paid == pytest.approx(6.1, abs=0.05)
    assert bound / paid == pytest.approx(8.8, abs=0.05)

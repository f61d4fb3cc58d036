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
from tests.privacy.divergences import largest_delta
from tests.privacy.histograms import gaps_of, neighbors
from tests.privacy.rival_distributions import noisy_max_distribution

Histogram = tuple[int, ...]


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_bounds_of_the_table_hold_and_are_attained(adjacency: Adjacency) -> None:
    """One teacher moves counts and gaps by at most the bounds of the note, which some neighbors attain.

    A sorted count moves by at most 1, a gap by the gap sensitivity, the difference of two gaps by the gap range, and a
    padding gap, above the first or below the last count, by 1. Under add-remove, all sorted counts move in the same
    direction.
    """
    largest_moves = []
    for num_labels, num_teachers in ((1, 4), (2, 4), (3, 4), (4, 3)):
        counts, moved_counts = neighbors(
            num_labels=num_labels, num_teachers=num_teachers, adjacency=adjacency
        )
        count_moves = np.sort(moved_counts, axis=1) - np.sort(counts, axis=1)
        gaps, moved_gaps = (
            gaps_of(histograms, num_teachers=num_teachers, padded=True)
            for histograms in (counts, moved_counts)
        )
        gap_moves = moved_gaps - gaps
        gap_differences = gap_moves.max(axis=1) - gap_moves.min(axis=1)
        padding_moves = gap_moves[:, [0, -1]]
        largest_moves.append(
            [
                int(np.abs(moves).max())
                for moves in (count_moves, gap_moves, gap_differences, padding_moves)
            ]
        )
        if adjacency is Adjacency.ADD_REMOVE:
            assert ((count_moves <= 0).all(axis=1) | (count_moves >= 0).all(axis=1)).all()
    assert np.max(largest_moves, axis=0).tolist() == [
        1,
        adjacency.gap_sensitivity,
        adjacency.gap_range,
        1,
    ]


# ------------------------------------------------------------------------------------------------ absent is not zero


def test_centered_zero_votes_move_twice_as_far_as_absent_ones() -> None:
    """A removed teacher moves the centered sum by at most the l2 sensitivity under add-remove.

    If its votes become zeros instead, the sum moves up to twice as far, within 1%. All 16 arrays of votes 0 or 1 are
    tried, for 2 queries with 2 labels.
    """
    shape = (2, 2)
    add_remove, replace_one = (
        ClippedSum(clip=0.7, sum_shape=shape, adjacency=adjacency)
        for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
    )
    shape_for_one_teacher = (1, *shape)
    all_votes_of_one_teacher = [
        np.reshape(votes, shape_for_one_teacher)
        for votes in itertools.product((0.0, 1.0), repeat=4)
    ]
    zero_votes = np.zeros(shape_for_one_teacher)
    for center_of_all_labels in (0.4, 0.5):
        sum_of_zeros = add_remove.total(zero_votes, center=center_of_all_labels, num_teachers=1)
        sums_of_one_teacher = [
            add_remove.total(votes, center=center_of_all_labels, num_teachers=1)
            for votes in all_votes_of_one_teacher
        ]
        furthest_by_absence = max(np.linalg.norm(votes_sum) for votes_sum in sums_of_one_teacher)
        furthest_by_zeros = max(
            np.linalg.norm(votes_sum - sum_of_zeros) for votes_sum in sums_of_one_teacher
        )
        assert furthest_by_absence <= add_remove.l2_sensitivity
        assert furthest_by_zeros == pytest.approx(2 * add_remove.l2_sensitivity, rel=0.01)
        assert furthest_by_zeros <= replace_one.l2_sensitivity


def powerset_pairs(
    *, moves_to_empty_set: bool, num_sets: int, num_teachers: int
) -> Iterator[tuple[Histogram, Histogram]]:
    """Yields all histograms of `num_teachers` votes for sets of labels, each with the histogram without one vote.

    Set 0 is the empty set. If the vote moves to it, the teacher votes for that set instead; otherwise the teacher
    leaves.
    """
    possible_counts = range(num_teachers + 1)
    for counts_of_sets in itertools.product(possible_counts, repeat=num_sets):
        if sum(counts_of_sets) == num_teachers:
            for voted_set in range(num_sets):
                moved_counts = list(counts_of_sets)
                moved_counts[voted_set] -= 1
                moved_counts[0] += moves_to_empty_set
                if moved_counts[voted_set] >= 0 and tuple(moved_counts) != counts_of_sets:
                    yield counts_of_sets, tuple(moved_counts)


@cache
def winner_distribution(counts_of_sets: Histogram) -> np.ndarray:
    """Returns the probability that each set of labels wins, at noise std 1."""
    return noisy_max_distribution(np.array(counts_of_sets), noise_std=1.0)


def largest_winner_delta(*, moves_to_empty_set: bool, epsilon: float) -> float:
    """Returns the largest delta at `epsilon` of one answer of PowersetGNMax(noise_std=1), over all pairs of histograms.

    The pairs are those of `powerset_pairs` for the 4 sets of 2 labels and for 4 teachers, each in both directions.
    """
    pairs = list(powerset_pairs(moves_to_empty_set=moves_to_empty_set, num_sets=4, num_teachers=4))
    pairs += [(moved_counts, counts) for counts, moved_counts in pairs]
    first_laws, second_laws = (
        np.array([winner_distribution(pair[side]) for pair in pairs]) for side in (0, 1)
    )
    return largest_delta(first_laws, second_laws=second_laws, epsilon=epsilon)


def test_the_empty_set_costs_powerset_votes_six_times_their_delta() -> None:
    """Under add-remove at epsilon 2.4, a removed teacher has at most the charged delta, which is 0.00815.

    A teacher that votes for the empty set instead has delta 0.0500, which is 6.1 times the charged one. The Gaussian
    bound on that is 8.8 times the charged one.
    """
    epsilon = 2.4
    event = PowersetGNMax(noise_std=1.0, adjacency=Adjacency.ADD_REMOVE).event_for(
        num_queries=1, num_labels=2, num_teachers=4
    )
    charged_delta = ExactAccountant().compose(event).get_delta(target_epsilon=epsilon)
    delta_if_removed = largest_winner_delta(moves_to_empty_set=False, epsilon=epsilon)
    delta_if_emptied = largest_winner_delta(moves_to_empty_set=True, epsilon=epsilon)
    gaussian_bound_on_delta = gaussian_delta(mu=math.sqrt(2), epsilon=epsilon)
    assert delta_if_removed <= charged_delta < delta_if_emptied <= gaussian_bound_on_delta
    assert charged_delta == pytest.approx(0.00815, abs=1e-5)
    assert delta_if_emptied == pytest.approx(0.0500, abs=1e-4)
    assert delta_if_emptied / charged_delta == pytest.approx(6.1, abs=0.05)
    assert gaussian_bound_on_delta / charged_delta == pytest.approx(8.8, abs=0.05)

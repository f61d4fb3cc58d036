"""Threshold bits: whether a count plus Gaussian noise reaches a share of the teachers, with the price of that bit.

Here a count differs by at most 1 between neighboring data sets. The price of the bit is the largest over all pairs of
neighboring counts. To limit these pairs, a count outside of a window around the threshold is first moved to the end of
the window. The window reaches 9 standard deviations of the noise to either side, and outside of it the bit is nearly
certain anyway.
"""

import math

import numpy as np

from pate.accounting import Adjacency, ThresholdEvent
from pate.accounting.special import ndtr_without_scipy
from pate.aggregators.aggregator import Rng
from pate.aggregators.expectation import ExpectedRelease
from pate.array_types import BoolArray, IntArray
from pate.mechanisms.noise.comparisons import noisy_at_least
from pate.validation import require_count
from pate.votes.made_up import MadeUpVotes

# Half of the width of the window, in standard deviations. Outside, a bit is certain up to a probability of 2e-19.
_HALF_WINDOW = 9.0


def squared_sensitivity(max_votes: int, *, num_labels: int, adjacency: Adjacency) -> int:
    """Returns the largest squared l2 distance by which one change moves the counts of a query.

    A teacher votes for at most `max_votes` labels. Under replace-one it may take back `max_votes` votes and cast as
    many others, but each of the `num_labels` counts moves by at most 1.
    """
    return min(adjacency.num_moved * max_votes, num_labels)


def threshold_window(noise_std: float, threshold: float, num_teachers: int) -> tuple[int, int]:
    """Returns the smallest and the largest count of a window, which reaches 9 standard deviations around a threshold.

    Both counts are in 0..num_teachers. A count outside of the window is moved to its end before noise is added.

    Args:
        noise_std: standard deviation of the noise in votes.
        threshold: the threshold in votes.
        num_teachers: the number of teachers.
    """
    # However little noise there is, the window has at least one count on each side of the threshold.
    window_start = min(threshold - _HALF_WINDOW * noise_std, math.ceil(threshold) - 1)
    window_end = max(threshold + _HALF_WINDOW * noise_std, math.floor(threshold) + 1)
    smallest_count = math.floor(max(window_start, 0.0))
    largest_count = math.ceil(min(window_end, num_teachers))
    return smallest_count, largest_count


def threshold_event(noise_std: float, threshold_share: float, num_teachers: int) -> ThresholdEvent:
    """Returns the price of one bit, for counts that one change moves by at most 1.

    The bit is whether count + N(0, noise_std**2) reaches threshold_share * num_teachers.
    """
    threshold = threshold_share * require_count("num_teachers", num_teachers)
    smallest_count, largest_count = threshold_window(noise_std, threshold, num_teachers)
    smallest_count_minus_threshold = smallest_count - threshold
    num_possible_counts = largest_count - smallest_count + 1
    return ThresholdEvent(
        noise_std, lowest=smallest_count_minus_threshold, num_values=num_possible_counts
    )


def reach_threshold(
    counts: IntArray, noise_std: float, threshold_share: float, *, num_teachers: int, rng: Rng
) -> BoolArray:
    """Draws, for each count, whether count + N(0, noise_std**2) reaches threshold_share * num_teachers.

    The draw is exact: no rounding of floats changes a bit.

    Args:
        counts: int `[num_queries, num_counts]`.
        noise_std: standard deviation of the noise in votes.
        threshold_share: the threshold as a share of the teachers.
        num_teachers: the declared number of teachers.
        rng: the source of all noise.
    """
    # Moving counts into the window moves no count farther from its neighbor's, so the price needs the window alone.
    threshold = threshold_share * num_teachers
    return noisy_at_least(
        counts,
        threshold=threshold,
        noise_std=noise_std,
        rng=rng,
        clip_range=threshold_window(noise_std, threshold, num_teachers),
    )


def threshold_votes(num_without_label: IntArray, threshold_share: float) -> IntArray:
    """Returns how many votes are added to each count for the teachers that cannot know the label, `[num_labels]`.

    The number is `threshold_share` times these teachers, rounded down. So the other teachers decide, by the same share
    of their own number. The numbers are public constants, and no price depends on them.

    Args:
        num_without_label: `[num_labels]`, the number of teachers whose holder, the institution that owns their records,
            does not have each label; public.
        threshold_share: the threshold as a share of the teachers.
    """
    return np.asarray(np.floor(threshold_share * num_without_label), dtype=np.int64)


def expected_bits(
    made_up_votes: MadeUpVotes, *, threshold_share: float, noise_std: float
) -> ExpectedRelease:
    """Returns the expected shares of right labels for one threshold bit per label, by a formula.

    Args:
        made_up_votes: made-up votes, with their right labels.
        threshold_share: the threshold as a share of the teachers.
        noise_std: standard deviation of the Gaussian noise in votes.
    """
    distinct_counts, count_indices = np.unique(made_up_votes.counts(), return_inverse=True)
    excess = distinct_counts - threshold_share * made_up_votes.num_teachers
    probs_by_count = ndtr_without_scipy(excess / noise_std)
    # The probability of each count, [num_queries, num_labels].
    reach_probs = probs_by_count[count_indices.reshape(made_up_votes.labels.shape)]
    return ExpectedRelease(
        answered=1.0,
        present=float(reach_probs[made_up_votes.labels].mean()),
        absent=float(1 - reach_probs[~made_up_votes.labels].mean()),
    )

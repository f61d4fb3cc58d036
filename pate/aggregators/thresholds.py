"""A count with Gaussian noise, compared with a share of the teachers: the price of the bit, and its draw.

One change moves a count by at most 1. The price of the bit is the worst case over all pairs of neighboring counts, so
it would depend on how many counts there are. Far from the threshold the outcome is nearly certain: counts are moved
into a window of 9 standard deviations around the threshold before noise is added, and only pairs inside are priced.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate.accounting.special import few_ndtr
from pate.aggregators.aggregator import Bits, Rng
from pate.aggregators.expectation import ExpectedRelease
from pate.mechanisms.noise.comparisons import are_normally_above
from pate.validation import require_count
from pate.votes.made_up import MadeUpVotes

Counts = NDArray[np.int64]

# In standard deviations of the noise, the half of the window: beyond, an outcome differs with probability 1e-19.
_FARTHEST = 9.0


def squared_sensitivity(max_votes: int, *, num_labels: int, adjacency: pa.Adjacency) -> int:
    """Returns the largest squared l2 distance by which one change moves the counts of a query.

    No teacher votes for more than `max_votes` labels. Under replace-one a teacher trades as many votes for others.
    """
    return min(adjacency.num_moved * max_votes, num_labels)


def threshold_window(noise_std: float, threshold: float, num_teachers: int) -> tuple[int, int]:
    """Returns the least and the largest count of the window, in 0..num_teachers."""
    # At least one count on each side of the threshold, however little noise there is.
    low = min(threshold - _FARTHEST * noise_std, math.ceil(threshold) - 1)
    high = max(threshold + _FARTHEST * noise_std, math.floor(threshold) + 1)
    return math.floor(max(low, 0.0)), math.ceil(min(high, num_teachers))


def threshold_event(
    noise_std: float, threshold_share: float, num_teachers: int
) -> pa.ThresholdEvent:
    """Returns the price of the bit whether a noisy count reaches a share of the teachers; a change moves it by 1."""
    threshold = threshold_share * require_count("num_teachers", num_teachers)
    low, high = threshold_window(noise_std, threshold, num_teachers)
    return pa.ThresholdEvent(noise_std, low - threshold, high - low + 1)


def reach_threshold(
    counts: Counts, noise_std: float, threshold_share: float, *, num_teachers: int, rng: Rng
) -> Bits:
    """Draws, for each count `[Q, n]`, the bit whether count + N(0, noise_std**2) reaches a share of the teachers.

    The draw is exact: no rounding of floats decides a bit.
    """
    # Moving counts into the window moves no count farther from its neighbor's, so the price needs the window alone.
    threshold = threshold_share * num_teachers
    return are_normally_above(
        counts,
        threshold,
        noise_std,
        rng,
        within=threshold_window(noise_std, threshold, num_teachers),
    )


def expected_bits(
    votes: MadeUpVotes, *, threshold_share: float, noise_std: float
) -> ExpectedRelease:
    """Returns the expectation of one bit for each label, in closed form, as the noise is Gaussian."""
    distinct_counts, places = np.unique(votes.counts(), return_inverse=True)
    excess = distinct_counts - threshold_share * votes.num_teachers
    reach_probs = few_ndtr(excess / noise_std)[places.reshape(votes.labels.shape)]  # [Q, L]
    return ExpectedRelease(
        answered=1.0,
        present=float(reach_probs[votes.labels].mean()),
        absent=float(1 - reach_probs[~votes.labels].mean()),
    )

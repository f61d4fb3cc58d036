"""A count with Gaussian noise against a share of the teachers: its price, its draw."""

import math

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate.accounting.special import few_ndtr
from pate.aggregators.aggregator import Bits, Rng
from pate.aggregators.expectation import (
    ExpectedRelease,
)
from pate.mechanisms.noise.real_numbers import (
    are_normally_above,
)
from pate.validation import require_count
from pate.votes.made_up import MadeUpVotes

Counts = NDArray[np.int64]

# noise stds: a count beyond is moved there, where an outcome differs with probability 1e-19
_FARTHEST = 9.0


def squared_sensitivity(max_votes: int, *, num_labels: int, adjacency: pa.Adjacency) -> int:
    """Returns the squared l2 distance that one change moves counts by; no teacher votes for over `max_votes` labels."""
    # replace-one trades as many votes for others
    return min(adjacency.num_moved * max_votes, num_labels)


def threshold_window(noise_std: float, threshold: float, num_teachers: int) -> tuple[int, int]:
    """Returns the least and the largest count that are told apart."""
    low, high = (threshold + side * _FARTHEST * noise_std for side in (-1, 1))
    # noise too little to be added
    low = min(low, math.ceil(threshold) - 1)
    high = max(high, math.floor(threshold) + 1)
    return math.floor(max(low, 0.0)), math.ceil(min(high, num_teachers))


def threshold_event(
    noise_std: float, threshold_share: float, num_teachers: int
) -> pa.ThresholdEvent:
    """Returns the price of saying whether a noisy count that moves by at most 1 reaches a share of the teachers."""
    threshold = threshold_share * require_count("num_teachers", num_teachers)
    low, high = threshold_window(noise_std, threshold, num_teachers)
    return pa.ThresholdEvent(noise_std, low - threshold, high - low + 1)


def reach_threshold(
    counts: Counts, noise_std: float, threshold_share: float, *, num_teachers: int, rng: Rng
) -> Bits:
    """Draws whether count + N(0, noise_std**2) reaches a share of the teachers, elementwise and exactly: `[Q, n]`."""
    # Counts are moved into the window before there is noise. That moves no count farther from its neighbor's, so the
    # price needs the window alone, however many teachers there are.
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
    counts, places = np.unique(votes.counts(), return_inverse=True)
    above = few_ndtr((counts - threshold_share * votes.num_teachers) / noise_std)
    above_of_votes = above[places.reshape(votes.labels.shape)]
    return ExpectedRelease(
        answered=1.0,
        present=float(above_of_votes[votes.labels].mean()),
        absent=float(1 - above_of_votes[~votes.labels].mean()),
    )

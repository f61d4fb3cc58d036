"""Confidence bounds on a probability, computed from the hits among independent trials (Clopper & Pearson 1934)."""

import numpy as np
import scipy

from pate.array_types import FloatArray, IntArray


def lowest_share(num_hits: IntArray | int, num_trials: int, *, error_prob: float) -> FloatArray:
    """Returns a lower bound on the probability of a hit, which is wrong with a probability of at most `error_prob`.

    Args:
        num_hits: the number of trials with a hit, or an array of such numbers.
        num_trials: the number of independent trials.
        error_prob: the probability with which the bound may exceed the probability of a hit.

    >>> float(lowest_share(0, 10, error_prob=0.05)), round(float(lowest_share(10, 10, error_prob=0.05)), 3)
    (0.0, 0.741)
    """
    hit_counts = np.asarray(num_hits)
    lower_bound = scipy.special.betaincinv(
        np.maximum(hit_counts, 1), num_trials - hit_counts + 1, error_prob
    )
    return np.asarray(np.where(hit_counts > 0, lower_bound, 0.0))


def highest_share(num_hits: IntArray | int, num_trials: int, *, error_prob: float) -> FloatArray:
    """Returns an upper bound on the probability of a hit, which is wrong with a probability of at most `error_prob`.

    The arguments are those of `lowest_share`.
    """
    return 1 - lowest_share(
        num_hits=num_trials - np.asarray(num_hits), num_trials=num_trials, error_prob=error_prob
    )

"""Distributions of the indices that repeated picks from a histogram give."""

from collections.abc import Callable, Iterable

import numpy as np

from pate.array_types import FloatArray, IntArray
from pate.mechanisms.top_k.mechanism import Distribution


def utilities_of(counts: IntArray, noise_scale: float) -> FloatArray:
    """Returns (count - largest count) / noise_scale for the counts of each histogram, `[..., d]`."""
    return np.asarray((counts - counts.max(axis=-1, keepdims=True)) / noise_scale)


def peel_distribution(
    utilities: FloatArray, k: int, argmax_distribution: Callable[[FloatArray], FloatArray]
) -> Distribution:
    """Returns the probability of each sequence of k picks.

    A pick is the index of the largest noisy value, which is then removed.

    Args:
        utilities: the values `[d]`, divided by the scale of the noise.
        k: the number of picks.
        argmax_distribution: returns the probability of each index, `[n]`, to be picked among utilities `[n]`.
    """
    distribution: Distribution = {(): 1.0}
    for _ in range(k):
        longer: Distribution = {}
        for picks, probability in distribution.items():
            remaining_indices = [index for index in range(len(utilities)) if index not in picks]
            pick_probabilities = argmax_distribution(utilities[remaining_indices])
            for index, pick_probability in zip(remaining_indices, pick_probabilities, strict=True):
                longer[*picks, index] = probability * float(pick_probability)
        distribution = longer
    return distribution


def relabel_outcomes(
    distribution: Distribution, relabel_outcome: Callable[[tuple[int, ...]], Iterable[int]]
) -> Distribution:
    """Returns the distribution of relabel_outcome(outcome); probabilities that lead to the same new outcome are added.

    Args:
        distribution: the probability of each outcome.
        relabel_outcome: returns the new outcome for an outcome.
    """
    relabeled_distribution: Distribution = {}
    for outcome_indices, probability in distribution.items():
        relabeled_outcome = tuple(relabel_outcome(outcome_indices))
        relabeled_distribution[relabeled_outcome] = (
            relabeled_distribution.get(relabeled_outcome, 0.0) + probability
        )
    return relabeled_distribution

"""Exact distributions of the noisy maximum and of screened aggregators, by code that the package does not share."""

from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pate.aggregators import ConfidentGNMax, ConfidentVotes, GNMax
from tests.privacy.case import Counts, Distribution, Shape

Array = NDArray[np.float64]


def noisy_max_distribution(counts: Array, noise_std: float) -> Array:
    """The probability that each of the counts is the largest with Gaussian noise: `[n]`, by the trapezoidal rule."""
    values = np.asarray(counts, dtype=np.float64) / noise_std
    grid = np.linspace(values.min() - 10, values.max() + 10, 1 + int(32 * (np.ptp(values) + 20)))
    below = ndtr(grid - values[:, None])  # [n, G]
    density = np.exp(-0.5 * (grid - values[:, None]) ** 2)
    others = np.stack([np.delete(below, i, axis=0).prod(axis=0) for i in range(len(values))])
    distribution = (density * others).sum(axis=1)
    return np.asarray(distribution / distribution.sum())


def bits_distribution(counts: Counts, noise_std: float, num_teachers: int) -> Distribution:
    """Each pattern of bits of noisy counts against half the teachers."""
    ones = ndtr((counts - num_teachers / 2) / noise_std)
    patterns = product((0, 1), repeat=len(counts))
    return {bits: float(np.where(bits, ones, 1 - ones).prod()) for bits in patterns}


def gnmax_distribution(aggregator: GNMax, counts: Counts, _: Shape) -> Distribution:
    return {(label,): p for label, p in enumerate(noisy_max_distribution(counts, aggregator.noise_std).tolist())}


def confident_gnmax_distribution(aggregator: ConfidentGNMax, counts: Counts, shape: Shape) -> Distribution:
    passed = ndtr((counts.max() - aggregator.threshold_share * shape.num_teachers) / aggregator.screening_std)
    distribution = noisy_max_distribution(counts, aggregator.noise_std).tolist()
    return {None: 1 - passed} | {(label,): passed * p for label, p in enumerate(distribution)}


def confident_votes_distribution(aggregator: ConfidentVotes, counts: Counts, shape: Shape) -> Distribution:
    majority = np.maximum(counts, shape.num_teachers - counts).min()
    passed = ndtr((majority - aggregator.threshold_share * shape.num_teachers) / aggregator.screening_std)
    distribution = bits_distribution(counts, aggregator.noise_std, shape.num_teachers)
    return {None: 1 - passed} | {bits: passed * p for bits, p in distribution.items()}


SCREENED = {"screening_std": 1.0, "threshold_share": 0.7, "noise_std": 1.0}

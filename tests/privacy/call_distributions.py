"""Exact distributions of the calls of target charging for all small neighbors, written down a second time."""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.accounting.target_charging import exact_hit_prob
from pate.mechanisms import AboveThreshold, BetweenThresholds, GapSelection
from tests.privacy.histograms import all_histograms, neighbors

Array = NDArray[np.float64]
Pair = tuple[Array, Array]


def laplace_mass(rate: float, values: Array) -> Array:
    """P(z = value), written down a second time: normalized by the sum over all whole numbers."""
    return np.asarray(np.exp(-rate * np.abs(values)) * (1 - math.exp(-rate)) / (1 + math.exp(-rate)))


@lru_cache(maxsize=4096)
def three_lumps(rate: float, value: int, edges: tuple[int, ...]) -> Array:
    """P(value + z in each piece between the edges), the ends being infinite, by summing the masses of 40 scales."""
    reach = math.ceil(40 / rate) + max(abs(edge - value) for edge in edges)
    noise = np.arange(-reach, reach + 1)
    masses = laplace_mass(rate, noise)
    pieces = np.searchsorted(np.array(edges), value + noise, side="right")
    return np.bincount(pieces, masses, minlength=len(edges) + 1)


def smallest(pairs: Iterator[tuple[Pair, Array]], epsilon: float) -> float:
    """The smallest q of pairs of distributions, each with its target."""
    return min(exact_hit_prob(*pair, in_target=target, epsilon=epsilon) for pair, target in pairs)


def reach_of(epsilon: float) -> int:
    """How far from a threshold: further out q is the same, and 1 - (common mass) has too few digits."""
    return 12 if epsilon < 1 else 4


def moves(sensitivity: int) -> list[int]:
    return [move for move in range(-sensitivity, sensitivity + 1) if move]


def above_pairs(test: AboveThreshold) -> Iterator[tuple[Pair, Array]]:
    """All numbers near and far from the threshold; released values beyond both numbers are one outcome."""
    rate = float(test.noise.rate)
    reach = reach_of(test.epsilon)
    for value in range(test.threshold - reach, test.threshold + reach + 1):
        for move in moves(test.sensitivity):
            low, high = sorted((value, value + move))
            edges = (test.threshold, *range(max(low, test.threshold) + 1, max(high, test.threshold) + 1))
            first, second = (three_lumps(rate, at, edges) for at in (value, value + move))
            yield (first, second), np.arange(len(first)) > 0


def between_pairs(test: BetweenThresholds) -> Iterator[tuple[Pair, Array]]:
    rate = float(test.noise.rate)
    reach = reach_of(test.epsilon)
    for value in range(test.lower - reach, test.upper + reach):
        for move in moves(test.sensitivity):
            first, second = (three_lumps(rate, at, (test.lower, test.upper)) for at in (value, value + move))
            yield (first, second), np.arange(3) == 1


def selection(noise: str, adjacency: Adjacency, scale: float) -> GapSelection:
    return GapSelection(noise_scale=scale, noise=noise, num_labels=3, num_teachers=4, padded=True, adjacency=adjacency)


def distribution_pairs(mechanism: Any, adjacency: Adjacency) -> tuple[Array, Array]:
    """The distributions of a mechanism for all neighbors of 3 labels and 4 teachers, each pair once."""
    histograms = all_histograms(3, 4)
    known = dict(zip(map(tuple, histograms.tolist()), mechanism.probabilities(histograms), strict=True))
    sides = [np.array([known[tuple(row)] for row in side.tolist()]) for side in neighbors(3, 4, adjacency)]
    distributions = np.concatenate(sides, axis=1)
    unique = distributions[np.unique(distributions.round(12), axis=0, return_index=True)[1]]
    return unique[:, : distributions.shape[1] // 2], unique[:, distributions.shape[1] // 2 :]

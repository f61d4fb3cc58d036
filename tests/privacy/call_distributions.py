"""Exact distributions, on neighboring data, of the calls that target charging prices.

Those of threshold calls are computed without code of the package.
"""

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from pate.accounting import Adjacency
from pate.accounting.target_charging import exact_hit_prob
from pate.array_types import BoolArray, FloatArray
from pate.mechanisms import AboveThreshold, BetweenThresholds, GapSelection
from tests.privacy.histograms import all_histograms, neighbors

Pair = tuple[FloatArray, FloatArray]
"""The distributions of a call on two neighbors, over the same outcomes, `[num_outcomes]` each."""


class CallOnNeighbors(NamedTuple):
    """The distributions of a call on two neighbors, and the set of outcomes that counts as hits.

    Attributes:
        laws: both distributions, `[num_outcomes]` each.
        in_target: True for each outcome that is a hit, bool `[num_outcomes]`.
    """

    laws: Pair
    in_target: BoolArray

    def hit_prob(self, epsilon: float) -> float:
        """Returns the largest hit probability q that a target of this epsilon may state for this call."""
        return exact_hit_prob(
            first_law=self.laws[0],
            second_law=self.laws[1],
            in_target=self.in_target,
            epsilon=epsilon,
        )


def laplace_mass(noise_rate: float, values: FloatArray) -> FloatArray:
    """Returns P(z = value) for discrete Laplace noise z.

    Args:
        noise_rate: 1 / scale of the noise.
        values: the whole numbers.
    """
    return np.asarray(
        np.exp(-noise_rate * np.abs(values))
        * (1 - math.exp(-noise_rate))
        / (1 + math.exp(-noise_rate))
    )


@lru_cache(maxsize=4096)
def masses_between(noise_rate: float, statistic: int, outcome_edges: tuple[int, ...]) -> FloatArray:
    """Returns the probability of each piece between rising edges, for `statistic` plus discrete Laplace noise.

    The result is `[num_edges + 1]`: the first and the last piece are infinite. An edge belongs to the piece above it.
    Noise above a largest size has a negligible probability and is left out. This size is the sum of 40 / `noise_rate`
    and the distance from `statistic` to the furthest edge.
    """
    reach = math.ceil(40 / noise_rate) + max(abs(edge - statistic) for edge in outcome_edges)
    noise = np.arange(-reach, reach + 1)
    masses = laplace_mass(noise_rate, values=noise)
    pieces = np.searchsorted(np.array(outcome_edges), statistic + noise, side="right")
    return np.bincount(pieces, masses, minlength=len(outcome_edges) + 1)


def smallest_hit_prob(calls: Iterable[CallOnNeighbors], epsilon: float) -> float:
    """Returns the largest hit probability q that a target of this epsilon may state for all of the calls."""
    return min(call.hit_prob(epsilon) for call in calls)


def threshold_calls(test: AboveThreshold | BetweenThresholds) -> Iterator[CallOnNeighbors]:
    """Yields calls of a threshold test on the numbers of two neighbors, near the thresholds and far from them.

    For `AboveThreshold`, released numbers that are at least as large as both true numbers are merged to one outcome,
    and so are those that exceed neither. The ratio of the probabilities on both neighbors is the same for all merged
    numbers.
    """
    is_above_threshold = isinstance(test, AboveThreshold)
    rate = float(test.noise.rate)
    lowest_threshold, highest_threshold = (
        (test.threshold, test.threshold)
        if isinstance(test, AboveThreshold)
        else (test.lower, test.upper)
    )
    # further out q is the same, and 1 - (common mass) has too few digits
    max_distance = 12 if test.epsilon < 1 else 4
    for value, move in product(
        range(lowest_threshold - max_distance, highest_threshold + max_distance + 1),
        range(-test.sensitivity, test.sensitivity + 1),
    ):
        if move:
            both_values = sorted((value, value + move))
            outcome_edges = (
                (
                    lowest_threshold,
                    *range(
                        max(both_values[0], lowest_threshold) + 1,
                        max(both_values[1], lowest_threshold) + 1,
                    ),
                )
                if is_above_threshold
                else (lowest_threshold, highest_threshold)
            )
            first, second = (
                masses_between(rate, statistic=statistic, outcome_edges=outcome_edges)
                for statistic in (value, value + move)
            )
            yield CallOnNeighbors(
                laws=(first, second),
                in_target=np.arange(len(first)) > 0 if is_above_threshold else np.arange(3) == 1,
            )


def run_call_twice(laws: Pair) -> CallOnNeighbors:
    """Returns two independent runs of a call as one call, whose hits are the outcomes in which the runs differ.

    Args:
        laws: the distributions of one run on two neighbors, `[num_outcomes]` each.
    """
    first, second = (np.outer(law, law).ravel() for law in laws)
    return CallOnNeighbors(
        laws=(first, second), in_target=~np.eye(len(laws[0]), dtype=bool).ravel()
    )


def make_selection(noise: str, adjacency: Adjacency, noise_scale: float) -> GapSelection:
    """Returns a padded gap selection for 3 labels and 4 teachers."""
    return GapSelection(
        noise_scale=noise_scale,
        noise=noise,
        num_labels=3,
        num_teachers=4,
        padded=True,
        adjacency=adjacency,
    )


def distribution_pairs(mechanism: Any, adjacency: Adjacency) -> tuple[FloatArray, FloatArray]:
    """Returns the distributions of a mechanism on all neighboring histograms of 3 labels and 4 teachers.

    They are two arrays with a row for each pair of neighbors. A pair whose two distributions are those of an earlier
    pair is left out.
    """
    histograms = all_histograms(num_labels=3, num_teachers=4)
    law_of_histogram = dict(
        zip(map(tuple, histograms.tolist()), mechanism.probabilities(histograms), strict=True)
    )
    sides = [
        np.array([law_of_histogram[tuple(histogram)] for histogram in side.tolist()])
        for side in neighbors(num_labels=3, num_teachers=4, adjacency=adjacency)
    ]
    distributions = np.concatenate(sides, axis=1)
    distinct_pairs = distributions[np.unique(distributions.round(12), axis=0, return_index=True)[1]]
    first_laws, second_laws = np.split(distinct_pairs, 2, axis=1)
    return first_laws, second_laws

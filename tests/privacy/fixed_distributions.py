"""The distributions of a StableFixedTopK release for all small histograms, step by step, written down a second time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.aggregators import StableFixedTopK
from tests.privacy.distributions import selection_distribution
from tests.privacy.histograms import all_histograms, gaps_of, neighbors, top_sets

Array = NDArray[np.float64]
Outcome = tuple[int | None, int, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Distributions:
    """What every histogram of a small instance releases, written down a second time.

    An outcome is the size of the stable set (None for a refusal), the set as a bit mask, and the picks in their order.

    Attributes:
        chosen: `[H, n]` the distribution of the size.
        passed: `[H, n]` the probability that its set passes.
        masks: `[H, n]` the set.
        peels: the distribution of the picks, `[H]`, for each size, set and order of picks.
    """

    chosen: Array
    passed: Array
    masks: NDArray[np.int64]
    peels: dict[Outcome, Array]

    def steps(self, rows: NDArray[np.int64], same: NDArray[np.bool_] | None = None) -> Array:
        """All steps `[P, outcomes]`; given `same`, outside the failure: where sets differ, a refusal."""
        chosen, passed, masks = self.chosen[rows], self.passed[rows], self.masks[rows]
        passed = passed if same is None else np.where(same, passed, 0.0)
        columns = []
        for (place, mask, _), picks in self.peels.items():
            if place is None:
                weight = (chosen * (1 - passed)).sum(axis=1)
            else:
                weight = chosen[:, place] * passed[:, place] * (masks[:, place] == mask)
            columns.append(weight * picks[rows])
        return np.stack(columns, axis=1)

    def released(self, steps: Array, k: int) -> Array:
        """The distributions of the k labels alone: `[P, sets]`."""
        sets: dict[int, Array] = {}
        for (_, mask, picks), column in zip(self.peels, steps.T, strict=True):
            picked = sum(1 << label for label in picks)
            labels = picked if mask.bit_count() > k else mask | picked
            assert labels.bit_count() == k
            sets[labels] = sets.get(labels, 0.0) + column
        return np.stack(list(sets.values()), axis=1)


def distributions_of(
    aggregator: StableFixedTopK, num_labels: int, num_teachers: int, *, growth: float = 0.5
) -> Distributions:
    """The exact distributions; the noise of one of j picks is `peel_scale` * j**growth."""
    counts, k = all_histograms(num_labels, num_teachers), aggregator.k
    sizes = np.arange(num_labels + 1) if aggregator.padded else np.arange(1, num_labels)
    sizes = sizes[sizes <= (aggregator.max_k or num_labels)]
    gaps = gaps_of(counts, num_teachers=num_teachers, padded=True)[:, sizes]
    utilities = gaps - aggregator.penalty * np.abs(sizes - k)
    chosen = selection_distribution(aggregator.selection_noise, utilities, aggregator.selection_scale)
    test = np.array(aggregator.stability_test(num_teachers=num_teachers).pass_probs)
    passed = np.where((sizes == 0) | (sizes == num_labels), 1.0, test[gaps])
    masks = top_sets(counts)[:, sizes]
    peels: dict[Outcome, Array] = {}
    every = range(num_labels)
    for place, size in [(None, 0), *enumerate(sizes.tolist())]:
        for mask in sorted({0} if place is None else set(masks[:, place].tolist())):
            inside = [label for label in every if mask >> label & 1]
            part = inside if size > k else [label for label in every if label not in inside]
            number = k if size > k else k - size
            for picks in permutations(part, number):
                peels[place, mask, picks] = _peel(counts, part, picks, aggregator.peel_scale * number**growth)
    return Distributions(chosen, passed, masks, peels)


def _peel(counts: NDArray[np.int64], part: list[int], picks: tuple[int, ...], scale: float) -> Array:
    """The probability of these picks in this order: `[H]`."""
    probability, left = np.ones(len(counts)), list(part)
    for label in picks:
        weights = np.exp((counts[:, left] - counts[:, [label]]) / scale)
        probability /= weights.sum(axis=1)
        left.remove(label)
    return probability


def pairs_of(num_labels: int, num_teachers: int, adjacency: Adjacency) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Neighbors as rows of `all_histograms`."""
    weights = (num_teachers + 1) ** np.arange(num_labels - 1, -1, -1)
    first, second = neighbors(num_labels, num_teachers, adjacency)
    return first @ weights, second @ weights

"""Exact distributions of gap selection and of stable sets, written a second time."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from pate.accounting import Adjacency
from pate.aggregators import StableFixedTopK, StableTopK
from tests.privacy.histograms import GapPairs, all_histograms, gaps_of, neighbors, top_sets

Array = NDArray[np.float64]


def selection_distribution(noise: str, utilities: NDArray[np.number], scale: float) -> Array:
    """The noisy argmax's distribution: `[N, n]`. Utilities are multiples of a half (kinks of the Laplace density)."""
    kinds, shape, rows = _kinds_of(utilities.tobytes(), utilities.dtype.str, utilities.shape)
    return _distribution_of_kinds(noise, kinds, shape, scale)[rows]


@lru_cache(maxsize=256)
def _kinds_of(utilities: bytes, dtype: str, shape: tuple[int, int]) -> tuple[bytes, tuple[int, int], NDArray[np.int64]]:
    """The different rows, their shape, and which row is of which kind; found once for all noises and scales."""
    kinds, rows = np.unique(np.frombuffer(utilities, dtype).reshape(shape), axis=0, return_inverse=True)
    return kinds.astype(np.float64).tobytes(), kinds.shape, rows.reshape(-1)


@lru_cache(maxsize=256)
def _distribution_of_kinds(noise: str, kinds: bytes, shape: tuple[int, int], scale: float) -> Array:
    return _DISTRIBUTIONS[noise](np.frombuffer(kinds).reshape(shape), scale)


def _gumbel(utilities: Array, scale: float) -> Array:
    weights = np.exp((utilities - utilities.max(axis=1, keepdims=True)) / scale)
    return weights / weights.sum(axis=1, keepdims=True)


def _exponential(utilities: Array, scale: float) -> Array:
    """Inclusion and exclusion over the product in the permute-and-flip integral."""
    weights = np.exp((utilities - utilities.max(axis=1, keepdims=True)) / scale)
    distribution = np.zeros_like(weights)
    candidates = range(weights.shape[1])
    for i in candidates:
        others = [j for j in candidates if j != i]
        for size in range(len(others) + 1):
            for subset in combinations(others, size):
                distribution[:, i] += (-1) ** size * weights[:, list(subset)].prod(axis=1) / (size + 1)
    return distribution * weights


def _gaussian(utilities: Array, scale: float) -> Array:
    """Trapezoid sum over the winning value, which converges exponentially for smooth densities."""
    values = utilities / scale
    points = np.arange(values.min() - 10, values.max() + 10, 0.05)
    shifted = points - values[:, :, None]  # [N, n, G]
    logs = log_ndtr(shifted)
    others = np.exp(logs.sum(axis=1, keepdims=True) - logs)
    distribution = (np.exp(-0.5 * shifted**2) * others).sum(axis=2)
    return distribution / distribution.sum(axis=1, keepdims=True)


def _laplace(utilities: Array, scale: float) -> Array:
    """Gauss-Legendre between the kinks of all densities."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    reach = 2 * np.ceil(40 * scale)
    edges = np.arange(2 * utilities.min() - reach, 2 * utilities.max() + reach) / 2  # [E]
    points = (edges[:, None] + 0.25 + 0.25 * nodes).ravel()
    shifted = (points - utilities[:, :, None]) / scale
    tail = 0.5 * np.exp(-np.abs(shifted))
    cdf = np.where(shifted < 0, tail, 1 - tail)
    candidates = range(utilities.shape[1])
    others = np.stack([np.delete(cdf, i, axis=1).prod(axis=1) for i in candidates], axis=1)
    distribution = (tail * others) @ np.tile(weights, len(edges))
    return distribution / distribution.sum(axis=1, keepdims=True)


_DISTRIBUTIONS = {"gumbel": _gumbel, "exponential": _exponential, "gaussian": _gaussian, "laplace": _laplace}


def distributions_outside_failure(aggregator: StableTopK, pairs: GapPairs) -> tuple[Array, Array]:
    """Both distributions given that no unstable set is released: `[N, n + 1]`, a column for each k and one for the
    refusal.

    Where the sets of the k best differ, a pass is the failure (`failure_mass` bounds it) and k ends in a refusal.
    """
    return tuple(_refusal_last(*_parts(aggregator, pairs, side), pairs.same_set) for side in (0, 1))


def distributions_end_to_end(aggregator: StableTopK, pairs: GapPairs) -> tuple[Array, Array]:
    """Both distributions as released: `[N, 2 n + 1]`, where sets that differ are different outcomes."""
    distributions = []
    for side in (0, 1):
        chosen, passed = _parts(aggregator, pairs, side)
        released = chosen * passed
        agreed, own = np.where(pairs.same_set, released, 0.0), np.where(pairs.same_set, 0.0, released)
        separate = [own, np.zeros_like(own)] if side == 0 else [np.zeros_like(own), own]
        refused = (chosen * (1 - passed)).sum(axis=1)
        distributions.append(np.column_stack([agreed, *separate, refused]))
    return distributions[0], distributions[1]


def failure_mass(aggregator: StableTopK, pairs: GapPairs) -> float:
    """The largest probability with which a set passes that the neighbor does not have."""
    passed = np.stack([_parts(aggregator, pairs, side)[1] for side in (0, 1)])
    return float(np.where(pairs.same_set, 0.0, passed).max())


def _parts(aggregator: StableTopK, pairs: GapPairs, side: int) -> tuple[Array, Array]:
    """The distribution of k `[N, n]` and the probability that its set is then released `[N, n]`."""
    gaps = (pairs.first, pairs.second)[side]
    chosen = selection_distribution(aggregator.selection_noise, gaps, aggregator.selection_scale)
    test = aggregator.stability_test(num_teachers=pairs.num_teachers)
    passed = np.where(pairs.constant_set, 1.0, np.array(test.pass_probs)[gaps])
    return chosen, passed


def _refusal_last(chosen: Array, passed: Array, same_set: NDArray[np.bool_]) -> Array:
    refused = np.where(same_set, chosen * (1 - passed), chosen).sum(axis=1)
    return np.column_stack([np.where(same_set, chosen * passed, 0.0), refused])


Outcome = tuple[int | None, int, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Distributions:
    """What every histogram of a small instance releases, written down a second time.

    An outcome is the size of the stable set (None for a refusal), the set as a bit mask, and the picks in their order.
    """

    chosen: Array  # `[H, n]` the distribution of the size
    passed: Array  # `[H, n]` the probability that its set passes
    masks: NDArray[np.int64]  # `[H, n]` the set
    peels: dict[Outcome, Array]  # the distribution of the picks, `[H]`, for each size, set and order of picks

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

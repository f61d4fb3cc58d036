"""Exact distributions of selections and aggregators, computed apart from those of the package.

Only the probabilities that sets pass a stability test are taken from the package.
"""

from collections.abc import Callable
from functools import cache
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from pate.aggregators import ConfidentGNMax, ConfidentVotes, GNMax, StableFixedTopK, StableTopK
from pate.array_types import FloatArray, IntArray
from pate.mechanisms import GapSelection
from tests.privacy.case import Distribution, SmallInstance
from tests.privacy.histograms import gaps_of


def selection_distribution(
    noise: str, utilities: NDArray[np.number], noise_scale: float
) -> FloatArray:
    """Returns the probability of each of n candidates to have the largest noisy utility, for N queries: `[N, n]`.

    For Laplace noise, utilities must be multiples of 1/2: the quadrature is in pieces of this length, and no kink of
    the density may lie inside a piece.
    """
    distinct_utilities, rows = np.unique(utilities.astype(np.float64), axis=0, return_inverse=True)
    return np.asarray(_SELECTIONS[noise](distinct_utilities, noise_scale)[rows.reshape(-1)])


def _gumbel(utilities: FloatArray, noise_scale: float) -> FloatArray:
    """Returns the probability that each candidate wins with Gumbel noise: the exponential mechanism."""
    weights = np.exp((utilities - utilities.max(axis=1, keepdims=True)) / noise_scale)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _exponential(utilities: FloatArray, noise_scale: float) -> FloatArray:
    """Returns the probability that each candidate wins with exponential noise.

    The product in the integral of permute-and-flip is summed by inclusion and exclusion.
    """
    candidate_weights = np.exp((utilities - utilities.max(axis=1, keepdims=True)) / noise_scale)
    distribution = np.zeros_like(candidate_weights)
    candidates = range(candidate_weights.shape[1])
    for i in candidates:
        others = [j for j in candidates if j != i]
        for size in range(len(others) + 1):
            for subset in combinations(others, size):
                distribution[:, i] += (
                    (-1) ** size * candidate_weights[:, list(subset)].prod(axis=1) / (size + 1)
                )
    return np.asarray(distribution * candidate_weights)


def _gaussian(utilities: FloatArray, noise_scale: float) -> FloatArray:
    """Returns the probability that each candidate wins with Gaussian noise, by a trapezoid sum over the winning value.

    The sum converges exponentially for smooth densities.
    """
    utilities_in_stds = utilities / noise_scale
    winning_values = np.arange(utilities_in_stds.min() - 10, utilities_in_stds.max() + 10, 0.05)
    noise_in_stds = winning_values - utilities_in_stds[:, :, None]  # [N, n, G]
    log_probs_below = log_ndtr(noise_in_stds)
    others = np.exp(log_probs_below.sum(axis=1, keepdims=True) - log_probs_below)
    distribution = (np.exp(-0.5 * noise_in_stds**2) * others).sum(axis=2)
    return np.asarray(distribution / distribution.sum(axis=1, keepdims=True))


def _laplace(utilities: FloatArray, noise_scale: float) -> FloatArray:
    """Returns the probability that each candidate wins with Laplace noise.

    It is an integral between the kinks of all densities, by Gauss-Legendre quadrature.
    """
    nodes, weights = np.polynomial.legendre.leggauss(8)
    max_noise = np.ceil(40 * noise_scale)
    lowest, highest = utilities.min() - max_noise, utilities.max() + max_noise
    edges = np.arange(2 * lowest, 2 * highest) / 2  # [E]
    winning_values = (edges[:, None] + 0.25 + 0.25 * nodes).ravel()
    noise_in_scales = (winning_values - utilities[:, :, None]) / noise_scale
    tail = 0.5 * np.exp(-np.abs(noise_in_scales))
    cdfs_of_queries = np.where(noise_in_scales < 0, tail, 1 - tail)
    candidates = range(utilities.shape[1])
    others = np.stack(
        [np.delete(cdfs_of_queries, i, axis=1).prod(axis=1) for i in candidates], axis=1
    )
    distribution = (tail * others) @ np.tile(weights, len(edges))
    return np.asarray(distribution / distribution.sum(axis=1, keepdims=True))


_SELECTIONS = {
    "gumbel": _gumbel,
    "exponential": _exponential,
    "gaussian": _gaussian,
    "laplace": _laplace,
}


@cache
def _selection_of_gaps(noise: str, utilities: tuple[float, ...], noise_scale: float) -> FloatArray:
    """Returns the probability that each utility of one query is the largest with noise."""
    return selection_distribution(noise, utilities=np.array([utilities]), noise_scale=noise_scale)[
        0
    ]


@cache
def _gaps(counts: tuple[int, ...], num_teachers: int) -> list[int]:
    """Returns the padded gaps of one histogram."""
    gaps: list[int] = gaps_of(np.array([counts]), num_teachers=num_teachers, padded=True)[
        0
    ].tolist()
    return gaps


def _size_distribution(
    counts: IntArray,
    *,
    noise: str,
    noise_scale: float,
    num_teachers: int,
    padded: bool,
    max_k: int | None,
    utility_offset: Callable[[int], float],
) -> dict[int, float]:
    """Returns the probability that gap selection chooses each size k, for one histogram.

    `utility_offset(k)` is added to the gap behind the k largest counts. No size exceeds `max_k`, if it is given.
    """
    num_labels = len(counts)
    sizes = [
        k
        for k in range(num_labels + 1)
        if (padded or 0 < k < num_labels) and k <= (max_k or num_labels)
    ]
    gaps = _gaps(tuple(counts.tolist()), num_teachers)
    utilities = tuple(float(gaps[k] + utility_offset(k)) for k in sizes)
    probabilities = _selection_of_gaps(noise, utilities=utilities, noise_scale=noise_scale)
    return dict(zip(sizes, probabilities.tolist(), strict=True))


def _no_offset(k: int) -> float:
    """Returns 0, the offset of each size in a selection without a regularizer."""
    return 0.0


def gap_selection_distribution(
    selection: GapSelection, counts: IntArray, small_instance: SmallInstance
) -> Distribution:
    """Returns the probability that a gap selection chooses each size k for one histogram."""
    return _size_distribution(
        counts,
        noise=selection.noise,
        noise_scale=selection.noise_scale,
        num_teachers=small_instance.num_teachers,
        padded=selection.padded,
        max_k=selection.max_k,
        utility_offset=selection.regularizer or _no_offset,
    )


@cache  # All histograms of a small instance have one test.
def _pass_probs(aggregator: StableTopK | StableFixedTopK, num_teachers: int) -> FloatArray:
    """Returns the probability, for each gap, that a set with this gap passes the stability test of an aggregator."""
    return aggregator.stability_test(num_teachers=num_teachers).pass_probs


def _stable_set_distribution(
    aggregator: StableTopK | StableFixedTopK,
    counts: IntArray,
    *,
    num_teachers: int,
    utility_offset: Callable[[int], float],
) -> tuple[dict[Any, float], float]:
    """Returns the probability that a set is chosen and passes its test, for each stable set, and that no set passes.

    A stable set has the labels with the k largest counts, for a chosen k. `utility_offset(k)` is added to the gap
    behind these counts when k is chosen.
    """
    order = np.argsort(-counts, kind="stable")
    gaps = _gaps(tuple(counts.tolist()), num_teachers)
    pass_probs = _pass_probs(aggregator, num_teachers)
    size_distribution = _size_distribution(
        counts,
        noise=aggregator.selection_noise,
        noise_scale=aggregator.selection_scale,
        num_teachers=num_teachers,
        padded=aggregator.padded,
        max_k=aggregator.max_k,
        utility_offset=utility_offset,
    )
    released = {}
    refused = 0.0
    for k, chosen_prob in size_distribution.items():
        pass_prob = 1.0 if k in (0, len(counts)) else pass_probs[gaps[k]]
        released[tuple(sorted(order[:k].tolist()))] = chosen_prob * pass_prob
        refused += chosen_prob * (1 - pass_prob)
    return released, refused


def stable_top_k_distribution(
    aggregator: StableTopK, counts: IntArray, small_instance: SmallInstance
) -> Distribution:
    """Returns the probability of each set that stable top-k releases for one histogram; None stands for a refusal."""
    released, refused = _stable_set_distribution(
        aggregator,
        counts,
        num_teachers=small_instance.num_teachers,
        utility_offset=aggregator.regularizer or _no_offset,
    )
    return released | {None: refused}


def stable_fixed_top_k_distribution(
    aggregator: StableFixedTopK,
    counts: IntArray,
    small_instance: SmallInstance,
    *,
    noise_growth_exponent: float = 0.5,
) -> Distribution:
    """Returns the distribution over the stable set (None for a refusal) and the sequence of peeled labels.

    Peeling j labels has noise of scale `peel_scale` * j**noise_growth_exponent.
    """
    k = aggregator.k

    def penalize_other_sizes(size: int) -> float:
        return -aggregator.penalty * abs(size - k)

    stable, refused = _stable_set_distribution(
        aggregator,
        counts,
        num_teachers=small_instance.num_teachers,
        utility_offset=penalize_other_sizes,
    )
    distribution: dict[Any, float] = {}
    for labels, prob_of_set in [*stable.items(), (None, refused)]:
        stable_set = labels or ()
        is_too_large = len(stable_set) > k
        # k labels of a set that is too large, or as many other labels as a smaller set lacks
        candidates = (
            list(stable_set)
            if is_too_large
            else [label for label in range(len(counts)) if label not in stable_set]
        )
        num_picks = k if is_too_large else k - len(stable_set)
        noise_scale = aggregator.peel_scale * num_picks**noise_growth_exponent
        for picks in permutations(candidates, num_picks):
            remaining = list(candidates)
            probability = prob_of_set
            for label in picks:
                weights = np.exp((counts[remaining] - counts[label]) / noise_scale)
                probability /= weights.sum()
                remaining.remove(label)
            distribution[labels, picks] = float(probability)
    return distribution


def released_set(
    stable_and_peeled: tuple[tuple[int, ...] | None, tuple[int, ...]], k: int
) -> tuple[int, ...]:
    """Returns the k released labels, given the stable set, or None, and the sequence of peeled labels.

    The peeled labels fill up a stable set of fewer labels. They alone are released if there is no stable set, or if it
    has over k labels.
    """
    stable, picks = stable_and_peeled
    return tuple(sorted(picks if stable is None or len(stable) > k else {*stable, *picks}))


def noisy_max_distribution(counts: FloatArray, noise_std: float) -> FloatArray:
    """Returns the probability of each count to be the largest after Gaussian noise, `[n]`, by the trapezoidal rule."""
    counts_in_stds = np.asarray(counts, dtype=np.float64) / noise_std
    winning_values = np.linspace(
        counts_in_stds.min() - 10,
        counts_in_stds.max() + 10,
        1 + int(32 * (np.ptp(counts_in_stds) + 20)),
    )
    probs_below = ndtr(winning_values - counts_in_stds[:, None])  # [n, G]
    density = np.exp(-0.5 * (winning_values - counts_in_stds[:, None]) ** 2)
    others = np.stack(
        [np.delete(probs_below, i, axis=0).prod(axis=0) for i in range(len(counts_in_stds))]
    )
    distribution = (density * others).sum(axis=1)
    return np.asarray(distribution / distribution.sum())


def bits_distribution(
    counts: IntArray, noise_std: float, num_teachers: int, *, cut_in_stds: float = 9.0
) -> Distribution:
    """Returns the probability of each pattern of bits.

    A bit tells whether a noisy count reaches half of the teachers. A count further than `cut_in_stds` standard
    deviations of the noise from this threshold is moved to that distance, rounded away from the threshold to a whole
    vote.
    """
    half_of_teachers = num_teachers / 2
    cut_counts = np.clip(
        counts,
        np.floor(half_of_teachers - cut_in_stds * noise_std),
        np.ceil(half_of_teachers + cut_in_stds * noise_std),
    )
    ones = ndtr((cut_counts - half_of_teachers) / noise_std)
    zeros = ndtr((half_of_teachers - cut_counts) / noise_std)
    patterns = product((0, 1), repeat=len(counts))
    return {bits: float(np.where(bits, ones, zeros).prod()) for bits in patterns}


def gnmax_distribution(aggregator: GNMax, counts: IntArray, _: SmallInstance) -> Distribution:
    """Returns the probability of each label that GNMax releases for one histogram, without code of the package."""
    return {
        (label,): p
        for label, p in enumerate(noisy_max_distribution(counts, aggregator.noise_std).tolist())
    }


def confident_gnmax_distribution(
    aggregator: ConfidentGNMax, counts: IntArray, small_instance: SmallInstance
) -> Distribution:
    """Returns the probability of each label, or of a refusal (None), for ConfidentGNMax on one histogram."""
    passed = ndtr(
        (counts.max() - aggregator.threshold_share * small_instance.num_teachers)
        / aggregator.screening_std
    )
    distribution = noisy_max_distribution(counts, aggregator.noise_std).tolist()
    return {None: 1 - passed} | {(label,): passed * p for label, p in enumerate(distribution)}


def confident_votes_distribution(
    aggregator: ConfidentVotes, counts: IntArray, small_instance: SmallInstance
) -> Distribution:
    """Returns the probability of each pattern of bits, or of a refusal (None), for ConfidentVotes on one histogram."""
    majority = np.maximum(counts, small_instance.num_teachers - counts).min()
    passed = ndtr(
        (majority - aggregator.threshold_share * small_instance.num_teachers)
        / aggregator.screening_std
    )
    distribution = bits_distribution(counts, aggregator.noise_std, small_instance.num_teachers)
    return {None: 1 - passed} | {bits: passed * p for bits, p in distribution.items()}

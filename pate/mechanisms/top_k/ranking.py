"""The falling order of counts, draws in blocks of rows, and distributions of repeated picks."""

from collections.abc import Callable, Iterable

import numpy as np

from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.comparisons import Values, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.top_k.mechanism import Distribution

# Histograms with at most so many classes of outcomes are drawn several at a time, and others one by one.
_FEW_CLASSES = 16_384
# The number of classes of all histograms that are drawn at a time.
_CLASSES_PER_BLOCK = 1 << 20
# Keys of at most so many bits fit into int64.
_MAX_KEY_BITS = 62


def draw_in_blocks(
    counts: IntArray, num_classes: int, draw_block: Callable[[IntArray, bool], IntArray]
) -> IntArray:
    """Draws indices for a batch of histograms in blocks, each of at most about a million classes of outcomes.

    Args:
        counts: `[Q, d]`.
        num_classes: the number of classes of outcomes of one histogram.
        draw_block: draws the indices `[q, k]` of a block of counts `[q, d]`. The second argument is True if a histogram
            has few classes; if False, the block is one histogram.

    Returns:
        The indices of all histograms, `[Q, k]`.
    """
    has_few_classes = num_classes <= _FEW_CLASSES
    rows_per_block = max(1, _CLASSES_PER_BLOCK // num_classes) if has_few_classes else 1
    blocks = [
        draw_block(counts[start : start + rows_per_block], has_few_classes)
        for start in range(0, len(counts), rows_per_block)
    ]
    return np.concatenate(blocks)


def utilities_of(counts: IntArray, noise_scale: float) -> FloatArray:
    """Returns (count - largest count) / noise_scale for the counts of each histogram, `[..., d]`."""
    return np.asarray((counts - counts.max(axis=-1, keepdims=True)) / noise_scale)


def peel_distribution(
    utilities: FloatArray, k: int, argmax_distribution: Callable[[FloatArray], FloatArray]
) -> Distribution:
    """Returns the probability of each sequence of k picks; each pick is the index of a noisy maximum, then removed.

    Args:
        utilities: the values `[d]`, divided by the scale of the noise.
        k: the number of picks.
        argmax_distribution: returns the probability of each index, `[n]`, to be picked among utilities `[n]`.
    """
    distribution: Distribution = {(): 1.0}
    for _ in range(k):
        longer: Distribution = {}
        for picks, probability in distribution.items():
            remaining = [index for index in range(len(utilities)) if index not in picks]
            next_pick = argmax_distribution(utilities[remaining])
            for index, conditional in zip(remaining, next_pick, strict=True):
                longer[*picks, index] = probability * float(conditional)
        distribution = longer
    return distribution


def relabel_outcomes(
    distribution: Distribution, new_outcome: Callable[[tuple[int, ...]], Iterable[int]]
) -> Distribution:
    """Returns the distribution of new_outcome(outcome); probabilities that lead to the same new outcome are added.

    Args:
        distribution: the probability of each outcome.
        new_outcome: returns the new outcome for an outcome.
    """
    relabeled_distribution: Distribution = {}
    for outcome, probability in distribution.items():
        label = tuple(new_outcome(outcome))
        relabeled_distribution[label] = relabeled_distribution.get(label, 0.0) + probability
    return relabeled_distribution


def stable_sort(values: IntArray) -> tuple[IntArray, IntArray]:
    """Sorts each row of numbers >= 0, `[Q, n]`, in rising order. Equal numbers keep their order.

    Returns two arrays `[Q, n]`: the column from which each number comes, and the sorted numbers.
    """
    # Where value and column fit into one integer, these integers are sorted, which is much faster than an argsort.
    column_bits = values.shape[1].bit_length()
    if int(values.max()).bit_length() + column_bits <= _MAX_KEY_BITS:
        keys = np.sort((values << column_bits) | np.arange(values.shape[1]), axis=1)
        return keys & ((1 << column_bits) - 1), keys >> column_bits
    order = np.argsort(values, axis=1, kind="stable")
    return order, np.take_along_axis(values, order, axis=1)


def falling_order(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Sorts the counts of each histogram, `[Q, d]`, in falling order. Of equal counts the lower index comes first.

    Returns two arrays `[Q, d]`: the index of each count, and the sorted counts.
    """
    largest = counts.max(axis=1, keepdims=True)
    order, deficits = stable_sort(largest - counts)
    return order, largest - deficits


def largest_noisy_counts(
    counts: IntArray, noise_scale: float, noise_kind: str, k: int, rng: np.random.Generator
) -> IntArray:
    """Draws noise, and returns the indices of the k largest noisy counts of each histogram, largest first: `[Q, k]`.

    Args:
        counts: `[Q, d]`.
        noise_scale: the scale of the noise, in votes.
        noise_kind: the kind of noise, a name of `KINDS`.
        k: the number of indices.
        rng: draws the noise.
    """
    values = Values.scaled(counts, noise_scale=noise_scale)
    noise = draw_noise(noise_kind=noise_kind, shape=counts.shape, rng=rng)
    return largest_noisy(values, noise, k=k)

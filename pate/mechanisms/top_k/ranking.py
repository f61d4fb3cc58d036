"""The falling order of counts, draws in blocks of rows, and distributions of repeated picks."""

from collections.abc import Callable, Iterable

import numpy as np

from pate.mechanisms.noise.comparisons import Values, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.lazy_uniforms import Array
from pate.mechanisms.top_k.mechanism import Counts, Distribution

_FEW_CLASSES = 16_384
_CLASSES_AT_ONCE = 1 << 20
_LARGEST_KEY = 62  # bits


def draw_in_blocks(
    counts: Counts, num_classes: int, draw_block: Callable[[Counts, bool], Counts]
) -> Counts:
    """Draws for counts `[Q, d]` in blocks of rows, so that no block has many more than a million classes.

    Args:
        counts: `[Q, d]`.
        num_classes: of each row.
        draw_block: draws for a block `[q, d]`. The second argument is True where a row has few classes and a block many
            rows, False where a block is one row.
    """
    has_few_classes = num_classes <= _FEW_CLASSES
    rows = max(1, _CLASSES_AT_ONCE // num_classes) if has_few_classes else 1
    return np.concatenate(
        [
            draw_block(counts[start : start + rows], has_few_classes)
            for start in range(0, len(counts), rows)
        ]
    )


def utilities_of(counts: Counts, noise_scale: float) -> Array:
    """Returns counts `[..., d]` in units of the noise, the largest at 0."""
    return np.asarray((counts - counts.max(axis=-1, keepdims=True)) / noise_scale)


def peel_distribution(
    utilities: Array, k: int, argmax_distribution: Callable[[Array], Array]
) -> Distribution:
    """Returns the distribution of k picks, each a noisy maximum of what the earlier ones left.

    Args:
        utilities: `[d]`, in units of the noise.
        k: the number of picks.
        argmax_distribution: the distribution `[n]` of one pick among utilities `[n]`.
    """
    distribution: Distribution = {(): 1.0}
    for _ in range(k):
        rests = {
            prefix: [i for i in range(len(utilities)) if i not in prefix] for prefix in distribution
        }
        distribution = {
            (*prefix, i): distribution[prefix] * float(p)
            for prefix, indices in rests.items()
            for i, p in zip(indices, argmax_distribution(utilities[indices]), strict=True)
        }
    return distribution


def renamed(
    distribution: Distribution, name: Callable[[tuple[int, ...]], Iterable[int]]
) -> Distribution:
    """Returns the distribution of a function of the outcome."""
    renamed_distribution: Distribution = {}
    for outcome, probability in distribution.items():
        new_name = tuple(name(outcome))
        renamed_distribution[new_name] = renamed_distribution.get(new_name, 0.0) + probability
    return renamed_distribution


def stable_sort(values: Counts) -> tuple[Counts, Counts]:
    """Returns the stable rising order of each row, and the rows in this order: `[Q, n]` each, from numbers >= 0."""
    # value and place share one integer where they fit: a sort is many times as fast as an argsort
    bits = values.shape[1].bit_length()
    if int(values.max()).bit_length() + bits <= _LARGEST_KEY:
        keys = np.sort((values << bits) | np.arange(values.shape[1]), axis=1)
        return keys & ((1 << bits) - 1), keys >> bits
    order = np.argsort(values, axis=1, kind="stable")
    return order, np.take_along_axis(values, order, axis=1)


def falling_order(counts: Counts) -> tuple[Counts, Counts]:
    """Returns the indices of each row in falling order of their counts, ties to the lowest, and the sorted counts."""
    largest = counts.max(axis=1, keepdims=True)
    order, deficits = stable_sort(largest - counts)
    return order, largest - deficits


def largest_noisy_counts(
    counts: Counts, noise_scale: float, kind: str, k: int, rng: np.random.Generator
) -> Counts:
    """Returns the indices of the k largest counts with noise of a kind and a scale, in falling order: `[Q, k]`."""
    return largest_noisy(Values.scaled(counts, noise_scale), draw_noise(kind, counts.shape, rng), k)

"""The order of counts, and distributions of picks that are made one after another."""

from collections.abc import Callable, Iterable

import numpy as np

from pate.mechanisms.noise.real_numbers import (
    Values,
    draw_noise,
    largest_noisy,
)
from pate.mechanisms.noise.uniforms import Array
from pate.mechanisms.top_k.mechanism import Counts, Distribution

_FEW_CLASSES = 16_384


_CLASSES_AT_ONCE = 1 << 20


_LARGEST_KEY = 62  # bits


def draw_in_blocks(
    counts: Counts, num_classes: int, draw_block: Callable[[Counts, bool], Counts]
) -> Counts:
    """Draws for `[Q, d]` with so many classes each: many rows at a time if these are few, as it is told, else one."""
    few = num_classes <= _FEW_CLASSES
    rows = max(1, _CLASSES_AT_ONCE // num_classes) if few else 1
    return np.concatenate(
        [draw_block(counts[start : start + rows], few) for start in range(0, len(counts), rows)]
    )


def utilities_of(counts: Counts, noise_scale: float) -> Array:
    """Counts in units of the noise, the largest at 0: `[..., d]`."""
    return np.asarray((counts - counts.max(axis=-1, keepdims=True)) / noise_scale)


def peel_distribution(
    utilities: Array, k: int, argmax_distribution: Callable[[Array], Array]
) -> Distribution:
    """The distribution of k rounds of the noisy maximum for utilities `[d]`, from the distribution of one pick."""
    distribution: Distribution = {(): 1.0}
    for _ in range(k):
        rests = {
            prefix: [i for i in range(len(utilities)) if i not in prefix] for prefix in distribution
        }
        distribution = {
            (*prefix, i): distribution[prefix] * float(p)
            for prefix, rest in rests.items()
            for i, p in zip(rest, argmax_distribution(utilities[rest]), strict=True)
        }
    return distribution


def renamed(
    distribution: Distribution, name: Callable[[tuple[int, ...]], Iterable[int]]
) -> Distribution:
    """The distribution of a function of the outcome."""
    renamed_distribution: Distribution = {}
    for outcome, probability in distribution.items():
        new_name = tuple(name(outcome))
        renamed_distribution[new_name] = renamed_distribution.get(new_name, 0.0) + probability
    return renamed_distribution


def stable_sort(values: Counts) -> tuple[Counts, Counts]:
    """The stable rising order of each row, and the rows in this order: `[Q, n]` each, from numbers >= 0."""
    # value and place share one integer where they fit: a sort is many times as fast as an argsort
    bits = values.shape[1].bit_length()
    if int(values.max()).bit_length() + bits <= _LARGEST_KEY:
        keys = np.sort((values << bits) | np.arange(values.shape[1]), axis=1)
        return keys & ((1 << bits) - 1), keys >> bits
    order = np.argsort(values, axis=1, kind="stable")
    return order, np.take_along_axis(values, order, axis=1)


def falling_order(counts: Counts) -> tuple[Counts, Counts]:
    """The indices of each row in falling order of their counts, ties to the lowest, and the counts in this order."""
    largest = counts.max(axis=1, keepdims=True)
    order, deficits = stable_sort(largest - counts)
    return order, largest - deficits


def largest_noisy_counts(
    counts: Counts, noise_scale: float, kind: str, k: int, rng: np.random.Generator
) -> Counts:
    """Returns the indices of the k largest counts with noise of a kind and a scale, in falling order: `[Q, k]`."""
    return largest_noisy(Values.scaled(counts, noise_scale), draw_noise(kind, counts.shape, rng), k)

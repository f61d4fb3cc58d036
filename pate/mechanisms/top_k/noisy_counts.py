"""The draw of the k largest noisy counts of each histogram."""

import numpy as np

from pate.array_types import IntArray
from pate.mechanisms.noise.comparisons import ExactValues, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_noise


def largest_noisy_counts(
    counts: IntArray, noise_scale: float, noise_kind: str, k: int, rng: np.random.Generator
) -> IntArray:
    """Draws noise, and returns the indices of the k largest noisy counts of each histogram, largest first: `[Q, k]`.

    Args:
        counts: `[Q, d]`.
        noise_scale: the scale of the noise, in votes.
        noise_kind: the kind of noise, a name of `KINDS` in `pate/mechanisms/noise/kinds.py`.
        k: the number of indices.
        rng: draws the noise.
    """
    exact_values = ExactValues.scaled(counts, noise_scale=noise_scale)
    drawn_noise = draw_noise(noise_kind=noise_kind, shape=counts.shape, rng=rng)
    return largest_noisy(exact_values, drawn_noise, k=k)

"""Discrete Gaussian noise, drawn exactly: whole numbers that several places can draw and that still add up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.mechanisms.noise.categorical import Interval, exponential_weights, index_of
from pate.mechanisms.noise.lazy_bits_uniform import LazyUniforms
from pate.validation import require, require_count, require_generator

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST_VARIANCE = 2**24
_AT_ONCE = 2**17  # working copies stay small
_UNIT = 2.0**48  # sums of weights in it fit 64 bits
_TABLE_STDS = 9.5  # numbers beyond are decided like those near an edge
_MARGIN = 2.0**-43  # of a probability; rounded weights put an edge off by less than 2**-45
_DIGIT = 2.31  # above log(10)


@dataclass(frozen=True)
class DiscreteGaussian:
    """Whole numbers z with probability proportional to exp(-z**2 / (2 v)).

    Rule: of the order 0, 1, -1, 2, -2, …, the first z at which the running sum of weights exceeds u times the total, u
    uniform. Floats decide where u is far from every running sum; else more bits of u are drawn, and the weights of all
    numbers computed more closely, until one z is left.

    Formal guarantee: a vector of whole numbers that moves by at most s in l2 between neighbors costs s**2 / (2 v) zCDP
    once such noise is added to every entry. The distribution is exact for a source of uniform bits; no number is too
    far out to be drawn.

    Attributes:
        variance: v in the exponent, a whole number in 1..2**24; the noise's own variance is at most v.

    Source: Canonne, Kamath & Steinke 2020; docs/proofs/distributed_noise.md.

    >>> DiscreteGaussian(100).sample((5,), np.random.default_rng(0)).tolist()
    [-9, -3, 1, 0, -13]
    """

    variance: int

    def __post_init__(self) -> None:
        require_count("variance", self.variance)
        require(self.variance <= LARGEST_VARIANCE, "variance", self.variance, f"at most 2**24 = {LARGEST_VARIANCE}")

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
        """Independent draws of that shape."""
        require_generator(rng)
        noise = np.empty(math.prod(shape), dtype=np.int64)
        for start in range(0, len(noise), _AT_ONCE):
            block = noise[start : start + _AT_ONCE]
            block[:] = self._drawn(LazyUniforms.draw(block.shape, rng))
        return noise.reshape(shape)

    def mass(self, values: ArrayLike) -> Array:
        """P(z = value), elementwise."""
        total = 2 * math.fsum(_weights(self.variance, 40.0)) - 1
        return np.asarray(np.exp(-np.square(np.asarray(values, dtype=np.float64)) / (2 * self.variance)) / total)

    def _drawn(self, uniforms: LazyUniforms) -> Integers:
        """The number that each u stands for."""
        edges, u = _edges(self.variance), uniforms.approximate()
        places = np.searchsorted(edges, u, side="right") - 1
        above = edges[np.minimum(places + 1, len(edges) - 1)]
        for index in np.flatnonzero((u - edges[places] <= _MARGIN) | (above - u <= _MARGIN)).tolist():
            places[index] = index_of(uniforms.at(index), self._exact_weights)
        return np.where(places % 2 == 1, 1, -1) * ((places + 1) // 2)

    def _exact_weights(self, digits: int) -> Sequence[Interval]:
        """Of 0, 1, -1, …, and last of all numbers beyond these, together less than 10**-digits."""
        reach = math.isqrt(math.ceil(2 * self.variance * _DIGIT * (digits + len(str(2 * self.variance))))) + 1
        ones = exponential_weights([Fraction(z * z, 2 * self.variance) for z in range(reach + 1)])(digits)
        return [ones[0], *(one for one in ones[1:] for _ in range(2)), (0, 1)]


def _weights(variance: int, stds: float) -> Array:
    """Of 0, 1, 2, …, as floats."""
    return np.asarray(np.exp(-(np.arange(math.ceil(stds * math.sqrt(variance)) + 2.0) ** 2) / (2 * variance)))


@lru_cache(maxsize=8)
def _edges(variance: int) -> Array:
    """Running sums of the weights of 0, 1, -1, …, over the total; 0 first."""
    weights = np.rint(_weights(variance, _TABLE_STDS) * _UNIT).astype(np.int64)
    sums = np.cumsum(np.concatenate([weights[:1], np.repeat(weights[1:], 2)]))
    return np.concatenate([[-1.0], sums / sums[-1]])

"""Discrete Gaussian noise, drawn exactly: whole numbers that several places can draw and that still add up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.mechanisms.noise.coins import toss_exponential
from pate.mechanisms.noise.discrete_laplace import DiscreteLaplace
from pate.mechanisms.noise.enclosures import exp_bounds
from pate.mechanisms.noise.lazy_bits_uniform import LazyUniforms
from pate.validation import require, require_count, require_generator

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_LARGEST_VARIANCE = 2**24
_FAR = 2**31  # squares of candidates times their scale fit 64 bits up to it; others are decided one by one


@dataclass(frozen=True)
class DiscreteGaussian:
    """Whole numbers z with probability proportional to exp(-z**2 / (2 v)).

    Rule: a candidate from discrete Laplace noise of scale t, a power of two, is kept with probability
    exp(-(|z| - v / t)**2 / (2 v)).

    Formal guarantee: a vector of whole numbers that moves by at most s in l2 between neighbors costs
    s**2 / (2 v) zCDP once such noise is added to every entry. The distribution is exact for a source of uniform
    bits: every coin is decided from an enclosure.

    Attributes:
        variance: v in the exponent, a whole number in 1..2**24; the noise's own variance is at most v.

    Source: Canonne, Kamath & Steinke 2020, Algorithm 3; docs/proofs/distributed_noise.md.

    >>> DiscreteGaussian(100).sample((5,), np.random.default_rng(0)).tolist()
    [6, -13, -18, 6, 4]
    """

    variance: int

    def __post_init__(self) -> None:
        require_count("variance", self.variance)
        require(self.variance <= _LARGEST_VARIANCE, "variance", self.variance, f"at most 2**24 = {_LARGEST_VARIANCE}")

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
        """Independent draws of that shape."""
        require_generator(rng)
        noise = np.empty(math.prod(shape), dtype=np.int64)
        missing = np.arange(len(noise))
        while missing.size:
            drawn, kept = self._candidates(missing.size, rng)
            noise[missing[kept]] = drawn[kept]
            missing = missing[~kept]
        return noise.reshape(shape)

    def mass(self, values: ArrayLike) -> Array:
        """P(z = value), elementwise."""
        reach = math.ceil(40 * math.sqrt(self.variance)) + 1
        total = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * self.variance)).sum()
        return np.asarray(np.exp(-np.square(np.asarray(values, dtype=np.float64)) / (2 * self.variance)) / total)

    def _candidates(self, count: int, rng: np.random.Generator) -> tuple[Integers, NDArray[np.bool_]]:
        """Draws and which of them are kept, `[count]` each."""
        scale = 2 ** math.ceil(math.log2(self.variance) / 2)
        drawn = DiscreteLaplace(Fraction(1, scale)).sample((count,), rng)
        near = np.abs(drawn) <= _FAR // scale
        squares = np.square(np.where(near, np.abs(drawn), 0) * scale - self.variance)
        kept = toss_exponential(squares, float(2 * self.variance * scale**2), rng)
        for place in np.flatnonzero(~near).tolist():
            exponent = -Fraction((abs(int(drawn[place])) * scale - self.variance) ** 2, 2 * self.variance * scale**2)
            kept[place] = LazyUniforms.draw((1,), rng).at(0).below(partial(exp_bounds, exponent))
        return drawn, kept

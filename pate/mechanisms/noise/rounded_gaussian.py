"""Gaussian noise rounded to whole numbers, drawn exactly: no floating-point digits in published sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.noise.enclosures import exp_bounds
from pate.mechanisms.noise.lazy_bits_uniform import LazyBitsUniform, words
from pate.validation import require, require_generator, require_positive

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]

LARGEST_STD = 2.0**44
"""Beyond, too many draws would need more than 64 bits."""
_UNIT = 2.0**-64
_MARGIN = 2.0**-40  # of a probability; the float error stays below 2**-50


@dataclass(frozen=True)
class RoundedGaussian:
    """The whole number nearest to N(0, std**2).

    Rule: a candidate is x = m + u with P(m) proportional to exp(-m) and u uniform; it is kept with probability
    exp(m - 1/2 - x**2 / 2), which makes x half a standard normal; then x times std gets a sign and is rounded.

    Formal guarantees:
        * A vector of whole numbers with this noise is the vector with continuous Gaussian noise, rounded. So it costs
          what the continuous release costs, by post-processing: the exact price of a Gaussian holds without a term
          for the grid, under any accountant.
        * The distribution is exact for a source of uniform bits. Every comparison is decided from an enclosure of both
          sides; where 64 bits do not decide it, more bits are drawn and `decimal` computes more digits.

    Attributes:
        std: in steps of the grid, in (0, 2**44].

    Source: von Neumann 1951 for the comparison of lazily drawn bits, Karney 2016 for exact normal deviates;
    docs/proofs/centered_votes.md.

    >>> RoundedGaussian(10.0).sample((5,), np.random.default_rng(0)).tolist()
    [-6, 16, 1, -6, 13]
    """

    std: float

    def __post_init__(self) -> None:
        require_positive("std", self.std)
        require(self.std <= LARGEST_STD, "std", self.std, f"at most 2**44 = {LARGEST_STD:.0f}")

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
        """Independent draws of that shape."""
        require_generator(rng)
        noise = np.empty(math.prod(shape), dtype=np.int64)
        missing = np.arange(len(noise))
        while missing.size:
            bits = words(rng, (4, missing.size))
            magnitude, kept = self._candidates(bits, rng)
            negative = (bits[3] & np.uint64(1)) == 1
            noise[missing[kept]] = np.where(negative, -magnitude, magnitude)[kept]
            missing = missing[~kept]
        return noise.reshape(shape)

    def _candidates(self, bits: Words, rng: np.random.Generator) -> tuple[Integers, NDArray[np.bool_]]:
        """Rounded |x| std and whether it is kept, `[n]` each, from three words per candidate."""
        whole, sure = _geometric(bits[0])
        fraction, coin = bits[1] * _UNIT, bits[2] * _UNIT
        chance = np.exp(-0.5 * (whole - 1.0) ** 2 - fraction * whole - 0.5 * fraction**2)
        kept = coin < chance
        sure &= np.abs(coin - chance) > _MARGIN
        place = self.std * (whole + fraction) + 0.5
        magnitude = np.floor(place)
        distance = np.minimum(place - magnitude, magnitude + 1 - place)
        open_bits = self.std * _UNIT  # what the fraction's further bits can add
        sure &= ~kept | (distance > 2.0**-48 * place + 2.0**-48 + 2 * open_bits)
        values = magnitude.astype(np.int64)
        for index in np.flatnonzero(~sure).tolist():
            values[index], kept[index] = self._exactly([int(word) for word in bits[:3, index]], rng)
        return values, kept

    def _exactly(self, first: list[int], rng: np.random.Generator) -> tuple[int, bool]:
        """The same for one candidate, with as many more bits as it takes."""
        for_whole, fraction, coin = (LazyBitsUniform(word, rng) for word in first)
        whole = 0
        while for_whole.below(partial(exp_bounds, Fraction(-whole - 1))):
            whole += 1
        while True:
            low, high = ((whole + part) ** 2 / 2 + Fraction(1, 2) - whole for part in fraction.bounds())
            digits = fraction.digits
            least, most = exp_bounds(-high, digits)[0], exp_bounds(-low, digits)[1]
            bottom, top = coin.bounds()
            if top <= least or bottom >= most:
                break
            fraction.extend()
            coin.extend()
        if bottom >= most:
            return 0, False
        while True:
            near, far = (math.floor(Fraction(self.std) * (whole + part) + Fraction(1, 2)) for part in fraction.bounds())
            if near == far:
                return near, True
            fraction.extend()


def _geometric(bits: Words) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Whole m with P(m >= j) = exp(-j), and whether 64 bits decide it."""
    descending = _EXP_TABLE[::-1]
    at = np.searchsorted(descending, bits, side="right")  # how many entries are at most the word
    decided = (at == 0) | (descending[np.maximum(at - 1, 0)] != bits)
    return (len(descending) - at).astype(np.float64), decided & (bits > 0)


_EXP_TABLE = np.array([math.floor(exp_bounds(-Fraction(j), 40)[0] * 2**64) for j in range(1, 45)], dtype=np.uint64)
"""floor(exp(-j) 2**64), j = 1, 2, …: a uniform number whose first 64 bits are smaller is below exp(-j)."""

"""Discrete Laplace noise, drawn exactly, with whole numbers only: no floating-point digits in published sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.validation import require, require_generator, require_positive

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_GRID = 2**32
_LARGEST_RATE = 2**16


@dataclass(frozen=True)
class DiscreteLaplace:
    """Whole numbers z with probability proportional to exp(-rate |z|).

    Formal guarantee: a whole number that moves by at most s between neighbors is (s rate)-DP once z is added, for any
    adjacency. No rounding is part of it: the rate is a fraction, and coins of probability exp(-a / b) are tossed with
    uniform whole numbers.

    Attributes:
        rate: 1 / scale, in (0, 2**16]; a multiple of 2**-32.

    Source: Canonne, Kamath & Steinke 2020, Algorithms 1 and 2.

    >>> noise = DiscreteLaplace.at_most(0.5)
    >>> noise.sample((4,), np.random.default_rng(0)).tolist()
    [-1, 2, -2, 1]
    """

    rate: Fraction

    def __post_init__(self) -> None:
        proper = isinstance(self.rate, Fraction) and _GRID % self.rate.denominator == 0
        require(proper and 0 < self.rate <= _LARGEST_RATE, "rate", self.rate, "a multiple of 2**-32 in (0, 2**16]")

    @classmethod
    def at_most(cls, rate: float | Fraction) -> DiscreteLaplace:
        """The noise of the largest multiple of 2**-32 that is at most `rate`."""
        require_positive("rate", float(rate))
        steps = math.floor(Fraction(rate) * _GRID)
        require(0 < steps <= _LARGEST_RATE * _GRID, "rate", float(rate), "a number in [2**-32, 2**16]")
        return cls(Fraction(steps, _GRID))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
        """Independent draws of that shape."""
        require_generator(rng)
        noise = np.empty(math.prod(shape), dtype=np.int64)
        missing = np.arange(len(noise))
        while missing.size:
            drawn, accepted = self._candidates(missing.size, rng)
            noise[missing[accepted]] = drawn[accepted]
            missing = missing[~accepted]
        return noise.reshape(shape)

    def mass(self, values: ArrayLike) -> Array:
        """P(z = value), elementwise."""
        return np.asarray(np.tanh(float(self.rate) / 2) * np.exp(-float(self.rate) * np.abs(values)))

    def tail(self, values: ArrayLike) -> Array:
        """P(z >= value), elementwise; exact to the last digits on both sides."""
        at, rate = np.asarray(values, dtype=np.float64), float(self.rate)
        share = 1 / (1 + math.exp(-rate))
        above, below = share * np.exp(-rate * np.maximum(at, 0)), share * np.exp(-rate * (1 - np.minimum(at, 1)))
        return np.asarray(np.where(at > 0, above, 1 - below))

    def _candidates(self, count: int, rng: np.random.Generator) -> tuple[Integers, NDArray[np.bool_]]:
        """Draws and which of them count: |z| from a geometric variable in steps of 1 / denominator, then a sign."""
        steps, per_unit = self.rate.denominator, self.rate.numerator
        fine = rng.integers(0, steps, size=count)
        kept = exponential_coins(fine, steps, rng)
        magnitude = (fine + steps * _unit_geometric(count, rng)) // per_unit
        negative = rng.integers(0, 2, size=count) == 1
        return np.where(negative, -magnitude, magnitude), kept & ~(negative & (magnitude == 0))


def exponential_coins(numerators: Integers, denominator: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Coins that show True with probability exp(-numerator / denominator), 0 <= numerator <= denominator: `[n]`.

    Round r = 1, 2, … goes on with probability numerator / (r denominator). The first round that does not go on is odd
    with probability exp(-numerator / denominator).
    """
    result = np.zeros(len(numerators), dtype=bool)
    going, turn = np.arange(len(numerators)), 1
    while going.size:
        on = rng.integers(0, turn * denominator, size=going.size) < numerators[going]
        result[going[~on]] = turn % 2 == 1
        going, turn = going[on], turn + 1
    return result


def _unit_geometric(count: int, rng: np.random.Generator) -> Integers:
    """How many coins of probability exp(-1) show True before one does not: `[count]`."""
    successes = np.zeros(count, dtype=np.int64)
    going = np.arange(count)
    while going.size:
        going = going[exponential_coins(np.ones(going.size, dtype=np.int64), 1, rng)]
        successes[going] += 1
    return successes

"""Coins of known probability, tossed exactly: in floats where they suffice, else by as many bits as it takes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.noise.categorical import Interval, Weights, exponential_weights, index_of
from pate.mechanisms.noise.enclosures import Bounds, exp_bounds
from pate.mechanisms.noise.lazy_bits_uniform import LazyUniforms

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]

_FEW_OPERATIONS = 2.0**-46  # far above the rounding error of a quotient, an exp, and of u itself
_LEAST_EXPONENT = -700.0  # numbers below the normal ones are slow


def toss(chances: Array, uniforms: LazyUniforms, exact: Callable[..., Callable[[int], Bounds]]) -> Bits:
    """Coins that show True with exactly these probabilities, elementwise.

    Args:
        chances: floats in [0, 1], off by at most 2**-47.
        uniforms: of the same shape.
        exact: of each place, its probability between fractions at most 2 * 10**-digits apart.
    """
    u = uniforms.approximate()
    shown = u < chances
    for place in np.argwhere(np.abs(u - chances) <= _FEW_OPERATIONS).tolist():
        shown[tuple(place)] = uniforms.at(*place).below(exact(*place))
    return np.asarray(shown)


def toss_exponential(numbers: NDArray[np.int64], scale: float, rng: np.random.Generator) -> Bits:
    """Coins of probability exp(-number / scale), elementwise, for whole numbers >= 0; always True for 0."""
    divisor = Fraction(scale)

    def exact(*place: int) -> Callable[[int], Bounds]:
        return partial(exp_bounds, -Fraction(int(numbers[place])) / divisor)

    with np.errstate(over="ignore"):
        chances = np.exp(np.maximum(-numbers / scale, _LEAST_EXPONENT))
    return np.asarray(toss(chances, LazyUniforms.draw(numbers.shape, rng), exact) | (numbers == 0))


def toss_rare_exponential(
    numbers: NDArray[np.int64], scale: float, most: float, rng: np.random.Generator, *, base: int = 0
) -> Bits:
    """The same for rows `[Q, n]`, of numbers less `base`, of which no coin is above `most`: one uniform number a row.

    Which coin of a row is the first to show True is one index by weight; those after it are tossed.
    """
    shown = np.zeros(numbers.shape, dtype=np.bool_)
    if numbers.shape[1] == 0:
        return shown
    uniforms = LazyUniforms.draw((len(numbers),), rng)  # u below 1 - P[none] says that one shows True
    for row in np.flatnonzero(uniforms.approximate() <= 2 * numbers.shape[1] * most + _FEW_OPERATIONS).tolist():
        first = index_of(uniforms.at(row), _first_weights(numbers[row] - base, scale))
        if first < numbers.shape[1]:
            shown[row, first] = True
            shown[row, first + 1 :] = toss_exponential(numbers[row, first + 1 :] - base, scale, rng)
    return shown


def _first_weights(numbers: NDArray[np.int64], scale: float) -> Weights:
    """The probabilities that each coin is the first to show True, then that none does."""
    single = exponential_weights([Fraction(number) / Fraction(scale) for number in numbers.tolist()])

    def weights(digits: int) -> list[Interval]:
        unit = 10**digits
        least = most = unit  # that none has shown True so far
        intervals = []
        for low, high in single(digits):
            intervals.append((least * low // unit, -(-most * high // unit)))
            least, most = least * max(unit - high, 0) // unit, -(-most * (unit - low) // unit)
        return [*intervals, (least, most)]

    return weights

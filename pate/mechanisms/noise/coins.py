"""Coins of known probability, tossed exactly: in floats where they suffice, else by as many bits as it takes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.noise.enclosures import Bounds, exp_bounds
from pate.mechanisms.noise.lazy_bits_uniform import LazyUniforms

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]

_FEW_OPERATIONS = 2.0**-46  # far above the rounding error of a quotient, an exp, and of u itself


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
        chances = np.exp(-numbers / scale)
    return np.asarray(toss(chances, LazyUniforms.draw(numbers.shape, rng), exact) | (numbers == 0))

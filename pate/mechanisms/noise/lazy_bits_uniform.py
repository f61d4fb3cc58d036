"""A uniform number in [0, 1) whose bits are drawn when a comparison needs them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Bounds = tuple[Fraction, Fraction]

_WORD = 64
_DIGITS_PER_BIT = 0.30103


class LazyBitsUniform:
    """A uniform number known to lie between two neighboring multiples of 2**-bits.

    Args:
        word: its first 64 bits.
        rng: where further bits come from.
    """

    def __init__(self, word: int, rng: np.random.Generator) -> None:
        self._numerator, self._bits, self._rng = word, _WORD, rng

    @property
    def digits(self) -> int:
        """Decimal digits at which the other side of a comparison is worth computing."""
        return int(self._bits * _DIGITS_PER_BIT) + 4

    def bounds(self) -> Bounds:
        """The interval that the bits so far leave open."""
        unit = 1 << self._bits
        return Fraction(self._numerator, unit), Fraction(self._numerator + 1, unit)

    def extend(self) -> None:
        """Draws 64 more bits."""
        self._numerator = (self._numerator << _WORD) | int(words(self._rng, (1,))[0])
        self._bits += _WORD

    def below(self, enclosure: Callable[[int], Bounds]) -> bool:
        """Whether it is below a number that `enclosure(digits)` bounds ever more closely."""
        while True:
            (low, high), (least, most) = self.bounds(), enclosure(self.digits)
            if high <= least:
                return True
            if low >= most:
                return False
            self.extend()


def words(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.uint64]:
    """Uniform words of 64 bits."""
    return rng.integers(0, 2**64, size=shape, dtype=np.uint64)

"""Uniform numbers whose bits are drawn when a comparison needs them (docs/proofs/floats.md, "Lazy uniform numbers")."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.noise.enclosures import Bounds, is_below
from pate.mechanisms.noise.secret_generator import HeldStream

_WORD = 64
_WORDS_OF_64_BITS = (
    np.random.PCG64,
    np.random.PCG64DXSM,
    np.random.Philox,
    np.random.SFC64,
    HeldStream,
)
_DIGITS_PER_BIT = 0.30103
Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Bits = NDArray[np.bool_]
Words = NDArray[np.uint64]


class LazyBitsUniform:
    """A uniform number on [0, 1) of which the first bits are drawn: numerator / 2**bits or up to one unit more.

    The next words come from `ready`, drawn ahead, and then from the generator.
    """

    def __init__(self, word: int, rng: np.random.Generator, ready: Sequence[int] = ()) -> None:
        self.numerator = word
        self.bits = _WORD
        self._rng = rng
        self._ready = list(ready)[::-1]

    @property
    def digits(self) -> int:
        """The number of decimal digits to which the other side of a comparison is worth computing."""
        return int(self.bits * _DIGITS_PER_BIT) + 4

    def bounds(self) -> Bounds:
        """Returns the interval that the bits so far leave open."""
        unit = 1 << self.bits
        return Fraction(self.numerator, unit), Fraction(self.numerator + 1, unit)

    def extend(self) -> None:
        """Draws 64 more bits."""
        word = self._ready.pop() if self._ready else int(words(self._rng, (1,))[0])
        self.numerator = (self.numerator << _WORD) | word
        self.bits += _WORD

    def below(self, enclosure: Callable[[int], Bounds]) -> bool:
        """Tells whether the number is below another one, of which `enclosure(digits)` returns bounds."""
        return is_below(self.bounds, lambda: enclosure(self.digits), self.extend)


class LazyUniforms:
    """An array of lazy uniform numbers.

    Attributes:
        first: the first word of 64 bits of each number, `[*shape]`. The next words come from `ready`, `[*shape, w]`,
            and then from the generator.
    """

    def __init__(self, first: Words, rng: np.random.Generator, ready: Words | None = None) -> None:
        self.first = first
        self._rng = rng
        self._ready = np.empty((*first.shape, 0), dtype=np.uint64) if ready is None else ready
        self._opened: dict[tuple[int, ...], LazyBitsUniform] = {}

    @classmethod
    def draw(cls, shape: tuple[int, ...], rng: np.random.Generator, *, ahead: int = 0) -> Self:
        """Draws numbers of a shape, with the next `ahead` words of each: so a part of them can be compared twice."""
        all_words = words(rng, (1 + ahead, *shape))
        return cls(all_words[0], rng, np.moveaxis(all_words[1:], 0, -1))

    def __getitem__(self, index: Any) -> Self:
        return type(self)(self.first[index], self._rng, self._ready[index])

    def approximate(self) -> Array:
        """Returns each number as a float in [2**-53, 1 - 2**-53], off by at most 2**-52."""
        # signed numbers become floats much faster
        centered = (self.first ^ np.uint64(1 << 63)).view(np.int64) >> 11
        floats = centered * 2.0**-53
        floats += 0.5 + 2.0**-54
        return np.asarray(
            np.minimum(np.maximum(floats, 2.0**-53, out=floats), 1 - 2.0**-53, out=floats)
        )

    def grid(self) -> Integers:
        """Returns each number times 2**53, rounded down."""
        return (self.first >> np.uint64(11)).view(np.int64)

    def on_grid(self) -> Array:
        """Returns the multiple of 2**-53 at or below each number.

        Such a multiple is below another multiple p with probability exactly p.
        """
        return np.asarray(self.grid() * 2.0**-53)

    def at(self, *index: int) -> LazyBitsUniform:
        """Returns the number at an index, the same object each time."""
        if index not in self._opened:
            self._opened[index] = LazyBitsUniform(
                int(self.first[index]), self._rng, self._ready[index].tolist()
            )
        return self._opened[index]


def words(rng: np.random.Generator, shape: tuple[int, ...]) -> Words:
    """Returns uniform words of 64 bits of a shape."""
    # raw words of these generators are uniform, and drawn in half the time
    if type(rng) is np.random.Generator and isinstance(rng.bit_generator, _WORDS_OF_64_BITS):
        return np.asarray(rng.bit_generator.random_raw(shape))
    return rng.integers(0, 2**64, size=shape, dtype=np.uint64)

"""Uniform random numbers whose bits are drawn one word of 64 bits at a time, when a comparison needs them.

The first word decides nearly all comparisons. Further words make every comparison exact, however close it is.
docs/proofs/floats.md, "Lazy uniform numbers".
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.enclosures import Bounds, is_below
from pate.mechanisms.noise.secret_generator import HeldStream

Words = NDArray[np.uint64]
# The number of bits of a word of a bit generator.
_BITS_PER_WORD = 64
# Bit generators whose raw words are uniform on all 64 bits.
_GENERATORS_OF_WORDS = (
    np.random.PCG64,
    np.random.PCG64DXSM,
    np.random.Philox,
    np.random.SFC64,
    HeldStream,
)
_DIGITS_PER_BIT = 0.30103  # log10(2)


class LazyUniform:
    """A uniform random number on [0, 1) of which only the first bits are drawn.

    The number lies in [numerator / 2**num_bits, (numerator + 1) / 2**num_bits].
    """

    def __init__(
        self, first_word: int, rng: np.random.Generator, reserved_words: Sequence[int] = ()
    ) -> None:
        """Stores the first 64 bits and the source of further bits.

        Args:
            first_word: the first 64 bits as a whole number.
            rng: draws further words.
            reserved_words: further words of 64 bits that were drawn in advance; they are used before `rng`.
        """
        self.numerator = first_word
        self.num_bits = _BITS_PER_WORD
        self._rng = rng
        self._reserved_words = list(reserved_words)

    @property
    def decimal_digits_to_compare(self) -> int:
        """The number of decimal digits to which another number is computed before it is compared with this number.

        These are the digits that the bits drawn so far determine, plus 4. So the bounds on the other number are
        narrower than the interval in which this number lies.
        """
        return int(self.num_bits * _DIGITS_PER_BIT) + 4

    def compute_bounds_so_far(self) -> Bounds:
        """Returns the ends of the interval in which the number lies, from the bits drawn so far."""
        denominator = 1 << self.num_bits
        return Fraction(self.numerator, denominator), Fraction(self.numerator + 1, denominator)

    def extend(self) -> None:
        """Draws 64 more bits."""
        self.numerator = (self.numerator << _BITS_PER_WORD) | self._next_word()
        self.num_bits += _BITS_PER_WORD

    def _next_word(self) -> int:
        """Returns the next reserved word, or a new word if none is left."""
        if self._reserved_words:
            return self._reserved_words.pop(0)
        return int(draw_words(self._rng, shape=(1,))[0])

    def below(self, enclose_number: Callable[[int], Bounds]) -> bool:
        """Returns whether this number is below a real number, exactly.

        Args:
            enclose_number: returns bounds on the real number, for a number of decimal digits.
        """

        def enclose_to_needed_digits() -> Bounds:
            return enclose_number(self.decimal_digits_to_compare)

        return is_below(
            self.compute_bounds_so_far,
            compute_second_bounds=enclose_to_needed_digits,
            refine_functions=[self.extend],
        )


class LazyUniforms:
    """An array of uniform random numbers on [0, 1), of each of which only the first bits are drawn.

    Attributes:
        first_words: the first 64 bits of each number as a whole number, `[*shape]`.
    """

    def __init__(
        self, first_words: Words, rng: np.random.Generator, reserved_words: Words | None = None
    ) -> None:
        """Stores the first 64 bits of each number and the source of further bits.

        Args:
            first_words: the first 64 bits of each number as a whole number, `[*shape]`.
            rng: draws further words.
            reserved_words: w further words of each number that were drawn in advance, `[*shape, w]`; they are used
                before `rng`. None for no such words.
        """
        self.first_words = first_words
        self._rng = rng
        self._reserved_words = (
            np.empty((*first_words.shape, 0), dtype=np.uint64)
            if reserved_words is None
            else reserved_words
        )
        self._uniform_of_index: dict[tuple[int, ...], LazyUniform] = {}

    @classmethod
    def draw(
        cls, shape: tuple[int, ...], rng: np.random.Generator, *, num_reserved_words: int = 0
    ) -> Self:
        """Draws an array of uniform numbers.

        Args:
            shape: the shape of the array.
            rng: draws the words.
            num_reserved_words: the number of words of 64 bits, beyond the first word, that are drawn for each number in
                advance. Every part of the array, such as `lazy_uniforms[rows]`, then extends a number by the same bits.
        """
        all_words = draw_words(rng, shape=(1 + num_reserved_words, *shape))
        return cls(
            first_words=all_words[0], rng=rng, reserved_words=np.moveaxis(all_words[1:], 0, -1)
        )

    def __getitem__(self, index: Any) -> Self:
        """Returns a part of the array, for an index as numpy takes it.

        The part draws the further bits of its numbers itself, apart from the array and from other parts. Two parts that
        share a number extend it by the same bits only as far as words were drawn in advance (`num_reserved_words` of
        `draw`). Beyond these words their bits differ, and no error is raised.
        """
        return type(self)(
            first_words=self.first_words[index],
            rng=self._rng,
            reserved_words=self._reserved_words[index],
        )

    def approximate(self) -> FloatArray:
        """Returns each number as a float in [2**-53, 1 - 2**-53], with an error of at most 2**-52."""
        # The first bit is flipped, so that signed numbers with the center 0 become floats, which is much faster.
        # The 11 last of the 64 bits are dropped, so that a float holds the rest exactly.
        centered_words = (self.first_words ^ np.uint64(1 << 63)).view(np.int64) >> 11
        floats = centered_words * 2.0**-53
        floats += 0.5 + 2.0**-54
        np.maximum(floats, 2.0**-53, out=floats)
        return np.asarray(np.minimum(floats, 1 - 2.0**-53, out=floats))

    def grid_index(self) -> IntArray:
        """Returns each number times 2**53, rounded down."""
        return (self.first_words >> np.uint64(11)).view(np.int64)

    def rounded_down(self) -> FloatArray:
        """Returns the multiple of 2**-53 at or below each number.

        Such a multiple is below another multiple p with probability exactly p.
        """
        return np.asarray(self.grid_index() * 2.0**-53)

    def entry(self, index: tuple[int, ...]) -> LazyUniform:
        """Returns the number at an index. Two calls with the same index return the same object."""
        if index not in self._uniform_of_index:
            self._uniform_of_index[index] = LazyUniform(
                first_word=int(self.first_words[index]),
                rng=self._rng,
                reserved_words=self._reserved_words[index].tolist(),
            )
        return self._uniform_of_index[index]


def draw_words(rng: np.random.Generator, shape: tuple[int, ...]) -> Words:
    """Draws an array of uniform whole numbers in 0..2**64 - 1."""
    # Raw words are drawn in half the time. A subclass of Generator may draw in another way, so the type is compared.
    if type(rng) is np.random.Generator and isinstance(rng.bit_generator, _GENERATORS_OF_WORDS):
        return np.asarray(rng.bit_generator.random_raw(shape))
    return rng.integers(0, 2**64, size=shape, dtype=np.uint64)

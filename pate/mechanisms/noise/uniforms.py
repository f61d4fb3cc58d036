"""Uniform numbers whose bits are drawn when a comparison needs them, and enclosures of what they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bounds = tuple[Fraction, Fraction]

_WORD = 64
_DIGITS_PER_BIT = 0.30103
_SPARE = 12  # digits beyond those asked for; they cover the rounding of up to 10**5 operations
_LOG_10 = Fraction(23026, 10_000)
_HALF = Fraction(1, 2)
Array = NDArray[np.float64]
Words = NDArray[np.uint64]


def exp_bounds(exponent: Fraction, digits: int) -> Bounds:
    """exp(exponent) for exponent <= 0, within 10**-digits."""
    context = _context(digits)
    value, slack = Fraction(context.exp(_decimal(exponent, context))), Fraction(1, 10**digits)
    return max(value - slack, Fraction(0)), value + slack


def log_bounds(number: Fraction, digits: int) -> Bounds:
    """log(number) for number > 0, within 10**-digits."""
    context = _context(digits + _length(number))
    value, slack = Fraction(context.ln(_decimal(number, context))), Fraction(1, 10**digits)
    return value - slack, value + slack


def normal_bounds(x: Fraction, digits: int) -> Bounds:
    """P[N(0, 1) <= x], within 10**-digits.

    P = 1/2 + phi(x) times the sum of x**(2 n + 1) / (1 3 5 … (2 n + 1)), whose terms have one sign.
    """
    if x > 0:
        low, high = normal_bounds(-x, digits)
        return 1 - high, 1 - low
    slack = Fraction(1, 10**digits)
    if x * x > 2 * _LOG_10 * digits + 2:  # P <= exp(-x**2 / 2) / 2
        return Fraction(0), slack
    context = _context(digits)
    t = _decimal(-x, context)
    square, term, total, odd = context.multiply(t, t), t, t, 1
    while 2 * square > odd or total < context.multiply(term, Decimal(10) ** (digits + 3)):
        odd += 2
        term = context.divide(context.multiply(term, square), Decimal(odd))
        total = context.add(total, term)
    exponent, circle = context.divide(square, Decimal(-2)), context.multiply(Decimal(2), _pi(context.prec))
    density = context.divide(context.exp(exponent), context.sqrt(circle))
    value = _HALF - Fraction(context.multiply(density, total))
    return max(value - slack, Fraction(0)), value + slack


def _context(digits: int) -> Context:
    return Context(prec=digits + _SPARE, Emin=-(10**9), Emax=10**9)


def _decimal(number: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(number.numerator), Decimal(number.denominator))


def _length(number: Fraction) -> int:
    """Digits before the point of a logarithm, about."""
    return len(str(max(number.numerator.bit_length(), number.denominator.bit_length())))


@lru_cache(maxsize=16)
def _pi(digits: int) -> Decimal:
    """Machin's formula, in whole numbers."""
    unit = 10 ** (digits + 10)
    scaled = 4 * (4 * _arctan_of_inverse(5, unit) - _arctan_of_inverse(239, unit))
    return Decimal(scaled).scaleb(-digits - 10, Context(prec=digits + 12))


def _arctan_of_inverse(x: int, unit: int) -> int:
    term = total = unit // x
    odd, sign = 1, 1
    while term:
        term //= x * x
        odd, sign = odd + 2, -sign
        total += sign * (term // odd)
    return total


class LazyBitsUniform:
    """A uniform number known to lie between two neighboring multiples of 2**-bits.

    Args:
        word: its first 64 bits.
        rng: where further bits come from.
        ready: words that come before those of the generator.
    """

    def __init__(self, word: int, rng: np.random.Generator, ready: Sequence[int] = ()) -> None:
        self._numerator, self.bits, self._rng = word, _WORD, rng
        self._ready = list(ready)[::-1]

    @property
    def digits(self) -> int:
        """Decimal digits at which the other side of a comparison is worth computing."""
        return int(self.bits * _DIGITS_PER_BIT) + 4

    @property
    def numerator(self) -> int:
        """Of the multiple of 2**-bits below it."""
        return self._numerator

    def bounds(self) -> Bounds:
        """The interval that the bits so far leave open."""
        unit = 1 << self.bits
        return Fraction(self._numerator, unit), Fraction(self._numerator + 1, unit)

    def extend(self) -> None:
        """Draws 64 more bits."""
        word = self._ready.pop() if self._ready else int(words(self._rng, (1,))[0])
        self._numerator = (self._numerator << _WORD) | word
        self.bits += _WORD

    def below(self, enclosure: Callable[[int], Bounds]) -> bool:
        """Whether it is below a number that `enclosure(digits)` bounds ever more closely."""
        while True:
            (low, high), (least, most) = self.bounds(), enclosure(self.digits)
            if high <= least:
                return True
            if low >= most:
                return False
            self.extend()


class LazyUniforms:
    """Many of them: 64 bits of each at once, and the rest of those that are asked for.

    Args:
        first: uint64 of any shape, the first word of each.
        rng: where further bits come from.
        ready: uint64 `[*shape, w]`: the next words of each, where a draw has to be repeatable from here on.
    """

    def __init__(self, first: Words, rng: np.random.Generator, ready: Words | None = None) -> None:
        self.first, self._rng, self._ready = first, rng, ready
        self._opened: dict[tuple[int, ...], LazyBitsUniform] = {}

    @classmethod
    def draw(cls, shape: tuple[int, ...], rng: np.random.Generator, *, ahead: int = 0) -> LazyUniforms:
        """Fresh ones, the next `ahead` words of each included: then a part of them can be drawn from again."""
        if ahead == 0:
            return cls(words(rng, shape), rng)
        drawn = words(rng, (1 + ahead, *shape))
        return cls(drawn[0], rng, np.moveaxis(drawn[1:], 0, -1))

    def approximate(self) -> Array:
        """Each as a float in [2**-53, 1 - 2**-53], off by at most 2**-52."""
        centered = (self.first ^ np.uint64(1 << 63)).view(np.int64) >> 11  # signed numbers become floats much faster
        floats = centered * 2.0**-53
        floats += 0.5 + 2.0**-54
        return np.asarray(np.clip(floats, 2.0**-53, 1 - 2.0**-53, out=floats))

    def on_grid(self) -> Array:
        """The multiple of 2**-53 at or below each: less than another multiple with exactly this probability."""
        return np.asarray((self.first >> np.uint64(11)) * 2.0**-53)

    def rows(self, rows: slice) -> LazyUniforms:
        """Those of some rows."""
        return LazyUniforms(self.first[rows], self._rng, None if self._ready is None else self._ready[rows])

    def column(self, place: int) -> LazyUniforms:
        """One of each row: `[Q]` of `[Q, n]`."""
        ready = None if self._ready is None else self._ready[:, place]
        return LazyUniforms(self.first[:, place], self._rng, ready)

    def at(self, *index: int) -> LazyBitsUniform:
        """One of them; the same object whenever it is asked for."""
        if index not in self._opened:
            ready: Any = () if self._ready is None else self._ready[index].tolist()
            self._opened[index] = LazyBitsUniform(int(self.first[index]), self._rng, ready)
        return self._opened[index]


def words(rng: np.random.Generator, shape: tuple[int, ...]) -> Words:
    """Uniform words of 64 bits."""
    return rng.integers(0, 2**64, size=shape, dtype=np.uint64)

"""Exact noise in whole numbers, so that rounding errors of floats reveal nothing about sums (docs/proofs/floats.md)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.mechanisms.noise.enclosures import Bounds, exp_bounds, is_below
from pate.mechanisms.noise.lazy_uniforms import LazyBitsUniform, LazyUniforms, Words, draw_words
from pate.mechanisms.noise.weighted_index import Interval, exponential_weights, index_of
from pate.mechanisms.parameters import COUNT, POSITIVE, Parameters
from pate.validation import require, require_generator, require_positive

LARGEST_STD = 2.0**44  # of a rounded Gaussian; beyond, too many draws would need more than 64 bits
LARGEST_VARIANCE = 2**24  # of a discrete Gaussian
_GRID = 2**32
_LARGEST_RATE = 2**16
_WORD_UNIT = 2.0**-64
_ROUNDED_MARGIN = 2.0**-40  # of a probability; the float error stays below 2**-50
_AT_ONCE = 2**17  # working copies stay small
_TABLE_UNIT = 2.0**48  # sums of weights in it fit 64 bits
_TABLE_STDS = 9.5  # numbers beyond are decided like those near an edge
_TABLE_MARGIN = 2.0**-43  # of a probability; rounded weights put an edge off by less than 2**-45
_DIGIT = 2.31  # above log(10)
# relative: far above the rounding error of a few operations
_UP = 1 + 2.0**-46
_DOWN = 1 - 2.0**-46


@dataclass(frozen=True)
class DiscreteLaplace:
    """Discrete Laplace noise: whole numbers z with a probability proportional to exp(-rate |z|).

    The rate is a multiple of 2**-32 in (0, 2**16].

    Formal guarantee: let a whole number move by at most s between neighboring data sets. Then the number plus z is
    (s rate)-DP, for any adjacency. Nothing is rounded, because the sampler computes with whole numbers alone.
    Source: Canonne, Kamath & Steinke 2020, Algorithms 1 and 2.

    >>> noise = DiscreteLaplace.at_most(0.5)
    >>> noise.sample((4,), np.random.default_rng(0)).tolist()
    [-1, 2, -2, 1]
    """

    rate: Fraction

    def __post_init__(self) -> None:
        proper = isinstance(self.rate, Fraction) and _GRID % self.rate.denominator == 0
        require(
            proper and 0 < self.rate <= _LARGEST_RATE,
            "rate",
            self.rate,
            "a multiple of 2**-32 in (0, 2**16]",
        )

    @classmethod
    def at_most(cls, rate: float | Fraction) -> Self:
        """Returns the noise whose rate is the largest multiple of 2**-32 that is at most `rate`."""
        require_positive("rate", float(rate))
        steps = math.floor(Fraction(rate) * _GRID)
        require(
            0 < steps <= _LARGEST_RATE * _GRID, "rate", float(rate), "a number in [2**-32, 2**16]"
        )
        return cls(Fraction(steps, _GRID))

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
        """Draws an array of independent discrete Laplace noise, exactly."""
        require_generator(rng)
        steps = self.rate.denominator
        per_unit = self.rate.numerator

        def draw_candidates(num_candidates: int) -> tuple[IntArray, BoolArray]:
            # |z| from a geometric variable in steps of 1 / denominator, then a sign; 0 counts with one sign alone
            numerators = rng.integers(0, steps, size=num_candidates)
            accepted = exponential_coins(numerators, denominator=steps, rng=rng)
            whole_part = np.zeros(num_candidates, dtype=np.int64)
            going = np.arange(num_candidates)
            # The whole part is the number of coins of probability exp(-1) that show True before one does not.
            while going.size:
                going = going[
                    exponential_coins(np.ones(going.size, dtype=np.int64), denominator=1, rng=rng)
                ]
                whole_part[going] += 1
            magnitude = (numerators + steps * whole_part) // per_unit
            negative = rng.integers(0, 2, size=num_candidates) == 1
            return np.where(negative, -magnitude, magnitude), accepted & ~(
                negative & (magnitude == 0)
            )

        return _draw_by_rejection(shape, draw_candidates=draw_candidates)

    def mass(self, values: ArrayLike) -> FloatArray:
        """Returns P(z = value) for each value."""
        # the weights exp(-r |z|) sum to (1 + exp(-r)) / (1 - exp(-r)) = 1 / tanh(r / 2)
        return np.asarray(
            np.tanh(float(self.rate) / 2) * np.exp(-float(self.rate) * np.abs(values))
        )

    def tail(self, values: ArrayLike) -> FloatArray:
        """Returns P(z >= value) for each value. Small probabilities are as accurate as those near 1."""
        at = np.asarray(values, dtype=np.float64)
        rate = float(self.rate)
        # for v > 0: tanh(r / 2) exp(-r v) / (1 - exp(-r)) = share exp(-r v)
        share = 1 / (1 + math.exp(-rate))
        above = share * np.exp(-rate * np.maximum(at, 0))
        below = share * np.exp(-rate * (1 - np.minimum(at, 1)))
        return np.asarray(np.where(at > 0, above, 1 - below))


def _draw_by_rejection(
    shape: tuple[int, ...], draw_candidates: Callable[[int], tuple[IntArray, BoolArray]]
) -> IntArray:
    """Draws an array of noise by rejection sampling.

    Args:
        shape: the shape of the array.
        draw_candidates: draws n candidates, for a number n, and returns their values `[n]` and bits `[n]`: True for a
            candidate that is accepted.
    """
    noise = np.empty(math.prod(shape), dtype=np.int64)
    missing = np.arange(len(noise))
    while missing.size:
        values, accepted = draw_candidates(missing.size)
        noise[missing[accepted]] = values[accepted]
        missing = missing[~accepted]
    return noise.reshape(shape)


def exponential_coins(
    numerators: IntArray, denominator: int, rng: np.random.Generator
) -> BoolArray:
    """Tosses n coins, which show True with probability exp(-numerator / denominator), exactly; returns bits `[n]`.

    Args:
        numerators: whole numbers in 0..denominator, `[n]`.
        denominator: a whole number >= 1.
        rng: draws the coins.
    """
    # Round r = 1, 2, … goes on with probability numerator / (r denominator). The first round that does not go on is odd
    # with probability exp(-numerator / denominator).
    result = np.zeros(len(numerators), dtype=bool)
    going = np.arange(len(numerators))
    turn = 1
    while going.size:
        on = rng.integers(0, turn * denominator, size=going.size) < numerators[going]
        result[going[~on]] = turn % 2 == 1
        going = going[on]
        turn = turn + 1
    return result


@dataclass(frozen=True)
class RoundedGaussian(Parameters):
    """Gaussian noise that is rounded to the nearest whole number, drawn exactly.

    Formal guarantee: a vector of whole numbers plus this noise has the distribution of the vector plus continuous
    Gaussian noise, rounded afterwards. By post-processing it costs at most as much as continuous Gaussian noise.
    Source: von Neumann 1951 for the comparison of lazily drawn bits, Karney 2016 for exact normal deviates;
    docs/proofs/centered_votes.md.

    >>> RoundedGaussian(10.0).sample((5,), np.random.default_rng(0)).tolist()
    [-6, 16, 1, -6, 13]
    """

    std: float = field(metadata=POSITIVE)  # in steps of the grid, in (0, 2**44]

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.std <= LARGEST_STD, "std", self.std, f"at most 2**44 = {LARGEST_STD:.0f}")

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
        """Draws an array of independent Gaussian noise, rounded to whole numbers, exactly."""
        require_generator(rng)

        def draw_candidates(num_candidates: int) -> tuple[IntArray, BoolArray]:
            uniform_words = draw_words(rng, shape=(4, num_candidates))
            magnitude, accepted = self._candidates(uniform_words, rng)
            return np.where((uniform_words[3] & np.uint64(1)) == 1, -magnitude, magnitude), accepted

        return _draw_by_rejection(shape, draw_candidates=draw_candidates)

    def _candidates(
        self, uniform_words: Words, rng: np.random.Generator
    ) -> tuple[IntArray, BoolArray]:
        """Returns n candidates of the rounded noise without its sign.

        Args:
            uniform_words: uniform words of 64 bits, `[4, n]`, of which the first three rows are used.
            rng: draws further bits for the few candidates that three words do not decide.

        Returns:
            The rounded |x| std of each candidate, `[n]`, and bits `[n]`: True for a candidate that is accepted.
        """
        # A candidate is x = m + u with P(m) proportional to exp(-m) and u uniform. It is kept with probability
        # exp(m - 1/2 - x**2 / 2), which makes x the absolute value of a standard normal number. Every comparison is
        # decided from an enclosure of both sides; where 64 bits do not decide it, more bits are drawn and `decimal`
        # computes more digits.
        whole_part, sure = _geometric_words(uniform_words[0])
        fraction = uniform_words[1] * _WORD_UNIT
        coin = uniform_words[2] * _WORD_UNIT
        chance = np.exp(-0.5 * (whole_part - 1.0) ** 2 - fraction * whole_part - 0.5 * fraction**2)
        accepted = coin < chance
        sure &= np.abs(coin - chance) > _ROUNDED_MARGIN
        place = self.std * (whole_part + fraction) + 0.5
        magnitude = np.floor(place)
        distance = np.minimum(place - magnitude, magnitude + 1 - place)
        open_bits = self.std * _WORD_UNIT  # what the fraction's further bits can add
        sure &= ~accepted | (distance > 2.0**-48 * place + 2.0**-48 + 2 * open_bits)
        values = magnitude.astype(np.int64)
        for index in np.flatnonzero(~sure).tolist():
            values[index], accepted[index] = self._exactly(
                [int(word) for word in uniform_words[:3, index]], rng
            )
        return values, accepted

    def _exactly(self, first_words: list[int], rng: np.random.Generator) -> tuple[int, bool]:
        """Returns the rounded value of one candidate and whether it is accepted, decided without rounding errors.

        Args:
            first_words: the first three words of the candidate, as in `_candidates`.
            rng: draws further bits.
        """
        for_whole, fraction, coin = (LazyBitsUniform(word, rng) for word in first_words)
        whole_part = 0
        while for_whole.below(partial(exp_bounds, Fraction(-whole_part - 1))):
            whole_part += 1

        def chance() -> Bounds:
            low, high = (
                (whole_part + part) ** 2 / 2 + Fraction(1, 2) - whole_part
                for part in fraction.bounds()
            )
            return exp_bounds(-high, fraction.digits)[0], exp_bounds(-low, fraction.digits)[1]

        if not is_below(coin.bounds, chance, refinements=[fraction.extend, coin.extend]):
            return 0, False
        while True:
            near, far = (
                math.floor(Fraction(self.std) * (whole_part + part) + Fraction(1, 2))
                for part in fraction.bounds()
            )
            if near == far:
                return near, True
            fraction.extend()


def _geometric_words(uniform_words: Words) -> tuple[FloatArray, BoolArray]:
    """Returns geometric numbers m with P(m >= j) = exp(-j), one for each uniform word of 64 bits.

    Also returns bits: True for a number that the 64 bits of its word decide.
    """
    descending = _EXP_TABLE[::-1]
    # The number of entries that are at most the word.
    num_below = np.searchsorted(descending, uniform_words, side="right")
    decided = (num_below == 0) | (descending[np.maximum(num_below - 1, 0)] != uniform_words)
    return (len(descending) - num_below).astype(np.float64), decided & (uniform_words > 0)


_EXP_TABLE = np.array(
    [math.floor(exp_bounds(-Fraction(j), digits=40)[0] * 2**64) for j in range(1, 45)],
    dtype=np.uint64,
)
"""floor(exp(-j) 2**64), j = 1, 2, …: a uniform number whose first 64 bits are smaller is below exp(-j)."""


@dataclass(frozen=True)
class DiscreteGaussian(Parameters):
    """Discrete Gaussian noise: whole numbers z with a probability proportional to exp(-z**2 / (2 variance)).

    Draws are exact.

    Formal guarantee: let a vector of whole numbers move by at most s in l2 norm between neighboring data sets. The
    vector with independent noise on every entry costs s**2 / (2 variance) zCDP.
    Source: Canonne, Kamath & Steinke 2020; docs/proofs/distributed_noise.md.

    >>> DiscreteGaussian(100).sample((5,), np.random.default_rng(0)).tolist()
    [-9, -3, 1, 0, -13]
    """

    # in the exponent, a whole number in 1..2**24; the variance of the noise is at most this
    variance: int = field(metadata=COUNT)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.variance <= LARGEST_VARIANCE,
            "variance",
            self.variance,
            f"at most 2**24 = {LARGEST_VARIANCE}",
        )

    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
        """Draws an array of independent discrete Gaussian noise, exactly."""
        require_generator(rng)
        noise = np.empty(math.prod(shape), dtype=np.int64)
        for start in range(0, len(noise), _AT_ONCE):
            block = noise[start : start + _AT_ONCE]
            block[:] = self._drawn(LazyUniforms.draw(shape=block.shape, rng=rng))
        return noise.reshape(shape)

    def mass(self, values: ArrayLike) -> FloatArray:
        """Returns P(z = value) for each value."""
        total = 2 * math.fsum(_weights(self.variance, num_stds=40.0)) - 1
        return np.asarray(
            np.exp(-np.square(np.asarray(values, dtype=np.float64)) / (2 * self.variance)) / total
        )

    def _drawn(self, uniforms: LazyUniforms) -> IntArray:
        """Returns the noise for each uniform number u.

        The noise is the first of 0, 1, -1, 2, -2, … at which the cumulated weight exceeds u times the total weight.
        """

        # the weights of 0, 1, -1, …, and last that of all numbers beyond, less than 10**-digits
        def weights(digits: int) -> Sequence[Interval]:
            reach = (
                math.isqrt(
                    math.ceil(2 * self.variance * _DIGIT * (digits + len(str(2 * self.variance))))
                )
                + 1
            )
            exponents = [Fraction(z * z, 2 * self.variance) for z in range(reach + 1)]
            ones = exponential_weights(exponents)(digits)
            return [ones[0], *(interval for interval in ones[1:] for _ in range(2)), (0, 1)]

        edges = _edges(self.variance)
        u = uniforms.approximate()
        places = np.searchsorted(edges, u, side="right") - 1
        above = edges[np.minimum(places + 1, len(edges) - 1)]
        for index in np.flatnonzero(
            (u - edges[places] <= _TABLE_MARGIN) | (above - u <= _TABLE_MARGIN)
        ).tolist():
            places[index] = index_of(uniforms.entry((index,)), weights=weights)
        return np.where(places % 2 == 1, 1, -1) * ((places + 1) // 2)


def _weights(variance: int, num_stds: float) -> FloatArray:
    """Returns the weight exp(-z**2 / (2 variance)) of z = 0, 1, 2, … up to `num_stds` deviations, as floats."""
    return np.asarray(
        np.exp(-(np.arange(math.ceil(num_stds * math.sqrt(variance)) + 2.0) ** 2) / (2 * variance))
    )


@lru_cache(maxsize=8)
def _edges(variance: int) -> FloatArray:
    """Returns -1, and then the cumulated weight of 0, 1, -1, 2, -2, …, divided by the total weight."""
    weights = np.rint(_weights(variance, num_stds=_TABLE_STDS) * _TABLE_UNIT).astype(np.int64)
    sums = np.cumsum(np.concatenate([weights[:1], np.repeat(weights[1:], 2)]))
    return np.concatenate([[-1.0], sums / sums[-1]])

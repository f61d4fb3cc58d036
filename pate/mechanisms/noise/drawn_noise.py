"""Arrays of drawn noise: floats with a bound on their error, and exact values for comparisons that need them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Self

import numpy as np

from pate.mechanisms.noise.enclosures import (
    Bounds,
    Limits,
    exp_bounds,
    log_bounds,
)
from pate.mechanisms.noise.kinds import KINDS
from pate.mechanisms.noise.lazy_uniforms import Array, Integers, LazyBitsUniform, LazyUniforms

_SMALL = -34.0  # below this, log(1 - exp(-q)) is log q to the last digit
# over the smaller of u and 1 - u; u is off by 2**-52, the derivative at most 2 / m
_ERROR_OF_UNIFORM = 2.0**-49
_TOO_FAR_OUT = 2.0**-46
_ERROR_OF_LOG = 2.0**-46


@dataclass(frozen=True)
class Number:
    """A random real number that is known as an interval, which becomes narrower as further random bits are drawn."""

    bounds: Callable[[], Limits]  # returns the interval, whose ends may be infinite
    more: Sequence[
        Callable[[], None]
    ]  # functions that draw further bits of the uniform numbers behind this number


def number_of(uniform: LazyBitsUniform, within: Callable[[Fraction, int], Bounds]) -> Number:
    """Returns the value of an increasing function at a uniform number.

    Args:
        uniform: the uniform number.
        within: returns fractions below and above the function at a fraction, for a number of decimal digits.
    """

    def bounds() -> Limits:
        low, high = uniform.bounds()
        least = within(low, uniform.digits)[0] if low > 0 else -math.inf
        return least, within(high, uniform.digits)[1] if high < 1 else math.inf

    return Number(bounds, more=(uniform.extend,))


def _combined(numbers: Sequence[Number], join: Callable[[list[Limits]], Limits]) -> Number:
    """Returns a function of several numbers, where `join` returns its interval for their intervals."""
    more = [extend for number in numbers for extend in number.more]
    return Number(lambda: join([number.bounds() for number in numbers]), more)


def weighted_sum(constant: Fraction, terms: Sequence[tuple[Fraction | int, Number]]) -> Number:
    """Returns a constant plus the sum of factor * number over all terms.

    Args:
        constant: the constant.
        terms: pairs (factor, number); no factor is 0.
    """

    def join(bounds: list[Limits]) -> Limits:
        ends = [
            sorted(factor * end for end in pair)
            for (factor, _), pair in zip(terms, bounds, strict=True)
        ]
        return sum((low for low, _ in ends), constant), sum((high for _, high in ends), constant)

    return _combined([number for _, number in terms], join)


@dataclass(frozen=True)
class DrawnNoise:
    """An array of noise that was drawn, as floats and as exact numbers."""

    values: Array  # [Q, n], the noise as floats
    error: float  # a bound on the error of every float; may be infinite
    exact: Callable[[int, int], Number]  # returns the exact noise at a row and a column

    def summed(self) -> Self:
        """Returns the sum of each row, `[Q, 1]`; all values must be >= 0."""
        count = self.values.shape[1]
        exact = self.exact
        sums = self.values.sum(axis=1, keepdims=True)
        error = count * (self.error + 2 * _ERROR_OF_LOG * (1 + float(self.values.max())))
        return type(self)(
            sums,
            error,
            lambda row, _: weighted_sum(
                Fraction(0), terms=[(1, exact(row, place)) for place in range(count)]
            ),
        )

    def times(self, factor: Self) -> Self:
        """Returns each value times the factor of its row, `[Q, n]`, for factors `[Q, 1]`."""
        largest, other = (float(np.abs(noise.values).max()) for noise in (self, factor))
        error = (
            self.error * (other + factor.error)
            + factor.error * largest
            + _ERROR_OF_LOG * (largest * other)
        )

        def product(bounds: list[Limits]) -> Limits:
            if any(isinstance(end, float) for pair in bounds for end in pair):  # infinite
                return -math.inf, math.inf
            products = [a * b for a in bounds[0] for b in bounds[1]]
            return min(products), max(products)

        def exact(row: int, place: int) -> Number:
            return _combined([self.exact(row, place), factor.exact(row, 0)], join=product)

        return type(self)(self.values * factor.values, error, exact)

    def with_last(self, other: Self, last: Integers) -> Self:
        """Returns the noise in which one value of each row is replaced.

        Args:
            other: the new values, `[Q, 1]`.
            last: the column whose value is replaced in each row, `[Q]`.
        """
        values = self.values.copy()
        np.put_along_axis(values, last[:, None], other.values, axis=1)

        def exact(row: int, place: int) -> Number:
            return other.exact(row, 0) if place == last[row] else self.exact(row, place)

        return type(self)(values, max(self.error, other.error), exact)


def draw_noise(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> DrawnNoise:
    """Draws independent noise of scale 1.

    Args:
        kind: the kind of noise, a name of `KINDS`.
        shape: `[Q, n]` or `[Q, 1]`.
        rng: draws one uniform number for each value.
    """
    of_kind = KINDS[kind]
    uniforms = LazyUniforms.draw(shape, rng)

    def exact(row: int, place: int) -> Number:
        return number_of(uniforms.at(row, place if shape[1] > 1 else 0), of_kind.within)

    u = uniforms.approximate()
    return DrawnNoise(values=of_kind.quantile(u), error=_quantile_error(u), exact=exact)


def draw_largest(
    kind: str,
    log_sizes: Array,
    size: Callable[..., int],
    rng: np.random.Generator,
    error: float = 0.0,
) -> DrawnNoise:
    """Draws an array of which each entry is the largest of N independent noises of scale 1. N may exceed all floats.

    Args:
        kind: the kind of noise, a name of `KINDS`.
        log_sizes: log N for each entry, `[Q, n]`.
        size: returns the exact N at a row and a column.
        rng: draws one uniform number for each entry.
        error: a bound on the error of `log_sizes`.
    """
    uniforms = LazyUniforms.draw(log_sizes.shape, rng)
    u = uniforms.approximate()
    log_q = np.log(-np.log(u)) - log_sizes
    with np.errstate(divide="ignore", over="ignore"):
        log_above = np.where(log_q < _SMALL, log_q, np.log(-np.expm1(-np.exp(log_q))))
        values = KINDS[kind].quantile_of_log(log_q, log_above)
    of_logs = error + _ERROR_OF_LOG * (1 + float(np.abs(log_sizes).max()))
    of_values = (_quantile_error(u) + of_logs) * (1 + float(np.abs(values).max()))

    def within(number: int, u: Fraction, digits: int) -> Bounds:
        # all `number` values lie below the quantile of u**(1 / number) with probability u
        if number > 1:
            spare = (
                digits + 4 + sum(len(str(int(inverse))) for inverse in (number, 1 / u, 1 / (1 - u)))
            )
            low, high = (
                exp_bounds(log / number, digits=spare) for log in log_bounds(u, digits=spare)
            )
            return KINDS[kind].within(low[0], digits)[0], KINDS[kind].within(high[1], digits)[1]
        return KINDS[kind].within(u, digits)

    return DrawnNoise(
        values,
        error=of_values,
        exact=lambda *place: number_of(uniforms.at(*place), within=partial(within, size(*place))),
    )


def _quantile_error(u: Array) -> float:
    """Returns a bound on the error of quantiles at floats u, infinite if some u is too close to 0 or 1."""
    near = min(float(u.min()), 1 - float(u.max()))
    return math.inf if near < _TOO_FAR_OUT else _ERROR_OF_UNIFORM / near

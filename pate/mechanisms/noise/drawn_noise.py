"""Arrays of drawn noise: floats with a bound on their error, and exact values for comparisons that need them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Self

import numpy as np

from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.enclosures import Bounds, Limits, exp_bounds, log_bounds
from pate.mechanisms.noise.kinds import KINDS
from pate.mechanisms.noise.lazy_uniforms import LazyBitsUniform, LazyUniforms

_SMALL = -34.0  # below this, log(1 - exp(-q)) is log q to the last digit
# over the smaller of u and 1 - u; u is off by 2**-52, the derivative at most 2 / m
_ERROR_OF_UNIFORM = 2.0**-49
_TOO_FAR_OUT = 2.0**-46
_ERROR_OF_LOG = 2.0**-46


@dataclass(frozen=True)
class Number:
    """A random real number that is known as an interval, which becomes narrower as further random bits are drawn."""

    bounds: Callable[[], Limits]  # returns the interval, whose ends may be infinite
    # functions that draw further bits of the uniform numbers behind this number
    refinements: Sequence[Callable[[], None]]


def number_of(
    uniform: LazyBitsUniform, quantile_bounds: Callable[[Fraction, int], Bounds]
) -> Number:
    """Returns the value of an increasing function at a uniform number.

    Args:
        uniform: the uniform number.
        quantile_bounds: returns fractions below and above the function at a fraction, for a number of decimal digits.
    """

    def bounds() -> Limits:
        low, high = uniform.bounds()
        least = quantile_bounds(low, uniform.digits)[0] if low > 0 else -math.inf
        return least, quantile_bounds(high, uniform.digits)[1] if high < 1 else math.inf

    return Number(bounds=bounds, refinements=(uniform.extend,))


def _combined(
    numbers: Sequence[Number], combine_bounds: Callable[[list[Limits]], Limits]
) -> Number:
    """Returns the value of a function of several numbers.

    Args:
        numbers: the numbers.
        combine_bounds: returns an interval that contains the value, for the intervals of all numbers.
    """

    def bounds() -> Limits:
        return combine_bounds([number.bounds() for number in numbers])

    refinements = [refine for number in numbers for refine in number.refinements]
    return Number(bounds=bounds, refinements=refinements)


def weighted_sum(
    constant: Fraction, weighted_numbers: Sequence[tuple[Fraction | int, Number]]
) -> Number:
    """Returns the random number constant + sum of factor * number, over all pairs (factor, number).

    Args:
        constant: the constant.
        weighted_numbers: pairs (factor, number); no factor is 0.
    """

    def sum_bounds(bounds: list[Limits]) -> Limits:
        ends = [
            sorted(factor * end for end in pair)
            for (factor, _), pair in zip(weighted_numbers, bounds, strict=True)
        ]
        return sum((low for low, _ in ends), constant), sum((high for _, high in ends), constant)

    return _combined([number for _, number in weighted_numbers], combine_bounds=sum_bounds)


@dataclass(frozen=True)
class DrawnNoise:
    """An array of noise that was drawn, as floats and as exact numbers."""

    values: FloatArray  # [Q, n], the noise as floats
    rounding_error: float  # a bound on the error of every float; may be infinite
    exact: Callable[[int, int], Number]  # returns the exact noise at a row and a column

    def summed(self) -> Self:
        """Returns the sum of each row, `[Q, 1]`; all values must be >= 0."""
        num_columns = self.values.shape[1]
        exact = self.exact
        sums = self.values.sum(axis=1, keepdims=True)
        rounding_error = num_columns * (
            self.rounding_error + 2 * _ERROR_OF_LOG * (1 + float(self.values.max()))
        )

        def exact_sum(row: int, _: int) -> Number:
            summands = [(1, exact(row, column)) for column in range(num_columns)]
            return weighted_sum(constant=Fraction(0), weighted_numbers=summands)

        return type(self)(values=sums, rounding_error=rounding_error, exact=exact_sum)

    def times(self, row_factors: Self) -> Self:
        """Returns each value times the factor of its row, `[Q, n]`, for `row_factors` `[Q, 1]`."""
        largest, largest_factor = (
            float(np.abs(noise.values).max()) for noise in (self, row_factors)
        )
        rounding_error = (
            self.rounding_error * (largest_factor + row_factors.rounding_error)
            + row_factors.rounding_error * largest
            + _ERROR_OF_LOG * (largest * largest_factor)
        )

        def product(bounds: list[Limits]) -> Limits:
            if any(isinstance(end, float) for pair in bounds for end in pair):  # infinite
                return -math.inf, math.inf
            products = [a * b for a in bounds[0] for b in bounds[1]]
            return min(products), max(products)

        def exact(row: int, column: int) -> Number:
            return _combined(
                [self.exact(row, column), row_factors.exact(row, 0)], combine_bounds=product
            )

        return type(self)(
            values=self.values * row_factors.values, rounding_error=rounding_error, exact=exact
        )

    def with_replaced_columns(self, new_noise: Self, columns: IntArray) -> Self:
        """Returns the noise in which one value of each row is replaced.

        Args:
            new_noise: the new values, `[Q, 1]`.
            columns: the column whose value is replaced in each row, `[Q]`.
        """
        values = self.values.copy()
        np.put_along_axis(values, columns[:, None], new_noise.values, axis=1)

        def exact(row: int, column: int) -> Number:
            return new_noise.exact(row, 0) if column == columns[row] else self.exact(row, column)

        return type(self)(
            values=values,
            rounding_error=max(self.rounding_error, new_noise.rounding_error),
            exact=exact,
        )


def draw_noise(noise_kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> DrawnNoise:
    """Draws independent noise of scale 1.

    Args:
        noise_kind: the kind of noise, a name of `KINDS`.
        shape: `[Q, n]` or `[Q, 1]`.
        rng: draws one uniform number for each value.
    """
    of_kind = KINDS[noise_kind]
    uniforms = LazyUniforms.draw(shape=shape, rng=rng)

    def exact(row: int, column: int) -> Number:
        index = (row, column if shape[1] > 1 else 0)
        return number_of(uniforms.entry(index), quantile_bounds=of_kind.quantile_bounds)

    u = uniforms.approximate()
    return DrawnNoise(values=of_kind.quantile(u), rounding_error=_quantile_error(u), exact=exact)


def draw_largest(
    noise_kind: str,
    log_num_noises: FloatArray,
    exact_num_noises: Callable[[int, int], int],
    rng: np.random.Generator,
    log_rounding_error: float = 0.0,
) -> DrawnNoise:
    """Draws an array of which each entry is the largest of N independent noises of scale 1. N may exceed all floats.

    Args:
        noise_kind: the kind of noise, a name of `KINDS`.
        log_num_noises: log N for each entry, `[Q, n]`.
        exact_num_noises: returns the exact N at a row and a column.
        rng: draws one uniform number for each entry.
        log_rounding_error: a bound on the error of `log_num_noises`.
    """
    uniforms = LazyUniforms.draw(shape=log_num_noises.shape, rng=rng)
    u = uniforms.approximate()
    log_q = np.log(-np.log(u)) - log_num_noises
    with np.errstate(divide="ignore", over="ignore"):
        log_above = np.where(log_q < _SMALL, log_q, np.log(-np.expm1(-np.exp(log_q))))
        values = KINDS[noise_kind].quantile_of_log(log_q, log_above)
    of_logs = log_rounding_error + _ERROR_OF_LOG * (1 + float(np.abs(log_num_noises).max()))
    of_values = (_quantile_error(u) + of_logs) * (1 + float(np.abs(values).max()))

    quantile_bounds = KINDS[noise_kind].quantile_bounds

    def largest_quantile_bounds(num_noises: int, u: Fraction, digits: int) -> Bounds:
        # all noises lie below the quantile of u**(1 / num_noises) with probability u
        if num_noises > 1:
            spare = (
                digits
                + 4
                + sum(len(str(int(inverse))) for inverse in (num_noises, 1 / u, 1 / (1 - u)))
            )
            low, high = (
                exp_bounds(log / num_noises, digits=spare) for log in log_bounds(u, digits=spare)
            )
            return quantile_bounds(low[0], digits)[0], quantile_bounds(high[1], digits)[1]
        return quantile_bounds(u, digits)

    def exact(row: int, column: int) -> Number:
        num_noises = exact_num_noises(row, column)
        return number_of(
            uniforms.entry((row, column)),
            quantile_bounds=partial(largest_quantile_bounds, num_noises),
        )

    return DrawnNoise(values=values, rounding_error=of_values, exact=exact)


def _quantile_error(u: FloatArray) -> float:
    """Returns a bound on the error of quantiles at floats u, infinite if some u is too close to 0 or 1."""
    near = min(float(u.min()), 1 - float(u.max()))
    return math.inf if near < _TOO_FAR_OUT else _ERROR_OF_UNIFORM / near

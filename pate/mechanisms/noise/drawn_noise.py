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
from pate.mechanisms.noise.lazy_uniforms import LazyUniform, LazyUniforms

# With log q below this, log(1 - exp(-q)) is log q to the last digit.
_SMALL_LOG = -34.0
# A quantile at u is off by at most this over the smaller of u and 1 - u, because u is off by 2**-52 and the derivative
# is at most 2 / min(u, 1 - u).
_ERROR_OF_UNIFORM = 2.0**-49
# Floats decide nothing about an array in which some u or 1 - u is smaller than this.
_SMALLEST_TAIL = 2.0**-46
# The relative error of a few operations, of which one is a logarithm.
_ERROR_OF_LOG = 2.0**-46
_ONLY_COLUMN = 0  # of an array `[Q, 1]`


@dataclass(frozen=True)
class Number:
    """A random real number that is known as an interval, which becomes narrower as further random bits are drawn.

    Attributes:
        compute_bounds_so_far: returns the interval, whose ends may be infinite.
        refine_functions: functions that draw further bits of the uniform numbers behind this number.
    """

    compute_bounds_so_far: Callable[[], Limits]
    refine_functions: Sequence[Callable[[], None]]


def number_of(
    lazy_uniform: LazyUniform, enclose_quantile: Callable[[Fraction, int], Bounds]
) -> Number:
    """Returns the value of an increasing function at a uniform number, which further bits of that number narrow.

    Args:
        lazy_uniform: the uniform number.
        enclose_quantile: returns fractions below and above the function at a fraction, for a number of decimal digits.
    """

    def compute_bounds_so_far() -> Limits:
        low_end, high_end = lazy_uniform.compute_bounds_so_far()
        decimal_digits = lazy_uniform.decimal_digits_to_compare
        lower = enclose_quantile(low_end, decimal_digits)[0] if low_end > 0 else -math.inf
        upper = enclose_quantile(high_end, decimal_digits)[1] if high_end < 1 else math.inf
        return lower, upper

    return Number(
        compute_bounds_so_far=compute_bounds_so_far, refine_functions=(lazy_uniform.extend,)
    )


def weighted_sum(
    constant: Fraction, weighted_numbers: Sequence[tuple[Fraction | int, Number]]
) -> Number:
    """Returns the random number constant + sum of factor * number, over all pairs (factor, number).

    Args:
        constant: the constant.
        weighted_numbers: pairs (factor, number); no factor is 0.
    """

    def enclose_sum(intervals: list[Limits]) -> Limits:
        product_intervals = [
            sorted(factor * end for end in interval)
            for (factor, _), interval in zip(weighted_numbers, intervals, strict=True)
        ]
        lower = sum((low for low, _ in product_intervals), constant)
        upper = sum((high for _, high in product_intervals), constant)
        return lower, upper

    return _function_of_numbers(
        [number for _, number in weighted_numbers], combine_bounds=enclose_sum
    )


def _function_of_numbers(
    numbers: Sequence[Number], combine_bounds: Callable[[list[Limits]], Limits]
) -> Number:
    """Returns the value of a function of several numbers.

    Args:
        numbers: the numbers.
        combine_bounds: returns an interval that contains the value, for the intervals of all numbers.
    """

    def compute_bounds_so_far() -> Limits:
        return combine_bounds([number.compute_bounds_so_far() for number in numbers])

    refine_functions = [refine for number in numbers for refine in number.refine_functions]
    return Number(compute_bounds_so_far=compute_bounds_so_far, refine_functions=refine_functions)


@dataclass(frozen=True)
class DrawnNoise:
    """An array of noise that was drawn, as floats and as exact numbers.

    Attributes:
        values: the noise as floats, `[Q, n]`.
        rounding_error: a bound on the error of every float; may be infinite.
        make_number: returns the exact noise at a row and a column.
    """

    values: FloatArray
    rounding_error: float
    make_number: Callable[[int, int], Number]

    def summed(self) -> Self:
        """Returns the sum of each row, `[Q, 1]`; all values must be >= 0."""
        num_columns = self.values.shape[1]
        make_number = self.make_number
        row_sums = self.values.sum(axis=1, keepdims=True)
        rounding_error = num_columns * (
            self.rounding_error + 2 * _ERROR_OF_LOG * (1 + float(self.values.max()))
        )

        def make_exact_sum(row: int, _: int) -> Number:
            summands = [(1, make_number(row, column)) for column in range(num_columns)]
            return weighted_sum(constant=Fraction(0), weighted_numbers=summands)

        return type(self)(
            values=row_sums, rounding_error=rounding_error, make_number=make_exact_sum
        )

    def times(self, row_factors: Self) -> Self:
        """Returns each value times the factor of its row, `[Q, n]`, for `row_factors` `[Q, 1]`."""
        largest_noise = float(np.abs(self.values).max())
        largest_factor = float(np.abs(row_factors.values).max())
        rounding_error = (
            self.rounding_error * (largest_factor + row_factors.rounding_error)
            + row_factors.rounding_error * largest_noise
            + _ERROR_OF_LOG * (largest_noise * largest_factor)
        )

        def enclose_product(intervals: list[Limits]) -> Limits:
            is_infinite = any(isinstance(end, float) for interval in intervals for end in interval)
            if is_infinite:
                return -math.inf, math.inf
            products = [first * second for first in intervals[0] for second in intervals[1]]
            return min(products), max(products)

        def make_number(row: int, column: int) -> Number:
            factors = [self.make_number(row, column), row_factors.make_number(row, _ONLY_COLUMN)]
            return _function_of_numbers(factors, combine_bounds=enclose_product)

        return type(self)(
            values=self.values * row_factors.values,
            rounding_error=rounding_error,
            make_number=make_number,
        )

    def with_replaced_columns(self, new_noise: Self, column_of_row: IntArray) -> Self:
        """Returns the noise in which one value of each row is replaced.

        Args:
            new_noise: the new values, `[Q, 1]`.
            column_of_row: the column whose value is replaced in each row, `[Q]`.
        """
        noise_with_replacements = self.values.copy()
        np.put_along_axis(noise_with_replacements, column_of_row[:, None], new_noise.values, axis=1)

        def make_number(row: int, column: int) -> Number:
            return (
                new_noise.make_number(row, _ONLY_COLUMN)
                if column == column_of_row[row]
                else self.make_number(row, column)
            )

        return type(self)(
            values=noise_with_replacements,
            rounding_error=max(self.rounding_error, new_noise.rounding_error),
            make_number=make_number,
        )


def draw_noise(noise_kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> DrawnNoise:
    """Draws independent noise of scale 1.

    Args:
        noise_kind: the kind of noise, a name of `KINDS` in `kinds.py`, such as "gumbel" or "gaussian".
        shape: `[Q, n]` or `[Q, 1]`.
        rng: draws one uniform number for each value.
    """
    continuous_noise = KINDS[noise_kind]
    lazy_uniforms = LazyUniforms.draw(shape=shape, rng=rng)

    def make_number(row: int, column: int) -> Number:
        # An array `[Q, 1]` has one value for all columns of a row.
        entry_index = (row, column if shape[1] > 1 else 0)
        return number_of(
            lazy_uniforms.entry(entry_index), enclose_quantile=continuous_noise.enclose_quantile
        )

    u = lazy_uniforms.approximate()
    return DrawnNoise(
        values=continuous_noise.quantile(u),
        rounding_error=_quantile_error(u),
        make_number=make_number,
    )


def draw_largest(
    noise_kind: str,
    log_num_noises: FloatArray,
    count_noises: Callable[[int, int], int],
    rng: np.random.Generator,
    log_rounding_error: float = 0.0,
) -> DrawnNoise:
    """Draws an array of which each entry is the largest of N independent noises of scale 1. N may exceed all floats.

    Args:
        noise_kind: the kind of noise, a name of `KINDS` in `kinds.py`, such as "gumbel" or "gaussian".
        log_num_noises: log N for each entry, `[Q, n]`.
        count_noises: returns the exact N at a row and a column.
        rng: draws one uniform number for each entry.
        log_rounding_error: a bound on the error of `log_num_noises`.
    """
    continuous_noise = KINDS[noise_kind]
    lazy_uniforms = LazyUniforms.draw(shape=log_num_noises.shape, rng=rng)
    u = lazy_uniforms.approximate()
    # The largest of N noises is the quantile at u**(1 / N) = exp(-q), with q = -log(u) / N.
    log_neg_log_prob_below = np.log(-np.log(u)) - log_num_noises
    # `where` computes both branches; the one that is not taken may divide by 0 or overflow.
    with np.errstate(divide="ignore", over="ignore"):
        log_prob_above = np.where(
            log_neg_log_prob_below < _SMALL_LOG,
            log_neg_log_prob_below,
            np.log(-np.expm1(-np.exp(log_neg_log_prob_below))),
        )
        values = continuous_noise.quantile_of_logs(log_neg_log_prob_below, log_prob_above)
    error_of_logs = log_rounding_error + _ERROR_OF_LOG * (1 + float(np.abs(log_num_noises).max()))
    error_of_values = (_quantile_error(u) + error_of_logs) * (1 + float(np.abs(values).max()))

    def make_number(row: int, column: int) -> Number:
        num_noises = count_noises(row, column)
        return number_of(
            lazy_uniforms.entry((row, column)),
            enclose_quantile=partial(
                _enclose_largest_quantile, continuous_noise.enclose_quantile, num_noises=num_noises
            ),
        )

    return DrawnNoise(values=values, rounding_error=error_of_values, make_number=make_number)


def _enclose_largest_quantile(
    enclose_quantile: Callable[[Fraction, int], Bounds],
    u: Fraction,
    decimal_digits: int,
    *,
    num_noises: int,
) -> Bounds:
    """Returns fractions below and above the quantile at u of the largest of several noises.

    Args:
        enclose_quantile: returns fractions below and above the quantile of one noise.
        u: the probability, in (0, 1).
        decimal_digits: the number of decimal digits of the result.
        num_noises: the number of noises, a whole number >= 1.
    """
    if num_noises == 1:
        return enclose_quantile(u, decimal_digits)
    # All noises lie below the quantile of u**(1 / num_noises) with probability u. That number is close to 1, and u may
    # be close to 0 or 1, so more digits are computed.
    extra_digits = sum(len(str(int(inverse))) for inverse in (num_noises, 1 / u, 1 / (1 - u)))
    num_digits = decimal_digits + 4 + extra_digits
    low_log, high_log = log_bounds(u, decimal_digits=num_digits)
    low_root = exp_bounds(low_log / num_noises, decimal_digits=num_digits)[0]
    high_root = exp_bounds(high_log / num_noises, decimal_digits=num_digits)[1]
    lower_bound, _ = enclose_quantile(low_root, decimal_digits)
    _, upper_bound = enclose_quantile(high_root, decimal_digits)
    return lower_bound, upper_bound


def _quantile_error(u: FloatArray) -> float:
    """Returns a bound on the error of quantiles at floats u that are rounded; infinity if a u is too near 0 or 1."""
    smallest_tail = min(float(u.min()), 1 - float(u.max()))
    return math.inf if smallest_tail < _SMALLEST_TAIL else _ERROR_OF_UNIFORM / smallest_tail

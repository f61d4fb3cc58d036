"""Exact comparisons of noisy values, with one another (the k largest) and with a threshold.

Two noisy values are compared as floats if they differ by more than their rounding errors. Otherwise each is enclosed
between two fractions, and further bits of the noise are drawn until the two intervals are disjoint.
docs/proofs/floats.md, "Noise".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key, lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import ndtr
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.mechanisms.noise.drawn_noise import (
    DrawnNoise,
    Number,
    draw_noise,
    number_of,
    weighted_sum,
)
from pate.mechanisms.noise.enclosures import Limits, is_below
from pate.mechanisms.noise.kinds import KINDS
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms

# The relative error of a noisy value, far above the rounding errors of a quotient, a quantile and a sum.
SMALL_ERROR = 2.0**-44
# Noise of scale 1 is smaller than this in floats. Larger noise has that in its own error.
_LARGEST_NOISE = 130.0
# Probabilities of a table are multiples of 1 / _GRID.
_GRID = 2.0**53
# Numbers on the grid that are so close are compared exactly. Their errors are far smaller.
_GRID_MARGIN = 2**10
# A table of at most this many probabilities is used for any number of values.
_SMALL_TABLE = 2**14
# The number of values that are compared at a time, so that working copies stay in the cache.
_BLOCK_SIZE = 2**15
# Values in floats are raised to this, so that sums and errors stay finite. No noise in floats comes near.
_LOWEST_VALUE = -(2.0**1000)


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class ExactValues:
    """An array of values before noise is added, divided by the scale of the noise, as floats and as fractions.

    Attributes:
        floats: the values `[Q, n]`, with an error of at most 2**-46 (1 + |value|).
        compute_fraction: returns the exact value at a row and a column.
    """

    floats: FloatArray
    compute_fraction: Callable[[int, int], Fraction]

    @classmethod
    def scaled(cls, unscaled_values: NDArray[Any], noise_scale: float | FloatArray) -> Self:
        """Returns (value - largest value of the row) / noise_scale for each value, `[Q, n]`.

        Args:
            unscaled_values: `[Q, n]`, whole numbers up to 2**53, or floats whose differences are exact.
            noise_scale: the scale of the noise, one for all rows or one for each, `[Q, 1]`.
        """
        differences_from_largest = np.asarray(
            unscaled_values - unscaled_values.max(axis=1, keepdims=True)
        )
        noise_scales = np.broadcast_to(noise_scale, (len(differences_from_largest), 1))

        def compute_fraction(row: int, column: int) -> Fraction:
            return Fraction(differences_from_largest[row, column].item()) / Fraction(
                noise_scales[row, 0].item()
            )

        # A quotient of minus infinity is raised to `_LOWEST_VALUE`.
        with np.errstate(over="ignore"):
            return cls(
                floats=np.maximum(differences_from_largest / noise_scales, _LOWEST_VALUE),
                compute_fraction=compute_fraction,
            )


def largest_noisy(
    exact_values: ExactValues,
    drawn_noise: DrawnNoise,
    k: int,
    candidate_mask: BoolArray | None = None,
) -> IntArray:
    """Returns the columns of the k largest sums value + noise of each row, the largest first: `[Q, k]`.

    Args:
        exact_values: `[Q, n]`.
        drawn_noise: `[Q, n]`.
        k: the number of columns to return.
        candidate_mask: bits `[Q, n]`, True for a column that takes part; all other columns rank last. None for all
            columns.
    """
    noisy_values = exact_values.floats + drawn_noise.values
    if candidate_mask is not None:
        noisy_values[~candidate_mask] = -np.inf
    if k == 1:
        ranked_columns, is_row_decided = _largest_of_floats(
            noisy_values, noise_error=drawn_noise.rounding_error
        )
    else:
        ranked_columns, is_row_decided = _k_largest_of_floats(
            noisy_values, noise_error=drawn_noise.rounding_error, k=k
        )
    for row in np.flatnonzero(~is_row_decided).tolist():
        possible_columns = _possible_columns(
            noisy_values[row], noise_error=drawn_noise.rounding_error, k=k
        )
        numbers_by_column = [
            (
                column,
                weighted_sum(
                    constant=exact_values.compute_fraction(row, column),
                    weighted_numbers=((1, drawn_noise.make_number(row, column)),),
                ),
            )
            for column in possible_columns.tolist()
        ]
        sorted_entries = sorted(numbers_by_column, key=cmp_to_key(_falling_order))
        columns_left_out = np.flatnonzero(np.isneginf(noisy_values[row])).tolist()
        ranked_columns[row] = [
            *(column for column, _ in sorted_entries),
            *columns_left_out,
        ][:k]
    return ranked_columns


def _largest_of_floats(noisy_values: FloatArray, noise_error: float) -> tuple[IntArray, BoolArray]:
    """Returns the column of the largest noisy value of each row, `[Q, 1]`, by floats.

    Also returns bits `[Q]`: True for a row in which rounding errors cannot change the column.

    Args:
        noisy_values: sums of a value and noise, `[Q, n]`; minus infinity for a column that is left out.
        noise_error: a bound on the error of the noise.
    """
    columns = noisy_values.argmax(axis=1)[:, None]
    largest_noisy_values = np.take_along_axis(noisy_values, columns, axis=1)
    # One error for each of two values, and a third as room: the error of a value far below may be a little larger.
    error_margins = 3 * _rounding_error_of(largest_noisy_values, noise_error=noise_error)
    num_close = (noisy_values >= largest_noisy_values - error_margins).sum(axis=1)
    return columns, np.asarray(num_close == 1)


def _k_largest_of_floats(
    noisy_values: FloatArray, noise_error: float, k: int
) -> tuple[IntArray, BoolArray]:
    """Returns the columns of the k largest noisy values of each row, the largest first, by floats: `[Q, k]`.

    Also returns bits `[Q]`: True for a row in which rounding errors cannot change these columns or their order.

    Args:
        noisy_values: sums of a value and noise, `[Q, n]`; minus infinity for a column that is left out.
        noise_error: a bound on the error of the noise.
        k: the number of columns.
    """
    columns: IntArray = np.indices(noisy_values.shape)[1]
    if k + 1 < noisy_values.shape[1]:
        columns = np.argpartition(noisy_values, -(k + 1), axis=1)[:, -(k + 1) :]
    order = np.argsort(-np.take_along_axis(noisy_values, columns, axis=1), axis=1)
    columns = np.take_along_axis(columns, order, axis=1)
    falling_values = np.take_along_axis(noisy_values, columns, axis=1)
    with np.errstate(invalid="ignore"):  # minus infinity less minus infinity: neither takes part
        rounding_errors = _rounding_error_of(falling_values, noise_error=noise_error)
        is_apart = (
            falling_values[:, :-1] - rounding_errors[:, :-1]
            > falling_values[:, 1:] + rounding_errors[:, 1:]
        )
    is_row_decided = (is_apart | np.isneginf(falling_values[:, 1:])).all(axis=1)
    return columns[:, :k], np.asarray(is_row_decided)


def _possible_columns(noisy_row: FloatArray, noise_error: float, k: int) -> IntArray:
    """Returns the columns of one row that can be among the k largest, whatever the rounding errors are.

    Args:
        noisy_row: sums of a value and noise, `[n]`; minus infinity for a column that is left out.
        noise_error: a bound on the error of the noise.
        k: the number of largest columns. If no more than k columns take part, all of these are returned.

    Returns:
        The columns, in rising order.
    """
    columns = np.flatnonzero(np.isfinite(noisy_row))
    if k >= len(columns):
        return columns
    noisy_values_of_row = noisy_row[columns]
    rounding_errors = _rounding_error_of(noisy_values_of_row, noise_error=noise_error)
    lower_bounds = noisy_values_of_row - rounding_errors
    kth_largest_bound = np.partition(lower_bounds, -k)[-k]
    return np.asarray(columns[noisy_values_of_row + rounding_errors >= kth_largest_bound])


def _falling_order(first_entry: tuple[int, Number], second_entry: tuple[int, Number]) -> int:
    """Returns 1 if the first entry (column, number) has the smaller number, and else -1, for `cmp_to_key`."""
    _, first = first_entry
    _, second = second_entry
    is_smaller = is_below(
        first.compute_bounds_so_far,
        second.compute_bounds_so_far,
        refine_functions=[*first.refine_functions, *second.refine_functions],
    )
    return 1 if is_smaller else -1


def _rounding_error_of(noisy_values: FloatArray, noise_error: float) -> FloatArray:
    """Returns a bound on the rounding error of each noisy value, in the shape of `noisy_values`.

    Args:
        noisy_values: sums of a value and noise. The bound grows so slowly that noisy value + bound and noisy value -
            bound both rise with the noisy value.
        noise_error: a bound on the error of the noise.
    """
    # A value is at most |noisy| + |noise| in size. Noise is below `_LARGEST_NOISE`, or has its size in its own error.
    return np.asarray(SMALL_ERROR * (_LARGEST_NOISE + np.abs(noisy_values)) + noise_error)


def noisy_at_least(
    noiseless_values: NDArray[Any],
    threshold: float,
    noise_std: float,
    rng: np.random.Generator,
    *,
    clip_range: tuple[int, int] | None = None,
) -> BoolArray:
    """Draws for each value whether value + N(0, noise_std**2) >= threshold, exactly, and returns bits `[Q, n]`.

    Args:
        noiseless_values: `[Q, n]`, floats or whole numbers.
        threshold: the threshold for all values.
        noise_std: the standard deviation of the noise.
        rng: draws one uniform number for each sum.
        clip_range: None, or the smallest and the largest whole number, >= 0, to which the values, then whole, are
            clipped before noise is added. A range makes draws faster, because probabilities then come from a table,
            unless its largest number is large.
    """
    if clip_range is None:
        drawn_noise = draw_noise(noise_kind="gaussian", shape=noiseless_values.shape, rng=rng)
        return weighted_noisy_at_least(
            noiseless_values, threshold=threshold, weighted_noises=[(drawn_noise, noise_std)]
        )
    smallest_count, largest_count = clip_range
    # A sum is at least the threshold if a uniform number is at least the probability of a smaller sum. Such a
    # probability depends on the clipped value alone. A table has one for each value, unless it would be longer than
    # the array of values and than `_SMALL_TABLE`.
    lazy_uniforms = LazyUniforms.draw(shape=noiseless_values.shape, rng=rng)
    probabilities_of_counts: IntArray | None = None
    if largest_count < max(noiseless_values.size, _SMALL_TABLE):
        probabilities_of_counts = _table_of_probabilities(
            threshold, noise_std, smallest_count=smallest_count, largest_count=largest_count
        )
    is_at_least = np.empty(noiseless_values.shape, dtype=np.bool_)
    rows_per_block = max(1, _BLOCK_SIZE // noiseless_values.shape[1])
    for start in range(0, len(noiseless_values), rows_per_block):
        row_range = slice(start, start + rows_per_block)
        # The uniform number less the probability of a smaller sum, in steps of the grid.
        excess = lazy_uniforms[row_range].grid_index()
        if probabilities_of_counts is None:
            clipped_values = np.clip(noiseless_values[row_range], smallest_count, largest_count)
            excess -= _probability_below(clipped_values, threshold=threshold, noise_std=noise_std)
        else:
            excess -= probabilities_of_counts.take(noiseless_values[row_range], mode="clip")
        np.greater_equal(excess, 0, out=is_at_least[row_range])
        np.abs(excess, out=excess)
        if excess.min() > _GRID_MARGIN:  # the usual case, found faster than by argwhere
            continue
        for row_in_block, column in np.argwhere(excess <= _GRID_MARGIN).tolist():
            row = start + row_in_block
            gaussian_number = number_of(
                lazy_uniforms.entry((row, column)),
                enclose_quantile=KINDS["gaussian"].enclose_quantile,
            )
            clipped_value = min(
                max(noiseless_values[row, column].item(), smallest_count), largest_count
            )
            is_at_least[row, column] = _is_at_least(
                clipped_value,
                threshold=threshold,
                weighted_numbers=[(Fraction(noise_std), gaussian_number)],
            )
    return is_at_least


# Calls for one threshold and one noise follow each other, a batch of queries at a time.
@lru_cache(maxsize=8)
def _table_of_probabilities(
    threshold: float, noise_std: float, *, smallest_count: int, largest_count: int
) -> IntArray:
    """Returns 2**53 P[count + N(0, noise_std**2) < threshold] for each count in 0..`largest_count`.

    A count below `smallest_count` has the probability of `smallest_count`. The errors are less than 2**6.
    """
    clipped_counts = np.maximum(np.arange(largest_count + 1), smallest_count)
    return _probability_below(clipped_counts, threshold=threshold, noise_std=noise_std)


def _probability_below(counts: IntArray, threshold: float, noise_std: float) -> IntArray:
    """Returns 2**53 P[count + N(0, noise_std**2) < threshold] for each count, with an error of less than 2**6."""
    with np.errstate(over="ignore"):  # an infinite quotient has the probability 0 or 1
        return np.asarray(ndtr((threshold - counts) / noise_std) * _GRID).astype(np.int64)


def weighted_noisy_at_least(
    noiseless_values: NDArray[Any],
    threshold: float,
    weighted_noises: Sequence[tuple[DrawnNoise, float]],
) -> BoolArray:
    """Returns bits `[Q, n]`: True where a value plus a weighted sum of noises is at least the threshold, exactly.

    Args:
        noiseless_values: `[Q, n]`, floats or whole numbers.
        threshold: the threshold for all values.
        weighted_noises: pairs of noise, `[Q, n]` or `[Q, 1]`, and the factor by which this noise is multiplied.
    """
    excess_over_threshold = noiseless_values - threshold
    rounding_errors = SMALL_ERROR * (np.abs(noiseless_values) + abs(threshold))
    for drawn_noise, factor in weighted_noises:
        excess_over_threshold = excess_over_threshold + factor * drawn_noise.values
        rounding_errors = rounding_errors + abs(factor) * (
            drawn_noise.rounding_error + SMALL_ERROR * _LARGEST_NOISE
        )
    is_at_least = excess_over_threshold >= 0
    for row, column in np.argwhere(np.abs(excess_over_threshold) <= rounding_errors).tolist():
        exact_noises = [
            (Fraction(factor), drawn_noise.make_number(row, column))
            for drawn_noise, factor in weighted_noises
        ]
        is_at_least[row, column] = _is_at_least(
            noiseless_values[row, column].item(), threshold=threshold, weighted_numbers=exact_noises
        )
    return np.asarray(is_at_least)


def _is_at_least(
    noiseless_value: float, threshold: float, weighted_numbers: Sequence[tuple[Fraction, Number]]
) -> bool:
    """Returns True if value + the sum of factor * noise, over all pairs (factor, noise), is at least the threshold."""
    excess_number = weighted_sum(
        constant=Fraction(noiseless_value) - Fraction(threshold), weighted_numbers=weighted_numbers
    )
    return not is_below(
        excess_number.compute_bounds_so_far,
        _zero_bounds,
        refine_functions=excess_number.refine_functions,
    )


def _zero_bounds() -> Limits:
    """Returns the interval (0, 0), which encloses the number 0 alone."""
    return 0, 0

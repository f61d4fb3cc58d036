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
class Values:
    """An array of values before noise is added, divided by the scale of the noise, as floats and as fractions.

    Attributes:
        floats: the values `[Q, n]`, with an error of at most 2**-46 (1 + |value|).
        exact_at: returns the exact value at a row and a column.
    """

    floats: FloatArray
    exact_at: Callable[[int, int], Fraction]

    @classmethod
    def scaled(cls, values: NDArray[Any], noise_scale: float | FloatArray) -> Self:
        """Returns (value - largest value of the row) / noise_scale for each value, `[Q, n]`.

        Args:
            values: `[Q, n]`, whole numbers up to 2**53, or floats whose differences are exact.
            noise_scale: the scale of the noise, one for all rows or one for each, `[Q, 1]`.
        """
        differences = np.asarray(values - values.max(axis=1, keepdims=True))
        scales = np.broadcast_to(noise_scale, (len(differences), 1))

        def exact_at(row: int, column: int) -> Fraction:
            return Fraction(differences[row, column].item()) / Fraction(scales[row, 0].item())

        # A quotient of minus infinity is raised to `_LOWEST_VALUE`.
        with np.errstate(over="ignore"):
            return cls(floats=np.maximum(differences / scales, _LOWEST_VALUE), exact_at=exact_at)


def largest_noisy(
    values: Values, drawn_noise: DrawnNoise, k: int, candidate_mask: BoolArray | None = None
) -> IntArray:
    """Returns the columns of the k largest sums value + noise of each row, the largest first: `[Q, k]`.

    Args:
        values: `[Q, n]`.
        drawn_noise: `[Q, n]`.
        k: the number of columns to return.
        candidate_mask: bits `[Q, n]`, True for a column that takes part; all other columns rank last. None for all
            columns.
    """
    noisy_values = values.floats + drawn_noise.values
    if candidate_mask is not None:
        noisy_values[~candidate_mask] = -np.inf
    if k == 1:
        ranked_columns, is_decided = _largest_of_floats(noisy_values, drawn_noise.rounding_error)
    else:
        ranked_columns, is_decided = _k_largest_of_floats(
            noisy_values, drawn_noise.rounding_error, k=k
        )
    for row in np.flatnonzero(~is_decided).tolist():
        candidates = _possible_columns(noisy_values[row], drawn_noise.rounding_error, k=k)
        sums = [
            (
                column,
                weighted_sum(
                    constant=values.exact_at(row, column),
                    weighted_numbers=((1, drawn_noise.exact_at(row, column)),),
                ),
            )
            for column in candidates.tolist()
        ]
        falling = sorted(sums, key=cmp_to_key(_compare_numbers))
        others = np.flatnonzero(np.isneginf(noisy_values[row])).tolist()
        ranked_columns[row] = [*(column for column, _ in falling), *others][:k]
    return ranked_columns


def _largest_of_floats(
    noisy_values: FloatArray, noise_rounding_error: float
) -> tuple[IntArray, BoolArray]:
    """Returns the column of the largest noisy value of each row, `[Q, 1]`, by floats.

    Also returns bits `[Q]`: True for a row in which rounding errors cannot change the column.

    Args:
        noisy_values: sums of a value and noise, `[Q, n]`; minus infinity for a column that is left out.
        noise_rounding_error: a bound on the error of the noise.
    """
    columns = noisy_values.argmax(axis=1)[:, None]
    largest_values = np.take_along_axis(noisy_values, columns, axis=1)
    margins = 3 * _rounding_error_of(largest_values, noise_rounding_error=noise_rounding_error)
    num_close = (noisy_values >= largest_values - margins).sum(axis=1)
    return columns, np.asarray(num_close == 1)


def _k_largest_of_floats(
    noisy_values: FloatArray, noise_rounding_error: float, k: int
) -> tuple[IntArray, BoolArray]:
    """Returns the columns of the k largest noisy values of each row, the largest first, by floats: `[Q, k]`.

    Also returns bits `[Q]`: True for a row in which rounding errors cannot change these columns or their order.

    Args:
        noisy_values: sums of a value and noise, `[Q, n]`; minus infinity for a column that is left out.
        noise_rounding_error: a bound on the error of the noise.
        k: the number of columns.
    """
    columns: IntArray = np.indices(noisy_values.shape)[1]
    if k + 1 < noisy_values.shape[1]:
        columns = np.argpartition(noisy_values, -(k + 1), axis=1)[:, -(k + 1) :]
    order = np.argsort(-np.take_along_axis(noisy_values, columns, axis=1), axis=1)
    columns = np.take_along_axis(columns, order, axis=1)
    falling = np.take_along_axis(noisy_values, columns, axis=1)
    with np.errstate(invalid="ignore"):  # minus infinity less minus infinity: neither takes part
        errors = _rounding_error_of(falling, noise_rounding_error=noise_rounding_error)
        is_apart = falling[:, :-1] - errors[:, :-1] > falling[:, 1:] + errors[:, 1:]
    is_decided = (is_apart | np.isneginf(falling[:, 1:])).all(axis=1)
    return columns[:, :k], np.asarray(is_decided)


def _possible_columns(noisy_row: FloatArray, noise_rounding_error: float, k: int) -> IntArray:
    """Returns the columns of one row that can be among the k largest, whatever the rounding errors are.

    Args:
        noisy_row: sums of a value and noise, `[n]`; minus infinity for a column that is left out.
        noise_rounding_error: a bound on the error of the noise.
        k: the number of largest columns. If no more than k columns take part, all of these are returned.

    Returns:
        The columns, in rising order.
    """
    columns = np.flatnonzero(np.isfinite(noisy_row))
    if k >= len(columns):
        return columns
    noisy_values = noisy_row[columns]
    errors = _rounding_error_of(noisy_values, noise_rounding_error=noise_rounding_error)
    lower = noisy_values - errors
    k_th_largest_lower = np.partition(lower, len(lower) - k)[len(lower) - k]
    return np.asarray(columns[noisy_values + errors >= k_th_largest_lower])


def _compare_numbers(first_entry: tuple[int, Number], second_entry: tuple[int, Number]) -> int:
    """Returns -1 if the number of the first entry (column, number) is larger, and else 1: for a falling sort."""
    _, first = first_entry
    _, second = second_entry
    refinements = [*first.refinements, *second.refinements]
    return 1 if is_below(first.bounds, second.bounds, refinements=refinements) else -1


def _rounding_error_of(noisy_values: FloatArray, noise_rounding_error: float) -> FloatArray:
    """Returns a bound on the rounding error of each noisy value, in the shape of `noisy_values`.

    Args:
        noisy_values: sums of a value and noise. The bound grows so slowly that noisy value + bound and noisy value -
            bound both rise with the noisy value.
        noise_rounding_error: a bound on the error of the noise.
    """
    # A value is at most |noisy| + |noise| in size. Noise in floats is below 64, or has its size in its own error.
    return np.asarray(SMALL_ERROR * (_LARGEST_NOISE + np.abs(noisy_values)) + noise_rounding_error)


def are_normally_above(
    values: NDArray[Any],
    threshold: float,
    noise_std: float,
    rng: np.random.Generator,
    *,
    clip_range: tuple[int, int] | None = None,
) -> BoolArray:
    """Draws for each value whether value + N(0, noise_std**2) >= threshold, exactly, and returns bits `[Q, n]`.

    Args:
        values: `[Q, n]`, floats or whole numbers.
        threshold: the threshold for all values.
        noise_std: the standard deviation of the noise.
        rng: draws one uniform number for each sum.
        clip_range: None, or the smallest and the largest whole number, >= 0, to which the values, then whole, are
            clipped before noise is added. A range makes draws faster, because probabilities then come from a table.
    """
    if clip_range is None:
        drawn_noise = draw_noise(noise_kind="gaussian", shape=values.shape, rng=rng)
        return are_above(values, threshold=threshold, weighted_noises=[(drawn_noise, noise_std)])
    smallest, largest = clip_range
    # A sum is at least the threshold if a uniform number is at least the probability of a smaller sum. Such a
    # probability depends on the clipped value alone. A table has one for each value, unless it would be longer than
    # the array of values.
    uniforms = LazyUniforms.draw(shape=values.shape, rng=rng)
    table: IntArray | None = None
    if largest < max(values.size, _SMALL_TABLE):
        table = _table_of_probabilities(
            threshold, noise_std, smallest_count=smallest, largest_count=largest
        )
    above = np.empty(values.shape, dtype=np.bool_)
    rows_per_block = max(1, _BLOCK_SIZE // values.shape[1])
    for start in range(0, len(values), rows_per_block):
        rows = slice(start, start + rows_per_block)
        excess = uniforms[rows].grid_index()
        if table is None:
            clipped_values = np.clip(values[rows], smallest, largest)
            excess -= _probability_below(clipped_values, threshold=threshold, noise_std=noise_std)
        else:
            excess -= table.take(values[rows], mode="clip")
        np.greater_equal(excess, 0, out=above[rows])
        if np.abs(excess, out=excess).min() > _GRID_MARGIN:
            continue
        for offset, column in np.argwhere(excess <= _GRID_MARGIN).tolist():
            row = start + offset
            noise = number_of(
                uniforms.entry((row, column)), quantile_bounds=KINDS["gaussian"].quantile_bounds
            )
            clipped_value = min(max(values[row, column].item(), smallest), largest)
            above[row, column] = _is_above(
                clipped_value, threshold=threshold, weighted_noises=[(Fraction(noise_std), noise)]
            )
    return above


# Calls for one threshold and one noise follow each other, a batch of queries at a time.
@lru_cache(maxsize=8)
def _table_of_probabilities(
    threshold: float, noise_std: float, *, smallest_count: int, largest_count: int
) -> IntArray:
    """Returns 2**53 P[count + N(0, noise_std**2) < threshold] for each count in 0..`largest_count`.

    A count below `smallest_count` has the probability of `smallest_count`. The errors are less than 2**6.
    """
    counts = np.maximum(np.arange(largest_count + 1), smallest_count)
    return _probability_below(counts, threshold=threshold, noise_std=noise_std)


def _probability_below(counts: IntArray, threshold: float, noise_std: float) -> IntArray:
    """Returns 2**53 P[count + N(0, noise_std**2) < threshold] for each count, with an error of less than 2**6."""
    with np.errstate(over="ignore"):  # an infinite quotient has the probability 0 or 1
        return np.asarray(ndtr((threshold - counts) / noise_std) * _GRID).astype(np.int64)


def are_above(
    values: NDArray[Any], threshold: float, weighted_noises: Sequence[tuple[DrawnNoise, float]]
) -> BoolArray:
    """Returns bits `[Q, n]`: True where a value plus a weighted sum of noises is at least the threshold, exactly.

    Args:
        values: `[Q, n]`, floats or whole numbers.
        threshold: the threshold for all values.
        weighted_noises: pairs of noise, `[Q, n]` or `[Q, 1]`, and the factor by which this noise is multiplied.
    """
    excess = values - threshold
    error = SMALL_ERROR * (np.abs(values) + abs(threshold))
    for noise, factor in weighted_noises:
        excess = excess + factor * noise.values
        error = error + abs(factor) * (noise.rounding_error + SMALL_ERROR * _LARGEST_NOISE)
    above = excess >= 0
    for row, column in np.argwhere(np.abs(excess) <= error).tolist():
        exact_noises = [
            (Fraction(factor), noise.exact_at(row, column)) for noise, factor in weighted_noises
        ]
        above[row, column] = _is_above(
            values[row, column].item(), threshold=threshold, weighted_noises=exact_noises
        )
    return np.asarray(above)


def _is_above(
    value: float, threshold: float, weighted_noises: Sequence[tuple[Fraction, Number]]
) -> bool:
    """Returns True if value + the sum of factor * noise, over all pairs (factor, noise), is at least the threshold."""
    excess = weighted_sum(
        constant=Fraction(value) - Fraction(threshold), weighted_numbers=weighted_noises
    )
    return not is_below(excess.bounds, _zero_bounds, refinements=excess.refinements)


def _zero_bounds() -> Limits:
    """Returns the interval (0, 0), which encloses the number 0 alone."""
    return 0, 0

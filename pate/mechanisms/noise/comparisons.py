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

# of both terms; far above the rounding error of quotient, quantile and sum
SMALL_ERROR = 2.0**-44
_LARGEST_NOISE = 130.0
_GRID = 2.0**53
_LIMIT_ERROR = 2**10  # far above that of a limit and of a number on the grid
_SMALL_TABLE = 2**14
_AT_ONCE = 2**15  # numbers, so that working copies stay in the cache
# so that sums and errors stay finite; nothing is lost, as noise in floats is far smaller
_LOWEST = -(2.0**1000)


@dataclass(frozen=True, eq=False)
class Values:
    """An array of values before noise is added, divided by the scale of the noise, as floats and as fractions."""

    floats: FloatArray  # [Q, n], with an error of at most 2**-46 (1 + |value|)
    exact: Callable[[int, int], Fraction]  # returns the exact value at a row and a column

    @classmethod
    def scaled(cls, values: NDArray[Any], noise_scale: float | FloatArray) -> Self:
        """Returns (value - largest value of the row) / noise_scale for each value, `[Q, n]`.

        Args:
            values: `[Q, n]`, whole numbers up to 2**53, or floats whose differences are exact.
            noise_scale: the scale of the noise, one for all rows or one for each, `[Q, 1]`.
        """
        below = np.asarray(values - values.max(axis=1, keepdims=True))
        divisors = np.broadcast_to(noise_scale, (len(below), 1))

        def exact(row: int, column: int) -> Fraction:
            return Fraction(below[row, column].item()) / Fraction(divisors[row, 0].item())

        with np.errstate(over="ignore"):
            return cls(floats=np.maximum(below / divisors, _LOWEST), exact=exact)


def _compared(first_entry: tuple[int, Number], second_entry: tuple[int, Number]) -> int:
    """Returns -1 if the number of the first entry (column, number) is larger, and else 1: for a falling sort."""
    (_, first) = first_entry
    (_, second) = second_entry
    refinements = [*first.refinements, *second.refinements]
    return 1 if is_below(first.bounds, second.bounds, refinements=refinements) else -1


def largest_noisy(
    values: Values, noise: DrawnNoise, k: int, candidate_mask: BoolArray | None = None
) -> IntArray:
    """Returns the columns of the k largest sums value + noise of each row, the largest first: `[Q, k]`.

    Args:
        values: `[Q, n]`.
        noise: `[Q, n]`.
        k: the number of columns to return.
        candidate_mask: bits `[Q, n]`, True for a column that takes part; all other columns rank last. None for all
            columns.
    """
    noisy = values.floats + noise.values
    if candidate_mask is not None:
        noisy[~candidate_mask] = -np.inf
    ranked_columns: IntArray
    if k == 1:
        ranked_columns = noisy.argmax(axis=1)[:, None]
        best = np.take_along_axis(noisy, ranked_columns, axis=1)
        is_sure = (
            noisy >= best - 3 * _rounding_error_of(best, noise_rounding_error=noise.rounding_error)
        ).sum(axis=1) == 1
    else:
        ranked_columns = np.indices(noisy.shape)[1]
        if k + 1 < noisy.shape[1]:
            ranked_columns = np.argpartition(noisy, -(k + 1), axis=1)[:, -(k + 1) :]
        ranked_columns = np.take_along_axis(
            ranked_columns,
            np.argsort(-np.take_along_axis(noisy, ranked_columns, axis=1), axis=1),
            axis=1,
        )
        ranked = np.take_along_axis(noisy, ranked_columns, axis=1)
        with np.errstate(invalid="ignore"):  # infinity beside infinity: neither competes
            errors = _rounding_error_of(ranked, noise_rounding_error=noise.rounding_error)
            far = (ranked[:, :-1] - errors[:, :-1] > ranked[:, 1:] + errors[:, 1:]) | np.isneginf(
                ranked[:, 1:]
            )
        ranked_columns = ranked_columns[:, :k]
        is_sure = far.all(axis=1)
    for row in np.flatnonzero(~is_sure).tolist():
        # those that compete, and of them what can be among the k
        columns = np.flatnonzero(np.isfinite(noisy[row]))
        errors = _rounding_error_of(noisy[row, columns], noise_rounding_error=noise.rounding_error)
        lower = noisy[row, columns] - errors
        upper = noisy[row, columns] + errors
        if k < len(columns):
            columns = columns[upper >= np.partition(lower, len(lower) - k)[len(lower) - k]]
        sums = [
            (
                column,
                weighted_sum(
                    constant=values.exact(row, column),
                    weighted_numbers=((1, noise.exact(row, column)),),
                ),
            )
            for column in columns.tolist()
        ]
        ranked_columns[row] = [
            *(column for column, _ in sorted(sums, key=cmp_to_key(_compared))),
            *np.flatnonzero(np.isneginf(noisy[row])),
        ][:k]
    return ranked_columns


def _rounding_error_of(noisy_values: FloatArray, noise_rounding_error: float) -> FloatArray:
    """Returns a bound on the rounding error of each noisy value, in the shape of `noisy_values`.

    Args:
        noisy_values: sums of a value and noise. The bound grows so slowly that noisy value + bound and noisy value -
            bound both rise with the noisy value.
        noise_rounding_error: a bound on the error of the noise.
    """
    # A value is at most |noisy| + |noise| in size, and noise in floats below 64 or, where it is larger, has that in its
    # own error.
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
        return are_above(
            values,
            threshold,
            weighted_noises=[
                (draw_noise(noise_kind="gaussian", shape=values.shape, rng=rng), noise_std)
            ],
        )
    # the sum is above where a uniform number is at least the probability to stay below, which comes from a table
    smallest, largest = clip_range
    uniforms = LazyUniforms.draw(shape=values.shape, rng=rng)
    above = np.empty(values.shape, dtype=np.bool_)
    limits = (
        _limits(
            threshold=threshold, noise_std=noise_std, smallest_count=smallest, largest_count=largest
        )
        if largest < max(values.size, _SMALL_TABLE)
        else None
    )
    at_once = max(1, _AT_ONCE // values.shape[1])
    for start in range(0, len(values), at_once):
        rows = slice(start, start + at_once)
        excess = uniforms[rows].grid()
        if limits is None:
            excess -= _below(
                np.clip(values[rows], smallest, largest), threshold=threshold, noise_std=noise_std
            )
        else:
            excess -= limits.take(values[rows], mode="clip")
        np.greater_equal(excess, 0, out=above[rows])
        if np.abs(excess, out=excess).min() > _LIMIT_ERROR:
            continue
        for offset, column in np.argwhere(excess <= _LIMIT_ERROR).tolist():
            row = start + offset
            noise = number_of(
                uniforms.entry((row, column)), quantile_bounds=KINDS["gaussian"].quantile_bounds
            )
            clipped_value = min(max(values[row, column].item(), smallest), largest)
            above[row, column] = _is_above(
                clipped_value, threshold=threshold, weighted_noises=[(Fraction(noise_std), noise)]
            )
    return above


@lru_cache(maxsize=8)
def _limits(
    threshold: float, noise_std: float, smallest_count: int, largest_count: int
) -> IntArray:
    """Returns `_below` of each count in 0..`largest_count`, where counts below `smallest_count` are raised to it."""
    counts = np.maximum(np.arange(largest_count + 1), smallest_count)
    return _below(counts, threshold=threshold, noise_std=noise_std)


def _below(counts: IntArray, threshold: float, noise_std: float) -> IntArray:
    """Returns 2**53 P[count + N(0, noise_std**2) < threshold] for each count, with an error of less than 2**6."""
    with np.errstate(over="ignore"):
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
            (Fraction(factor), noise.exact(row, column)) for noise, factor in weighted_noises
        ]
        above[row, column] = _is_above(
            values[row, column].item(), threshold=threshold, weighted_noises=exact_noises
        )
    return np.asarray(above)


def _is_above(
    value: float, threshold: float, weighted_noises: Sequence[tuple[Fraction, Number]]
) -> bool:
    """Returns True if the value plus the sum of factor * noise, over all pairs, is at least the threshold."""
    excess = weighted_sum(
        constant=Fraction(value) - Fraction(threshold), weighted_numbers=weighted_noises
    )
    return not is_below(excess.bounds, _zero_bounds, refinements=excess.refinements)


def _zero_bounds() -> Limits:
    """Returns the interval of the number 0."""
    return 0, 0

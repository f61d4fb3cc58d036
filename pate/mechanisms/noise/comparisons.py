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
from pate.mechanisms.noise.drawn_noise import (
    DrawnNoise,
    Number,
    draw_noise,
    number_of,
    weighted_sum,
)
from pate.mechanisms.noise.enclosures import is_below
from pate.mechanisms.noise.kinds import KINDS
from pate.mechanisms.noise.lazy_uniforms import Array, Bits, Integers, LazyUniforms

Window = tuple[int, int]
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

    floats: Array  # [Q, n], with an error of at most 2**-46 (1 + |value|)
    exact: Callable[[int, int], Fraction]  # returns the exact value at a row and a column

    @classmethod
    def scaled(cls, numbers: NDArray[Any], scale: float | Array) -> Self:
        """Returns the values (number - largest number of the row) / scale, `[Q, n]`.

        Args:
            numbers: `[Q, n]`, whole numbers up to 2**53, or floats whose differences are exact.
            scale: the scale of the noise, one for all rows or one for each, `[Q, 1]`.
        """
        below = np.asarray(numbers - numbers.max(axis=1, keepdims=True))
        divisors = np.broadcast_to(scale, (len(below), 1))

        def exact(row: int, place: int) -> Fraction:
            return Fraction(below[row, place].item()) / Fraction(divisors[row, 0].item())

        with np.errstate(over="ignore"):
            return cls(floats=np.maximum(below / divisors, _LOWEST), exact=exact)


def _compared(first_entry: tuple[int, Number], second_entry: tuple[int, Number]) -> int:
    """Compares the numbers of two entries (column, number) for a falling sort: -1 if the first number is larger."""
    (_, first) = first_entry
    (_, second) = second_entry
    return 1 if is_below(first.bounds, second.bounds, *first.more, *second.more) else -1


def largest_noisy(values: Values, noise: DrawnNoise, k: int, part: Bits | None = None) -> Integers:
    """Returns the columns of the k largest sums value + noise of each row, the largest first: `[Q, k]`.

    Args:
        values: `[Q, n]`.
        noise: `[Q, n]`.
        k: the number of columns to return.
        part: bits `[Q, n]` of the columns that take part; all other columns rank last. None for all columns.
    """
    noisy = values.floats + noise.values
    if part is not None:
        noisy[~part] = -np.inf
    order: Integers
    if k == 1:
        order = noisy.argmax(axis=1)[:, None]
        best = np.take_along_axis(noisy, order, axis=1)
        is_sure = (noisy >= best - 3 * _error_of(best, of_noise=noise.error)).sum(axis=1) == 1
    else:
        order = np.indices(noisy.shape)[1]
        if k + 1 < noisy.shape[1]:
            order = np.argpartition(noisy, -(k + 1), axis=1)[:, -(k + 1) :]
        order = np.take_along_axis(
            order, np.argsort(-np.take_along_axis(noisy, order, axis=1), axis=1), axis=1
        )
        ranked = np.take_along_axis(noisy, order, axis=1)
        with np.errstate(invalid="ignore"):  # infinity beside infinity: neither competes
            errors = _error_of(ranked, of_noise=noise.error)
            far = (ranked[:, :-1] - errors[:, :-1] > ranked[:, 1:] + errors[:, 1:]) | np.isneginf(
                ranked[:, 1:]
            )
        order = order[:, :k]
        is_sure = far.all(axis=1)
    for row in np.flatnonzero(~is_sure).tolist():
        # those that compete, and of them what can be among the k
        places = np.flatnonzero(np.isfinite(noisy[row]))
        errors = _error_of(noisy[row, places], of_noise=noise.error)
        lower = noisy[row, places] - errors
        upper = noisy[row, places] + errors
        if k < len(places):
            places = places[upper >= np.partition(lower, len(lower) - k)[len(lower) - k]]
        sums = [
            (at, weighted_sum(values.exact(row, at), terms=((1, noise.exact(row, at)),)))
            for at in places.tolist()
        ]
        order[row] = [
            *(at for at, _ in sorted(sums, key=cmp_to_key(_compared))),
            *np.flatnonzero(np.isneginf(noisy[row])),
        ][:k]
    return order


def _error_of(noisy: Array, of_noise: float) -> Array:
    """Returns a bound on the rounding error of each noisy value, `[...]`.

    Args:
        noisy: sums of a value and noise. Both noisy + error and noisy - error are increasing in noisy.
        of_noise: a bound on the error of the noise.
    """
    # A value is at most |noisy| + |noise| in size, and noise in floats below 64 or, where it is larger, has that in its
    # own error.
    return np.asarray(SMALL_ERROR * (_LARGEST_NOISE + np.abs(noisy)) + of_noise)


def are_normally_above(
    numbers: NDArray[Any],
    threshold: float,
    std: float,
    rng: np.random.Generator,
    *,
    within: Window | None = None,
) -> Bits:
    """Draws whether number + N(0, std**2) >= threshold for each number and returns bits `[Q, n]`; draws are exact.

    Args:
        numbers: `[Q, n]`, floats or whole numbers.
        threshold: the threshold for all numbers.
        std: the standard deviation of the noise.
        rng: draws one uniform number for each sum.
        within: None, or a window (low, high) of whole numbers >= 0 to which the numbers, then whole, are clipped before
            noise is added. A window makes draws faster, because probabilities then come from a table.
    """
    if within is None:
        return are_above(
            numbers,
            threshold,
            terms=[(draw_noise(kind="gaussian", shape=numbers.shape, rng=rng), std)],
        )
    # the sum is above where a uniform number is at least the probability to stay below, which comes from a table
    numbers_drawn = LazyUniforms.draw(numbers.shape, rng)
    above = np.empty(numbers.shape, dtype=np.bool_)
    limits = (
        _limits(threshold, std, *within) if within[1] < max(numbers.size, _SMALL_TABLE) else None
    )
    at_once = max(1, _AT_ONCE // numbers.shape[1])
    for start in range(0, len(numbers), at_once):
        rows = slice(start, start + at_once)
        excess = numbers_drawn[rows].grid()
        if limits is None:
            excess -= _below(np.clip(numbers[rows], *within), threshold, std)
        else:
            excess -= limits.take(numbers[rows], mode="clip")
        np.greater_equal(excess, 0, out=above[rows])
        if np.abs(excess, out=excess).min() > _LIMIT_ERROR:
            continue
        for offset, place in np.argwhere(excess <= _LIMIT_ERROR).tolist():
            row = start + offset
            noise = number_of(numbers_drawn.at(row, place), KINDS["gaussian"].within)
            count = min(max(numbers[row, place].item(), within[0]), within[1])
            above[row, place] = _is_above(count, threshold, terms=[(Fraction(std), noise)])
    return above


@lru_cache(maxsize=8)
def _limits(threshold: float, std: float, least: int, most: int) -> Integers:
    """Returns `_below` for each count 0..most, where counts below `least` are raised to it."""
    return _below(np.maximum(np.arange(most + 1), least), threshold, std)


def _below(counts: Integers, threshold: float, std: float) -> Integers:
    """Returns 2**53 P[count + N(0, std**2) < threshold] for each count, with an error of less than 2**6."""
    with np.errstate(over="ignore"):
        return np.asarray(ndtr((threshold - counts) / std) * _GRID).astype(np.int64)


def are_above(
    numbers: NDArray[Any], threshold: float, terms: Sequence[tuple[DrawnNoise, float]]
) -> Bits:
    """Returns bits `[Q, n]`: whether each number plus a weighted sum of noises is at least a threshold, exactly.

    Args:
        numbers: `[Q, n]`, floats or whole numbers.
        threshold: the threshold for all numbers.
        terms: pairs of noise, `[Q, n]` or `[Q, 1]`, and the factor by which this noise is multiplied.
    """
    excess = numbers - threshold
    error = SMALL_ERROR * (np.abs(numbers) + abs(threshold))
    for noise, scale in terms:
        excess = excess + scale * noise.values
        error = error + abs(scale) * (noise.error + SMALL_ERROR * _LARGEST_NOISE)
    above = excess >= 0
    for row, place in np.argwhere(np.abs(excess) <= error).tolist():
        exact = [(Fraction(scale), noise.exact(row, place)) for noise, scale in terms]
        above[row, place] = _is_above(numbers[row, place].item(), threshold, terms=exact)
    return np.asarray(above)


def _is_above(number: float, threshold: float, terms: Sequence[tuple[Fraction, Number]]) -> bool:
    """Returns whether number plus the sum of factor * noise over all terms is at least the threshold."""
    excess = weighted_sum(Fraction(number) - Fraction(threshold), terms)
    return not is_below(excess.bounds, lambda: (0, 0), *excess.more)

"""The order of noisy values, exactly: by floats where they lie apart, else by as many bits as it takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import ndtr
from pate.mechanisms.noise.kinds import KINDS
from pate.mechanisms.noise.uniforms import (
    Array,
    Bounds,
    Integers,
    LazyBitsUniform,
    LazyUniforms,
    exp_bounds,
    log_bounds,
)

Bits = NDArray[np.bool_]
Limits = tuple[Fraction | float, Fraction | float]
Window = tuple[int, int]

_ERROR_OF_UNIFORM = 2.0**-49  # over the smaller of u and 1 - u; u is off by 2**-52, the derivative at most 2 / m
_TOO_FAR_OUT = 2.0**-46
_ERROR_OF_LOG = 2.0**-46
_FEW_OPERATIONS = 2.0**-44  # of both terms; far above the rounding error of quotient, quantile and sum
_LARGEST_NOISE = 130.0
_GRID = 2.0**53
_LIMIT_ERROR = 2**10  # far above that of a limit and of a number on the grid
_SMALL_TABLE = 2**14
_AT_ONCE = 2**15  # numbers, so that working copies stay in the cache
_LOWEST = -(2.0**1000)  # so that sums and errors stay finite; nothing is lost, as noise in floats is far smaller


@dataclass(frozen=True)
class Number:
    """A real number between bounds, infinite where nothing is known, that more bits narrow as far as it takes."""

    bounds: Callable[[], Limits]
    uniforms: Sequence[LazyBitsUniform]

    def extend(self) -> None:
        for uniform in self.uniforms:
            uniform.extend()


def _value(uniform: LazyBitsUniform, within: Callable[[Fraction, int], Bounds]) -> Number:
    """A rising function of a uniform number."""

    def bounds() -> Limits:
        low, high = uniform.bounds()
        least = within(low, uniform.digits)[0] if low > 0 else -math.inf
        return least, within(high, uniform.digits)[1] if high < 1 else math.inf

    return Number(bounds, (uniform,))


def _sum(constant: Fraction, terms: Sequence[tuple[Fraction | int, Number]]) -> Number:
    """A number known exactly plus multiples, by factors > 0 or < 0, of others."""

    def bounds() -> Limits:
        ends = [sorted(factor * end for end in number.bounds()) for factor, number in terms]
        return sum((low for low, _ in ends), constant), sum((high for _, high in ends), constant)

    return Number(bounds, [uniform for _, number in terms for uniform in number.uniforms])


@dataclass(frozen=True)
class DrawnNoise:
    """Values of noise."""

    values: Array  # [Q, n]
    error: float  # how far a value can lie from the exact one; infinite where nothing is sure
    exact: Callable[..., Number]  # the exact value at a row and a place

    def summed(self) -> DrawnNoise:
        """The sum of each row: `[Q, 1]`, of values >= 0."""
        count, exact = self.values.shape[1], self.exact
        sums = self.values.sum(axis=1, keepdims=True)
        error = count * (self.error + 2 * _ERROR_OF_LOG * (1 + float(self.values.max())))
        return DrawnNoise(sums, error, lambda row, _: _sum(Fraction(0), [(1, exact(row, one)) for one in range(count)]))

    def times(self, factor: DrawnNoise) -> DrawnNoise:
        """Each value times the one value, `[Q, 1]`, that its row has of another."""
        one, other = (float(np.abs(noise.values).max()) for noise in (self, factor))
        error = self.error * (other + factor.error) + factor.error * one + _ERROR_OF_LOG * (one * other)

        def product(row: int, place: int) -> Number:
            both = self.exact(row, place), factor.exact(row, 0)

            def bounds() -> Limits:
                ends = [number.bounds() for number in both]
                if any(isinstance(end, float) for pair in ends for end in pair):  # infinite
                    return -math.inf, math.inf
                products = [a * b for a in ends[0] for b in ends[1]]
                return min(products), max(products)

            return Number(bounds, [uniform for number in both for uniform in number.uniforms])

        return DrawnNoise(self.values * factor.values, error, product)

    def with_last(self, other: DrawnNoise, last: Integers) -> DrawnNoise:
        """The same with the value of another, `[Q, 1]`, at the place `last` of each row."""
        values = self.values.copy()
        np.put_along_axis(values, last[:, None], other.values, axis=1)

        def exact(row: int, place: int) -> Number:
            return other.exact(row, 0) if place == last[row] else self.exact(row, place)

        return DrawnNoise(values, max(self.error, other.error), exact)


def draw_noise(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> DrawnNoise:
    """Independent values of a kind of noise of `KINDS`, at scale 1."""
    of_kind, uniforms = KINDS[kind], LazyUniforms.draw(shape, rng)
    u = uniforms.approximate()
    return DrawnNoise(
        of_kind.quantile(u),
        _quantile_error(u),
        lambda row, place: _value(uniforms.at(row, place if shape[1] > 1 else 0), of_kind.within),
    )


def draw_largest(
    kind: str, log_sizes: Array, size: Callable[..., int], rng: np.random.Generator, error: float = 0.0
) -> DrawnNoise:
    """The largest of N independent values each, for N far beyond a float: `size` at a place, logs off by `error`."""
    uniforms = LazyUniforms.draw(log_sizes.shape, rng)
    u = uniforms.approximate()
    values = KINDS[kind].quantile_of_log(np.log(-np.log(u)) - log_sizes)
    of_logs = error + _ERROR_OF_LOG * (1 + float(np.abs(log_sizes).max()))
    of_values = (_quantile_error(u) + of_logs) * (1 + float(np.abs(values).max()))

    def within(number: int, u: Fraction, digits: int) -> Bounds:
        if number > 1:  # the value below which so many lie with probability u: the quantile of u**(1 / number)
            spare = digits + 4 + sum(len(str(int(inverse))) for inverse in (number, 1 / u, 1 / (1 - u)))
            low, high = (exp_bounds(log / number, spare) for log in log_bounds(u, spare))
            return KINDS[kind].within(low[0], digits)[0], KINDS[kind].within(high[1], digits)[1]
        return KINDS[kind].within(u, digits)

    return DrawnNoise(values, of_values, lambda *place: _value(uniforms.at(*place), partial(within, size(*place))))


def _quantile_error(u: Array) -> float:
    """What the error of u makes of the values."""
    near = min(float(u.min()), 1 - float(u.max()))
    return math.inf if near < _TOO_FAR_OUT else _ERROR_OF_UNIFORM / near


@dataclass(frozen=True, eq=False)
class Values:
    """What noise is added to, in units of the noise."""

    floats: Array  # [Q, n], off by at most 2**-46 (1 + |value|)
    exact: Callable[[int, int], Fraction]  # of a row and a place

    @classmethod
    def scaled(cls, numbers: NDArray[Any], scale: float | Array) -> Values:
        """(number - largest) / scale for whole numbers up to 2**53, or floats whose differences are exact: `[Q, n]`."""
        below = np.asarray(numbers - numbers.max(axis=1, keepdims=True))
        divisors = np.broadcast_to(scale, (len(below), 1))

        def exact(row: int, place: int) -> Fraction:
            return Fraction(below[row, place].item()) / Fraction(divisors[row, 0].item())

        with np.errstate(over="ignore"):
            return cls(np.maximum(below / divisors, _LOWEST), exact)


def largest_noisy(values: Values, noise: DrawnNoise, k: int, part: Bits | None = None) -> Integers:
    """The places of the k largest of value + noise, the largest first: `[Q, k]`.

    The noise has a density, so that no two sums are equal. Places outside of `part`, `[Q, n]`, come last.
    """

    def sum_at(row: int, place: int) -> Number:
        return _sum(values.exact(row, place), ((1, noise.exact(row, place)),))

    noisy = values.floats + noise.values
    if part is not None:
        noisy[~part] = -np.inf
    order: Integers
    if k == 1:
        order = noisy.argmax(axis=1)[:, None]
        best = np.take_along_axis(noisy, order, axis=1)
        apart = (noisy >= best - 3 * _error_of(best, noise.error)).sum(axis=1) == 1
    else:
        order = np.indices(noisy.shape)[1]
        if k + 1 < noisy.shape[1]:
            order = np.argpartition(noisy, -(k + 1), axis=1)[:, -(k + 1) :]
        order = np.take_along_axis(order, np.argsort(-np.take_along_axis(noisy, order, axis=1), axis=1), axis=1)
        ranked = np.take_along_axis(noisy, order, axis=1)
        with np.errstate(invalid="ignore"):  # infinity beside infinity: neither competes
            errors = _error_of(ranked, noise.error)
            far = (ranked[:, :-1] - errors[:, :-1] > ranked[:, 1:] + errors[:, 1:]) | np.isneginf(ranked[:, 1:])
        order, apart = order[:, :k], far.all(axis=1)
    for row in np.flatnonzero(~apart).tolist():
        order[row] = _in_order(noisy[row], noise.error, k, partial(sum_at, row))
    return order


def _error_of(noisy: Array, of_noise: float) -> Array:
    """How far a sum can lie from the exact one; noisy + error rises with noisy, and so does noisy - error."""
    # A value is at most |noisy| + |noise| in size, and noise in floats below 64 or, where it is larger, has that in its
    # own error.
    return np.asarray(_FEW_OPERATIONS * (_LARGEST_NOISE + np.abs(noisy)) + of_noise)


def _in_order(noisy: Array, of_noise: float, k: int, sums: Callable[[int], Number]) -> list[int]:
    """The k largest of one row, of those that can be among them; then those that do not compete."""
    places = np.flatnonzero(np.isfinite(noisy))
    errors = _error_of(noisy[places], of_noise)
    lower, upper = noisy[places] - errors, noisy[places] + errors
    if k < len(places):
        places = places[upper >= np.partition(lower, len(lower) - k)[len(lower) - k]]
    numbers = {place: sums(place) for place in places.tolist()}

    def compared(first: int, second: int) -> int:
        return 1 if is_less(numbers[first], numbers[second]) else -1

    ranked = sorted(numbers, key=cmp_to_key(compared))
    return (ranked + np.flatnonzero(np.isneginf(noisy)).tolist())[:k]


def is_less(first: Number, second: Number) -> bool:
    """With as many bits as it takes."""
    while True:
        (low, high), (least, most) = first.bounds(), second.bounds()
        if high <= least:
            return True
        if low >= most:
            return False
        first.extend()
        second.extend()


def are_normally_above(
    numbers: NDArray[Any], threshold: float, std: float, rng: np.random.Generator, *, within: Window | None = None
) -> Bits:
    """Whether number + N(0, std**2) >= threshold, elementwise and exactly: `[Q, n]`.

    Counts >= 0 are taken as the nearest number that is `within`, and it asks whether a uniform number is at least the
    probability to stay below, from a table.
    """
    if within is None:
        return are_above(numbers, threshold, [(draw_noise("gaussian", numbers.shape, rng), std)])
    uniforms, above = LazyUniforms.draw(numbers.shape, rng), np.empty(numbers.shape, dtype=np.bool_)
    limits = _limits(threshold, std, *within) if within[1] < max(numbers.size, _SMALL_TABLE) else None
    at_once = max(1, _AT_ONCE // numbers.shape[1])
    for start in range(0, len(numbers), at_once):
        rows = slice(start, start + at_once)
        excess = uniforms[rows].grid()
        if limits is None:
            excess -= _below(np.clip(numbers[rows], *within), threshold, std)
        else:
            excess -= limits.take(numbers[rows], mode="clip")
        np.greater_equal(excess, 0, out=above[rows])
        if np.abs(excess, out=excess).min() > _LIMIT_ERROR:
            continue
        for offset, place in np.argwhere(excess <= _LIMIT_ERROR).tolist():
            row = start + offset
            noise = _value(uniforms.at(row, place), KINDS["gaussian"].within)
            count = min(max(numbers[row, place].item(), within[0]), within[1])
            above[row, place] = _is_above(count, threshold, [(Fraction(std), noise)])
    return above


@lru_cache(maxsize=8)
def _limits(threshold: float, std: float, least: int, most: int) -> Integers:
    return _below(np.maximum(np.arange(most + 1), least), threshold, std)


def _below(counts: Integers, threshold: float, std: float) -> Integers:
    """2**53 P[count + N(0, std**2) < threshold], off by less than 2**6."""
    with np.errstate(over="ignore"):
        return np.asarray(ndtr((threshold - counts) / std) * _GRID).astype(np.int64)


def are_above(numbers: NDArray[Any], threshold: float, terms: Sequence[tuple[DrawnNoise, float]]) -> Bits:
    """Whether number + the sum of noise `[Q, n]` or `[Q, 1]`, each times a scale, is at least threshold: `[Q, n]`."""
    excess = numbers - threshold
    error = _FEW_OPERATIONS * (np.abs(numbers) + abs(threshold))
    for noise, scale in terms:
        excess = excess + scale * noise.values
        error = error + abs(scale) * (noise.error + _FEW_OPERATIONS * _LARGEST_NOISE)
    above = excess >= 0
    for row, place in np.argwhere(np.abs(excess) <= error).tolist():
        exact = [(Fraction(scale), noise.exact(row, place)) for noise, scale in terms]
        above[row, place] = _is_above(numbers[row, place].item(), threshold, exact)
    return np.asarray(above)


def _is_above(number: float, threshold: float, terms: Sequence[tuple[Fraction, Number]]) -> bool:
    return not is_less(_sum(Fraction(number) - Fraction(threshold), terms), _sum(Fraction(0), ()))

"""Noise as it is drawn: floats with bounds on their errors, and exact values for the few that need them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import ndtri_exp
from pate.mechanisms.noise.enclosures import exp_bounds, log_bounds
from pate.mechanisms.noise.lazy_bits_uniform import LazyBitsUniform, LazyUniforms
from pate.mechanisms.noise.quantiles import QUANTILES
from pate.mechanisms.noise.unit_noise import UNIT_NOISES

Array = NDArray[np.float64]
Limits = tuple[Fraction | float, Fraction | float]

_ERROR_OF_UNIFORM = 2.0**-49  # over the smaller of u and 1 - u; u is off by 2**-52, the derivative at most 2 / m
_TOO_FAR_OUT = 2.0**-46
_ERROR_OF_LOG = 2.0**-46
_SMALL = -34.0  # below this, log(1 - exp(-q)) is log q to the last digit


class Number(Protocol):
    """A real number between bounds that can be narrowed."""

    def bounds(self) -> Limits:
        """Below and above it; infinite where nothing is known."""
        ...

    def extend(self) -> None:
        """Narrows them, to a difference as small as it takes if repeated."""
        ...


@dataclass(frozen=True)
class LazyValue:
    """One value of noise: a rising function of a uniform number."""

    uniform: LazyBitsUniform
    within: Callable[[Fraction, int], tuple[Fraction, Fraction]]

    def bounds(self) -> Limits:
        """See `Number`."""
        low, high = self.uniform.bounds()
        least = self.within(low, self.uniform.digits)[0] if low > 0 else -math.inf
        return least, self.within(high, self.uniform.digits)[1] if high < 1 else math.inf

    def extend(self) -> None:
        """See `Number`."""
        self.uniform.extend()


@dataclass(frozen=True)
class Total:
    """The sum of numbers."""

    numbers: Sequence[Number]

    def bounds(self) -> Limits:
        """See `Number`."""
        lows, highs = zip(*(number.bounds() for number in self.numbers), strict=True)
        return sum(lows), sum(highs)

    def extend(self) -> None:
        """See `Number`."""
        for number in self.numbers:
            number.extend()


@dataclass(frozen=True)
class Product:
    """The product of two numbers."""

    first: Number
    second: Number

    def bounds(self) -> Limits:
        """See `Number`."""
        ends = [*self.first.bounds(), *self.second.bounds()]
        if any(isinstance(end, float) for end in ends):  # infinite
            return -math.inf, math.inf
        products = [a * b for a in ends[:2] for b in ends[2:]]
        return min(products), max(products)

    def extend(self) -> None:
        """See `Number`."""
        self.first.extend()
        self.second.extend()


@dataclass(frozen=True)
class DrawnNoise:
    """Values of noise.

    Attributes:
        values: floats `[Q, n]`.
        error: how far a value can lie from the exact one; infinite where nothing is sure.
        exact: the exact value at a row and a place.
    """

    values: Array
    error: float
    exact: Callable[..., Number]

    def summed(self) -> DrawnNoise:
        """The sum of each row: `[Q, 1]`, of values >= 0."""
        count, exact = self.values.shape[1], self.exact
        sums = self.values.sum(axis=1, keepdims=True)
        error = count * (self.error + 2 * _ERROR_OF_LOG * (1 + float(self.values.max())))
        return DrawnNoise(sums, error, lambda row, place: Total([exact(row, one) for one in range(count)]))

    def times(self, factor: DrawnNoise) -> DrawnNoise:
        """Each value times the one value, `[Q, 1]`, that its row has of another."""
        largest = [float(np.abs(noise.values).max()) for noise in (self, factor)]
        error = (
            self.error * (largest[1] + factor.error) + factor.error * largest[0] + _ERROR_OF_LOG * math.prod(largest)
        )
        exact = self.exact
        return DrawnNoise(
            self.values * factor.values, error, lambda row, place: Product(exact(row, place), factor.exact(row, 0))
        )

    def with_last(self, other: DrawnNoise, last: NDArray[np.int64]) -> DrawnNoise:
        """The same with the value of another, `[Q, 1]`, at the place `last` of each row."""
        values = self.values.copy()
        np.put_along_axis(values, last[:, None], other.values, axis=1)

        def exact(row: int, place: int) -> Number:
            return other.exact(row, 0) if place == last[row] else self.exact(row, place)

        return DrawnNoise(values, max(self.error, other.error), exact)


def draw_noise(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> DrawnNoise:
    """Independent values of a kind of noise of `QUANTILES`, at scale 1."""
    quantile, uniforms = QUANTILES[kind], LazyUniforms.draw(shape, rng)
    u = uniforms.approximate()
    return DrawnNoise(
        quantile.of(u),
        _error_of(u),
        lambda row, place: LazyValue(uniforms.at(row, place if shape[1] > 1 else 0), quantile.within),
    )


def draw_largest(
    kind: str, log_sizes: Array, size: Callable[..., int], rng: np.random.Generator, error: float = 0.0
) -> DrawnNoise:
    """The largest of N independent values each, for N far beyond a float.

    Args:
        kind: of `QUANTILES`.
        log_sizes: log N, elementwise.
        size: N at a place.
        rng: for the noise.
        error: of the logarithms.
    """
    uniforms = LazyUniforms.draw(log_sizes.shape, rng)
    u = uniforms.approximate()
    quantile = _normal_quantile if kind == "gaussian" else UNIT_NOISES[kind].quantile
    values = quantile(np.log(-np.log(u)) - log_sizes)
    of_logs = error + _ERROR_OF_LOG * (1 + float(np.abs(log_sizes).max()))
    of_values = (_error_of(u) + of_logs) * (1 + float(np.abs(values).max()))

    def exact(*place: int) -> LazyValue:
        number = size(*place)
        return LazyValue(uniforms.at(*place), lambda u, digits: _largest_within(kind, u, number, digits))

    return DrawnNoise(values, of_values, exact)


def _normal_quantile(log_q: Array) -> Array:
    """The standard normal value below which the probability is exp(-q)."""
    with np.errstate(divide="ignore", over="ignore"):
        log_below = -np.exp(log_q)
        log_above = np.where(log_q < _SMALL, log_q, np.log(-np.expm1(log_below)))
        return np.asarray(np.where(log_below < log_above, ndtri_exp(log_below), -ndtri_exp(log_above)))


def _error_of(u: Array) -> float:
    """What the error of u makes of the values."""
    near = min(float(u.min()), 1 - float(u.max()))
    return math.inf if near < _TOO_FAR_OUT else _ERROR_OF_UNIFORM / near


def _largest_within(kind: str, u: Fraction, number: int, digits: int) -> tuple[Fraction, Fraction]:
    """The value below which `number` of them lie with probability u: the quantile of u**(1 / number)."""
    within = QUANTILES[kind].within
    if number == 1:
        return within(u, digits)
    spare = digits + 4 + sum(len(str(int(inverse))) for inverse in (number, 1 / u, 1 / (1 - u)))
    low, high = (exp_bounds(log / number, spare) for log in log_bounds(u, spare))
    return within(low[0], digits)[0], within(high[1], digits)[1]

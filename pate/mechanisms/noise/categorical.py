"""One of several outcomes by its weight, exactly: decided in floats where they suffice, else between whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.noise.uniforms import LazyBitsUniform, LazyUniforms, exp_bounds

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

Interval = tuple[int, int]
Weights = Callable[[int], Sequence[Interval]]
"""From a number of digits, an interval of whole numbers around each weight, all in one unit; narrower for more."""

_FEW_OPERATIONS = 2.0**-46  # far above the rounding error of a quotient, an exp, a product, and of u itself
_EACH_SUMMAND = 2.0**-49


def draw_index(weights: Array, uniforms: LazyUniforms, exact: Callable[[int], Weights], error: float = 0.0) -> Integers:
    """An index of each row with probability proportional to its exact weight: `[Q]`.

    Rule: the first index whose running sum of weights exceeds u times the total. A float decides where it is further
    from every running sum than both can be off; else more bits of u are drawn and the weights computed more closely,
    until one index is left. So an outcome of any probability > 0 is possible, however small.

    Args:
        weights: `[Q, n]` floats >= 0, the largest of a row at least about 1; their errors add up to at most
            2**-47 + n 2**-50 + `error` of the row's total.
        uniforms: `[Q]`, u of each row.
        exact: of each row, its exact weights.
        error: relative error of the weights beyond that of a few float operations.
    """
    rows, n = weights.shape
    margin = _FEW_OPERATIONS + n * _EACH_SUMMAND + 2 * error
    cumulated = np.cumsum(weights, axis=1)
    total = cumulated[:, -1]
    target = uniforms.approximate() * total
    indices = np.asarray((cumulated <= (target - margin * total)[:, None]).sum(axis=1))
    reached = cumulated[np.arange(rows), np.minimum(indices, n - 1)]
    sure = (indices < n) & (reached > target + margin * total)
    for row in np.flatnonzero(~sure).tolist():
        indices[row] = index_of(uniforms.at(row), exact(row))
    return indices


def index_of(uniform: LazyBitsUniform, weights: Weights) -> int:
    """The same for one row, exactly."""
    while True:
        intervals = weights(uniform.digits)
        least, most = (sum(interval[side] for interval in intervals) for side in (0, 1))
        start, stop = uniform.numerator * least, (uniform.numerator + 1) * most
        low = high = 0
        for index, interval in enumerate(intervals):
            low, high = low + interval[0], high + interval[1]
            if stop <= low << uniform.bits:
                return index
            if start < high << uniform.bits:
                break
        uniform.extend()


def exponential_weights(exponents: Sequence[Fraction], sizes: Sequence[int] | None = None) -> Weights:
    """The weights size * exp(-exponent), exponents >= 0."""

    def weights(digits: int) -> list[Interval]:
        length = digits if sizes is None else digits + len(str(max(sizes)))
        unit = 10**length
        known = {exponent: _whole(exponent, length, unit) for exponent in set(exponents)}
        ones = [known[exponent] for exponent in exponents]
        if sizes is None:
            return ones
        return [(size * low, size * high) for size, (low, high) in zip(sizes, ones, strict=True)]

    return weights


def with_rest(window: Weights, share: Fraction, everything: Callable[[], Weights]) -> Weights:
    """Weights of which those after the first few are looked at only where it takes them.

    Args:
        window: the first ones.
        share: of the total, at least that of the others together.
        everything: gives all of them, the first ones first.
    """

    def weights(digits: int) -> Sequence[Interval]:
        if share * 10**digits > 1:
            return everything()(digits)
        intervals = window(digits)
        return [*intervals, (0, math.ceil(share * 2 * sum(high for _, high in intervals)))]

    return weights


def boundary_weights(weights: Weights) -> Weights:
    """The weights of a call in the boundary wrapper: those given, and last all but the largest, or half where less.

    All but the largest is the least of the sums of all but one, so it rises with every weight, like half of all.
    """

    def wrapped(digits: int) -> list[Interval]:
        intervals = [(2 * low, 2 * high) for low, high in weights(digits)]
        least, most = (min(sum(side) - max(side), sum(side) // 2) for side in zip(*intervals, strict=True))
        return [*intervals, (least, most)]

    return wrapped


def stated_weights(probabilities: Array) -> Weights:
    """The floats themselves, `[n]`, as they are."""
    fractions = [Fraction(p) for p in probabilities.tolist()]
    unit = math.lcm(*(fraction.denominator for fraction in fractions))
    whole = [int(fraction * unit) for fraction in fractions]
    return lambda digits: [(number, number) for number in whole]


def softmax_weights(deficits: Array, scale: float) -> Weights:
    """The weights exp(-deficit / scale) of one row `[n]`, from deficits that are exact floats >= 0."""
    divisor = Fraction(scale)
    return exponential_weights([Fraction(deficit) / divisor for deficit in deficits.tolist()])


def permute_and_flip_weights(deficits: Array, scale: float) -> Weights:
    """The probabilities of the largest with exponential noise: w_i times the integral of prod_{j != i} (1 - w_j z) dz.

    Each w = exp(-deficit / scale) is taken as a fraction within 10**-digits, which moves the integral by at most 1 +
    n / 2 times as much; the integral of the fractions is exact.
    """

    def weights(digits: int) -> list[Interval]:
        unit, slack = 10**digits, len(deficits) + 2
        w = [low for low, _ in softmax_weights(deficits, scale)(digits)]
        chances = [w[i] * _integral(w[:i] + w[i + 1 :], unit) for i in range(len(w))]
        return [(max(math.floor(chance) - slack, 0), math.ceil(chance) + slack) for chance in chances]

    return weights


def _integral(w: list[int], unit: int) -> Fraction:
    """Of prod (1 - w z / unit) dz over [0, 1]."""
    polynomial = [1]  # the coefficient of z**n times unit**n
    for each in w:
        lifted = [0, *(-each * coefficient for coefficient in polynomial)]
        polynomial = [a + b for a, b in zip([*polynomial, 0], lifted, strict=True)]
    return sum((Fraction(a, (n + 1) * unit**n) for n, a in enumerate(polynomial)), Fraction(0))


def draw_softmax(sums: Array, scale: float, uniforms: LazyUniforms) -> Integers:
    """An index of each row with probability proportional to exp(sum / scale), exactly: `[Q]` from `[Q, n]`.

    Args:
        sums: floats whose differences are exact.
        scale: > 0.
        uniforms: `[Q]`.
    """
    deficits = sums.max(axis=1, keepdims=True) - sums
    with np.errstate(over="ignore"):
        weights = np.exp(deficits / -scale)
    return draw_index(weights, uniforms, lambda row: softmax_weights(deficits[row], scale))


def _whole(exponent: Fraction, digits: int, unit: int) -> Interval:
    low, high = exp_bounds(-exponent, digits)
    return math.floor(low * unit), math.ceil(high * unit)

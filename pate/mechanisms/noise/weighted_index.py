"""The draw of one of n indices with a probability in exact proportion to its weight.

For a uniform number u the drawn index is the first index whose cumulated weight exceeds u times the total weight. The
comparison is made in floats if u times the total differs from every cumulated weight by more than the rounding errors.
Otherwise each weight is enclosed between two whole numbers, and further bits of u are drawn until only one index is
possible. docs/proofs/floats.md, "One index by weight".
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.enclosures import exp_bounds
from pate.mechanisms.noise.lazy_uniforms import LazyBitsUniform, LazyUniforms

Interval = tuple[int, int]
# for a number of digits, an interval of whole numbers around each weight, all in one unit; narrower for more digits
Weights = Callable[[int], Sequence[Interval]]
# far above the rounding error of a quotient, an exp, a product, and of u itself
FEW_OPERATIONS = 2.0**-46
_EACH_SUMMAND = 2.0**-49


def draw_index(
    weights: FloatArray,
    uniforms: LazyUniforms,
    exact_weights_of_row: Callable[[int], Weights],
    relative_error: float = 0.0,
) -> IntArray:
    """Draws one of n indices for each of Q rows, `[Q]`, with a probability in proportion to its exact weight.

    Args:
        weights: the weights as floats, `[Q, n]`. The largest weight of a row is at least about 1. The errors of the
            weights of a row add up to at most 2**-47 + n 2**-50 + `relative_error`, relative to the row's total weight.
        uniforms: one uniform number for each row, `[Q]`.
        exact_weights_of_row: returns the exact weights of a row, for the number of the row.
        relative_error: a bound on the relative error of the weights, beyond the rounding errors of a few operations.
    """
    # The first index whose running sum of weights exceeds u times the total. A float decides where it is further from
    # every running sum than both can be off; else more bits of u are drawn and the weights computed more closely,
    # until one index is left.
    rows, n = weights.shape
    cumulated = weights.cumsum(axis=1)
    total = cumulated[:, -1]
    target = uniforms.approximate() * total
    margin = total * (FEW_OPERATIONS + n * _EACH_SUMMAND + 2 * relative_error)
    # argmax is 0 where no sum exceeds the target, and then the row is not sure
    indices: IntArray = (cumulated > (target - margin)[:, None]).argmax(axis=1)
    sure = cumulated[np.arange(rows), indices] > target + margin
    for row in np.flatnonzero(~sure).tolist():
        indices[row] = index_of(uniforms.entry((row,)), weights=exact_weights_of_row(row))
    return indices


def index_of(uniform: LazyBitsUniform, weights: Weights) -> int:
    """Returns the first index whose cumulated weight exceeds `uniform` times the total weight, exactly."""
    while True:
        intervals = weights(uniform.digits)
        least = sum(low for low, _ in intervals)
        most = sum(high for _, high in intervals)
        start = uniform.numerator * least
        stop = (uniform.numerator + 1) * most
        low = high = 0
        for index, interval in enumerate(intervals):
            low = low + interval[0]
            high = high + interval[1]
            if stop <= low << uniform.bits:
                return index
            if start < high << uniform.bits:
                break
        uniform.extend()


def exponential_weights(
    exponents: Sequence[Fraction], sizes: Sequence[int] | None = None
) -> Weights:
    """Returns the exact weights size * exp(-exponent).

    Args:
        exponents: numbers >= 0, one for each index.
        sizes: whole numbers >= 1, one for each index; None for 1.
    """

    def weights(digits: int) -> list[Interval]:
        length = digits + (0 if sizes is None else len(str(max(sizes))))
        bounds = {exponent: exp_bounds(-exponent, digits=length) for exponent in set(exponents)}
        unit = 10**length
        interval_of = {
            exponent: (math.floor(low * unit), math.ceil(high * unit))
            for exponent, (low, high) in bounds.items()
        }
        ones = [interval_of[exponent] for exponent in exponents]
        return (
            ones
            if sizes is None
            else [(n * low, n * high) for n, (low, high) in zip(sizes, ones, strict=True)]
        )

    return weights


def weights_with_rest(
    window_weights: Weights, rest_share: Fraction, all_weights: Callable[[], Weights]
) -> Weights:
    """Returns the weights of the first few indices and, as last entry, the total weight of all further indices.

    The last entry is only known to be small. If a draw needs more digits than that, the weights of all indices are
    returned instead.

    Args:
        window_weights: the weights of the first few indices.
        rest_share: a bound on the total weight of all further indices, divided by the total weight of all indices.
        all_weights: returns the weights of all indices, in the same order.
    """

    def weights(digits: int) -> Sequence[Interval]:
        if rest_share * 10**digits > 1:
            return all_weights()(digits)
        intervals = window_weights(digits)
        return [*intervals, (0, math.ceil(rest_share * 2 * sum(high for _, high in intervals)))]

    return weights


def boundary_weights(weights: Weights) -> Weights:
    """Returns the weights of the outcomes of `BoundaryWrapper`, from the weights of the wrapped mechanism.

    The last entry is the weight of the boundary: the total weight less the largest weight, or half of the total weight,
    whichever is smaller.
    """

    # The total without the largest weight is the least of the sums of all but one, so it rises with every weight, as
    # half of the total does: lows give a low, highs a high.
    def boundary_weight(outcome_weights: list[int]) -> int:
        return min(sum(outcome_weights) - max(outcome_weights), sum(outcome_weights) // 2)

    def wrapped(digits: int) -> list[Interval]:
        intervals = [(2 * low, 2 * high) for low, high in weights(digits)]
        return [
            *intervals,
            (
                boundary_weight([low for low, _ in intervals]),
                boundary_weight([high for _, high in intervals]),
            ),
        ]

    return wrapped


def softmax_weights(deficits: FloatArray, noise_scale: float) -> Weights:
    """Returns the exact weights exp(-deficit / scale), one for each of n deficits.

    Args:
        deficits: floats >= 0 without rounding error, `[n]`.
        noise_scale: the scale of the noise, > 0.
    """
    return exponential_weights(
        [Fraction(deficit) / Fraction(noise_scale) for deficit in deficits.tolist()]
    )


def permute_and_flip_weights(deficits: FloatArray, noise_scale: float) -> Weights:
    """Returns the exact probability of each of n indices to be picked by permute-and-flip.

    With w = exp(-deficit / scale), index i has the probability w_i times the integral over z in [0, 1] of
    prod_{j != i} (1 - w_j z).

    Args:
        deficits: the largest value less each value, floats >= 0 without rounding error, `[n]`.
        noise_scale: the scale of the noise, > 0.
    """

    def integral(w: list[int], unit: int) -> Fraction:  # of prod (1 - w z / unit) dz over [0, 1]
        polynomial = [1]  # the coefficient of z**n times unit**n
        for weight in w:
            lifted = [0, *(-weight * coefficient for coefficient in polynomial)]
            polynomial = [a + b for a, b in zip([*polynomial, 0], lifted, strict=True)]
        return sum((Fraction(a, (n + 1) * unit**n) for n, a in enumerate(polynomial)), Fraction(0))

    # each w = exp(-deficit / scale) is taken as a fraction within 10**-digits, which moves the integral by at most
    # 1 + n / 2 times as much; the integral of the fractions is exact
    def weights(digits: int) -> list[Interval]:
        unit = 10**digits
        slack = len(deficits) + 2
        w = [low for low, _ in softmax_weights(deficits, noise_scale)(digits)]
        chances = [each * integral(w=[*w[:i], *w[i + 1 :]], unit=unit) for i, each in enumerate(w)]
        return [
            (max(math.floor(chance) - slack, 0), math.ceil(chance) + slack) for chance in chances
        ]

    return weights

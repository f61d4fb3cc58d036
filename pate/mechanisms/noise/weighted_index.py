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
from pate.mechanisms.noise.lazy_uniforms import LazyUniform, LazyUniforms

Interval = tuple[int, int]
# A function that encloses the weights of the indices: for a number of digits it returns an interval of whole numbers
# around each weight. All intervals have one unit, and more digits make them narrower.
WeightEncloser = Callable[[int], Sequence[Interval]]
# A relative error far above the rounding errors of a quotient, an exp, a product, and of a uniform number itself.
FEW_OPERATIONS = 2.0**-46
# A relative error far above what each weight of a row adds to the rounding error of its running sums.
_ERROR_PER_WEIGHT = 2.0**-49


def draw_index(
    approximate_weights: FloatArray,
    lazy_uniforms: LazyUniforms,
    make_encloser: Callable[[int], WeightEncloser],
    relative_error: float = 0.0,
) -> IntArray:
    """Draws one of n indices for each of Q rows, `[Q]`, with a probability in proportion to its exact weight.

    Args:
        approximate_weights: the weights as floats, `[Q, n]`. The total weight of a row is at least about 1. The errors
            of the weights of a row add up to at most 2**-47 + n 2**-50 + `relative_error`, relative to the row's total
            weight.
        lazy_uniforms: one uniform number for each row, `[Q]`.
        make_encloser: takes the number of a row, and returns the function that encloses its exact weights.
        relative_error: a bound on the relative error of the weights, beyond the rounding errors of a few operations.
    """
    num_rows, num_weights = approximate_weights.shape
    running_sums = approximate_weights.cumsum(axis=1)
    totals = running_sums[:, -1]
    targets = lazy_uniforms.approximate() * totals
    margins = totals * (FEW_OPERATIONS + num_weights * _ERROR_PER_WEIGHT + 2 * relative_error)
    # A row is decided if no running sum lies within the margin around its target. Where no sum exceeds the target,
    # argmax is 0, and the row is not decided.
    indices: IntArray = (running_sums > (targets - margins)[:, None]).argmax(axis=1)
    is_decided = running_sums[np.arange(num_rows), indices] > targets + margins
    for row in np.flatnonzero(~is_decided).tolist():
        indices[row] = index_of(lazy_uniforms.entry((row,)), enclose_weights=make_encloser(row))
    return indices


def index_of(lazy_uniform: LazyUniform, enclose_weights: WeightEncloser) -> int:
    """Returns the first index whose cumulated weight exceeds `lazy_uniform` times the total weight, exactly.

    Args:
        lazy_uniform: the uniform number; its further bits are drawn as they are needed.
        enclose_weights: encloses the weights of all indices.
    """
    while True:
        intervals = enclose_weights(lazy_uniform.decimal_digits_to_compare)
        # The target, u times the total weight, lies between these numbers over 2**num_bits.
        lowest_target = lazy_uniform.numerator * sum(lower_weight for lower_weight, _ in intervals)
        highest_target = (lazy_uniform.numerator + 1) * sum(
            upper_weight for _, upper_weight in intervals
        )
        low_sum = 0
        high_sum = 0
        for index, (lower_weight, upper_weight) in enumerate(intervals):
            low_sum += lower_weight
            high_sum += upper_weight
            if highest_target <= low_sum << lazy_uniform.num_bits:
                return index
            if lowest_target < high_sum << lazy_uniform.num_bits:
                break  # this weight may exceed the target or not: more bits are needed
        lazy_uniform.extend()


def exponential_encloser(
    exponents: Sequence[Fraction], class_sizes: Sequence[int] | None = None
) -> WeightEncloser:
    """Returns the function that encloses the weight size * exp(-exponent) of each index.

    Args:
        exponents: numbers >= 0, one for each index.
        class_sizes: the sizes, whole numbers >= 1, one for each index; None if all are 1.
    """

    def enclose_weights(decimal_digits: int) -> list[Interval]:
        num_digits = decimal_digits + (0 if class_sizes is None else len(str(max(class_sizes))))
        units_per_one = 10**num_digits
        interval_of: dict[Fraction, Interval] = {}
        for exponent in set(exponents):
            lower_bound, upper_bound = exp_bounds(-exponent, decimal_digits=num_digits)
            interval_of[exponent] = (
                math.floor(lower_bound * units_per_one),
                math.ceil(upper_bound * units_per_one),
            )
        intervals = [interval_of[exponent] for exponent in exponents]
        if class_sizes is None:
            return intervals
        return [
            (class_size * lower_bound, class_size * upper_bound)
            for class_size, (lower_bound, upper_bound) in zip(class_sizes, intervals, strict=True)
        ]

    return enclose_weights


def encloser_with_rest(
    enclose_window_weights: WeightEncloser,
    rest_share: Fraction,
    make_encloser_of_all: Callable[[], WeightEncloser],
) -> WeightEncloser:
    """Returns the function that encloses the first few weights and, as last entry, the total of all further weights.

    The last entry is known only as an interval, from 0 to twice `rest_share` of the first few weights. If a draw asks
    for so many digits that this interval is too wide, the weights of all indices are returned instead.

    Args:
        enclose_window_weights: encloses the weights of the first few indices.
        rest_share: a bound on the total weight of all further indices, divided by the total weight of all indices.
        make_encloser_of_all: returns the function that encloses the weights of all indices, in the same order.
    """

    def enclose_weights(decimal_digits: int) -> Sequence[Interval]:
        if rest_share * 10**decimal_digits > 1:
            return make_encloser_of_all()(decimal_digits)
        window_weight_intervals = enclose_window_weights(decimal_digits)
        window_total = sum(high for _, high in window_weight_intervals)
        return [*window_weight_intervals, (0, math.ceil(rest_share * 2 * window_total))]

    return enclose_weights


def boundary_encloser(enclose_weights: WeightEncloser) -> WeightEncloser:
    """Returns the function that encloses the weights of the outcomes of `BoundaryWrapper`.

    The outcomes are those of the wrapped mechanism and the boundary, an answer that is likely where no outcome is.
    The last entry is the weight of the boundary: the total weight less the largest weight, or half of the total weight,
    whichever is smaller.

    Args:
        enclose_weights: encloses the weights of the outcomes of the wrapped mechanism.
    """

    def enclose_weights_with_boundary(decimal_digits: int) -> list[Interval]:
        # All weights are doubled, so that half of the total is a whole number.
        doubled_intervals = [
            (2 * lower_weight, 2 * upper_weight)
            for lower_weight, upper_weight in enclose_weights(decimal_digits)
        ]
        # The weight of the boundary rises with every weight, so lows give its low, and highs its high.
        low_boundary = _boundary_weight([lower_weight for lower_weight, _ in doubled_intervals])
        high_boundary = _boundary_weight([upper_weight for _, upper_weight in doubled_intervals])
        return [*doubled_intervals, (low_boundary, high_boundary)]

    return enclose_weights_with_boundary


def _boundary_weight(outcome_weights: list[int]) -> int:
    """Returns the weight of the boundary: the total weight less the largest, or half of the total if that is smaller.

    All weights must be even, so that the half is a whole number.
    """
    total = sum(outcome_weights)
    return min(total - max(outcome_weights), total // 2)


def softmax_encloser(deficits: FloatArray, noise_scale: float) -> WeightEncloser:
    """Returns the function that encloses the weights exp(-deficit / scale), one for each of n deficits.

    Args:
        deficits: floats >= 0 without rounding error, `[n]`.
        noise_scale: the scale of the noise, > 0.
    """
    deficits_in_scales = [
        Fraction(deficit) / Fraction(noise_scale) for deficit in deficits.tolist()
    ]
    return exponential_encloser(deficits_in_scales)


def permute_and_flip_encloser(deficits: FloatArray, noise_scale: float) -> WeightEncloser:
    """Returns the function that encloses the probability of each of n indices to be picked by permute-and-flip.

    With w_i = exp(-deficit_i / noise_scale), index i has the probability w_i times the integral over z in [0, 1] of
    prod_{j != i} (1 - w_j z).

    Args:
        deficits: the largest value less each value, floats >= 0 without rounding error, `[n]`.
        noise_scale: the scale of the noise, > 0.
    """
    enclose_softmax_weights = softmax_encloser(deficits, noise_scale=noise_scale)

    # Each w is taken as a fraction within 10**-decimal_digits, which moves the integral by at most 1 + n / 2 times as
    # much. The integral of the fractions is exact.
    def enclose_weights(decimal_digits: int) -> list[Interval]:
        denominator = 10**decimal_digits
        slack = len(deficits) + 2
        weight_numerators = [low for low, _ in enclose_softmax_weights(decimal_digits)]
        weight_intervals = []
        for index, weight_numerator in enumerate(weight_numerators):
            numerators_of_other_weights = [
                *weight_numerators[:index],
                *weight_numerators[index + 1 :],
            ]
            scaled_chance = weight_numerator * _integral_of_product(
                numerators_of_other_weights, denominator=denominator
            )
            weight_intervals.append(
                (max(math.floor(scaled_chance) - slack, 0), math.ceil(scaled_chance) + slack)
            )
        return weight_intervals

    return enclose_weights


def _integral_of_product(numerators: list[int], denominator: int) -> Fraction:
    """Returns the integral over z in [0, 1] of the product of all 1 - (numerator / denominator) z, exactly."""
    coefficients = [1]  # of z**n, times denominator**n
    for numerator in numerators:
        shifted = [0, *(-numerator * coefficient for coefficient in coefficients)]
        coefficients = [
            first + second for first, second in zip([*coefficients, 0], shifted, strict=True)
        ]
    return sum(
        (
            Fraction(coefficient, (degree + 1) * denominator**degree)
            for degree, coefficient in enumerate(coefficients)
        ),
        Fraction(0),
    )

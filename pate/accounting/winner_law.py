"""The distribution ("law") of the winner where two counts differ between neighbors, and bounds on its curvature.

Let M be the largest noisy count of all counts that do not differ. The two differing counts less M, before noise, are a
and b on the first data set, and a - mean_shift and b + mean_shift on the second, with X ~ N(a, 1) and Y ~ N(b, 1) after
noise. The outcomes are A, the first of both counts wins (X > max(0, Y)); B, the second wins; and R, another count wins
(X < 0 and Y < 0). With P the distribution of the outcome on the first data set and Q that on the second, the pair is
dominated by every pair whose test curve (`discrete_pairs`) is nowhere below the points

    (Q(S), P(S) - Q(S))      for the four sets of outcomes S = A, A or R, R, A or B.

Here phi and Phi are density and distribution function of N(0, 1), and d = (a - b) / sqrt 2 and t = (a + b) / sqrt 2 are
the means of (X - Y) / sqrt 2 and (X + Y) / sqrt 2, which are independent. Then

    dP(A)/da = phi(a) Phi(-b) + phi(d) Phi(t) / sqrt 2,        dP(A)/db = -phi(d) Phi(t) / sqrt 2.

Between the corners of a square the points differ from their bilinear interpolation by at most width^2 / 8 times the sum
of the largest second derivatives, the *bend* (docs/proofs/winner.md, step 3).
"""

import math
from collections.abc import Callable

import numpy as np

from pate.accounting.special import gauss_legendre, ndtr
from pate.array_types import FloatArray

Range = tuple[FloatArray, FloatArray]
"""The smallest and the largest value of a coordinate in each of several sets of points (a, b), `[num_sets]` each."""

# The mass of a normal beyond so many standard deviations is left out.
_FARTHEST = 9.0
# The number of nodes of the quadrature of a mass, and of the quadrature over a shift, which is short.
_NODES_OF_MASS = 64
_NODES_OF_SHIFT = 16


def density(z: FloatArray) -> FloatArray:
    """Returns the standard normal density phi(z)."""
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))


def moved_mass(z: FloatArray, mean_shift: float) -> FloatArray:
    """Returns Phi(z) - Phi(z - mean_shift) for each entry of z, `[num_points]`, accurate also for a tiny shift.

    The difference is computed as the integral of phi from z - mean_shift to z, so nothing cancels. The quadrature is
    for short shifts: its relative error is below 1e-14 up to a shift of 3, and its absolute error below 3e-14 up to
    5.66. The accountant has no longer shifts.
    """
    nodes, weights = gauss_legendre(_NODES_OF_SHIFT)
    shift_steps = mean_shift * (1 + nodes) / 2
    return np.asarray(mean_shift / 2 * (density(z[:, None] - shift_steps) @ weights))


def curve_points(
    leads_of_first_count: FloatArray, leads_of_second_count: FloatArray, mean_shift: float
) -> tuple[FloatArray, FloatArray]:
    """Returns Q(S) and P(S) - Q(S) of the four sets S of outcomes {A}, {A, R}, {R}, {A, B}, `[4, num_points]` each.

    Two counts differ between neighbors. In the outcome A the first of them wins, in B the second, and in R another
    count. P is the distribution of the outcome on the first data set, and Q that on the second. M is the largest noisy
    count of all others.

    Args:
        leads_of_first_count: a, the first count before noise, less M, on the first data set, `[num_points]`.
        leads_of_second_count: b, the second count before noise, less M, on the first data set, `[num_points]`.
        mean_shift: the distance by which the first count falls and the second rises, in standard deviations of the
            noise.
    """
    shift_nodes, shift_weights = gauss_legendre(_NODES_OF_SHIFT)
    shift_steps = mean_shift * (1 + shift_nodes) / 2
    # P - Q is the integral over the path (a - s, b + s), 0 <= s <= mean_shift, of the derivatives
    #   of P(A): phi(a) Phi(-b) + sqrt 2 phi(d) Phi(t);  of P(R): -phi(a) Phi(-b) + Phi(-a) phi(b),
    # as a rises and b falls. Along the path t stays, so the second term of P(A) has a closed form.
    first_leaves = density(leads_of_first_count[:, None] - shift_steps) * ndtr(
        -leads_of_second_count[:, None] - shift_steps
    )
    second_enters = ndtr(-leads_of_first_count[:, None] + shift_steps) * density(
        leads_of_second_count[:, None] + shift_steps
    )
    exchanged = ndtr((leads_of_first_count + leads_of_second_count) / math.sqrt(2)) * moved_mass(
        (leads_of_first_count - leads_of_second_count) / math.sqrt(2),
        mean_shift=math.sqrt(2) * mean_shift,
    )
    change_of_first_wins = mean_shift / 2 * (first_leaves @ shift_weights) + exchanged
    change_of_rest_wins = mean_shift / 2 * ((second_enters - first_leaves) @ shift_weights)
    # Q(A) is P(X > max(0, Y)) after the change, by quadrature; wrong by about 1e-15.
    moved_leads_of_first = (leads_of_first_count - mean_shift)[:, None]
    moved_leads_of_second = (leads_of_second_count + mean_shift)[:, None]
    lower_ends = np.maximum(0.0, moved_leads_of_first - _FARTHEST)
    upper_ends = np.maximum(moved_leads_of_first + _FARTHEST, _FARTHEST)
    mass_nodes, mass_weights = gauss_legendre(_NODES_OF_MASS)
    half_width = (upper_ends - lower_ends) / 2
    x = half_width * mass_nodes + (upper_ends + lower_ends) / 2
    q_of_first_wins = half_width[:, 0] * (
        (density(x - moved_leads_of_first) * ndtr(x - moved_leads_of_second)) @ mass_weights
    )
    q_of_rest_wins = ndtr(-leads_of_first_count + mean_shift) * ndtr(
        -leads_of_second_count - mean_shift
    )
    # the sets of outcomes A, A or R, R, and A or B, in this order
    q_masses = np.stack(
        [q_of_first_wins, q_of_first_wins + q_of_rest_wins, q_of_rest_wins, 1 - q_of_rest_wins]
    )
    mass_changes = np.stack(
        [
            change_of_first_wins,
            change_of_first_wins + change_of_rest_wins,
            change_of_rest_wins,
            -change_of_rest_wins,
        ]
    )
    return q_masses, mass_changes


def bend_of_mass(a_range: Range, b_range: Range, d_range: Range, t_range: Range) -> FloatArray:
    """Returns the bend of P(A): a bound on the sum of the absolute second derivatives in a and in b, `[num_sets]`.

    `curve_points` explains a, b and P(A), the probability that the first count wins. The bound holds in each of several
    sets of points (a, b), such as a square with the paths from it to the points after the change.

    Args:
        a_range: the range of a within each set.
        b_range: the range of b within each set.
        d_range: the range of d = (a - b) / sqrt 2 within each set.
        t_range: the range of t = (a + b) / sqrt 2 within each set.
    """
    # The second derivatives follow from the derivatives in the module docstring: phi'(a) Phi(-b), and for either
    # coordinate a term of at most |phi'(d) Phi(t)| / 2 + phi(d) phi(t) / 2.
    largest_product = density(_nearest_to_zero(ranges=d_range)) * density(
        _nearest_to_zero(ranges=t_range)
    )
    bend_in_each_coordinate = (
        _largest_slope(ranges=d_range) * ndtr(t_range[1]) + largest_product
    ) / 2
    return np.asarray(
        _largest_slope(ranges=a_range) * ndtr(-b_range[0]) + 2 * bend_in_each_coordinate
    )


def bend_of_mass_of_rest(a_range: Range, b_range: Range) -> FloatArray:
    """Returns the bend of P(R): a bound on the sum of the absolute second derivatives in a and in b, `[num_sets]`.

    R is the outcome that neither of the two differing counts wins (`curve_points`), with P(R) = Phi(-a) Phi(-b).

    Args:
        a_range: the range of a within each set.
        b_range: the range of b within each set.
    """
    # The second derivatives are -phi'(a) Phi(-b) in a and -Phi(-a) phi'(b) in b.
    return np.asarray(
        _largest_slope(ranges=a_range) * ndtr(-b_range[0])
        + ndtr(-a_range[0]) * _largest_slope(ranges=b_range)
    )


def bend_of_change(a_range: Range, b_range: Range, d_range: Range, t_range: Range) -> FloatArray:
    """Returns the downward bend of the derivative of P(A) in the direction in which a rises and b falls.

    The downward bend is a bound on how far the second derivatives in a and in b fall below 0, summed, `[num_sets]`.
    `bend_of_mass` explains P(A) and the arguments.
    """
    # The derivative is phi(a) Phi(-b) + sqrt 2 phi(d) Phi(t). Its second derivatives are phi''(a) Phi(-b) in a and
    # phi(a) b phi(b) in b; those of the other term are (phi''(d) Phi(t) +- 2 phi'(d) phi(t) + phi(d) phi'(t)) / sqrt 2.
    density_of_total = density(_nearest_to_zero(ranges=t_range))
    bulge = (
        _largest_downward_bend(ranges=d_range) * ndtr(t_range[1])
        + 2 * _largest_slope(ranges=d_range) * density_of_total
    )
    bend_in_each_coordinate = (
        bulge + density(_nearest_to_zero(ranges=d_range)) * _largest_fall(ranges=t_range)
    ) / 2**0.5
    bend_of_first_term = _largest_downward_bend(ranges=a_range) * ndtr(-b_range[0]) + density(
        _nearest_to_zero(ranges=a_range)
    ) * _largest_fall((-b_range[1], -b_range[0]))
    # The second term bends in a and in b.
    return np.asarray(bend_of_first_term + 2 * bend_in_each_coordinate)


def bend_of_rest(a_range: Range, b_range: Range) -> FloatArray:
    """Returns the downward bend of the derivative of P(R) in the direction in which a rises and b falls.

    `bend_of_change` explains the downward bend, `[num_sets]`. R is the outcome that neither of the two differing
    counts wins (`curve_points`). The derivative is -phi(a) Phi(-b) + Phi(-a) phi(b).

    Args:
        a_range: the range of a within each set.
        b_range: the range of b within each set.
    """
    # The largest phi''(x) = (x^2 - 1) phi(x) is at +- sqrt 3.
    largest_maximum = 2 * density(np.sqrt([3.0]))
    dip = _largest(
        _second_derivative,
        ranges=a_range,
        x_of_maxima=(-(3**0.5), 3**0.5),
        largest_maximum=largest_maximum,
    )
    bend_of_negative_term = dip * ndtr(-b_range[0]) + density(
        _nearest_to_zero(ranges=a_range)
    ) * _largest_fall(ranges=b_range)
    bend_of_positive_term = _largest_fall((-a_range[1], -a_range[0])) * density(
        _nearest_to_zero(ranges=b_range)
    ) + ndtr(-a_range[0]) * _largest_downward_bend(ranges=b_range)
    return np.asarray(bend_of_negative_term + bend_of_positive_term)


def _nearest_to_zero(ranges: Range) -> FloatArray:
    """Returns the number nearest to 0 in each range, `[num_ranges]`, where the standard normal density is largest."""
    lower_ends, upper_ends = ranges
    return np.asarray(np.clip(0.0, lower_ends, upper_ends))


def _second_derivative(x: FloatArray) -> FloatArray:
    """Returns the second derivative phi''(x) of the standard normal density at each entry of x."""
    return np.asarray((x * x - 1) * density(x))


def _absolute_slope(x: FloatArray) -> FloatArray:
    """Returns |phi'(x)| at each entry of x, where phi is the standard normal density."""
    return np.asarray(np.abs(x) * density(x))


def _fall(x: FloatArray) -> FloatArray:
    """Returns -phi'(x) at each entry of x, where phi is the standard normal density."""
    return np.asarray(x * density(x))


def _largest_slope(ranges: Range) -> FloatArray:
    """Returns the largest |phi'(x)| = |x| phi(x) over x in each range; the function rises up to |x| = 1."""
    return _largest(
        _absolute_slope,
        ranges=ranges,
        x_of_maxima=(-1.0, 1.0),
        largest_maximum=density(np.ones(1)),
    )


def _largest_fall(ranges: Range) -> FloatArray:
    """Returns the largest -phi'(x) = x phi(x) over x in each range, at least 0."""
    return _largest(_fall, ranges=ranges, x_of_maxima=(1.0,), largest_maximum=density(np.ones(1)))


def _largest(
    function: Callable[[FloatArray], FloatArray],
    ranges: Range,
    x_of_maxima: tuple[float, ...],
    largest_maximum: FloatArray,
) -> FloatArray:
    """Returns the largest value of a function over each range, at least 0.

    Args:
        function: the function, which has its largest value at an end of a range unless a maximum lies within.
        ranges: the ranges.
        x_of_maxima: the x of each local maximum.
        largest_maximum: the value of the function at these maxima, or a larger number.
    """
    lower_ends, upper_ends = ranges
    range_has_maximum = np.any([(lower_ends <= x) & (x <= upper_ends) for x in x_of_maxima], axis=0)
    largest_at_range_ends = np.maximum(function(lower_ends), function(upper_ends))
    return np.maximum(largest_at_range_ends, np.where(range_has_maximum, largest_maximum, 0.0))


def _largest_downward_bend(ranges: Range) -> FloatArray:
    """Returns the largest -phi''(x) = (1 - x^2) phi(x) over x in each range, at least 0: at the x nearest to 0."""
    x: FloatArray = _nearest_to_zero(ranges)
    return np.maximum((1 - x * x) * density(x), 0.0)

"""Renyi curves of single events: a bound on the Renyi divergence D_a between neighbors, for each order a > 1.

For distributions P and Q with the moment E_Q[(P/Q)^a] = e^m, the divergence is D_a(P || Q) = m / (a - 1). The functions
here compute the moment of the worst pair of neighbors by a closed form or a numerical integral. Each function takes
orders `[num_orders]` and returns divergences `[num_orders]`. Logarithms of moments are sums of terms that may cancel,
so a bound on the rounding errors is added. So every returned divergence is an upper bound.
"""

import math

import numpy as np

from pate.accounting import events
from pate.accounting.special import log_expit, log_ndtr
from pate.array_types import FloatArray

LOG_ROUNDING = 2.0**-50
"""The rounding error of the logarithm of a moment, relative to the terms of which it is a sum and which may cancel."""
# The trapezoids reach so many standard deviations beyond the means.
_TAIL = 12
# The largest step of the trapezoids in standard deviations, beside which the densities of maxima are wide.
_LARGEST_STEP = 0.036
# The numbers of points of the trapezoids of one order. The last one is enough for every shift that is integrated.
_GRID_SIZES = (1001, 2001, 4001)
# The moments of a maximum are integrated where the order times the shift is at most this.
_LARGEST_SHIFT = 60.0
# The smallest logarithm of a probability in a bound on rounding errors.
_SMALLEST_LOG = -1e3
# Where a (a - 1) epsilon^2 is smaller, the terms of the closed form of a bounded range cancel.
_SMALL_PRODUCT = 1e-7


def bernoulli_rdp(
    log_p: FloatArray,
    log_not_p: FloatArray,
    log_q: FloatArray,
    log_not_q: FloatArray,
    orders: FloatArray,
) -> FloatArray:
    """Returns the Renyi divergence D_a(Bernoulli(p) || Bernoulli(q)), rounded up.

    All arguments are broadcast together. Logarithms keep the digits of tiny probabilities.

    Args:
        log_p: the logarithm of p.
        log_not_p: the logarithm of 1 - p.
        log_q: the logarithm of q.
        log_not_q: the logarithm of 1 - q.
        orders: a > 1.
    """
    log_term_of_ones = orders * log_p - (orders - 1) * log_q
    log_term_of_zeros = orders * log_not_p - (orders - 1) * log_not_q
    log_moment = np.maximum(np.logaddexp(log_term_of_ones, log_term_of_zeros), 0.0)
    # The rounding error of either term counts with the share of the term in the moment.
    log_lead_of_ones = log_term_of_ones - log_term_of_zeros
    size_of_ones = np.minimum(-log_p, -_SMALLEST_LOG) + np.minimum(-log_q, -_SMALLEST_LOG)
    size_of_zeros = np.minimum(-log_not_p, -_SMALLEST_LOG) + np.minimum(-log_not_q, -_SMALLEST_LOG)
    total_term_size = (
        1
        + np.exp(np.minimum(log_lead_of_ones, 0)) * size_of_ones
        + np.exp(np.minimum(-log_lead_of_ones, 0)) * size_of_zeros
    )
    return np.asarray((log_moment + LOG_ROUNDING / 4 * orders * total_term_size) / (orders - 1))


def pure_dp_rdp(epsilon: float, orders: FloatArray) -> FloatArray:
    """Returns the largest D_a that an epsilon-DP release can have, `[num_orders]`.

    Randomized response attains it (Kairouz, Oh & Viswanath 2015).
    """
    if epsilon in (0, math.inf):
        return np.full_like(orders, epsilon)
    log_truth = np.array(log_expit(epsilon))
    log_lie = np.array(log_expit(-epsilon))
    rdp = bernoulli_rdp(
        log_truth, log_not_p=log_lie, log_q=log_lie, log_not_q=log_truth, orders=orders
    )
    # epsilon^2 / 2 zCDP (Bun & Steinke 2016, Proposition 3.3)
    return np.minimum(rdp, orders * (epsilon * epsilon / 2))


def bounded_range_rdp(loss_range: float, orders: FloatArray) -> FloatArray:
    """Returns the largest D_a of a release with a bounded range (`BoundedRangeEvent`), `[num_orders]`.

    The worst pair has two outcomes, with privacy losses t and t - loss_range. The largest divergence over t is at

        e^t = (a - 1) (1 - e^(-a loss_range)) / (a (e^(-loss_range) - e^(-a loss_range))).

    Where a (a - 1) loss_range^2 is below 1e-7 the closed form would cancel, and a loss_range^2 / 8 is returned, which
    is larger by O(loss_range^4).

    Args:
        loss_range: the range: the largest privacy loss less the smallest, >= 0.
        orders: a > 1, `[num_orders]`.

    Source: Dong, Durfee & Rogers 2020.
    """
    if loss_range in (0, math.inf):
        return np.full_like(orders, loss_range)
    rdp_by_zcdp = orders * (loss_range * loss_range / 8)
    one_minus_exp_at_a = -np.expm1(-orders * loss_range)  # 1 - e^(-a loss_range)
    # 1 - e^(-(a - 1) loss_range)
    one_minus_exp_at_a_less_one = -np.expm1(-(orders - 1) * loss_range)
    with np.errstate(divide="ignore"):  # of a product that vanishes
        log_one_minus_exp_at_a = np.log(one_minus_exp_at_a)
        log_one_minus_exp_at_a_less_one = np.log(one_minus_exp_at_a_less_one)
        log_one_minus_exp_at_one = math.log(-math.expm1(-loss_range))
    t = (
        np.log1p(-1 / orders)
        + log_one_minus_exp_at_a
        + loss_range
        - log_one_minus_exp_at_a_less_one
    )
    log_moment = (
        (orders - 1) * t + log_one_minus_exp_at_a - np.log(orders) - log_one_minus_exp_at_one
    )
    total_term_size = orders * (
        1
        + loss_range
        - np.minimum(log_one_minus_exp_at_a, 0)
        - np.minimum(log_one_minus_exp_at_a_less_one, 0)
    )
    total_term_size = total_term_size - log_one_minus_exp_at_one
    rdp_by_closed_form = (log_moment + LOG_ROUNDING * total_term_size) / (orders - 1)
    closed_form_cancels = orders - 1 < _SMALL_PRODUCT / orders / loss_range / loss_range
    return np.where(
        closed_form_cancels,
        rdp_by_zcdp,
        np.minimum(rdp_by_closed_form, np.minimum(rdp_by_zcdp, loss_range)),
    )


def noisy_max_gaussian_rdp(event: events.NoisyMaxGaussianEvent, orders: FloatArray) -> FloatArray:
    """Returns an upper bound on the Renyi curve of report noisy max with Gaussian noise, `[num_orders]`.

    Let M be the maximum of the noise on all other values, in units of the noise std, and D = 2 / noise_multiplier. The
    pair (M + D, M) dominates the release, and so does the pair (M, M + D). Each of the two divergences is a bound
    (docs/proofs/gap_selection.md). An `OpposedMaximaEvent` has a third bound: two such maxima that move by D / 2 each,
    in opposite directions. Where the product of the order a and D is too large for numerical integration, only a bound
    of Zhu & Wang (2022, Corollary 9) is used: a D^2 / 2 + log(n) / (a - 1) for n values.
    """
    if event.num_candidates == 1 or event.noise_multiplier == 0:
        return np.full_like(orders, 0.0 if event.num_candidates == 1 else np.inf)
    shift_of_maximum = 2 / event.noise_multiplier
    num_normals = event.num_candidates - 1
    rdp = orders * (shift_of_maximum * shift_of_maximum / 2) + math.log(event.num_candidates) / (
        orders - 1
    )
    is_integrated = orders * shift_of_maximum <= _LARGEST_SHIFT
    if is_integrated.any():
        integrated_orders = orders[is_integrated]
        log_moment_if_raised, log_moment_if_lowered = _log_moments_of_maximum(
            num_normals, shift_of_maximum=shift_of_maximum, orders=integrated_orders
        )
        log_moment = np.minimum(log_moment_if_raised, log_moment_if_lowered)
        if isinstance(event, events.OpposedMaximaEvent):
            # Two maxima that move in opposite directions, by half of the shift each, dominate the release, too.
            log_moment_if_raised, log_moment_if_lowered = _log_moments_of_maximum(
                num_normals, shift_of_maximum=shift_of_maximum / 2, orders=integrated_orders
            )
            log_moment = np.minimum(log_moment, log_moment_if_raised + log_moment_if_lowered)
        rdp_by_integral = np.maximum(log_moment / (integrated_orders - 1), 0.0)
        rdp[is_integrated] = np.minimum(rdp[is_integrated], rdp_by_integral)
    return rdp


def _log_moments_of_maximum(
    num_normals: int, shift_of_maximum: float, orders: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Returns (a - 1) D_a(M + shift_of_maximum || M) and (a - 1) D_a(M || M + shift_of_maximum), both `[num_orders]`.

    M is the largest of `num_normals` independent standard normals. Orders with a narrow integrand are integrated on a
    smaller grid.

    Args:
        num_normals: the number of normals, >= 1.
        shift_of_maximum: the distance by which M is moved, > 0.
        orders: a > 1, `[num_orders]`.
    """
    log_moments_if_raised = np.empty_like(orders)
    log_moments_if_lowered = np.empty_like(orders)
    is_pending = np.ones(len(orders), dtype=np.bool_)
    for num_points in _GRID_SIZES:
        range_widths = 2 * (_TAIL + orders * shift_of_maximum)
        is_computed = is_pending & (range_widths <= _LARGEST_STEP * (num_points - 1))
        if num_points == _GRID_SIZES[-1]:
            is_computed = is_pending
        if is_computed.any():
            log_moments_if_raised[is_computed], log_moments_if_lowered[is_computed] = (
                _log_moments_by_trapezoids(
                    num_normals,
                    shift_of_maximum=shift_of_maximum,
                    orders=orders[is_computed],
                    num_points=num_points,
                )
            )
        is_pending = is_pending & ~is_computed
    return log_moments_if_raised, log_moments_if_lowered


def _log_moments_by_trapezoids(
    num_normals: int, shift_of_maximum: float, orders: FloatArray, num_points: int
) -> tuple[FloatArray, FloatArray]:
    """Returns what `_log_moments_of_maximum` returns, by the trapezoidal rule with `num_points` points for each order.

    The integrands vanish at both ends of the grid.
    """
    # the ends of the range of each order, [num_orders], and its points, [num_points, num_orders]
    lower_ends_of_orders = -_TAIL - orders * shift_of_maximum
    upper_ends_of_orders = _TAIL + orders * shift_of_maximum
    grid_points = lower_ends_of_orders + np.linspace(0, 1, num_points)[:, None] * (
        upper_ends_of_orders - lower_ends_of_orders
    )
    grid_steps = (upper_ends_of_orders - lower_ends_of_orders) / (num_points - 1)

    def log_density(x: FloatArray) -> FloatArray:
        """Returns the log density of the largest of n = num_normals standard normals, n phi(x) Phi(x)^(n - 1)."""
        log_phi = -0.5 * x * x - 0.5 * math.log(2 * math.pi)
        log_others = (num_normals - 1) * log_ndtr(x) if num_normals > 1 else 0.0
        return np.asarray(math.log(num_normals) + log_phi + log_others)

    def log_moment(log_p: FloatArray, log_q: FloatArray) -> FloatArray:
        """Returns the logarithm of the integral of P^a Q^(1 - a) for each order a of `orders`, `[num_orders]`.

        P and Q are two densities; the arguments are their logarithms at `grid_points`, `[num_points, num_orders]`. The
        integral is a sum over these points, which are `grid_steps` apart, a step for each order.
        """
        log_values_at_grid_points = orders * log_p - (orders - 1) * log_q
        largest_log_value_of_orders = log_values_at_grid_points.max(axis=0)
        return np.asarray(
            largest_log_value_of_orders
            + np.log(
                np.exp(log_values_at_grid_points - largest_log_value_of_orders).sum(axis=0)
                * grid_steps
            )
        )

    log_density_of_moved_maximum = log_density(grid_points - shift_of_maximum)
    log_density_of_maximum = log_density(grid_points)
    log_moments_if_raised = log_moment(
        log_p=log_density_of_moved_maximum, log_q=log_density_of_maximum
    )
    log_moments_if_lowered = log_moment(
        log_p=log_density_of_maximum, log_q=log_density_of_moved_maximum
    )
    return log_moments_if_raised, log_moments_if_lowered


def smooth_sensitivity_rdp(event: events.SmoothSensitivityEvent, orders: FloatArray) -> FloatArray:
    """Returns the Renyi curve of a number released with noise in proportion to its smooth sensitivity, `[num_orders]`.

    Two neighbors release N(v, s^2) and N(v', s'^2). The divergence is the largest over all values with s / s' in
    e^(-b)..e^b and |v - v'| at most s / z and s' / z, where b = `event.beta` and z = `event.noise_multiplier`. Theorem
    23 of Papernot et al. 2018, a e^(2 b) / z^2 + (a b - log(1 - 2 a b) / 2) / (a - 1), is smaller for some a b > 1/4,
    and false there.
    """
    noise_multiplier = event.noise_multiplier
    log_scale_ratio = event.beta
    rdp = np.full_like(orders, np.inf)
    # The divergence of two normals is finite where a s'^2 + (1 - a) s^2 > 0.
    # With the smallest s' that sum is s^2 (1 - lost). Here 1 - lost is rounded down.
    lost = -orders * math.expm1(-2 * log_scale_ratio)
    relative_variance = 1 - lost - LOG_ROUNDING * (1 + lost)
    is_finite = relative_variance > 0
    if noise_multiplier == 0 or not is_finite.any():
        return rdp
    a = orders[is_finite]
    relative_variance = relative_variance[is_finite]
    with np.errstate(over="ignore", divide="ignore"):
        by_shift = (
            a
            * math.exp(-2 * log_scale_ratio)
            / (2 * noise_multiplier * noise_multiplier * relative_variance)
        )
    log_moment_if_narrower = -a * log_scale_ratio - np.log(relative_variance) / 2
    log_moment_if_wider = a * log_scale_ratio - np.log1p(a * math.expm1(2 * log_scale_ratio)) / 2
    total_term_size = 1 + a * log_scale_ratio - np.log(relative_variance)
    by_scale = (
        np.maximum(log_moment_if_narrower, log_moment_if_wider) + LOG_ROUNDING * total_term_size
    )
    rdp[is_finite] = by_shift * (1 + LOG_ROUNDING) + by_scale / (a - 1)
    return rdp

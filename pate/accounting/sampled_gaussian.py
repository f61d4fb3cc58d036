"""The price of a sum with Gaussian noise over a secret random sample: its privacy profile and its Renyi curve.

Each privacy unit is in the sample with probability q (Poisson sampling). Let C be the largest norm of a contribution
divided by the noise std. One pair of distributions is the worst for both prices (docs/proofs/alternatives.md). If a
unit is replaced, both are mixtures of N(0, 1): with N(C, 1) and with N(-C, 1), each with weight q. If a unit is added
or removed, the pair is the mixture with N(C, 1), and N(0, 1) itself.

No other pair is worse: at epsilon = log gamma the delta of a pair (the hockey-stick divergence) is
q E (Y - gamma Y' - b)_+, with Y and Y' the density ratios of two Gaussians and N(0, 1). That is a convex function of
Y - gamma Y', so it rises with the variances of log Y and log Y', and falls with their covariance. Both variances are at
most C^2, and the covariance is at least -C^2.
"""

from typing import NamedTuple

import numpy as np

from pate.accounting.events import SampledGaussianEvent
from pate.accounting.gaussian_pairs import log_mixture_ratio, mixture_tail
from pate.accounting.special import log_ndtr, ndtr
from pate.array_types import FloatArray

# The relative error of a Renyi divergence that the steps and the ends of its sum may add.
_SUM_ERROR = 1e-6
# So many orders are summed at a time.
_ORDERS_AT_ONCE = 32
# If the sum of an order needed more steps, its divergence is bounded by the closed forms alone.
_LARGEST_NUM_STEPS = 1_000_000
# Where a moment less 1 is smaller than e^-200, the error of its sum is relative to e^-200.
_SMALLEST_LOG_MOMENT = -200.0
# Eight units in the last place of a number near 1: the rounding error of a few operations.
_ULP = 2.0**-49
# The closed form has four digits or more where (order - 1) C^2 / 2 is so much above the absolute log odds of being
# sampled.
_FAR = 25.0
# Above this s, asinh(e^s / 2) is s in double precision.
_LARGEST_LOG_RIGHT_SIDE = 300.0


def sampled_gaussian_profiles(
    event: SampledGaussianEvent, epsilons: FloatArray
) -> list[FloatArray]:
    """Returns the privacy profiles of a sampled Gaussian, `[num_epsilons]` each, for both orders of two neighbors.

    Each is the profile of the worst neighbors. If a unit is replaced, both are equal, and the list has one profile. If
    a unit is added or removed, the first profile is that of its removal.

    Args:
        event: the price of the release.
        epsilons: the epsilons, positive or negative, `[num_epsilons]`.
    """
    # The delta is P(S) - gamma P'(S) with gamma = e^epsilon, for the set S on one side of the point x where the first
    # density is gamma times the second. Any other x gives a smaller delta, so an error in x counts by its square.
    if event.is_replaced:
        return [_profile_of_replaced(event, epsilons)]
    q = event.sampling_prob
    shift = event.shift
    # The density of the mixture is 1 + e times that of N(0, 1) where 1 - q + q e^(C x - C^2 / 2) = 1 + e. If the unit
    # is removed, S is the set right of the x with 1 + e = gamma. If it is added, S is the set left of the x with 1 + e
    # = 1 / gamma.
    x_if_removed = _x_at_odds(1 + np.expm1(epsilons) / q, mean_shift=shift)
    x_if_added = _x_at_odds(1 + np.expm1(-epsilons) / q, mean_shift=shift)
    deltas_if_removed = mixture_tail(x=-x_if_removed, mean_shift=shift, sampling_prob=q) - np.exp(
        epsilons + log_ndtr(-x_if_removed)
    )
    deltas_if_added = ndtr(x_if_added) - np.exp(epsilons) * mixture_tail(
        x=x_if_added, mean_shift=-shift, sampling_prob=q
    )
    return [np.asarray(deltas_if_removed), np.asarray(deltas_if_added)]


def _x_at_odds(odds: FloatArray, mean_shift: float) -> FloatArray:
    """Returns the x at which e^(C x - C^2 / 2) equals each entry of `odds`, with C = `mean_shift`.

    The result is -inf where odds <= 0.
    """
    log_odds = np.log(np.where(odds > 0, odds, 1.0))
    return np.where(odds > 0, (log_odds + mean_shift * mean_shift / 2) / mean_shift, -np.inf)


def _profile_of_replaced(event: SampledGaussianEvent, epsilons: FloatArray) -> FloatArray:
    """Returns the privacy profile of a sampled Gaussian on the worst neighbors if a unit is replaced, `[num_epsilons]`.

    P and Q are mixtures of N(0, 1): with N(C, 1) and with N(-C, 1), each with weight q, where C is `event.shift` and q
    is `event.sampling_prob`. With gamma = e^epsilon the delta is H_gamma(P || Q) = P(S) - gamma Q(S) for the best set
    S. At gamma < 1 the neighbors are exchanged: H_gamma(P || Q) = 1 - gamma + gamma H_(1/gamma)(Q || P). At gamma > 1
    the set S is the x with e^(C x) above the solution y of

        y - gamma / y = (gamma - 1) e^(C^2 / 2) (1 - q) / q,

    so that y = sqrt(gamma) e^asinh(right side / (2 sqrt(gamma))).
    """
    q = event.sampling_prob
    shift = event.shift
    abs_epsilons = np.abs(epsilons)
    with np.errstate(divide="ignore"):
        # the logarithm of the right side over sqrt(gamma)
        log_right_side = (
            np.log(-np.expm1(-abs_epsilons))
            + np.log1p(-q)
            - np.log(q)
            + shift * shift / 2
            + abs_epsilons / 2
        )
        asinh_of_half = np.arcsinh(np.exp(np.minimum(log_right_side, _LARGEST_LOG_RIGHT_SIDE)) / 2)
        asinh_of_half = asinh_of_half + np.maximum(log_right_side - _LARGEST_LOG_RIGHT_SIDE, 0.0)
        x = (abs_epsilons / 2 + asinh_of_half) / shift
        deltas_at_abs_epsilons = mixture_tail(x=-x, mean_shift=shift, sampling_prob=q) - np.exp(
            abs_epsilons + np.log(mixture_tail(x=-x, mean_shift=-shift, sampling_prob=q))
        )
    exchanged_deltas = -np.expm1(-abs_epsilons) + np.exp(-abs_epsilons) * deltas_at_abs_epsilons
    return np.asarray(np.where(epsilons < 0, exchanged_deltas, deltas_at_abs_epsilons))


def sampled_gaussian_rdp(event: SampledGaussianEvent, orders: FloatArray) -> FloatArray:
    """Returns an upper bound on the Renyi curve of a sampled Gaussian, `[num_orders]`.

    The bound is the smallest of three: the divergence without sampling; a bound by Minkowski's inequality, which is
    good at large orders; and a numerical integral. Near the order that gives the price its relative error is at most
    1e-5. If a unit is added or removed, its removal costs the most (Mironov, Talwar & Zhang 2019, Theorem 5).
    """
    if event.noise_multiplier == 0:
        return np.full_like(orders, np.inf)
    sampling_prob = event.sampling_prob
    shift = event.shift
    with np.errstate(over="ignore"):
        rdp_without_sampling = orders * (np.square(1 / np.float64(event.noise_multiplier)) / 2)
    if sampling_prob == 1:
        return np.asarray(rdp_without_sampling)
    log_odds = np.log(sampling_prob) - np.log1p(-sampling_prob)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        exponent = (orders - 1) * (shift * shift / 2)
        # Minkowski: the norm of order a of the density ratio 1 - q + q e^(C x - C^2 / 2) is at most
        # 1 - q + q e^((a - 1) C^2 / 2).
        log_ratio_norm_if_small = np.log1p(sampling_prob * np.expm1(np.minimum(exponent, 1.0)))
        log_ratio_norm_if_large = exponent + np.log(
            sampling_prob + (1 - sampling_prob) * np.exp(-exponent)
        )
        log_norm_of_density_ratio = np.where(
            exponent < 1, log_ratio_norm_if_small, log_ratio_norm_if_large
        )
        rdp_by_norm = log_norm_of_density_ratio * (orders / (orders - 1)) * (1 + 4 * _ULP)
        # For a replaced unit the second density is at least 1 - q times that of N(0, 1).
        rdp_by_norm = rdp_by_norm - (np.log1p(-sampling_prob) if event.is_replaced else 0.0)
        rdp = np.fmin(rdp_without_sampling, rdp_by_norm)
        indices_of_summed_orders = np.flatnonzero(exponent < _FAR + abs(log_odds))
        num_steps = _sum_plan(event, orders[indices_of_summed_orders]).num_steps
        # Orders with sums of about the same length are computed together.
        indices_of_summed_orders = indices_of_summed_orders[np.argsort(num_steps)][
            : int((num_steps <= _LARGEST_NUM_STEPS).sum())
        ]
        for start in range(0, len(indices_of_summed_orders), _ORDERS_AT_ONCE):
            batch_indices = indices_of_summed_orders[start : start + _ORDERS_AT_ONCE]
            rdp[batch_indices] = np.fmin(
                rdp[batch_indices], _rdp_by_sum(event, orders[batch_indices])
            )
    return np.asarray(rdp)


class _SumPlan(NamedTuple):
    """The plan of a numerical integral as a sum over equally spaced points, for each order: `[num_orders]` each.

    Attributes:
        first_point: the first point.
        last_point: the last point.
        num_steps: the number of steps from the first to the last point.
        margin: the distance from either end to the points between which the integrand is large.
        relative_error: the error of a sum over all points of the real line, relative to the integral.
    """

    first_point: FloatArray
    last_point: FloatArray
    num_steps: FloatArray
    margin: FloatArray
    relative_error: FloatArray


def _sum_plan(event: SampledGaussianEvent, orders: FloatArray) -> _SumPlan:
    """Returns the plan for the integral over x of E(x) = phi(x) w(x)^a v(x)^(1 - a) as a sum, for each order a.

    Here w and v are the densities of the release on the two worst neighbors, divided by phi. C is the largest norm of a
    contribution divided by the noise std. The steps are so small that the error of the sum is at most about
    `_SUM_ERROR` times the divergence.

    E is analytic. In the strip |Im x| <= y,

        |phi(x + iy)| = e^(y^2 / 2) phi(x),   |w(x + iy)| <= w(x),   |v(x + iy)| >= cos(C y / 2) v(x),

    because |A + B e^(it)|^2 = (A + B)^2 - 2 A B (1 - cos t) and 4 A B <= (A + B)^2. So the integral of |E| along the
    border of the strip is at most e^g times that of E, where g is y^2 / 2, less (a - 1) log cos(C y / 2) if a unit is
    replaced. A sum with steps h errs by at most 2 e^g / (e^(2 pi y / h) - 1) of that integral (Trefethen & Weideman
    2014, Theorem 5.1).
    """
    q = event.sampling_prob
    shift = event.shift
    # about the log of the moment - 1, which is at least a (a - 1) q^2 C^2 / 2 where it is small
    log_moment = np.log(orders * (orders - 1)) + 2 * np.log(q) + 2 * np.log(shift)
    log_inverse_error = np.log(4 * (1 + orders) / _SUM_ERROR) - np.clip(
        log_moment, _SMALLEST_LOG_MOMENT, 0.0
    )
    strip_height = np.sqrt(2 * log_inverse_error)  # y
    growth = strip_height * strip_height / 2
    if event.is_replaced:
        strip_height = np.minimum(
            np.sqrt(log_inverse_error / (0.5 + (orders - 1) * (shift * shift / 8))), 2 / shift
        )
        growth = strip_height * strip_height / 2 - (orders - 1) * np.log(
            np.cos(shift * strip_height / 2)
        )
    relative_error = 2 * np.exp(-log_inverse_error) / -np.expm1(-log_inverse_error - growth)
    margin = np.sqrt(2 * log_inverse_error) + 1
    # Right of (a + (a - 1) q) C + margin and left of -C - margin, log E falls outward with a slope >= margin:
    # the slope of log w is at most C, that of -log v at most q C where x > 0.
    first_points = -shift - margin
    last_points = (orders + (orders - 1) * (q if event.is_replaced else 0.0)) * shift + margin
    num_steps = (
        np.ceil(
            (last_points - first_points) * (log_inverse_error + growth) / (2 * np.pi * strip_height)
        )
        + 1
    )
    return _SumPlan(
        first_point=first_points,
        last_point=last_points,
        num_steps=np.nan_to_num(num_steps, nan=np.inf),
        margin=margin,
        relative_error=relative_error,
    )


def _rdp_by_sum(event: SampledGaussianEvent, orders: FloatArray) -> FloatArray:
    """Returns an upper bound on the Renyi curve of a sampled Gaussian by numerical integration, `[num_orders]`.

    The integrand is E - phi (a w - (a - 1) v), with the symbols of `_sum_plan`. Its integral is the moment E_Q[(P/Q)^a]
    less 1. The integrand is >= 0, so nothing cancels where the moment is nearly 1. Beyond the ends of the sum the
    integral is at most the last terms of E, and of (a - 1) phi v, divided by the slope of log E there. Large moments
    are scaled down.
    """
    sum_plan = _sum_plan(event, orders)  # [A] each
    q = event.sampling_prob
    shift = event.shift
    num_steps = int(sum_plan.num_steps.max())
    integration_step = (sum_plan.last_point - sum_plan.first_point) / num_steps
    a = orders[:, None]
    # the points of each order, [A, X]
    x = sum_plan.first_point[:, None] + integration_step[:, None] * np.arange(num_steps + 1)
    log_w = log_mixture_ratio(x, mean_shift=shift, sampling_prob=q)
    log_v = (
        log_mixture_ratio(-x, mean_shift=shift, sampling_prob=q)
        if event.is_replaced
        else np.zeros_like(x)
    )
    loss = log_w - log_v
    log_density = -0.5 * x * x - 0.5 * np.log(2 * np.pi)
    log_e = log_density + a * log_w - (a - 1) * log_v
    log_scale = np.maximum(log_e.max(axis=1), 0.0)[:, None]
    e = np.exp(log_e - log_scale)
    # the densities of both distributions, scaled as E
    phi_v = np.exp(log_density + log_v - log_scale)
    phi_w = np.exp(log_density + log_w - log_scale)
    # E - a phi w + (a - 1) phi v is phi v (e^(a loss) - 1 - a (e^loss - 1)), which has all digits near a loss of 0.
    is_loss_small = np.abs(a * loss) < 1
    small_loss = np.where(is_loss_small, loss, 0.0)
    terms_of_small_loss = phi_v * (np.expm1(a * small_loss) - a * np.expm1(small_loss))
    integrand_terms = np.where(is_loss_small, terms_of_small_loss, e - a * phi_w + (a - 1) * phi_v)
    # the sizes of the terms of the exponents, and the sizes that cancel
    exponent_size = 1 + np.abs(log_density) + a * np.abs(log_w) + (a - 1) * np.abs(log_v)
    size_of_canceling_terms = np.where(
        is_loss_small, phi_v * a * np.abs(loss), e + a * (phi_w + phi_v)
    )
    rounded_terms_by_order = (
        np.maximum(integrand_terms, 0.0) * (1 + _ULP * exponent_size)
        + _ULP * exponent_size * size_of_canceling_terms
    )
    sums = rounded_terms_by_order.sum(axis=1) * integration_step
    log_scale = log_scale[:, 0]
    end_terms = np.exp(-0.5 * sum_plan.margin * sum_plan.margin - log_scale) * (orders - 1)
    integral_beyond_ends = (e[:, 0] + e[:, -1] + 2 * end_terms) / sum_plan.margin
    summation_error = 2 * orders * sum_plan.relative_error * np.exp(-log_scale)
    excess_moment = (sums * (1 + num_steps * _ULP) + integral_beyond_ends + summation_error) / (
        1 - sum_plan.relative_error
    )
    log_moment = np.logaddexp(0.0, log_scale + np.log(excess_moment))
    return np.asarray(log_moment * (1 + _ULP) / (orders - 1))

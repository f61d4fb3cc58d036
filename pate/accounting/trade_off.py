"""The trade-off curve of a release: the errors that every attack makes, whatever it knows besides the release.

An attacker looks at the release and decides between two neighboring data sets, for instance whether one member takes
part. Let alpha be the probability of a false alarm, and beta the probability that the attacker misses the member. The
*trade-off curve* f(alpha) is the least beta of any attack (Dong, Roth & Su 2022). An accountant bounds delta at every
epsilon for both orders of two neighbors, and so each epsilon >= 0 gives two lines below the curve:

    f(alpha) >= 1 - delta(epsilon) - e^epsilon alpha,
    f(alpha) >= e^-epsilon (1 - delta(epsilon) - alpha).

The largest of these lines is convex and its own mirror image, and lies below the curves of both orders. A release is
*mu-GDP* if its trade-off curve is nowhere below that of a Gaussian release with l2 sensitivity / noise std = mu. All
functions err to the safe side (docs/proofs/trade_off.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pate.accounting import events
from pate.accounting.bit_pairs import bit_pairs
from pate.accounting.convex import lower_hull
from pate.accounting.pure_epsilon import pure_epsilon
from pate.accounting.special import expit
from pate.accounting.special import ndtr_without_scipy as ndtr
from pate.accounting.special import ndtri_without_scipy as ndtri
from pate.array_types import FloatArray
from pate.validation import require_non_negative, require_probability

DeltaAt = Callable[[float], float]
"""The delta of a release at an epsilon >= 0, for both orders of two neighbors."""

# The inverse of the golden ratio: each step of a golden-section search shortens the interval to 0.618 of its length.
_INVERSE_GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
_NUM_GOLDEN_STEPS = 30
# Every result is moved to the safe side by more than its rounding error: errors of probabilities are absolute, and
# those of a Gaussian curve and of sums of bounds are relative.
_ABSOLUTE_ROUNDING = 2.0**-50
_RELATIVE_ROUNDING = 2.0**-40
# The same for a mu that is a difference of two normal quantiles.
_MU_ROUNDING_RELATIVE = 1e-9
_MU_ROUNDING_ABSOLUTE = 1e-12
# The exponential of a larger number may be no float.
_LARGEST_EXPONENT = 700.0
# The number of lines below the curve that bound mu.
_NUM_LINES = 256
# Up to this epsilon, mu is that of the tangent at 0.
_TINY_EPSILON = 1e-4


def gaussian_trade_off(mu: float, *, alpha: float) -> float:
    """Returns the trade-off curve of a Gaussian release, Phi(Phi^-1(1 - alpha) - mu), rounded down.

    Args:
        mu: the l2 sensitivity / noise std, >= 0; infinity for no noise.
        alpha: the probability of a false alarm, in (0, 1).

    >>> round(1 - gaussian_trade_off(1.0, alpha=0.01), 3)
    0.092
    """
    require_probability("alpha", alpha)
    if mu == math.inf:
        return 0.0
    require_non_negative("mu", mu)
    return float(ndtr(-float(ndtri(alpha)) - mu)) * (1 - _RELATIVE_ROUNDING)


def trade_off_lower_bound(delta_at: DeltaAt, *, alpha: float, largest_epsilon: float) -> float:
    """Returns the largest value at alpha, rounded down and at least 0, that is found among lines below a curve f.

    Each epsilon >= 0 gives two lines below the trade-off curve: f(alpha) >= 1 - delta - e^epsilon alpha, and
    f(alpha) >= e^-epsilon (1 - delta - alpha). A golden-section search goes through the epsilons.

    Args:
        delta_at: the delta at each epsilon.
        alpha: the probability of a false alarm, in (0, 1).
        largest_epsilon: the epsilon where the search ends, >= 0 and finite.
    """

    def steep_line_height(epsilon: float) -> float:
        return 1 - delta_at(epsilon) - math.exp(epsilon) * alpha

    def flat_line_height(epsilon: float) -> float:
        return math.exp(-epsilon) * (1 - delta_at(epsilon) - alpha)

    # beyond log(1 / alpha) a steep line is below 0
    largest_height = _golden_section_max(
        steep_line_height, largest_x=min(largest_epsilon, math.log(1 / alpha))
    )
    if largest_height < alpha:  # elsewhere a flat line is not above the steep ones
        largest_height = max(
            largest_height, _golden_section_max(flat_line_height, largest_x=largest_epsilon)
        )
    return max(largest_height - _ABSOLUTE_ROUNDING, 0.0)


def max_advantage(delta_at: DeltaAt, *, largest_epsilon: float) -> float:
    """Returns an upper bound on 1 - alpha - f(alpha) of a trade-off curve f, at every alpha, rounded up and at most 1.

    Each epsilon gives two lines below the curve (`trade_off_lower_bound`), which cross where both alpha and f(alpha)
    are c = (1 - delta) / (1 + e^epsilon). So each epsilon gives the bound 1 - 2 c, and the search looks for the least
    of these bounds. Source: Kairouz, Oh & Viswanath 2015.

    Args:
        delta_at: the delta at each epsilon.
        largest_epsilon: the epsilon where the search ends, >= 0 and finite.
    """

    def crossing_alpha(epsilon: float) -> float:
        return (1 - delta_at(epsilon)) / (1 + math.exp(epsilon))

    largest_crossing_alpha = _golden_section_max(crossing_alpha, largest_x=largest_epsilon)
    return min(1 - 2 * largest_crossing_alpha + _ABSOLUTE_ROUNDING, 1.0)


@dataclass(frozen=True)
class DeltaFreeBounds:
    """Bounds without a delta on several releases together, for arbitrarily small alpha; each is infinite where unknown.

    Alpha is the probability that an attack gives a false alarm.

    Attributes:
        mu: a mu for which the releases are mu-GDP, composed of the mu of each release.
        rho: a rho for which the releases are rho-zCDP at all orders.
        epsilon: an epsilon for which the releases are epsilon-DP, with delta = 0.
        is_exact: whether no smaller mu holds, up to rounding, as all releases are Gaussian.
    """

    mu: float
    rho: float
    epsilon: float
    is_exact: bool = False

    @classmethod
    def from_leaves(
        cls, counted_leaves: Iterable[tuple[events.LeafEvent, float]]
    ) -> DeltaFreeBounds:
        """Returns the bounds of several releases together: sums of rho and of epsilon, and for mu a sum of squares.

        Args:
            counted_leaves: pairs of the price of a release and the number of such releases, > 0.
        """
        mu_squared = 0.0
        rho = 0.0
        epsilon = 0.0
        is_exact = True
        for leaf, count in counted_leaves:
            bounds_of_leaf = _bounds_of_leaf(leaf)
            mu_squared += count * bounds_of_leaf.mu * bounds_of_leaf.mu
            rho += count * bounds_of_leaf.rho
            epsilon += count * bounds_of_leaf.epsilon
            is_exact = is_exact and isinstance(leaf, (events.GaussianEvent, events.NoOpEvent))
        rounding_up_factor = 1 + _RELATIVE_ROUNDING
        mu = math.sqrt(mu_squared) * rounding_up_factor
        return cls(
            mu=mu,
            rho=rho * rounding_up_factor,
            epsilon=epsilon * rounding_up_factor,
            is_exact=is_exact,
        )

    def with_failures(self, failure_prob: float) -> DeltaFreeBounds:
        """Returns these bounds, or infinite ones where the releases fail with a probability above 0."""
        return UNBOUNDED if failure_prob > 0 else self


UNBOUNDED = DeltaFreeBounds(mu=math.inf, rho=math.inf, epsilon=math.inf)
"""The bounds of releases about which nothing is known at arbitrarily small alpha."""


def least_mu(
    delta_at: DeltaAt, *, largest_epsilon: float, delta_free_bounds: DeltaFreeBounds
) -> float:
    """Returns a mu for which a release is mu-GDP, rounded up; infinity where none is found.

    The lines 1 - delta - e^epsilon alpha of 256 epsilons bound the trade-off curve from below by a chain of segments.
    The Gaussian curve is convex, so it is below a segment if it is below both ends. To the left of the chain, at
    smaller alpha, rho bounds the trade-off curve. Each end may be taken as the leftmost one of the chain, and gives a
    valid mu; the smallest one is returned (docs/proofs/trade_off.md, claim 3).

    Args:
        delta_at: the delta at each epsilon.
        largest_epsilon: the largest epsilon of a line, >= 0 and finite.
        delta_free_bounds: the bounds that hold for arbitrarily small alpha.
    """
    lines = _hull_lines(
        delta_at, largest_epsilon=largest_epsilon, delta_free_bounds=delta_free_bounds
    )
    # The segments end at alpha = beta, because the curve to the right is the mirror image of that to the left.
    middle_alpha = float(np.max((1 - lines.deltas) / (1 + lines.slopes)))
    if middle_alpha == 0:  # no line is above 0
        return delta_free_bounds.mu
    segment_ends = _segment_ends(lines, middle_alpha)
    with np.errstate(invalid="ignore"):
        mus_of_ends = ndtri(np.minimum(segment_ends.detection_probs, 1.0)) - ndtri(
            segment_ends.alphas
        )
        # The ends are in the order of falling alpha: each maximum is over an end and all ends to the right of it.
        mus_right_of_ends = np.maximum.accumulate(mus_of_ends)
    mus_left_of_ends = _mus_by_rho(segment_ends.alphas, delta_free_bounds.rho)
    if lines.deltas[-1] == 0:
        # A line with delta = 0 joins the leftmost end to alpha = 0 and beta = 1, where Gaussian curves begin, too.
        mus_left_of_ends[-1] = 0.0
    mu = float(np.min(np.maximum(mus_right_of_ends, mus_left_of_ends)))
    return min(mu * (1 + _MU_ROUNDING_RELATIVE) + _MU_ROUNDING_ABSOLUTE, delta_free_bounds.mu)


def _golden_section_max(function: Callable[[float], float], *, largest_x: float) -> float:
    """Returns the largest value of a function between 0 and `largest_x` that a golden-section search finds.

    For a function with one local maximum the search finds the place of the maximum up to 10^-6 of the interval. For
    another function the result may be far too small. A result that is too small is on the safe side for all callers.
    """
    smallest_x = 0.0
    largest_value = max(function(smallest_x), function(largest_x))
    # Two points within the interval; the part beyond the one with the smaller value is cut off in each step.
    left_x = largest_x - _INVERSE_GOLDEN_RATIO * (largest_x - smallest_x)
    right_x = smallest_x + _INVERSE_GOLDEN_RATIO * (largest_x - smallest_x)
    left_value = function(left_x)
    right_value = function(right_x)
    for _ in range(_NUM_GOLDEN_STEPS):
        largest_value = max(largest_value, left_value, right_value)
        if left_value > right_value:
            largest_x = right_x
            right_x = left_x
            right_value = left_value
            left_x = largest_x - _INVERSE_GOLDEN_RATIO * (largest_x - smallest_x)
            left_value = function(left_x)
        else:
            smallest_x = left_x
            left_x = right_x
            left_value = right_value
            right_x = smallest_x + _INVERSE_GOLDEN_RATIO * (largest_x - smallest_x)
            right_value = function(right_x)
    return max(largest_value, left_value, right_value)


def _bounds_of_leaf(leaf: events.LeafEvent) -> DeltaFreeBounds:
    """Returns the mu, rho and epsilon that bound one release; each is infinite where none is known."""
    match leaf:
        case events.NoOpEvent():
            return DeltaFreeBounds(mu=0.0, rho=0.0, epsilon=0.0)
        case events.GaussianEvent() | events.SampledGaussianEvent():
            # A release on a random sample hides more than a release on all units.
            return _bounds_of_gaussian(leaf.noise_multiplier)
        case events.WinnerEvent():
            # The winner is a function of the noisy counts.
            return _bounds_of_gaussian(leaf.noise_multiplier / math.sqrt(leaf.num_moving))
        case events.NoisyMaxGaussianEvent():
            return _bounds_of_gaussian(leaf.noise_multiplier / math.sqrt(leaf.num_candidates))
        case events.ZCdpEvent():
            return DeltaFreeBounds(mu=math.inf, rho=leaf.rho, epsilon=math.inf)
        case events.BoundedRangeEvent():
            # The worst pair has the losses epsilon / 2 and -epsilon / 2 (docs/proofs/trade_off.md, claim 6), so mu is
            # that of (epsilon / 2)-DP. And rho is epsilon^2 / 8 (Dong, Durfee & Rogers 2020).
            delta_free_bounds = _pure_dp_bounds(leaf.epsilon, num_releases=1)
            mu = _mu_of_pure_dp(leaf.epsilon / 2)
            return replace(delta_free_bounds, mu=mu, rho=leaf.epsilon * leaf.epsilon / 8)
        case events.ThresholdEvent():
            # The bit is a function of the noisy integer.
            return replace(_bounds_of_gaussian(leaf.noise_std), epsilon=pure_epsilon(leaf))
        case events.OneBitEvent():
            delta_free_bounds = _pure_dp_bounds(pure_epsilon(leaf), num_releases=1)
            mu = min(delta_free_bounds.mu, _mu_of_bit(leaf))
            return replace(delta_free_bounds, mu=mu, rho=min(delta_free_bounds.rho, mu * mu / 2))
        case events.PureDpEvent():
            return _pure_dp_bounds(leaf.epsilon, num_releases=1)
        case events.SessionEvent():
            return _pure_dp_bounds(leaf.epsilon, num_releases=leaf.num_calls)
    return UNBOUNDED


def _bounds_of_gaussian(noise_multiplier: float) -> DeltaFreeBounds:
    """Returns the mu and rho that bound a Gaussian release, with an infinite epsilon.

    Args:
        noise_multiplier: noise std / l2 sensitivity, >= 0; with 0 all bounds are infinite.
    """
    mu = 1 / noise_multiplier if noise_multiplier else math.inf
    return DeltaFreeBounds(mu=mu, rho=mu * mu / 2, epsilon=math.inf)


def _pure_dp_bounds(epsilon: float, *, num_releases: float) -> DeltaFreeBounds:
    """Returns the mu, rho and epsilon that bound several epsilon-DP releases together.

    Args:
        epsilon: the epsilon of each release, >= 0; infinity is allowed.
        num_releases: the number of releases, >= 0; infinity is allowed.
    """
    if epsilon == 0 or num_releases == 0:
        return DeltaFreeBounds(mu=0.0, rho=0.0, epsilon=0.0)
    return DeltaFreeBounds(
        mu=math.sqrt(num_releases) * _mu_of_pure_dp(epsilon),
        rho=num_releases * epsilon * epsilon / 2,  # Bun & Steinke 2016
        epsilon=num_releases * epsilon,
    )


def _mu_of_pure_dp(epsilon: float) -> float:
    """Returns the least mu for which every epsilon-DP release is mu-GDP, 2 Phi^-1(1 - alpha), alpha = 1/(1+e^epsilon).

    Epsilon with delta = 0 gives two lines below the trade-off curve, which cross at alpha. The Gaussian curve must not
    lie above that point. For an epsilon below 1e-4 the formula loses its digits, and the slightly larger
    sqrt(pi / 2) epsilon is returned. For an epsilon of 700 or more the result is infinity.
    """
    if epsilon < _TINY_EPSILON:
        slope_of_mu_at_zero = math.sqrt(math.pi / 2)
        return slope_of_mu_at_zero * epsilon
    log_alpha = -float(np.logaddexp(0.0, epsilon))
    if log_alpha <= -_LARGEST_EXPONENT:
        return math.inf
    return -2 * float(ndtri(math.exp(log_alpha)))


def _mu_of_bit(bit_event: events.OneBitEvent) -> float:
    """Returns the least mu for which a bit is mu-GDP, the largest Phi^-1(p) - Phi^-1(q) of neighbors, rounded up.

    The trade-off curve of two neighbors with the probabilities p > q of a 1 is a polygon with one corner, at alpha = q
    and beta = 1 - p. The Gaussian curve is convex, so it is below the polygon if it is not above the corner
    (docs/proofs/trade_off.md, claim 6).
    """
    logit_pairs = bit_pairs(bit_event)
    # Phi^-1 of each probability, computed from the smaller one of p and 1 - p, which keeps its digits
    normal_quantiles = ndtri(expit(-np.abs(logit_pairs))) * -np.sign(logit_pairs)
    with np.errstate(invalid="ignore"):
        gdp_mu_by_pair = normal_quantiles[1] - normal_quantiles[0]
    largest_mu = float(np.max(np.nan_to_num(gdp_mu_by_pair, nan=0.0, posinf=np.inf), initial=0.0))
    if largest_mu == 0:
        return 0.0
    return largest_mu * (1 + _MU_ROUNDING_RELATIVE) + _MU_ROUNDING_ABSOLUTE


class _Lines(NamedTuple):
    """The lines 1 - delta - slope * alpha below a trade-off curve, by rising slope, `[num_lines]` each."""

    slopes: FloatArray  # e^epsilon
    deltas: FloatArray


def _hull_lines(
    delta_at: DeltaAt, largest_epsilon: float, delta_free_bounds: DeltaFreeBounds
) -> _Lines:
    """Returns lines below a trade-off curve, those of 256 epsilons, without lines that the others make superfluous.

    A line is superfluous if it is nowhere above all others. Where a release is epsilon-DP for an epsilon below 700, the
    line with that epsilon and delta = 0 is one of the lines. `least_mu` explains the arguments.
    """
    epsilons = np.linspace(0.0, min(largest_epsilon, delta_free_bounds.epsilon), _NUM_LINES)
    deltas = np.array([delta_at(float(epsilon)) for epsilon in epsilons])
    if delta_free_bounds.epsilon <= largest_epsilon:
        deltas[-1] = 0.0
    elif delta_free_bounds.epsilon < _LARGEST_EXPONENT:
        epsilons = np.append(epsilons, delta_free_bounds.epsilon)
        deltas = np.append(deltas, 0.0)
    slopes = np.exp(epsilons)
    # The slopes of tiny epsilons are all 1. Of lines with equal slopes the last one is the largest.
    is_last_of_slope = np.diff(slopes, append=np.inf) > 0
    slopes = slopes[is_last_of_slope]
    deltas = deltas[is_last_of_slope]
    hull_indices = lower_hull(x=slopes, y=deltas)
    return _Lines(slopes=slopes[hull_indices], deltas=deltas[hull_indices])


class _SegmentEnds(NamedTuple):
    """The ends of a chain of segments below a trade-off curve, by falling alpha, `[num_ends]` each."""

    alphas: FloatArray
    detection_probs: FloatArray  # 1 - beta, the probability that the attack finds the member


def _segment_ends(lines: _Lines, middle_alpha: float) -> _SegmentEnds:
    """Returns the ends of the segments that bound a trade-off curve from below, by falling alpha.

    The end with the largest alpha is the point where the highest line has beta = alpha. The other ends are the points
    where two lines with neighboring slopes cross, if their alpha is between 0 and `middle_alpha`.

    Args:
        lines: the lines, by rising slope, none of which is superfluous.
        middle_alpha: the largest alpha, > 0, at which one of the lines has beta = alpha.
    """
    alphas = (lines.deltas[:-1] - lines.deltas[1:]) / np.diff(lines.slopes)
    detection_probs = lines.deltas[:-1] + lines.slopes[:-1] * alphas
    is_in_left_half = (alphas < middle_alpha) & (alphas > 0)
    return _SegmentEnds(
        alphas=np.append(middle_alpha, alphas[is_in_left_half]),
        detection_probs=np.append(1 - middle_alpha, detection_probs[is_in_left_half]),
    )


def _mus_by_rho(alphas: FloatArray, rho: float) -> FloatArray:
    """Returns, for each alpha, a mu whose Gaussian trade-off curve is below that of every rho-zCDP release up to alpha.

    The power p of a test of a rho-zCDP release is at most exp(-(sqrt(log 1/alpha) - sqrt(rho))^2) while log 1/alpha is
    above rho. The difference Phi^-1(1 - alpha) - Phi^-1(1 - p) is larger for a larger alpha
    (docs/proofs/trade_off.md, claim 4). Entries are infinite where log 1/alpha is at most rho.
    """
    root_gaps = np.sqrt(-np.log(alphas)) - math.sqrt(rho)
    is_power_bounded = root_gaps > 0
    with np.errstate(invalid="ignore"):
        largest_powers = np.where(is_power_bounded, np.exp(-root_gaps * root_gaps), 1.0)
    return np.asarray(np.where(is_power_bounded, ndtri(largest_powers) - ndtri(alphas), np.inf))

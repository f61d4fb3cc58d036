"""The pure-DP accountant: optimal composition of epsilon-DP releases (delta = 0).

The worst case of n epsilon-DP releases is n-fold randomized response. Its privacy loss is (2k - n) epsilon with
k ~ Bin(n, 1 / (1 + e^-epsilon)) (Kairouz, Oh & Viswanath 2015, Theorem 3.3; Murtagh & Vadhan 2016). The delta at an
epsilon of x (the hockey-stick divergence) is

    delta(x) = max over thresholds j of  P(k >= j) - e^x Q(k >= j),

with the distributions P and Q of k on two neighbors. So epsilon and delta are closed forms of the tails of a binomial.
The worst case of releases with several epsilons is the product of their randomized responses. The loss of the product
is moved to a grid: the mass of each loss is split between the two nearest points, which only makes both distributions
easier to distinguish (docs/proofs/pure_dp.md).
"""

import math
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np

from pate.accounting.event_tree import failure_probability, leaves, priced_by_accesses
from pate.accounting.events import Event, PureDpEvent
from pate.accounting.loss_accountant import AccountantBesideRenyi
from pate.accounting.pure_epsilon import pure_epsilon
from pate.accounting.special import log_binomials, log_expit
from pate.array_types import FloatArray
from pate.validation import require_count, require_non_negative, require_probability

# The largest numbers of releases, and of distinct epsilons, whose optimal composition is computed.
_LARGEST_NUM_RELEASES = 1_000_000
_LARGEST_NUM_EPSILONS = 64
# The grid of losses has at least so many points.
_NUM_GRID_POINTS = 4096
# The grid reaches so many times sqrt(n) epsilon beyond the mean loss of n releases, whose standard deviation is at most
# sqrt(n) epsilon. By Hoeffding's inequality the loss lies beyond either end with a probability of at most exp(-72).
_REACH_IN_DEVIATIONS = 12.0
# The relative rounding error of terms that cancel in a logarithm.
_TERM_ROUNDING = 2.0**-50
# A smaller mass may be denormal, and has lost digits.
_SMALLEST_MASS = 1e-290
# The relative rounding error of masses, whose logarithms are differences of large numbers, and of their sums. It grows
# with the number of releases.
_ROUNDING = 1e-12


class PureDpAccountant(AccountantBesideRenyi):
    """An accountant that composes epsilon-DP releases (delta = 0) optimally.

    Events that are not pure DP, such as Gaussians, are refused. Every event is priced by its epsilon of pure DP alone.
    Other accountants have smaller totals for bounded ranges and bits, which leak less than that epsilon allows. For
    releases with one epsilon the composition is exact (Kairouz, Oh & Viswanath 2015, Theorem 3.3). For several epsilons
    it is an upper bound, computed on a grid (docs/proofs/pure_dp.md). A total is never above the sum of the epsilons,
    nor above the total of `RdpAccountant` for a `PureDpEvent` with each of these epsilons. For more than a million
    releases or 64 distinct epsilons the total is the smaller of both.

    >>> round(PureDpAccountant().compose(PureDpEvent(0.05), 600).get_epsilon(1e-6), 3)
    6.142
    """

    name = "pure_dp"
    any_event_order = True

    def __init__(self) -> None:
        super().__init__()
        self._count_of_epsilon: dict[float, int] = {}  # the number of releases by their epsilon

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event to the total, `count` times, by its epsilon of pure DP, and returns this accountant.

        Raises `InvalidValue`, and adds nothing, where an event within `event` is not pure DP.
        """
        event = priced_by_accesses(event)
        counted_leaves = leaves(event, num_releases=require_count("count", count, minimum=0))
        # All epsilons are computed first, so that nothing is added where a part is not pure DP.
        counted_epsilons = [
            (pure_epsilon(leaf), num_times) for leaf, num_times in counted_leaves if num_times
        ]
        for epsilon, num_times in counted_epsilons:
            if epsilon > 0:
                self._count_of_epsilon[epsilon] = self._count_of_epsilon.get(epsilon, 0) + num_times
                self._rdp.compose(PureDpEvent(epsilon), count=num_times)
        self.failure_prob += count * failure_probability(event)
        return self

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the epsilon at `target_delta` of all events: the smallest of the bounds that the class names.

        Raises `InvalidValue` where the failure probabilities of the events sum to `target_delta` or more.
        """
        remaining_delta = self.remaining_delta(target_delta)
        epsilon_bound = min(self._rdp.get_epsilon(remaining_delta), self._sum_of_epsilons())
        if not self._composes_optimally():
            return epsilon_bound
        log_tails_of_pair = _log_tails_of_product(tuple(self._count_of_epsilon.items()))
        return min(
            epsilon_bound, _epsilon_of_tails(log_tails_of_pair, target_delta=remaining_delta)
        )

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the delta at `target_epsilon` of all events, by the bounds of the class, failures included."""
        require_non_negative("target_epsilon", target_epsilon)
        has_no_delta = self._sum_of_epsilons() <= target_epsilon
        delta_bound = 0.0 if has_no_delta else self._rdp.get_delta(target_epsilon)
        if delta_bound > 0 and self._composes_optimally():
            log_tails_of_pair = _log_tails_of_product(tuple(self._count_of_epsilon.items()))
            delta_bound = min(
                delta_bound, _delta_of_tails(log_tails_of_pair, target_epsilon=target_epsilon)
            )
        return min(1.0, delta_bound + self.failure_prob)

    def _sum_of_epsilons(self) -> float:
        """Returns the sum of the epsilons of all releases, rounded up."""
        with np.errstate(over="ignore"):
            total_epsilon = sum(
                np.float64(epsilon) * count for epsilon, count in self._count_of_epsilon.items()
            )
            rounding_up_factor = 1 + 1e-12
        return float(total_epsilon * rounding_up_factor)

    def _composes_optimally(self) -> bool:
        """Returns True if the optimal composition is computed.

        There must be 1 to a million releases, with at most 64 distinct epsilons, and the sum of the epsilons of all
        releases must be finite.
        """
        num_releases = sum(self._count_of_epsilon.values())
        has_few_epsilons = len(self._count_of_epsilon) <= _LARGEST_NUM_EPSILONS
        is_small = 0 < num_releases <= _LARGEST_NUM_RELEASES and has_few_epsilons
        return is_small and math.isfinite(self._sum_of_epsilons())


def pure_dp_composition_epsilon(epsilon: float, *, count: int, target_delta: float) -> float:
    """Returns the smallest epsilon of `count` adaptive epsilon-DP releases together, at `target_delta`.

    Args:
        epsilon: the epsilon of each release.
        count: the number of releases.
        target_delta: the delta of the returned epsilon, in (0, 1).
    """
    require_probability("target_delta", target_delta)
    log_tails_of_pair = _log_tails(epsilon, num_releases=count)
    return min(count * epsilon, _epsilon_of_tails(log_tails_of_pair, target_delta=target_delta))


class _LogTails(NamedTuple):
    """Logarithms of P(loss >= l) and Q(loss >= l) for falling thresholds l, `[num_thresholds]` each.

    P and Q are the distributions of several releases on two neighbors, and the loss is log(P / Q).
    """

    p: FloatArray  # rounded up
    q: FloatArray  # rounded down


def _epsilon_of_tails(log_tails_of_pair: _LogTails, target_delta: float) -> float:
    """Returns the smallest x >= 0 for which P - e^x Q is at most `target_delta` at every threshold of the tails.

    Here P and Q are the probabilities of a loss of at least the threshold on two neighbors. For one threshold the
    result is x = log(P - delta) - log Q.
    """
    log_delta = math.log(target_delta)
    is_above = log_tails_of_pair.p > log_delta
    log_p = log_tails_of_pair.p[is_above]
    with np.errstate(divide="ignore"):
        epsilons = log_p + np.log(-np.expm1(log_delta - log_p)) - log_tails_of_pair.q[is_above]
    return float(np.max(epsilons, initial=0.0))


def _delta_of_tails(log_tails_of_pair: _LogTails, target_epsilon: float) -> float:
    """Returns the largest P - e^x Q over all thresholds of the tails, x being `target_epsilon`; 0 if none is positive.

    Here P and Q are the probabilities of a loss of at least the threshold on two neighbors.
    """
    log_p, log_q = log_tails_of_pair
    is_positive = log_p > target_epsilon + log_q
    # each difference P - e^x Q as a share of P
    shares_of_p = -np.expm1(target_epsilon + (log_q - log_p)[is_positive])
    deltas = np.exp(log_p[is_positive]) * shares_of_p
    return float(np.max(deltas, initial=0.0))


def _log_tails(epsilon: float, num_releases: int) -> _LogTails:
    """Returns the log of P(k >= j) and of Q(k >= j), for j = n, ..., 0, of n randomized responses, `[n + 1]` each.

    k is the number of responses that are true on the first neighbor. P and Q are its distributions on both neighbors.

    Args:
        epsilon: the epsilon of each randomized response, >= 0.
        num_releases: n, the number of releases.
    """
    require_non_negative("epsilon", epsilon)
    num_releases = require_count("count", num_releases, minimum=0)
    num_truths = np.arange(num_releases, -1, -1, dtype=np.float64)
    log_masses = _log_truth_masses(epsilon, num_truths=num_truths)
    log_p = np.logaddexp.accumulate(log_masses)
    log_q = np.logaddexp.accumulate(log_masses - (2 * num_truths - num_releases) * epsilon)
    rounding = _TERM_ROUNDING * (math.lgamma(num_releases + 1) + num_releases * (1 + epsilon))
    return _LogTails(p=np.minimum(log_p + rounding, 0.0), q=np.asarray(log_q - rounding))


def _log_truth_masses(epsilon: float, num_truths: FloatArray) -> FloatArray:
    """Returns the log of the probability of each number of true ones among n randomized responses, `[n + 1]`.

    A response is true with the probability 1 / (1 + e^-epsilon).

    Args:
        epsilon: the epsilon of each randomized response, >= 0.
        num_truths: all numbers from 0 to n, rising or falling, `[n + 1]`.
    """
    num_releases = len(num_truths) - 1
    return np.asarray(
        log_binomials(num_releases)  # the same in either order
        + num_truths * log_expit(epsilon)
        + (num_releases - num_truths) * log_expit(-epsilon)
    )


class _GridLoss(NamedTuple):
    """The distribution of the summed privacy loss of several releases on a grid of losses, on the first neighbor."""

    first_multiple: int  # the smallest loss, as a multiple of the grid's spacing
    # the probability of each loss of the grid, from the smallest loss on, `[num_points]`
    masses: FloatArray
    infinite_loss_prob: float  # the probability of an infinite loss


def _loss_on_grid(epsilon: float, num_releases: int, grid_spacing: float) -> _GridLoss:
    """Returns the distribution of the summed loss of `num_releases` epsilon-DP releases on a grid.

    The probability of a loss between two points is split between both, so that the total probability stays the same on
    both neighbors. Losses below the grid are moved up to its first point. Losses above the grid count as infinite.

    Args:
        epsilon: the epsilon of each release.
        num_releases: the number of releases.
        grid_spacing: the distance between two points of the grid.
    """
    num_truths = np.arange(num_releases + 1, dtype=np.float64)
    masses = np.exp(_log_truth_masses(epsilon, num_truths=num_truths))
    losses = (2 * num_truths - num_releases) * epsilon
    mean_loss = num_releases * epsilon * math.tanh(epsilon / 2)
    loss_reach = _REACH_IN_DEVIATIONS * math.sqrt(num_releases) * epsilon
    first_multiple = math.floor((mean_loss - loss_reach) / grid_spacing)
    last_multiple = math.ceil((mean_loss + loss_reach) / grid_spacing)
    is_finite = losses <= last_multiple * grid_spacing  # larger losses count as infinite
    grid_positions = np.clip(
        losses[is_finite] / grid_spacing - first_multiple,
        0.0,
        float(last_multiple - first_multiple),
    )
    lower_grid_positions = np.minimum(
        np.floor(grid_positions), float(last_multiple - first_multiple - 1)
    )
    # The share w of the upper one of two points a < b solves w e^-b + (1 - w) e^-a = e^-loss, so that the total
    # probability stays the same on the second neighbor, too.
    upper_shares = np.expm1(-(grid_positions - lower_grid_positions) * grid_spacing) / math.expm1(
        -grid_spacing
    )
    upper_masses = masses[is_finite] * np.clip(upper_shares, 0.0, 1.0)
    lower_indices = lower_grid_positions.astype(np.int64)
    num_points = last_multiple - first_multiple + 1
    lower_masses = np.bincount(lower_indices, masses[is_finite] - upper_masses, num_points)
    grid_masses = lower_masses + np.bincount(lower_indices + 1, upper_masses, num_points)
    infinite_loss_prob = float(masses[~is_finite].sum())
    return _GridLoss(
        first_multiple=first_multiple,
        masses=np.asarray(grid_masses, dtype=np.float64),
        infinite_loss_prob=infinite_loss_prob,
    )


# A search for a delta, or a trade-off curve, asks for the same tails dozens of times.
@lru_cache(maxsize=4)
def _log_tails_of_product(counted_epsilons: tuple[tuple[float, int], ...]) -> _LogTails:
    """Returns the tails of the summed privacy loss of all releases, for falling thresholds.

    With several epsilons the losses are summed on a grid, and the first threshold is infinity.

    Args:
        counted_epsilons: each epsilon with the number of its releases.
    """
    if len(counted_epsilons) == 1:
        [(epsilon_of_release, num_releases)] = counted_epsilons
        return _log_tails(epsilon_of_release, num_releases=num_releases)
    # an upper bound on the variance of the summed loss
    variance_bound = math.fsum(
        num_releases * epsilon**2 for epsilon, num_releases in counted_epsilons
    )
    grid_spacing = 2 * _REACH_IN_DEVIATIONS * math.sqrt(variance_bound) / _NUM_GRID_POINTS
    first_multiple = 0
    infinite_loss_prob = 0.0
    masses = np.ones(1)
    for epsilon_of_release, num_releases in counted_epsilons:
        grid_loss = _loss_on_grid(
            epsilon_of_release, num_releases=num_releases, grid_spacing=grid_spacing
        )
        first_multiple += grid_loss.first_multiple
        infinite_loss_prob += grid_loss.infinite_loss_prob
        masses = np.asarray(np.convolve(masses, grid_loss.masses), dtype=np.float64)
    losses = (first_multiple + np.arange(len(masses))) * grid_spacing
    rounding = _ROUNDING * (1 + sum(num_releases for _, num_releases in counted_epsilons) / 100)
    infinite_loss_prob = max(infinite_loss_prob, float(np.finfo(float).tiny))
    tail_probs = np.cumsum(masses[::-1]) * (1 + rounding) + infinite_loss_prob
    # Smaller masses have lost their digits, and are left out of Q, which is rounded down.
    has_digits = masses > _SMALLEST_MASS
    log_masses = np.log(np.where(has_digits, masses, 1.0))
    masses_of_neighbor = np.exp(np.minimum(log_masses - losses, 0.0)) * has_digits
    tail_probs_of_neighbor = np.cumsum(masses_of_neighbor[::-1]) * (1 - rounding)
    with np.errstate(divide="ignore"):
        return _LogTails(
            p=np.log(np.append(infinite_loss_prob, tail_probs)),
            q=np.log(np.append(0.0, tail_probs_of_neighbor)),
        )

"""The privacy profile of report noisy max with Gaussian noise: an upper bound on its delta at each epsilon.

The release is the index of the largest of n values, each with Gaussian noise of standard deviation 1. Each value
differs by at most D / 2 between neighbors. The index lies in a set S of `a` indices if the largest noisy value in S
exceeds the largest of the other n - a values. Let M_a be the largest of a standard normals, and H(X || Y) the delta of
the pair (X, Y) at some epsilon (the hockey-stick divergence). Then the delta of S is at most the smaller of

    H(M_a + D || M_a)   and   H(M_(n-a) - D || M_(n-a)).

The profile of the release is at most the maximum, over a, of the largest convex function of e^epsilon below this bound
(docs/proofs/gap_selection.md, docs/proofs/pld.md).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pate.accounting.convex import convex_minorant
from pate.accounting.events import NoisyMaxGaussianEvent, OpposedMaximaEvent
from pate.accounting.gaussian_pairs import ShiftedMaximum
from pate.accounting.special import log_ndtr
from pate.array_types import FloatArray

# Beyond so many standard deviations a normal has no mass in double precision.
_FARTHEST = 40.0
# The search for a point ends here, where the square is still a float. With a tiny shift no point has the wanted loss.
_LARGEST_POINT = 1e100
# The error of a point in standard deviations. It changes a profile by its square, which is below the last digit.
_LOCATION_ERROR = 1e-8
_LARGEST_NUM_HALVINGS = 70
# The range of the falling maximum of `opposite_maxima`, whose lower end also moves down by the shift, and the number of
# cells into which it is cut.
_LOWEST = -12.0
_HIGHEST = 9.5
_NUM_CELLS = 600
# A larger loss of a cell counts as infinite.
_LARGEST_LOSS = 300.0
# The number of epsilons between which the delta of the rising maximum is interpolated.
_NUM_POINTS = 6000
# The sizes of sets are divided into at most so many blocks, each of which is bounded as a whole.
_NUM_BLOCKS = 64
_NUM_BLOCKS_OF_OPPOSED_MAXIMA = 20


@dataclass(frozen=True)
class NoisyMaximum:
    """A pair of distributions that dominates report noisy max with Gaussian noise, given by its privacy profile."""

    event: NoisyMaxGaussianEvent

    @property
    def variance(self) -> float:
        """A rough second moment of the privacy loss; used to choose grids, and not a rigorous bound."""
        return ShiftedMaximum(
            num_normals=self.event.num_candidates - 1,
            shift_of_maximum=2 / self.event.noise_multiplier,
        ).variance

    def epsilon_below(self, delta: float) -> float:
        """Returns an epsilon at which the privacy profile is below `delta`."""
        # The Renyi bound a D^2 / 2 + log(n) / (a - 1) of Zhu & Wang (2022), converted at its best order a.
        shift = 2 / self.event.noise_multiplier
        return shift * (
            shift / 2 + math.sqrt(2 * (math.log(self.event.num_candidates) - math.log(delta)))
        )


def noisy_maximum_profile(event: NoisyMaxGaussianEvent, epsilons: FloatArray) -> FloatArray:
    """Returns an upper bound on the delta of report noisy max at each epsilon, `[num_epsilons]`.

    The delta of a set of indices has two bounds. One is that of the largest noise of the set, moved up by
    D = 2 / noise_multiplier. The other is that of the largest noise outside of the set, moved down by D. For an
    `OpposedMaximaEvent` a third bound holds: both maxima move by D / 2, in opposite directions.

    Args:
        event: the price of the release, with two or more candidates and noise.
        epsilons: rising epsilons, positive or negative, `[num_epsilons]`.
    """
    n = event.num_candidates
    is_opposed = isinstance(event, OpposedMaximaEvent)
    shift_of_maximum = 2 / event.noise_multiplier
    exp_epsilons = np.exp(epsilons)
    profile = np.zeros_like(epsilons)
    largest_num_blocks = _NUM_BLOCKS_OF_OPPOSED_MAXIMA if is_opposed else _NUM_BLOCKS
    num_set_sizes = n - 1
    num_blocks = min(num_set_sizes, largest_num_blocks)
    min_set_sizes_per_block = num_set_sizes // num_blocks
    num_larger_blocks = num_set_sizes % num_blocks
    smallest_set_size = 1  # the smallest size of a set in the block
    # The delta of a moved maximum is no smaller for more normals. So the bounds of a block are those of its largest set
    # and of the largest complement, which is that of its smallest set.
    for block in range(num_blocks):
        num_sizes = min_set_sizes_per_block + (1 if block < num_larger_blocks else 0)
        largest_set_size = smallest_set_size + num_sizes - 1
        deltas_if_raised = moved_maximum(
            largest_set_size, shift_of_maximum=shift_of_maximum, epsilons=epsilons
        )
        deltas_if_lowered = moved_maximum(
            n - smallest_set_size, shift_of_maximum=-shift_of_maximum, epsilons=epsilons
        )
        delta_bounds = np.minimum(deltas_if_raised, deltas_if_lowered)
        if is_opposed:
            deltas_if_opposed = opposite_maxima(
                largest_set_size,
                num_falling_normals=n - smallest_set_size,
                shift_of_maximum=shift_of_maximum / 2,
                epsilons=epsilons,
            )
            delta_bounds = np.minimum(delta_bounds, deltas_if_opposed)
        np.maximum(profile, convex_minorant(x=exp_epsilons, y=delta_bounds), out=profile)
        smallest_set_size = largest_set_size + 1
    return profile


def moved_maximum(num_normals: int, shift_of_maximum: float, epsilons: FloatArray) -> FloatArray:
    """Returns the delta of the pair (M + shift_of_maximum, M) at each epsilon, `[num_epsilons]`.

    M is the largest of several standard normals.

    Args:
        num_normals: the number of independent standard normals of which M is the largest.
        shift_of_maximum: the distance by which M is moved, positive or negative.
        epsilons: the epsilons, positive or negative, `[num_epsilons]`.
    """
    # The value of the maximum is x = t, or x = -t where M is lowered, so that the loss rises in t. The delta is that of
    # the set beyond the t at which the loss is epsilon.
    sign = math.copysign(1.0, shift_of_maximum)
    shift_size = abs(shift_of_maximum)

    def loss_at(t: FloatArray) -> FloatArray:
        loss_of_normal = t * shift_size - shift_size * shift_size / 2
        if num_normals == 1:
            return loss_of_normal
        log_ratio = log_ndtr(sign * t - shift_of_maximum) - log_ndtr(sign * t)
        return np.asarray(loss_of_normal + (num_normals - 1) * log_ratio)

    t = _points_at_losses(loss_at, losses=epsilons, shift_of_maximum=shift_size)
    if shift_of_maximum > 0:
        # P(M + shift_of_maximum > t) - e^epsilon P(M > t)
        minus_still_above = np.exp(epsilons) * np.expm1(num_normals * log_ndtr(t))
        return np.asarray(
            minus_still_above - np.expm1(num_normals * log_ndtr(t - shift_of_maximum))
        )
    # P(M + shift_of_maximum <= -t) - e^epsilon P(M <= -t)
    prob_moved_below = np.exp(num_normals * log_ndtr(-t - shift_of_maximum))
    return np.asarray(prob_moved_below - np.exp(epsilons + num_normals * log_ndtr(-t)))


def opposite_maxima(
    num_rising_normals: int, num_falling_normals: int, shift_of_maximum: float, epsilons: FloatArray
) -> FloatArray:
    """Returns an upper bound on the delta of two independent maxima that move apart, at each epsilon, `[num_epsilons]`.

    The pair is that of (M + shift_of_maximum, M' - shift_of_maximum) and (M, M'). The distribution of M' is
    discretized: the probability of each interval is moved to its ends, so that both distributions keep their
    probability. The delta of M is interpolated by chords. Both errors are upwards.

    Args:
        num_rising_normals: the number of standard normals of which M is the largest.
        num_falling_normals: the number of standard normals of which M' is the largest.
        shift_of_maximum: the distance by which each maximum is moved, > 0.
        epsilons: rising epsilons, positive or negative, `[num_epsilons]`.
    """
    # the loss of M' - shift_of_maximum against M' rises as x falls
    x = np.linspace(_HIGHEST, _LOWEST - shift_of_maximum, _NUM_CELLS + 1)
    log_ratio = log_ndtr(x + shift_of_maximum) - log_ndtr(x)
    losses = (
        -shift_of_maximum * x
        - shift_of_maximum * shift_of_maximum / 2
        + (num_falling_normals - 1) * log_ratio
    )
    is_finite = losses <= _LARGEST_LOSS
    x = x[is_finite]
    losses = losses[is_finite]
    if len(x) < 2:
        return np.ones_like(epsilons)
    prob_moved_below = np.exp(
        num_falling_normals * log_ndtr(x + shift_of_maximum)
    )  # P(M' - shift_of_maximum <= x)
    prob_still_below = np.exp(num_falling_normals * log_ndtr(x))  # P(M' <= x)
    p = prob_moved_below[:-1] - prob_moved_below[1:]  # of the cells
    q = prob_still_below[:-1] - prob_still_below[1:]
    likelihood_ratios = np.exp(losses)
    ratio_widths = likelihood_ratios[1:] - likelihood_ratios[:-1]
    # q at the end with the larger loss, where the mass under P is `likelihood_ratios` times that under Q
    q_moved_to_larger_loss = np.clip(
        (p - likelihood_ratios[:-1] * q) / np.where(ratio_widths > 0, ratio_widths, 1.0), 0.0, q
    )
    p_moved_to_larger_loss = q_moved_to_larger_loss * likelihood_ratios[1:]
    # The mass above all cells has a smaller loss, which is rounded up to that of the first point.
    masses = np.append(1 - prob_moved_below[0], p_moved_to_larger_loss)
    p_moved_to_smaller_loss = np.maximum(p - p_moved_to_larger_loss, 0.0)
    masses[:-1] += p_moved_to_smaller_loss
    epsilon_grid = np.linspace(epsilons[0] - losses[-1], epsilons[-1] - losses[0], _NUM_POINTS)
    deltas_on_grid = moved_maximum(
        num_rising_normals, shift_of_maximum=shift_of_maximum, epsilons=epsilon_grid
    )
    exp_epsilon_grid = np.exp(epsilon_grid)
    infinite_loss_prob = float(prob_moved_below[-1])  # below all cells
    total_deltas = np.full_like(epsilons, infinite_loss_prob)
    for loss, mass in zip(losses.tolist(), masses.tolist(), strict=True):
        total_deltas += mass * np.interp(np.exp(epsilons - loss), exp_epsilon_grid, deltas_on_grid)
    return total_deltas


def _points_at_losses(
    loss_at: Callable[[FloatArray], FloatArray], losses: FloatArray, shift_of_maximum: float
) -> FloatArray:
    """Returns, by bisection, the points at which a rising privacy loss has the given values, `[num_losses]`.

    Args:
        loss_at: the rising function, from points to losses.
        losses: the losses, `[num_losses]`.
        shift_of_maximum: the absolute value of the shift, > 0, from which the range of the search follows.
    """
    farthest_loss = float(np.abs(losses).max()) + shift_of_maximum * shift_of_maximum
    farthest = min(farthest_loss / shift_of_maximum + shift_of_maximum + _FARTHEST, _LARGEST_POINT)
    num_halvings = math.ceil(math.log2(2 * farthest / _LOCATION_ERROR))
    lower_points = np.full_like(losses, -farthest)
    upper_points = np.full_like(losses, farthest)
    for _ in range(min(num_halvings, _LARGEST_NUM_HALVINGS)):
        middle_points = (lower_points + upper_points) / 2
        is_below_loss = loss_at(middle_points) < losses
        lower_points = np.where(is_below_loss, middle_points, lower_points)
        upper_points = np.where(is_below_loss, upper_points, middle_points)
    return (lower_points + upper_points) / 2

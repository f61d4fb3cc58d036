"""The privacy profile of a noisy maximum with Gaussian noise: upper bounds for its hockey sticks between neighbors.

The index of the largest of n values is released, each with Gaussian noise of standard deviation 1 and moved by at most
D / 2 between neighbors. A set S of `a` outcomes wins if its largest noisy value exceeds that of the other n - a values.
So with M_a the largest of a standard normals, the hockey stick of S is at most the smaller of

    H(M_a + D || M_a)   and   H(M_(n-a) - D || M_(n-a)),

and the profile of the release is at most the largest over a of the convex minorant of this
(docs/proofs/gap_selection.md, docs/proofs/pld.md).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pate.accounting.events import NoisyMaxGaussianEvent, OpposedMaximaEvent
from pate.accounting.gaussian_pairs import ShiftedMaximum
from pate.accounting.special import Array, convex_minorant, log_ndtr

_FARTHEST = 40.0  # standard deviations: beyond it a normal has no mass in double precision
_LARGEST_PLACE = 1e100  # its square is a float; for shifts so small that no place has a loss
# A place is found to this many standard deviations. An error there costs its square, which is no digit of a profile.
_LOCATION_ERROR = 1e-8
_MOST_HALVINGS = 70
# the range of the maximum that is cut into cells
_LOWEST = -12.0
_HIGHEST = 9.5
_NUM_CELLS = 600
_LARGEST_LOSS = 300.0  # of a cell: beyond it a loss counts as infinite
_NUM_POINTS = 6000
# blocks of sizes of sets, each of which one size stands for
_NUM_BLOCKS = 64
_NUM_BLOCKS_OF_OPPOSED_MAXIMA = 20


@dataclass(frozen=True)
class NoisyMaximum:
    """The pair of distributions that dominates a noisy maximum with Gaussian noise, known by its profile alone."""

    event: NoisyMaxGaussianEvent

    @property
    def variance(self) -> float:
        """The second moment of the loss of a pair that dominates this pair: a measure, not a bound."""
        return ShiftedMaximum(
            count=self.event.num_candidates - 1, shift=2 / self.event.noise_multiplier
        ).variance

    def reach(self, delta: float) -> float:
        """Returns an epsilon at which the profile is below `delta`."""
        # The Renyi bound a D^2 / 2 + log(n) / (a - 1) of Zhu & Wang (2022), converted at its best order a.
        shift = 2 / self.event.noise_multiplier
        return shift * (
            shift / 2 + math.sqrt(2 * (math.log(self.event.num_candidates) - math.log(delta)))
        )


def noisy_maximum_profile(event: NoisyMaxGaussianEvent, epsilons: Array) -> Array:
    """Returns upper bounds for the largest hockey stick at rising epsilons of either sign, `[E]`.

    For opposed maxima the hockey stick of a set is at most the smallest of three: both maxima may also move by half as
    much each, in opposite ways.
    """
    n = event.num_candidates
    is_opposed = isinstance(event, OpposedMaximaEvent)
    shift = 2 / event.noise_multiplier
    factors = np.exp(epsilons)
    profile = np.zeros_like(epsilons)
    smallest = 1  # the smallest size of a set in the block
    num_blocks = min(n - 1, _NUM_BLOCKS_OF_OPPOSED_MAXIMA if is_opposed else _NUM_BLOCKS)
    # A maximum of more normals moves no slower, so a block of sizes is covered by its largest size on either side.
    for block in range(num_blocks):
        largest = smallest + (n - 1) // num_blocks - (block >= (n - 1) % num_blocks)
        up = moved_maximum(largest, shift, epsilons)
        bound = np.minimum(up, moved_maximum(n - smallest, -shift, epsilons))
        if is_opposed:
            both = opposite_maxima(largest, n - smallest, shift / 2, epsilons)
            bound = np.minimum(bound, both)
        np.maximum(profile, convex_minorant(factors, bound), out=profile)
        smallest = largest + 1
    return profile


def moved_maximum(count: int, shift: float, epsilons: Array) -> Array:
    """Returns the hockey stick of M + shift against M, M the largest of `count` standard normals.

    The shift may have either sign.
    """
    # At t the noise is x = t, or -t where M is lowered: there the loss, which rises in t, meets its target.
    sign = math.copysign(1.0, shift)
    size = abs(shift)

    def loss(t: Array) -> Array:
        loss_of_normal = t * size - size * size / 2
        if count == 1:
            return loss_of_normal
        log_ratio = log_ndtr(sign * t - shift) - log_ndtr(sign * t)
        return np.asarray(loss_of_normal + (count - 1) * log_ratio)

    t = _places_of(loss, epsilons, size)
    if shift > 0:
        # P(M + shift > t) - e^epsilon P(M > t)
        minus_still_above = np.exp(epsilons) * np.expm1(count * log_ndtr(t))
        return np.asarray(minus_still_above - np.expm1(count * log_ndtr(t - shift)))
    # P(M + shift <= -t) - e^epsilon P(M <= -t)
    moved_below = np.exp(count * log_ndtr(-t - shift))
    return np.asarray(moved_below - np.exp(epsilons + count * log_ndtr(-t)))


def opposite_maxima(rising: int, falling: int, shift: float, epsilons: Array) -> Array:
    """Returns an upper bound for the hockey stick of (M + shift, M' - shift) against (M, M'), independent: `[E]`.

    M is the largest of `rising` standard normals, M' that of `falling` normals. The line of M' is cut into cells, whose
    masses go to both ends such that both distributions keep theirs. The hockey stick of M is read off chords. Both make
    the bound larger.
    """
    # the loss of M' - shift against M' rises as x falls
    x = np.linspace(_HIGHEST, _LOWEST - shift, _NUM_CELLS + 1)
    log_ratio = log_ndtr(x + shift) - log_ndtr(x)
    losses = -shift * x - shift * shift / 2 + (falling - 1) * log_ratio
    is_finite = losses <= _LARGEST_LOSS
    x = x[is_finite]
    losses = losses[is_finite]
    if len(x) < 2:
        return np.ones_like(epsilons)
    moved_below = np.exp(falling * log_ndtr(x + shift))  # P(M' - shift <= x)
    still_below = np.exp(falling * log_ndtr(x))  # P(M' <= x)
    p = moved_below[:-1] - moved_below[1:]  # of the cells
    q = still_below[:-1] - still_below[1:]
    ratio = np.exp(losses)
    width = ratio[1:] - ratio[:-1]
    # q at the end with the larger loss, where the mass under P is `ratio` times that under Q
    q_at_larger = np.clip((p - ratio[:-1] * q) / np.where(width > 0, width, 1.0), 0.0, q)
    masses = np.append(
        1 - moved_below[0], q_at_larger * ratio[1:]
    )  # above all cells the loss is smaller
    masses[:-1] += np.maximum(p - q_at_larger * ratio[1:], 0.0)
    points = np.linspace(epsilons[0] - losses[-1], epsilons[-1] - losses[0], _NUM_POINTS)
    hockey_sticks = moved_maximum(rising, shift, points)
    factors = np.exp(points)
    # below all cells the loss is infinite
    total = np.full_like(epsilons, float(moved_below[-1]))
    for loss, mass in zip(losses.tolist(), masses.tolist(), strict=True):
        total += mass * np.interp(np.exp(epsilons - loss), factors, hockey_sticks)
    return total


def _places_of(rising: Callable[[Array], Array], targets: Array, shift: float) -> Array:
    """Returns the places where a rising function of the noise meets its targets, by bisection."""
    farthest_loss = float(np.abs(targets).max()) + shift * shift
    farthest = min(farthest_loss / shift + shift + _FARTHEST, _LARGEST_PLACE)
    num_halvings = min(math.ceil(math.log2(2 * farthest / _LOCATION_ERROR)), _MOST_HALVINGS)
    low = np.full_like(targets, -farthest)
    high = np.full_like(targets, farthest)
    for _ in range(num_halvings):
        middle = (low + high) / 2
        is_before = rising(middle) < targets
        low = np.where(is_before, middle, low)
        high = np.where(is_before, high, middle)
    return (low + high) / 2

"""The privacy profile of a noisy maximum with Gaussian noise: upper bounds for its hockey sticks between neighbors.

The winner's noise is the largest of a normals for a set of a outcomes, and of n - a normals for the other outcomes. So
every hockey stick is below two of shifted maxima, whose convex minorant over all a dominates the release
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
_FARTHEST_OF_ALL = 1e100  # its square is a number; for shifts so small that no place has a loss
# A place is found to this many standard deviations. An error there costs its square, which is no digit of a profile.
_LOCATION = 1e-8
_MOST_HALVINGS = 70
# of the maximum that is cut into cells
_LOWEST = -12.0
_HIGHEST = 9.5
_CELLS = 600
_LARGEST_LOSS = 300.0  # of a cell: beyond it a loss counts as infinite
_MOST_POINTS = 6000
# blocks of sizes of sets that one size stands for
_BLOCKS = 64
_BLOCKS_OF_OPPOSED_MAXIMA = 20


@dataclass(frozen=True)
class NoisyMaximum:
    """A pair of distributions that dominates a noisy maximum with Gaussian noise, known by its profile alone."""

    event: NoisyMaxGaussianEvent

    @property
    def variance(self) -> float:
        """The second moment of the loss of a pair that is above this one: a measure, not a bound."""
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

    It is the largest over sets of a outcomes of n of the smaller of two pairs of maxima, of a and of n - a normals. Of
    opposed maxima it is the smallest of three: both may also move by half as much each, in opposite ways.
    """
    n = event.num_candidates
    opposed = isinstance(event, OpposedMaximaEvent)
    shift = 2 / event.noise_multiplier
    factors = np.exp(epsilons)
    profile = np.zeros_like(epsilons)
    first = 1
    blocks = min(n - 1, _BLOCKS_OF_OPPOSED_MAXIMA if opposed else _BLOCKS)
    # A maximum of more normals moves no slower, so a block of sizes is covered by its largest on either side.
    for block in range(blocks):
        last = first + (n - 1) // blocks - (block >= (n - 1) % blocks)
        least = np.minimum(
            moved_maximum(last, shift, epsilons), moved_maximum(n - first, -shift, epsilons)
        )
        if opposed:
            least = np.minimum(least, opposite_maxima(last, n - first, shift / 2, epsilons))
        np.maximum(profile, convex_minorant(factors, least), out=profile)
        first = last + 1
    return profile


def moved_maximum(count: int, shift: float, epsilons: Array) -> Array:
    """Returns the hockey stick of M + shift against M, M the largest of `count` standard normals.

    The shift may have either sign.
    """
    # At t the noise is x = t, or -t where M is lowered: there the loss, rising in t, meets its target.
    side = math.copysign(1.0, shift)
    size = abs(shift)

    def loss(t: Array) -> Array:
        slope = t * size - size * size / 2
        if count == 1:
            return slope
        return np.asarray(slope + (count - 1) * (log_ndtr(side * t - shift) - log_ndtr(side * t)))

    t = _root(loss, epsilons, size)
    if shift > 0:
        return np.asarray(
            np.exp(epsilons) * np.expm1(count * log_ndtr(t)) - np.expm1(count * log_ndtr(t - shift))
        )
    return np.asarray(
        np.exp(count * log_ndtr(-t - shift)) - np.exp(epsilons + count * log_ndtr(-t))
    )


def opposite_maxima(rising: int, falling: int, shift: float, epsilons: Array) -> Array:
    """Returns an upper bound for the hockey stick of (M + shift, M' - shift) against (M, M'), independent: `[E]`.

    M is the largest of `rising` standard normals, M' that of `falling` ones.
    """
    # M' is cut into cells whose masses go to both ends so that both distributions keep theirs, and M's hockey stick is
    # read off chords: both are upper bounds.
    # the loss of M' - shift against M' rises as x falls
    x = np.linspace(_HIGHEST, _LOWEST - shift, _CELLS + 1)
    losses = -shift * x - shift * shift / 2 + (falling - 1) * (log_ndtr(x + shift) - log_ndtr(x))
    finite = losses <= _LARGEST_LOSS
    x = x[finite]
    losses = losses[finite]
    if len(x) < 2:
        return np.ones_like(epsilons)
    moved = np.exp(falling * log_ndtr(x + shift))
    still = np.exp(falling * log_ndtr(x))
    mass = moved[:-1] - moved[1:]
    other = still[:-1] - still[1:]
    ratio = np.exp(losses)
    width = ratio[1:] - ratio[:-1]
    upper = np.clip((mass - ratio[:-1] * other) / np.where(width > 0, width, 1.0), 0.0, other)
    masses = np.append(1 - moved[0], upper * ratio[1:])  # farther up the loss is smaller
    masses[:-1] += np.maximum(mass - upper * ratio[1:], 0.0)
    points = np.linspace(epsilons[0] - losses[-1], epsilons[-1] - losses[0], _MOST_POINTS)
    alone = moved_maximum(rising, shift, points)
    factors = np.exp(points)
    total = np.full_like(epsilons, float(moved[-1]))
    for loss, mass_of_loss in zip(losses.tolist(), masses.tolist(), strict=True):
        total += mass_of_loss * np.interp(np.exp(epsilons - loss), factors, alone)
    return total


def _root(rising: Callable[[Array], Array], targets: Array, shift: float) -> Array:
    """Returns where a rising function of the noise meets its targets, by bisection."""
    farthest = min(
        (float(np.abs(targets).max()) + shift * shift) / shift + shift + _FARTHEST, _FARTHEST_OF_ALL
    )
    halvings = min(math.ceil(math.log2(2 * farthest / _LOCATION)), _MOST_HALVINGS)
    low = np.full_like(targets, -farthest)
    high = np.full_like(targets, farthest)
    for _ in range(halvings):
        middle = (low + high) / 2
        before = rising(middle) < targets
        low = np.where(before, middle, low)
        high = np.where(before, high, middle)
    return (low + high) / 2

"""Privacy profiles: the largest hockey stick between neighbors, as a function of epsilon, for every kind of event.

A profile f(epsilon) bounds sup over events S of P(S) - e^epsilon P'(S) for every ordered pair of neighbors, epsilon of
either sign. The relation between neighbors is symmetric, so one profile serves both directions. Any convex function of
e^epsilon above the true supremum, 1 at 0 and never rising, is the profile of some pair of distributions, and that pair
dominates the event in every adaptive composition (Zhu, Dong & Wang 2022; docs/proofs/pld.md).
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.accounting.conversion import rdp_to_hockey_sticks
from pate.accounting.events import (
    BoundedRangeEvent,
    GaussianEvent,
    LeafEvent,
    NoisyMaxGaussianEvent,
    OneBitEvent,
    OpposedMaximaEvent,
    PureDpEvent,
    WinnerEvent,
)
from pate.accounting.pld.opposite_maxima import lowered_maximum, opposite_maxima, raised_maximum
from pate.accounting.rdp import DEFAULT_ORDERS, rdp_curve
from pate.accounting.renyi import pairs_apart
from pate.accounting.sampled_gaussian import SampledGaussianEvent, sampled_gaussian_profiles
from pate.accounting.special import log_ndtr, ndtr

Array = NDArray[np.float64]


@singledispatch
def privacy_profile(event: LeafEvent, epsilons: Array) -> Array:
    """Upper bounds for the largest hockey stick at rising epsilons of either sign: `[E]`.

    Kinds without a profile of their own have the best conversion of their Renyi curve at any order, both ways round;
    its convex minorant is what dominates.

    Raises:
        InvalidValue: an event of a kind that has no Renyi curve either.
    """
    rdp = rdp_curve({type(event): ([event], [1])}, DEFAULT_ORDERS)
    forward, backward = (rdp_to_hockey_sticks(DEFAULT_ORDERS, rdp, epsilons=x) for x in (epsilons, -epsilons))
    factor = np.exp(np.minimum(epsilons, 0.0))  # above 0 the exchange would magnify rounding errors by e^epsilon
    exchanged = np.where(epsilons < 0, 1 - factor + factor * backward, 1.0)
    return _at_least_trivial(np.minimum(forward, exchanged), epsilons)


@privacy_profile.register
def _(event: GaussianEvent, epsilons: Array) -> Array:
    """Its own pair (Balle & Wang 2018)."""
    mu = 1 / event.noise_multiplier
    near, far = -epsilons / mu + mu / 2, -epsilons / mu - mu / 2
    return _at_least_trivial(ndtr(near) - np.exp(epsilons + log_ndtr(far)), epsilons)


@privacy_profile.register
def _(event: WinnerEvent, epsilons: Array) -> Array:
    """The pair of its counts: at every epsilon there is a threshold on two of them that attains it."""
    return privacy_profile(GaussianEvent(event.noise_multiplier / event.num_moving**0.5), epsilons)


@privacy_profile.register
def _(event: SampledGaussianEvent, epsilons: Array) -> Array:
    """Its own pair; the larger of both ways round where the unit may come or go."""
    return np.asarray(np.max(both_ways(event, epsilons), axis=0))


def both_ways(event: LeafEvent, epsilons: Array) -> list[Array]:
    """The profile of an ordered pair of neighbors and of the same two exchanged: `[E]` each, one where they are equal.

    A unit that may come or go is in the same one of the two data sets at every step. So each way is composed for itself
    and the larger result is the price, which is less than the larger profile, composed, would cost.
    """
    if not isinstance(event, SampledGaussianEvent):
        return [privacy_profile(event, epsilons)]
    profiles = sampled_gaussian_profiles(event, epsilons)  # which rounding may let rise by its last digit
    return [np.minimum.accumulate(_at_least_trivial(profile, epsilons)) for profile in profiles]


def _expit(logits: ArrayLike) -> Array:
    """SciPy's, to the digits of the totals that ledgers have kept."""
    from scipy.special import expit  # loads slowly

    return np.asarray(expit(logits))


@privacy_profile.register
def _(event: PureDpEvent, epsilons: Array) -> Array:
    """Randomized response."""
    yes, no = _expit([event.epsilon, -event.epsilon])
    return _at_least_trivial(yes - np.exp(epsilons) * no, epsilons)


@privacy_profile.register
def _(event: BoundedRangeEvent, epsilons: Array) -> Array:
    """The supremum over two-point pairs with losses t and t - e is attained at t = (epsilon + e) / 2."""
    inside = np.abs(epsilons) <= event.epsilon
    gap = -np.expm1((np.where(inside, epsilons, 0.0) - event.epsilon) / 2)
    return _at_least_trivial(np.where(inside, gap * gap / -math.expm1(-event.epsilon), 0.0), epsilons)


@privacy_profile.register
def _(event: OneBitEvent, epsilons: Array) -> Array:
    """The largest over pairs of statistics `reach` apart, both outcomes, both ways round."""
    near, far = pairs_apart(np.array(event.logits), event.reach)
    profile, factor = np.zeros_like(epsilons), np.exp(epsilons)
    for p, q in ((far, near), (near, far), (-far, -near), (-near, -far)):
        for more, less in zip(_expit(p), _expit(q), strict=True):
            np.maximum(profile, more - factor * less, out=profile)
    return _at_least_trivial(profile, epsilons)


@privacy_profile.register
def _(event: NoisyMaxGaussianEvent, epsilons: Array) -> Array:
    """For sets of a outcomes of n, the smaller of two pairs of maxima, of a and of n - a normals; the largest over a.

    A maximum of more normals moves no slower, so a block of sizes is covered by its largest on either side.
    """
    return _maximum_profile(event, epsilons, most_blocks=64, opposed=False)


@privacy_profile.register
def _(event: OpposedMaximaEvent, epsilons: Array) -> Array:
    """The smallest of three: both maxima may also move by half as much each, in opposite ways."""
    return _maximum_profile(event, epsilons, most_blocks=20, opposed=True)


def _maximum_profile(event: NoisyMaxGaussianEvent, epsilons: Array, *, most_blocks: int, opposed: bool) -> Array:
    n = event.num_candidates
    if n == 1:
        return _at_least_trivial(np.zeros_like(epsilons), epsilons)
    shift = 2 / event.noise_multiplier
    profile, first = np.zeros_like(epsilons), 1
    for size in _block_sizes(n - 1, most_blocks):
        last = first + size - 1
        least = np.minimum(raised_maximum(last, shift, epsilons), lowered_maximum(n - first, shift, epsilons))
        if opposed:
            least = np.minimum(least, opposite_maxima(last, n - first, shift / 2, epsilons))
        np.maximum(profile, convex_minorant(np.exp(epsilons), least), out=profile)
        first += size
    return _at_least_trivial(profile, epsilons)


def _block_sizes(total: int, most_blocks: int) -> list[int]:
    """Nearly equal sizes of that many blocks at most, without listing what is in them."""
    number = min(total, most_blocks)
    size, larger = divmod(total, number)
    return [size + 1] * larger + [size] * (number - larger)


def _at_least_trivial(profile: Array, epsilons: Array) -> Array:
    """No profile is below that of two equal distributions, nor above 1."""
    return np.clip(profile, np.maximum(-np.expm1(epsilons), 0.0), 1.0)


def lower_hull(x: Array, y: Array) -> NDArray[np.int64]:
    """The points `[H]`, by index, of the largest convex function through or below the points (x, y), x rising."""
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1:
            first, second = kept[-2], kept[-1]
            if (y[second] - y[first]) * (x[i] - x[first]) < (y[i] - y[first]) * (x[second] - x[first]):
                break
            kept.pop()
        kept.append(i)
    return np.array(kept, dtype=np.int64)


def convex_minorant(x: Array, y: Array) -> Array:
    """That function at the points: `[len(x)]`."""
    kept = lower_hull(x, y)
    return np.asarray(np.interp(x, x[kept], y[kept]))

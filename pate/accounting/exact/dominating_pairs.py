"""Families of pairs of distributions: what a mechanism can do to its output in one step, between neighbors.

Most are families of two-point pairs. A pair (up, down) with up > 0 > down stands for two outcomes whose log-likelihood
ratios are `up` and `down`; both probabilities follow from the ratios. A pair with a larger `up` and a smaller `down`
dominates: it can be garbled into the other one, so replacing pairs by a box that contains them is an upper bound for
every later composition (docs/proofs/exact_composition.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, singledispatch

import numpy as np
from numpy.typing import NDArray

from pate.accounting.events import (
    BoundedRangeEvent,
    GaussianEvent,
    LeafEvent,
    NoisyMaxGaussianEvent,
    NoOpEvent,
    OneBitEvent,
    PureDpEvent,
    WinnerEvent,
)
from pate.accounting.renyi import pairs_apart
from pate.accounting.sampled_gaussian import SampledGaussianEvent, log_mixture_ratio, mixture
from pate.accounting.special import log_expit, log_ndtr
from pate.accounting.winner.cover import LARGEST_MULTIPLIER, SMALLEST_MULTIPLIER
from pate.accounting.winner.tree import Winner, winner_pairs
from pate.validation import InvalidValue

Array = NDArray[np.float64]

_ULPS = 2.0**-50
"""Relative rounding error of `log_expit`, four times over."""
_FARTHEST = 9.0  # standard deviations
FARTHEST = 39.0
"""Standard deviations beyond which a normal has no mass in double precision."""


@dataclass(frozen=True, eq=False)
class Box:
    """The pair that dominates a run of neighboring pairs of an event, and the two halves of the run.

    Attributes:
        up: the largest loss of the first outcome.
        down: the smallest loss of the second outcome.
        halves: empty for a single pair.
        variance: the largest second moment of the loss among the pairs: a measure, not a bound.
    """

    up: float
    down: float
    halves: tuple[Box, ...]
    variance: float

    @classmethod
    def pair(cls, up: float, down: float) -> Box:
        """The box of a single pair."""
        first, second = probabilities(up, down)
        return cls(up, down, (), first * up * up + second * down * down)


@dataclass(frozen=True)
class Span:
    """All pairs (t, t - length) with 0 <= t <= length: log-likelihood ratios that span at most `length`.

    Attributes:
        length: > 0.
    """

    length: float

    @property
    def variance(self) -> float:
        """Of the pair in the middle, about the largest."""
        return self.length * self.length / 4


@dataclass(frozen=True)
class ShiftedMaximum:
    """The single pair M + shift and M, the largest of `count` standard normals; one normal is a Gaussian release.

    Attributes:
        count: how many normals, >= 1.
        shift: > 0.
    """

    count: int
    shift: float

    @property
    def variance(self) -> float:
        """The second moment of the loss where it is positive, under both distributions: a measure, not a bound."""
        x = np.linspace(-_FARTHEST, self.shift + _FARTHEST, 1001)
        mass = np.diff(self.first(x)[0] + self.second(x)[0])
        return float(np.sum(mass * np.maximum(self.loss(x[1:]), 0.0) ** 2))

    def loss(self, x: Array) -> Array:
        """Log density(M + shift) - log density(M) at x, rising."""
        slope = x * self.shift - self.shift * self.shift / 2
        return np.asarray(slope + (self.count - 1) * (log_ndtr(x - self.shift) - log_ndtr(x)))

    def loss_rounding(self, x: Array) -> Array:
        """A bound on the rounding error of `loss`."""
        terms = np.abs(x) * self.shift + self.shift * self.shift / 2
        return np.asarray(_ULPS * (terms - (self.count - 1) * (log_ndtr(x - self.shift) + log_ndtr(x))))

    @property
    def farthest(self) -> float:
        """Beyond it, on either side, there is no mass in double precision."""
        return self.shift + FARTHEST

    def first(self, x: Array) -> tuple[Array, Array]:
        """P(M + shift <= x) and P(M + shift > x), each to its last digits."""
        return self.second(x - self.shift)

    def second(self, x: Array) -> tuple[Array, Array]:
        """P(M <= x) and P(M > x), each to its last digits."""
        log_below = self.count * log_ndtr(x)
        return np.asarray(np.exp(log_below)), np.asarray(-np.expm1(log_below))


@dataclass(frozen=True)
class SampledPair:
    """The single pair of two mixtures of N(0, 1) with N(up, 1), and with N(down, 1): a Gaussian release of a sample.

    Attributes:
        sampling_prob: of the second part of both mixtures, in (0, 1).
        up: >= 0.
        down: <= 0, below up.
    """

    sampling_prob: float
    up: float
    down: float

    @property
    def exchanged(self) -> SampledPair:
        """The pair whose losses are those of the same two distributions exchanged; itself where up = -down."""
        return SampledPair(self.sampling_prob, -self.down, -self.up)

    @property
    def variance(self) -> float:
        """The second moment of the loss: a measure, not a bound."""
        x = np.linspace(self.down - _FARTHEST, self.up + _FARTHEST, 2001)
        return float(np.sum(np.diff(self.first(x)[0]) * self.loss(x[1:]) ** 2))

    def loss(self, x: Array) -> Array:
        """Log of the ratio of the two densities at x, rising."""
        first, second = (log_mixture_ratio(x, shift, self.sampling_prob) for shift in (self.up, self.down))
        return np.asarray(first - second)

    def loss_rounding(self, x: Array) -> Array:
        """A bound on the rounding error of `loss`: that of its two exponents, and of what is made of them."""
        return np.asarray(_ULPS * sum(2 * np.abs(shift * x) + shift * shift for shift in (self.up, self.down)))

    @property
    def farthest(self) -> float:
        """See `ShiftedMaximum.farthest`."""
        return max(self.up, -self.down) + FARTHEST

    def first(self, x: Array) -> tuple[Array, Array]:
        """The first distribution's masses up to x and above x, each to its last digits."""
        return self._tails(x, self.up)

    def second(self, x: Array) -> tuple[Array, Array]:
        """The same of the second one."""
        return self._tails(x, self.down)

    def _tails(self, x: Array, shift: float) -> tuple[Array, Array]:
        below, above = mixture(x, -shift, self.sampling_prob), mixture(-x, shift, self.sampling_prob)
        return below, above


DominatingPairs = Box | Span | ShiftedMaximum | SampledPair | Winner


def probabilities(up: float, down: float) -> tuple[float, float]:
    """Of the first and the second outcome, under the distribution that the losses favor; both to their last digits."""
    scale = math.expm1(down - up)
    return math.expm1(down) / scale, math.exp(down) * math.expm1(-up) / scale


@lru_cache(maxsize=256)
def dominating_pairs(event: LeafEvent) -> DominatingPairs | None:
    """All pairs that an event can produce between neighbors; None where nothing can happen.

    Raises:
        InvalidValue: an event that is not made of such pairs.
    """
    return _pairs_of(event)


@singledispatch
def _pairs_of(event: LeafEvent) -> DominatingPairs | None:
    raise InvalidValue(
        f"event={type(event).__name__}: expected an event that the exact accountant can compose "
        "(the rdp accountant may know it)"
    )


@_pairs_of.register
def _(event: NoOpEvent) -> DominatingPairs | None:
    return None


@_pairs_of.register
def _(event: GaussianEvent) -> DominatingPairs | None:
    return ShiftedMaximum(1, 1 / event.noise_multiplier)


@_pairs_of.register
def _(event: NoisyMaxGaussianEvent) -> DominatingPairs | None:
    """The pair of which every hockey stick is above the release's (docs/proofs/gap_selection.md, step 5)."""
    if event.num_candidates == 1:
        return None
    return ShiftedMaximum(event.num_candidates - 1, 2 / event.noise_multiplier)


@_pairs_of.register
def _(event: WinnerEvent) -> DominatingPairs:
    if not SMALLEST_MULTIPLIER < event.noise_multiplier < LARGEST_MULTIPLIER:
        return ShiftedMaximum(1, event.num_moving**0.5 / event.noise_multiplier)
    return winner_pairs(event.noise_multiplier, event.num_moving)


@_pairs_of.register
def _(event: SampledGaussianEvent) -> DominatingPairs:
    """Its own pair, a removed unit's where it may come or go (docs/proofs/alternatives.md)."""
    if event.sampling_prob == 1:
        return ShiftedMaximum(1, 1 / event.noise_multiplier)
    return SampledPair(event.sampling_prob, event.shift, -event.shift if event.is_replaced else 0.0)


@_pairs_of.register
def _(event: PureDpEvent) -> DominatingPairs | None:
    return Box.pair(event.epsilon, -event.epsilon) if event.epsilon > 0 else None


@_pairs_of.register
def _(event: BoundedRangeEvent) -> DominatingPairs | None:
    return Span(event.epsilon) if event.epsilon > 0 else None


@_pairs_of.register
def _(event: OneBitEvent) -> DominatingPairs | None:
    """The bit at two statistics that differ by the reach, either way round, less the pairs that others dominate."""
    near, far = pairs_apart(np.array(event.logits), event.reach)
    if near.size == 0:
        return None
    one = _rounded_up(log_expit(far), log_expit(near))  # loss of a 1, > 0
    zero = _rounded_up(log_expit(-near), log_expit(-far))  # minus the loss of a 0, > 0
    ups, downs = np.concatenate([one, zero]), -np.concatenate([zero, one])
    order = np.lexsort((downs, -ups))  # falling up; among equals the smallest down first
    ups, downs = ups[order], downs[order]
    lowest_before = np.concatenate([[np.inf], np.minimum.accumulate(downs)[:-1]])
    kept = downs < lowest_before
    return _tree([Box.pair(up, down) for up, down in zip(ups[kept].tolist(), downs[kept].tolist(), strict=True)])


def _rounded_up(larger: Array, smaller: Array) -> Array:
    """The difference of two logarithms, never below the true one."""
    return np.asarray(larger - smaller - _ULPS * (larger + smaller) + np.finfo(np.float64).tiny)


def _tree(boxes: list[Box]) -> Box:
    """A balanced tree over neighboring boxes."""
    while len(boxes) > 1:
        runs = [tuple(boxes[start : start + 2]) for start in range(0, len(boxes), 2)]
        boxes = [
            Box(max(b.up for b in run), min(b.down for b in run), run, max(b.variance for b in run))
            if len(run) > 1
            else run[0]
            for run in runs
        ]
    return boxes[0]

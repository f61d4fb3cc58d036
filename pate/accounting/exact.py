"""The exact accountant: optimal adaptive composition by dynamic programming, as a guaranteed upper bound.

V_0(x) = max(0, 1 - exp(x)); each step replaces V by the largest expectation of V(x - loss) over the pairs that the step
allows, and delta(epsilon) is the last V at epsilon: the adversary picks neighbours adaptively, and this is its best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from pate.accounting.accountant import Accountant
from pate.accounting.conversion import gaussian_delta, gaussian_epsilon, rdp_to_epsilons
from pate.accounting.events import (
    ApproximateEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    LeafEvent,
    NonPrivateEvent,
    SelfComposedEvent,
    leaves,
)
from pate.accounting.grid import Grid, rounded_spacing
from pate.accounting.rdp import RdpAccountant
from pate.accounting.steps import Step, step_of
from pate.accounting.two_point import Box, Family, ShiftedMaximum, Span, family
from pate.validation import require_count

Array = NDArray[np.float64]

_WIDENING = 3e-3  # of the variance of all losses: what interpolation may add
_POINTS_PER_REACH = 2000
_LEFT_SHARE = 0.25  # of the reach: how far left of 0 the grid begins at least
_FEW_STEPS = 10  # so few may move delta by much at once: the grid then begins as far left as it ends right
_MOST_POINTS = 200_000
_LEVELS = (12, 24, 48, 96, 192)  # the grid may end where delta is below 10**-level
_MARGIN = 1e-4  # between a delta that is read off and the grid's smallest
_RENYI_MARGIN = 1e-6  # the same, from the delta of the Renyi accountant
_LEAST = 1e-290
_SMALLEST_REACH, _LARGEST_REACH = 1e-200, 500.0
_ROUNDING = 1e-9
_TAIL_ROUNDING = 2.0**-42  # of a Gaussian tail in a difference


class ExactAccountant(Accountant):
    """Composes one-bit, bounded-range, pure-DP and Gaussian events optimally; never above the Renyi accountant.

    Steps are taken in the order of the event, so the bound is for that order. Gaussian events, which have one worst
    pair, count as the first step, which gives the adversary of the others the most freedom; alone, they are composed
    in closed form. A noisy maximum with Gaussian noise is replaced by a pair that dominates it.

    Raises:
        InvalidValue: from `compose`, for events of other kinds.
    """

    name = "exact"

    def __init__(self) -> None:
        self._rdp = RdpAccountant()
        self._steps: list[tuple[Family, int]] = []
        self._mu_squared = 0.0
        self._profiles: dict[int, tuple[Grid, Array] | None] = {}
        self.failure_prob = 0.0

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds the event `count` times; nothing is added if any part of it is unknown."""
        for _ in leaves(event, count=require_count("count", count, minimum=0)):
            pass  # refuses what is no event, before anything is added
        steps: list[tuple[Family, int]] = []
        mu_squared = 0.0
        for leaf, times in _in_order(event, count):
            if times == 0:
                continue
            if isinstance(leaf, GaussianEvent) and leaf.noise_multiplier > 0:
                mu_squared += max(times / leaf.noise_multiplier / leaf.noise_multiplier, _LEAST)
            elif not _is_unbounded(leaf) and (made := family(leaf)) is not None:
                steps.append((made, times))
        self._rdp.compose(event, count)
        self.failure_prob = self._rdp.failure_prob
        self._steps += steps
        self._mu_squared += mu_squared
        self._profiles = {}
        return self

    def get_epsilon(self, target_delta: float) -> float:
        """The smallest epsilon of the profile, at most that of the Renyi accountant."""
        left = self.remaining_delta(target_delta)
        bound = self._rdp.get_epsilon(target_delta)
        if not 0 < bound < math.inf:
            return bound
        if not self._steps:
            return min(bound, gaussian_epsilon(math.sqrt(self._mu_squared), target_delta=left) * (1 + _ROUNDING))
        profile = self._profile(left * _MARGIN)
        return bound if profile is None else min(bound, _crossing(*profile, left) * (1 + _ROUNDING))

    def get_delta(self, target_epsilon: float) -> float:
        """The delta at an epsilon, failure probabilities included, at most that of the Renyi accountant."""
        bound = self._rdp.get_delta(target_epsilon)
        left = bound - self.failure_prob
        if not left > 0 or not bound < 1:
            return bound
        if not self._steps:
            return min(bound, _gaussian_delta(math.sqrt(self._mu_squared), target_epsilon) + self.failure_prob)
        profile = self._profile(left * _RENYI_MARGIN)
        if profile is None:
            return bound
        grid, values = profile
        return min(bound, max(grid.at(values, target_epsilon), _LEAST) * (1 + _ROUNDING) + self.failure_prob)

    def _profile(self, smallest_delta: float) -> tuple[Grid, Array] | None:
        """Delta as a function of epsilon, down to the smallest; kept for the next question. None where too small."""
        level = next((level for level in _LEVELS if 10.0**-level <= smallest_delta), None)
        if level is None:
            return None
        if level not in self._profiles:
            self._profiles[level] = self._composed(10.0**-level)
        return self._profiles[level]

    def _composed(self, smallest_delta: float) -> tuple[Grid, Array] | None:
        epsilons = rdp_to_epsilons(self._rdp.orders, self._rdp.rdp, target_delta=smallest_delta)
        reach = min(float(epsilons.min()), sum(times * _largest(pairs) for pairs, times in self._in_reverse()))
        if not _SMALLEST_REACH < reach < _LARGEST_REACH:
            return None
        num_steps = sum(times for _, times in self._in_reverse())
        grid = self._grid(reach, num_steps)
        made: dict[Family, Step] = {}
        values = -np.expm1(np.minimum(grid.points, 0.0))
        for pairs, times in self._in_reverse():
            if pairs not in made:
                made[pairs] = step_of(pairs, grid, negligible=1e-3 * smallest_delta / num_steps)
            for _ in range(times):
                values = made[pairs](values)
        return grid, values

    def _in_reverse(self) -> Iterator[tuple[Family, int]]:
        yield from reversed(self._steps)
        if self._mu_squared > 0:
            yield ShiftedMaximum(1, math.sqrt(self._mu_squared)), 1

    def _grid(self, reach: float, num_steps: int) -> Grid:
        """Spaced so that interpolation widens the losses little, and that the widest steps move by whole points."""
        variance = sum(times * pairs.variance for pairs, times in self._in_reverse())
        spacing = min(reach / _POINTS_PER_REACH, math.sqrt(4 * _WIDENING * variance / num_steps))
        spacing = rounded_spacing(max(spacing, reach / _MOST_POINTS))
        weights: dict[float, float] = {}
        for pairs, times in self._in_reverse():
            if (length := _length(pairs)) >= spacing:
                weights[length] = weights.get(length, 0.0) + times * length * length
        if weights:
            length = max(weights, key=weights.__getitem__)
            spacing = rounded_spacing(length / (2 * math.ceil(length / (2 * spacing))))
        left_share = min(max(_LEFT_SHARE, _FEW_STEPS / num_steps), 1.0)
        first = -math.ceil(left_share * reach / spacing) - 1
        return Grid(first=first, size=math.ceil(reach / spacing) + 3 - first, spacing=spacing)


def _largest(pairs: Family) -> float:
    """The largest loss of one step."""
    return pairs.up if isinstance(pairs, Box) else pairs.length if isinstance(pairs, Span) else math.inf


def _length(pairs: Family) -> float:
    """What should be a multiple of the spacing: the length of a span, the loss of a single symmetric pair; or 0."""
    if isinstance(pairs, Box):
        return pairs.up if not pairs.halves else 0.0
    return pairs.length if isinstance(pairs, Span) else 0.0


def _crossing(grid: Grid, values: Array, delta: float) -> float:
    """Where the values fall to `delta`, on the chord between two points; 0 where they are there from the start."""
    above = np.flatnonzero((values > delta) & (np.arange(grid.size) + grid.first >= 0))
    if above.size == 0:
        return 0.0
    last = int(above[-1])
    if last + 1 == grid.size:
        return math.inf
    share = float((values[last] - delta) / (values[last] - values[last + 1]))
    return (grid.first + last) * grid.spacing + math.log1p(share * math.expm1(grid.spacing))


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """The closed form, a difference of two probabilities, rounded up."""
    if mu == 0:
        return 0.0
    return gaussian_delta(mu, epsilon=epsilon) + _TAIL_ROUNDING * float(ndtr(mu / 2 - epsilon / mu))


def _is_unbounded(leaf: LeafEvent) -> bool:
    """Events without protection have no family; the Renyi accountant prices them, at infinity."""
    price = getattr(leaf, "epsilon", 0.0)
    return isinstance(leaf, NonPrivateEvent) or price == math.inf or getattr(leaf, "noise_multiplier", 1.0) == 0


def _in_order(event: Event, count: int) -> Iterator[tuple[LeafEvent, int]]:
    """The leaves of an event in the order in which they happen."""
    if isinstance(event, LeafEvent):
        yield event, count
    elif isinstance(event, SelfComposedEvent):
        if isinstance(event.event, LeafEvent):
            yield event.event, count * event.count
        else:
            for _ in range(count * event.count):
                yield from _in_order(event.event, 1)
    elif isinstance(event, ApproximateEvent):
        yield from _in_order(event.event, count)
    elif isinstance(event, ComposedEvent):
        for _ in range(count):
            for part in event.events:
                if isinstance(part, LeafEvent):
                    yield part, 1
                else:
                    yield from _in_order(part, 1)

"""The exact accountant: optimal adaptive composition by dynamic programming, as a guaranteed upper bound.

V_0(x) = max(0, 1 - exp(x)); each step replaces V by the largest expectation of V(x - loss) over the pairs that the step
allows, and delta(epsilon) is the last V at epsilon: the adversary picks neighbours adaptively, and this is its best.
V is convex in exp(x), so linear interpolation in exp(x) on a grid lies above it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from pate.accounting.accountant import Accountant
from pate.accounting.conversion import gaussian_epsilon
from pate.accounting.events import (
    ApproximateEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    LeafEvent,
    NoOpEvent,
    SelfComposedEvent,
    leaves,
)
from pate.accounting.rdp import RdpAccountant
from pate.accounting.two_point import Box, family
from pate.validation import require_count

Array = NDArray[np.float64]

_POINTS_PER_EPSILON = 3000
_SLACK = 3e-5  # relative, per step: a box is accepted whose value is this little above the best pair's
_ABSOLUTE_SLACK = 2e-3  # of delta, over all steps together
_MOST_POINTS = 100_000
_REFERENCE_DELTA = 1e-6
_LARGEST_DEVIATION = 38.0  # standard deviations: beyond it a Gaussian has no mass in double precision
_ROUNDING = 1e-9
_USES_OF_A_COVER = 12
_SMALLEST_DELTA = 1e-4  # relative to the target: where the grid may end


class ExactAccountant(Accountant):
    """Composes one-bit, bounded-range, pure-DP and Gaussian events optimally; never above the Renyi accountant.

    Steps are taken in the order of the event, so the bound is for that order. Gaussian events, which have one worst
    pair, are composed exactly and count as the first step, which gives the adversary of the others the most freedom.

    Raises:
        InvalidValue: from `compose`, for events of other kinds.
    """

    name = "exact"

    def __init__(self) -> None:
        self._rdp = RdpAccountant()
        self._steps: list[tuple[Box, int]] = []
        self._mu_squared = 0.0
        self.failure_prob = 0.0

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds the event `count` times; nothing is added if any part of it is unknown."""
        for _ in leaves(event, count=require_count("count", count, minimum=0)):
            pass  # refuses what is no event, before anything is added
        steps, mu_squared = [], 0.0
        for leaf, times in _in_order(event, count):
            if isinstance(leaf, GaussianEvent):
                mu = math.inf if leaf.noise_multiplier == 0 else 1 / leaf.noise_multiplier
                mu_squared += times * mu * mu if times else 0.0
            elif times > 0 and not isinstance(leaf, NoOpEvent):
                steps.append((leaf, times))
        boxes = [(box, times) for leaf, times in steps if (box := family(leaf)) is not None]
        self._rdp.compose(event, count)
        self.failure_prob = self._rdp.failure_prob
        self._steps += boxes
        self._mu_squared += mu_squared
        return self

    def get_epsilon(self, target_delta: float) -> float:
        """The smallest epsilon on the grid's interpolation, at most that of the Renyi accountant."""
        left = self.remaining_delta(target_delta)
        bound = self._rdp.get_epsilon(target_delta)
        if not 0 < bound < math.inf:
            return bound
        if not self._steps:
            return min(bound, gaussian_epsilon(math.sqrt(self._mu_squared), target_delta=left))
        points, values = self._profile(bound, left)
        above = np.flatnonzero((values > left) & (points >= 0))
        if above.size == 0:
            return 0.0
        last = int(above[-1])
        if last + 1 == len(points):
            return bound
        share = float((values[last] - left) / (values[last] - values[last + 1]))
        at, spacing = float(points[last]), float(points[last + 1] - points[last])
        return min(bound, (at + math.log1p(share * math.expm1(spacing))) * (1 + _ROUNDING))

    def get_delta(self, target_epsilon: float) -> float:
        """The delta at an epsilon, failure probabilities included, at most that of the Renyi accountant."""
        bound = self._rdp.get_delta(target_epsilon)
        if not self._steps or target_epsilon == 0 or bound == self.failure_prob or not bound < 1:
            return bound
        scale = self._rdp.get_epsilon(self.failure_prob + _REFERENCE_DELTA)
        points, values = self._profile(scale, max(bound - self.failure_prob, 1e-300), target_epsilon)
        before = max(int(np.searchsorted(points, target_epsilon)) - 1, 0)
        return min(bound, float(values[before]) * (1 + _ROUNDING) + self.failure_prob)

    def _profile(self, scale: float, delta: float, largest: float = 0.0) -> tuple[Array, Array]:
        """Delta as a function of epsilon, on a grid of spacing `scale` / 3000 that ends where delta is negligible."""
        reach = self._rdp.get_epsilon(self.failure_prob + delta * _SMALLEST_DELTA)
        spacing = max(scale / _POINTS_PER_EPSILON, max(reach, largest) / _MOST_POINTS)
        points = np.arange(-0.6 * scale, max(reach, largest) + 2 * spacing, spacing)
        num_steps = sum(times for _, times in self._steps)
        grid = _Grid(points, slack=_ABSOLUTE_SLACK * delta / num_steps)
        values = -np.expm1(np.minimum(points, 0.0))
        for box, times in reversed(self._steps):
            for _ in range(times):
                values = grid.step(values, box)
        if self._mu_squared > 0:
            values = grid.gaussian_step(values, math.sqrt(self._mu_squared))
        return points, values


class _Grid:
    """One step of the recursion on an equally spaced grid."""

    def __init__(self, points: Array, *, slack: float) -> None:
        self.points, self.slack = points, slack
        self.spacing = float(points[1] - points[0])
        self._shifts: dict[Box, tuple[tuple[int, float], tuple[int, float], float]] = {}
        self._covers: dict[int, tuple[list[Box], int]] = {}

    def step(self, values: Array, root: Box) -> Array:
        """The largest expectation over all pairs below `root`, or little more.

        Boxes are split only where their bound exceeds what pairs attain. The boxes that were not split cover all
        pairs, so the next steps, whose values hardly differ, take the maximum over the same cover.
        """
        pad = math.ceil(max(root.up, -root.down) / self.spacing) + 2
        padded = np.concatenate([np.ones(pad), values, np.full(pad, values[-1])])
        cover, uses = self._covers.get(id(root), ([], 0))
        best = np.zeros_like(values)
        for box in cover:
            np.maximum(best, self._expect(padded, pad, box), out=best)
        if not cover or uses == _USES_OF_A_COVER:
            pairs = [box for box in cover if not box.halves]
            best, cover = self._split(padded, pad, root, pairs)
            uses = 0
        self._covers[id(root)] = (cover, uses + 1)
        return best

    def _split(self, padded: Array, pad: int, root: Box, pairs: list[Box]) -> tuple[Array, list[Box]]:
        """The same maximum by splitting boxes from the root, and the cover that it ends with."""
        attained = np.zeros(len(padded) - 2 * pad)
        for pair in pairs:
            np.maximum(attained, self._expect(padded, pad, pair), out=attained)
        best, cover, pending = attained.copy(), [], [root]
        while pending:
            box = pending.pop()
            bound = self._expect(padded, pad, box)
            if box.halves and (bound > attained * (1 + _SLACK) + self.slack).any():
                pending.extend(box.halves)
                continue
            if not box.halves:
                np.maximum(attained, bound, out=attained)
            np.maximum(best, bound, out=best)
            cover.append(box)
        return best, cover

    def gaussian_step(self, values: Array, mu: float) -> Array:
        """The expectation over the loss of a Gaussian pair, split into cells whose losses are rounded up."""
        ends = mu * mu / 2 + np.array([-1, 1]) * mu * _LARGEST_DEVIATION
        cells = np.arange(math.floor(ends[0] / self.spacing), math.ceil(ends[1] / self.spacing))
        deviations = (np.append(cells, cells[-1] + 1) * self.spacing - mu * mu / 2) / mu  # [C + 1]
        below, above = np.exp(log_ndtr(deviations)), np.exp(log_ndtr(-deviations))
        mass = np.where(deviations[1:] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
        mass[0] += below[0]
        missing = above[-1]
        pad = int(max(abs(cells[0]), abs(cells[-1]))) + 2
        padded = np.concatenate([np.ones(pad), values, np.full(pad, values[-1])])
        shifts = cells + 1  # the upper end of each cell
        total = np.full_like(values, missing)
        for shift, weight in zip(shifts.tolist(), mass.tolist(), strict=True):
            total += weight * padded[pad - shift : pad - shift + len(values)]
        return np.minimum(total, 1.0)

    def _expect(self, padded: Array, pad: int, box: Box) -> Array:
        """P(up) V(x - up) + P(down) V(x - down), both interpolated linearly in exp(x)."""
        if box not in self._shifts:
            self._shifts[box] = (self._shift(box.up), self._shift(box.down), box.probability)
        up, down, probability = self._shifts[box]
        size = len(padded) - 2 * pad
        return probability * _moved(padded, pad, size, *up) + (1 - probability) * _moved(padded, pad, size, *down)

    def _shift(self, loss: float) -> tuple[int, float]:
        """By how many points a loss moves the grid, and the weight of the point above."""
        position = -loss / self.spacing
        whole = math.floor(position)
        weight = math.expm1((position - whole) * self.spacing) / math.expm1(self.spacing)
        return whole, weight


def _moved(padded: Array, pad: int, size: int, whole: int, weight: float) -> Array:
    start = pad + whole
    return (1 - weight) * padded[start : start + size] + weight * padded[start + 1 : start + 1 + size]


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
                yield from _in_order(part, 1)

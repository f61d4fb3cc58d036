"""Steps of optimal composition: the pairs of distributions of an event, and the worst of them at every loss.

Between two neighbors, one step is a pair of distributions (P, Q). The neighbors are chosen by an adversary, so an event
is a family of pairs. A step takes V, the delta that the later steps can reach, to

    V'(x) = max over pairs of  sum over outcomes y of  P(y) V(x - log P(y) / Q(y)).

Most pairs have two outcomes, with the losses `up` > 0 > `down`. Their probabilities follow from the losses: P(up) =
(e^down - 1) / (e^(down - up) - 1). A pair with a larger `up` and a smaller `down` dominates: post-processing turns the
dominating pair into the other. So the pairs of an event are covered by boxes, each as costly as its corner (max up,
min down), and a box is divided only where its corner exceeds what single pairs attain. Every step is an upper bound for
all later steps (docs/proofs/exact_composition.md).

All products and sums are of numbers >= 0, so one factor covers what rounding may have taken away.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pate.accounting import events
from pate.accounting.bit_pairs import bit_pairs
from pate.accounting.discrete_pairs import Pair
from pate.accounting.discretized_loss import discretized_loss
from pate.accounting.events import LeafEvent
from pate.accounting.exact_grid import LossGrid, Shift, Shifts
from pate.accounting.gaussian_pairs import SampledPair, ShiftedMaximum
from pate.accounting.noisy_maximum import NoisyMaximum
from pate.accounting.special import log_expit
from pate.accounting.winner import (
    LARGEST_MULTIPLIER,
    SMALLEST_MULTIPLIER,
    Winner,
    winner_pairs,
)
from pate.array_types import FloatArray, IntArray
from pate.validation import InvalidValue

CompositionStep = Callable[[FloatArray], FloatArray]
"""A step from the values V on a grid, `[size]`, to the new values there."""

# One matrix product computes the expectations of so many pairs at so many points of the grid, so that its rows stay in
# the processor's cache.
_PAIRS_AT_ONCE = 16
_POINTS_AT_ONCE = 4096
# The relative amount by which a step raises its values: 128 units of 2**-53. Rounding errors are at most 72 units.
_ROUNDING = 2.0**-46
# A box, or an inner node of a winner's tree, is not divided where its value exceeds that of single pairs by at most
# this relative amount.
_BOX_SLACK = 3e-5
_WINNER_SLACK = 1e-4
# At most so many steps use one cover.
_LARGEST_USES_OF_COVER = 12
# A span is cut at most at so many multiples of the spacing from either of its ends.
_LARGEST_NUM_PIECES = 64
# Relative to the nearest value: more than rounding can take from a bend.
_BEND_SLACK = 1e-9
# Avoids a division by zero.
_SMALLEST_BEND = 1e-300
# Four times the relative rounding error of `log_expit`.
_LOG_EXPIT_ROUNDING = 2.0**-50
# The number of binary digits of a loss. Two computations of one loss then agree to the last digit, so that a box has no
# pairs that are nearly equal.
_LOSS_DIGITS = 36


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Box:
    """A set of two-point pairs of an event, represented by one pair that dominates all of them.

    A two-point pair is a pair of distributions with two outcomes, with the privacy losses up > 0 > down. The dominating
    pair has the largest `up` and the smallest `down` of the set. `dominated_pairs` are two boxes with one half of the
    pairs each.
    """

    up_losses: FloatArray  # the loss `up` of each pair, falling, `[num_pairs]`
    down_losses: FloatArray  # the loss `down` of each pair, falling, `[num_pairs]`

    @cached_property
    def up(self) -> float:
        """The largest loss of all pairs."""
        return float(self.up_losses[0])

    @cached_property
    def down(self) -> float:
        """The smallest loss of all pairs."""
        return float(self.down_losses[-1])

    @property
    def largest(self) -> float:
        """The largest absolute value of a loss."""
        return max(self.up, -self.down)

    @cached_property
    def dominated_pairs(self) -> tuple[Self, ...]:
        """The boxes with the first and the second half of the pairs; empty for a single pair."""
        middle = len(self.up_losses) // 2
        halves = (slice(middle), slice(middle, None)) if middle else ()
        return tuple(
            replace(self, up_losses=self.up_losses[half], down_losses=self.down_losses[half])
            for half in halves
        )

    @cached_property
    def variance(self) -> float:
        """The largest second moment of the loss of a pair; used to choose grids, and not a rigorous bound."""
        with np.errstate(over="ignore", invalid="ignore"):
            p_up, p_down = two_point_probabilities(
                up_loss=self.up_losses, down_loss=self.down_losses
            )
            return float(
                np.fmax.reduce(
                    p_up * self.up_losses * self.up_losses
                    + p_down * self.down_losses * self.down_losses
                )
            )


@dataclass(frozen=True)
class Span:
    """All two-point pairs with the losses t and t - length, for t in 0..length; they dominate a bounded range."""

    length: float  # > 0

    @property
    def variance(self) -> float:
        """The largest variance that a loss between t - length and t can have."""
        return self.length * self.length / 4


SteppedPairs = Box | Span | ShiftedMaximum | Winner
"""Pairs of distributions that are composed step by step. One `ShiftedMaximum` stands for all Gaussian releases."""

FixedPair = SampledPair | NoisyMaximum
"""A single pair that dominates an event: the adversary has no choice, so the losses of several steps are summed."""

DominatingPairs = SteppedPairs | FixedPair
"""The pairs of distributions that together dominate one event."""


def two_point_probabilities(up_loss: Any, down_loss: Any) -> tuple[Any, Any]:
    """Returns the probabilities, under P, of both outcomes of two-point pairs, given their privacy losses.

    Q has the probabilities P e^-loss. Both distributions sum to 1 if P of the first outcome is
    (1 - e^down_loss) / (1 - e^(down_loss - up_loss)).

    Args:
        up_loss: the loss of the first outcome, > 0; a number or an array.
        down_loss: the loss of the second outcome, < 0.
    """
    scale = np.expm1(down_loss - up_loss)
    return np.expm1(down_loss) / scale, np.exp(down_loss) * np.expm1(-up_loss) / scale


def composition_step(
    step_pairs: SteppedPairs, grid: LossGrid, *, negligible: float
) -> CompositionStep:
    """Returns the composition step of one release: a function from values V on a grid to the new values there.

    V(x) is the delta at epsilon = x that the later releases can reach. The new V(x) includes this release. For all
    releases of a `FixedPair` together, `fixed_pair_step` returns the step.

    Args:
        step_pairs: the pairs that dominate the release.
        grid: the grid of the points x.
        negligible: the amount by which the step may raise each value for speed.
    """
    match step_pairs:
        case Box() | Winner():
            return _CoveredStep(grid=grid, tree=step_pairs, negligible=negligible)
        case Span():
            return _span_step(grid, length=step_pairs.length)
        case ShiftedMaximum():
            masses, infinite_loss_prob = discretized_loss(
                step_pairs,
                spacing=grid.spacing,
                largest_multiple=grid.num_points,
                negligible_mass=negligible,
            )
            return fixed_pair_step(grid, loss_masses=masses, infinite_loss_prob=infinite_loss_prob)


class _WeightedSums(NamedTuple):
    """The expectations of V(x - loss) under several pairs of distributions, written as one matrix product.

    V(x) is the delta at epsilon = x that the later releases can reach. The number of pairs is S. The product has R
    rows, each of which is V shifted by a number of grid points.
    """

    starts: IntArray  # the index in the padded values at which each row starts, `[R]`
    weights: FloatArray  # the weight of each row in the expectation of each pair, `[S, R]`
    beyond: FloatArray  # the probability that leads left of all points, where V is 1, `[S, 1]`


class _CoveredStep:
    """A composition step that takes the maximum over all pairs of a tree, or a little more.

    The step maps values V, the deltas that the later releases can reach, to those that include one more release. Leaves
    of the tree are pairs of the event. An inner node is a pair that dominates its children (`dominated_pairs`). The
    search replaces a node by its children only where the expectation of the node is above those of the leaves seen so
    far. The nodes at which the search stops cover the whole tree. Successive steps have similar values V, so several
    steps use the same cover. The first steps differ most, so few of them share a cover.

    Args:
        grid: the grid of the values V.
        tree: the tree.
        negligible: the amount by which the step may raise each value for speed.
    """

    def __init__(self, grid: LossGrid, tree: Box | Winner, negligible: float) -> None:
        self._grid = grid
        self._negligible = negligible
        self._is_winner = isinstance(tree, Winner)
        self._roots: list[Box | Pair] = [tree] if isinstance(tree, Box) else [*tree.roots]
        self._slack = _WINNER_SLACK if self._is_winner else _BOX_SLACK
        self._num_padding = grid.padding(largest_loss=tree.largest)
        # The pair of a winner has many outcomes, whose sum has a rounding error of its own.
        rounding_of_sum = 2 * self._num_padding * 2.0**-52 if self._is_winner else 0.0
        self._rounding_factor = 1 + _ROUNDING + rounding_of_sum
        self._shifts_of_pair: dict[Box | Pair, Shifts] = {}
        # the leaves of the tree that the last search reached
        self._leaf_sums: list[_WeightedSums] = []
        # the nodes at which the last search stopped, with these leaves
        self._cover: list[_WeightedSums] = []
        self._num_searches = 0
        self._num_remaining_uses = 0  # of the cover

    def __call__(self, values: FloatArray) -> FloatArray:
        padded_deltas = self._grid.padded(values, self._num_padding)
        if self._num_remaining_uses > 0:
            self._num_remaining_uses -= 1
            best = self._largest(self._cover, padded_deltas=padded_deltas)
        else:
            best = self._search(padded_deltas)
            self._num_searches += 1
            num_uses = 2 ** (self._num_searches // 2)
            self._num_remaining_uses = min(num_uses, _LARGEST_USES_OF_COVER)
        return np.minimum(best * self._rounding_factor, 1.0)

    def _search(self, padded_deltas: FloatArray) -> FloatArray:
        """Searches the tree from its roots, stores the nodes where it stops, and returns the new values V, `[size]`.

        The value at a point is the largest expectation of V(x - loss) of all pairs, or a little more.

        Args:
            padded_deltas: the values V on the padded grid.
        """
        # what the leaves seen so far attain, a lower bound on the maximum
        attained = self._largest(self._leaf_sums, padded_deltas)
        # an inner node is not divided if its expectation is at most this
        enough = attained * (1 + self._slack) + self._negligible
        best = attained.copy()
        pending = [*self._roots]
        shifts_of_inner_nodes: list[Shifts] = []
        shifts_of_leaves: list[Shifts] = []
        while pending:
            pair = pending.pop()
            shifts = self._shifts(pair)
            # A winner has many leaves. The leaves that the search reaches are computed together at its end.
            if self._is_winner and not pair.dominated_pairs:
                shifts_of_leaves.append(shifts)
                continue
            moved = [
                self._grid.shifted(padded_deltas, self._num_padding, shift=shift)
                for shift in shifts
            ]
            bound = reduce(np.add, moved)  # the sum of P(loss) V(x - loss)
            if pair.dominated_pairs and (bound > enough).any():
                pending += pair.dominated_pairs
                continue
            np.maximum(best, bound, out=best)
            if pair.dominated_pairs:
                shifts_of_inner_nodes.append(shifts)
            else:
                shifts_of_leaves.append(shifts)
                np.maximum(attained, bound, out=attained)
                enough = attained * (1 + self._slack) + self._negligible
        self._leaf_sums = self._weighted_sums(shifts_of_leaves)
        self._cover = [*self._weighted_sums(shifts_of_inner_nodes), *self._leaf_sums]
        if self._is_winner:
            return np.maximum(best, self._largest(self._leaf_sums, padded_deltas))
        return best

    def _shifts(self, pair: Box | Pair) -> Shifts:
        """Returns the shifts of V by all privacy losses of a pair, from a cache.

        An infinite loss shifts left of all points, where V is 1.
        """
        if pair not in self._shifts_of_pair:
            self._shifts_of_pair[pair] = (
                _shifts_of_box(box=pair, grid=self._grid)
                if isinstance(pair, Box)
                else _shifts_of_discrete_pair(pair, self._grid)
            )
        return self._shifts_of_pair[pair]

    def _largest(self, weighted_sums: list[_WeightedSums], padded_deltas: FloatArray) -> FloatArray:
        """Returns the largest expectation of V(x - loss) of all given pairs at each point x of the grid, `[size]`.

        Args:
            weighted_sums: the expectations as matrix products, for a batch of pairs each.
            padded_deltas: the values V on the padded grid.
        """
        size = self._grid.num_points
        # Row i of the windows holds the values moved by i - num_padding points.
        windows = sliding_window_view(padded_deltas, size)
        best = np.zeros(size)
        for batch in weighted_sums:
            for start in range(0, size, _POINTS_AT_ONCE):
                chunk = slice(start, start + _POINTS_AT_ONCE)
                expectations = batch.weights @ windows[batch.starts, chunk] + batch.beyond
                np.maximum(best[chunk], expectations.max(axis=0), out=best[chunk])
        return best

    def _weighted_sums(self, shifts_of_pairs: Sequence[Shifts]) -> list[_WeightedSums]:
        """Returns the expectations of V(x - loss) under several pairs as matrix products, a batch of pairs in each.

        Pairs that follow each other share most shifts, so a batch needs few rows.

        Args:
            shifts_of_pairs: the shifts by all losses of each pair.
        """
        return [
            self._weighted_sums_of_batch(shifts_of_pairs[start : start + _PAIRS_AT_ONCE])
            for start in range(0, len(shifts_of_pairs), _PAIRS_AT_ONCE)
        ]

    def _weighted_sums_of_batch(self, shifts_of_pairs: Sequence[Shifts]) -> _WeightedSums:
        """Returns the expectations of V(x - loss) under some pairs as one matrix product.

        Args:
            shifts_of_pairs: the shifts of V by all losses of each pair.
        """
        steps_inside = {
            shift.whole_steps
            for shifts in shifts_of_pairs
            for shift in shifts
            if shift.whole_steps > -self._grid.num_points
        }
        steps_of_rows = sorted(steps_inside | {steps + 1 for steps in steps_inside})
        row_of = {steps: row for row, steps in enumerate(steps_of_rows)}
        weights = np.zeros((len(shifts_of_pairs), len(steps_of_rows)))
        beyond = np.zeros((len(shifts_of_pairs), 1))
        for index, shifts in enumerate(shifts_of_pairs):
            for shift in shifts:
                if shift.whole_steps <= -self._grid.num_points:  # left of all points V is 1
                    beyond[index] += shift.lower_weight
                else:
                    weights[index, row_of[shift.whole_steps]] += shift.lower_weight
                    weights[index, row_of[shift.whole_steps + 1]] += shift.upper_weight
        starts = np.array(steps_of_rows, dtype=np.int64) + self._num_padding
        return _WeightedSums(starts=starts, weights=weights, beyond=beyond)


def _shifts_of_box(box: Box, grid: LossGrid) -> Shifts:
    """Returns the shifts of a privacy profile by both losses of the pair that dominates a box."""
    up_loss = grid.rounded_outward(box.up)
    down_loss = grid.rounded_outward(box.down)
    p_up, p_down = two_point_probabilities(up_loss=up_loss, down_loss=down_loss)
    return (
        grid.shift(up_loss, loss_probability=p_up),
        grid.shift(down_loss, loss_probability=p_down),
    )


def _shifts_of_discrete_pair(discrete_pair: Pair, grid: LossGrid) -> Shifts:
    """Returns the shifts of a privacy profile by all losses of a discrete pair; the last is by an infinite loss."""
    p_masses = discrete_pair.masses * (1 + discrete_pair.excess_ratios)
    shifts = [
        grid.shift(grid.rounded_outward(loss), loss_probability=p_mass)
        for loss, p_mass in zip(discrete_pair.losses.tolist(), p_masses.tolist(), strict=True)
    ]
    by_infinite_loss = Shift(
        whole_steps=-grid.num_points,
        lower_weight=discrete_pair.infinite_loss_prob,
        upper_weight=0.0,
    )
    return (*shifts, by_infinite_loss)


def _span_step(grid: LossGrid, length: float) -> CompositionStep:
    """Returns the composition step of a `Span`: the maximum over all pairs with the losses t and t - length.

    The step maps V, the delta that the later releases can reach, to the largest expectation of V(x - loss). The
    interval of t is cut into pieces, whose ends are pairs that are computed. Within a piece, V(x - t) and V(x - t +
    length) lie below their chords in e^-t. With these chords the expectation is A + B s - C / s in s = e^t. Over the
    piece that is at most its own chord plus D u (1 - u), where u is the share of the way, in s, from the start of the
    piece to its end. D is called the bend. The largest value of that parabola is a closed form.
    """
    length = grid.rounded_outward(length)
    ends = _ends_of_pieces(grid, length=length)
    pairs = [_span_pair(grid, up_loss=t, down_loss=t - length) for t in ends]
    num_padding = grid.padding(largest_loss=max(pair.distance for pair in pairs))
    widths = [after - before for before, after in pairwise(ends)]
    # D = up_factor * (change of V(x - t)) - down_factor * (change of V(x - t + length)), both over a piece
    up_factors = [-math.expm1(width) / math.expm1(-length) for width in widths]
    down_factors = [math.expm1(width) / math.expm1(length) for width in widths]

    def step(values: FloatArray) -> FloatArray:
        padded_deltas = grid.padded(values, num_padding)
        best = values
        up_before = grid.shifted(padded_deltas, num_padding, shift=pairs[0].up_shift)
        down_before = grid.shifted(padded_deltas, num_padding, shift=pairs[0].down_shift)
        expectation_before = pairs[0].p_up * up_before + pairs[0].p_down * down_before
        # Each piece ends at a pair and begins at the pair before.
        for pair, up_factor, down_factor in zip(pairs[1:], up_factors, down_factors, strict=True):
            up_values = grid.shifted(padded_deltas, num_padding, shift=pair.up_shift)
            down_values = grid.shifted(padded_deltas, num_padding, shift=pair.down_shift)
            expectation = pair.p_up * up_values + pair.p_down * down_values
            # D of the piece, rounded up by more than its terms can be wrong
            up_change = up_values * (1 + _BEND_SLACK) - up_before
            bend = up_factor * up_change - down_factor * (down_values - down_before)
            rise = np.abs(expectation - expectation_before)
            bend = np.maximum(np.maximum(bend, rise), _SMALLEST_BEND)
            # the largest value of the chord + D u (1 - u)
            peak = (expectation_before + expectation) / 2 + (rise * (rise / bend) + bend) / 4
            best = np.maximum(best, peak)
            up_before = up_values
            down_before = down_values
            expectation_before = expectation
        return np.minimum(best * (1 + _ROUNDING), 1.0)

    return step


def _ends_of_pieces(grid: LossGrid, length: float) -> list[float]:
    """Returns the rising ends of the pieces into which the interval from 0 to `length` is cut, both ends included.

    The distance of an end from 0 or from `length` is a multiple of the grid's spacing.
    """
    num_cells = max(math.ceil(length / grid.spacing - 0.5), 1)
    stride = math.ceil(num_cells / _LARGEST_NUM_PIECES)
    from_start = [k * grid.spacing for k in range(0, num_cells, stride)]
    is_multiple = num_cells * grid.spacing == length
    from_end = [] if is_multiple else [length - t for t in from_start]
    return sorted({*from_start, length, *from_end})


class _SpanPair(NamedTuple):
    """One pair of a span: the shifts of V by its two losses, and the probabilities of both under P."""

    up_shift: Shift
    down_shift: Shift
    p_up: float
    p_down: float
    distance: float  # the larger loss less the smaller


def _span_pair(grid: LossGrid, *, up_loss: float, down_loss: float) -> _SpanPair:
    """Returns the two-point pair with two given losses, each of which is rounded away from 0."""
    up_loss = grid.rounded_outward(up_loss)
    down_loss = grid.rounded_outward(down_loss)
    p_up, p_down = two_point_probabilities(up_loss=up_loss, down_loss=down_loss)
    return _SpanPair(
        up_shift=grid.shift(up_loss),
        down_shift=grid.shift(down_loss),
        p_up=p_up,
        p_down=p_down,
        distance=up_loss - down_loss,
    )


def fixed_pair_step(
    grid: LossGrid, loss_masses: FloatArray, infinite_loss_prob: float
) -> CompositionStep:
    """Returns the composition step of a single pair of distributions, given the distribution of its privacy loss.

    The step maps V, the delta that the later releases can reach, to the expectation of V(x - loss) at each x.

    Args:
        grid: the grid of the values V.
        loss_masses: the probabilities of the losses -n..n times the grid's spacing, `[2 n + 1]`.
        infinite_loss_prob: the probability of an infinite loss.
    """
    n = len(loss_masses) // 2
    rounding = _ROUNDING + len(loss_masses) * 2.0**-52

    def step(values: FloatArray) -> FloatArray:
        padded_deltas = grid.padded(deltas=values, num_padding=n + 1)
        reachable_values = padded_deltas[1 : 1 + 2 * n + grid.num_points]
        expectation = np.convolve(reachable_values, loss_masses, mode="valid") + infinite_loss_prob
        return np.minimum(expectation * (1 + rounding), 1.0)

    return step


@lru_cache(maxsize=256)  # each total of a ledger composes equal events anew
def dominating_pairs(event: LeafEvent) -> DominatingPairs | None:
    """Returns the pairs of distributions that together dominate an event; None for an event that costs nothing.

    Raises `InvalidValue` for an event whose dominating pairs are not known.
    """
    match event:
        case events.NoOpEvent():
            return None
        case events.GaussianEvent() | events.SampledGaussianEvent(sampling_prob=1):
            return ShiftedMaximum(num_normals=1, maximum_shift=1 / event.noise_multiplier)
        case events.NoisyMaxGaussianEvent():
            return NoisyMaximum(event) if event.num_candidates > 1 else None
        case events.WinnerEvent():
            if SMALLEST_MULTIPLIER < event.noise_multiplier < LARGEST_MULTIPLIER:
                return winner_pairs(event.noise_multiplier, event.num_moving)
            return ShiftedMaximum(
                num_normals=1, maximum_shift=event.num_moving**0.5 / event.noise_multiplier
            )
        case events.SampledGaussianEvent():
            # The pair of a removed unit where a unit may come or go (docs/proofs/alternatives.md).
            down = -event.shift if event.is_replaced else 0.0
            return SampledPair(
                sampling_prob=event.sampling_prob, upper_mean=event.shift, lower_mean=down
            )
        case events.PureDpEvent():
            if event.epsilon == 0:
                return None
            # Randomized response dominates (Kairouz, Oh & Viswanath 2015).
            return Box(up_losses=np.array([event.epsilon]), down_losses=np.array([-event.epsilon]))
        case events.BoundedRangeEvent():
            return Span(length=event.epsilon) if event.epsilon > 0 else None
        case events.BitEvent():
            return _bit_box(event)
    rule = "an event that the exact accountant can compose (the rdp accountant may know it)"
    raise InvalidValue("event", type(event).__name__, rule=rule)


def _bit_box(event: events.BitEvent) -> Box | None:
    """Returns the pairs of distributions of a released bit on any two neighbors, in either order of the neighbors.

    Pairs that another pair dominates are left out. Returns None where no neighbors differ.
    """
    lower_logits, higher_logits = bit_pairs(event)
    if lower_logits.size == 0:
        return None
    loss_of_one = _rounded_up_difference(log_expit(higher_logits), smaller=log_expit(lower_logits))
    loss_of_zero = _rounded_up_difference(
        log_expit(-lower_logits), smaller=log_expit(-higher_logits)
    )
    up_losses = np.concatenate([loss_of_one, loss_of_zero])
    down_losses = -np.concatenate([loss_of_zero, loss_of_one])
    # by falling `up`; among equal ones the smallest `down` comes first
    order = np.lexsort((down_losses, -up_losses))
    up_losses = up_losses[order]
    down_losses = down_losses[order]
    # A pair is dominated where an earlier pair, whose `up` is larger, has a `down` that is no larger.
    smallest_down_before = np.append(np.inf, np.minimum.accumulate(down_losses)[:-1])
    is_undominated = down_losses < smallest_down_before
    return Box(up_losses=up_losses[is_undominated], down_losses=down_losses[is_undominated])


def _rounded_up_difference(larger: FloatArray, smaller: FloatArray) -> FloatArray:
    """Returns `larger - smaller`, two logarithms of probabilities, rounded upwards to 36 binary digits."""
    # Both logarithms are at most 0, so the slack is at least 0.
    slack = -_LOG_EXPIT_ROUNDING * (larger + smaller)
    difference = larger - smaller + slack + np.finfo(np.float64).tiny
    digits, exponent = np.frexp(difference)
    return np.asarray(np.ldexp(np.ceil(np.ldexp(digits, _LOSS_DIGITS)), exponent - _LOSS_DIGITS))

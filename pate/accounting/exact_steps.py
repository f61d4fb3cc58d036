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

_SUMS_TOGETHER = 16  # pairs whose expectations one matrix product computes
_POINTS_AT_ONCE = 4096  # of the grid in one matrix product: the rows stay in the processor's cache
_ROUNDING = 2.0**-46  # 128 units of 2**-53; a value may be wrong by 72 of them
# relative, per step: a box is accepted whose value is so little above the best pair's
_BOX_SLACK = 3e-5
_WINNER_SLACK = 1e-4  # relative, per step: the same for a pair above many laws of a winner
_LARGEST_USES_OF_COVER = 12  # steps that share one cover
_LARGEST_NUM_PIECES = 64  # into which a span is cut
_BEND_SLACK = 1e-9  # relative to the nearest value: more than rounding can take from a bend
_LEAST_BEND = 1e-300  # avoids a division by zero
_LOG_EXPIT_ROUNDING = 2.0**-50  # relative rounding error of `log_expit`, four times over
_LOSS_DIGITS = 36  # binary digits of a loss: so few that mirror images are equal


@dataclass(frozen=True, eq=False)
class Box:
    """A set of two-point pairs of an event, represented by one pair that dominates all of them.

    A two-point pair has two outcomes, with the privacy losses up > 0 > down. The dominating pair has the largest `up`
    and the smallest `down` of the set. `parts` are two boxes with one half of the pairs each.
    """

    upper_losses: FloatArray  # `[P]`, falling: the loss of the outcome that P favors, in each pair
    lower_losses: FloatArray  # `[P]`, falling: the loss of the other outcome

    @cached_property
    def up(self) -> float:
        """The largest loss of all pairs."""
        return float(self.upper_losses[0])

    @cached_property
    def down(self) -> float:
        """The smallest loss of all pairs."""
        return float(self.lower_losses[-1])

    @property
    def largest(self) -> float:
        """The largest absolute value of a loss."""
        return max(self.up, -self.down)

    @cached_property
    def parts(self) -> tuple[Self, ...]:
        """The boxes with the first and the second half of the pairs; empty for a single pair."""
        middle = len(self.upper_losses) // 2
        parts = (slice(middle), slice(middle, None)) if middle else ()
        return tuple(
            replace(
                self, upper_losses=self.upper_losses[part], lower_losses=self.lower_losses[part]
            )
            for part in parts
        )

    @cached_property
    def variance(self) -> float:
        """The largest second moment of the loss of a pair; used to choose grids, and not a rigorous bound."""
        with np.errstate(over="ignore", invalid="ignore"):
            p_up, p_down = two_point_probabilities(
                upper_loss=self.upper_losses, lower_loss=self.lower_losses
            )
            return float(
                np.fmax.reduce(
                    p_up * self.upper_losses * self.upper_losses
                    + p_down * self.lower_losses * self.lower_losses
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


FixedPair = SampledPair | NoisyMaximum
"""A single pair that dominates an event: the adversary has no choice, so the losses of several steps are summed."""

DominatingPairs = Box | Span | ShiftedMaximum | FixedPair | Winner
"""The pairs of distributions that together dominate one event."""


def two_point_probabilities(upper_loss: Any, lower_loss: Any) -> tuple[Any, Any]:
    """Returns the probabilities, under P, of both outcomes of two-point pairs, given their privacy losses.

    Q has the probabilities P e^-loss. Both distributions sum to 1 if P of the first outcome is
    (1 - e^lower_loss) / (1 - e^(lower_loss - upper_loss)).

    Args:
        upper_loss: the loss of the first outcome, > 0; a number or an array.
        lower_loss: the loss of the second outcome, < 0.
    """
    scale = np.expm1(lower_loss - upper_loss)
    return np.expm1(lower_loss) / scale, np.exp(lower_loss) * np.expm1(-upper_loss) / scale


def composition_step(
    pairs: DominatingPairs, grid: LossGrid, *, negligible: float
) -> CompositionStep:
    """Returns the composition step of one release: a function from values V on a grid to the new values there.

    Args:
        pairs: the pairs that dominate the release.
        grid: the grid.
        negligible: an absolute error upwards that is allowed for speed.
    """
    match pairs:
        case Box() | Winner():
            return _CoveredStep(grid=grid, tree=pairs, negligible=negligible)
        case Span():
            return _span_step(grid, length=pairs.length)
        case ShiftedMaximum():
            masses, missing = discretized_loss(
                pairs,
                spacing=grid.spacing,
                largest_multiple=grid.num_points,
                negligible_mass=negligible,
            )
            return fixed_pair_step(grid, loss_masses=masses, infinite_mass=missing)
    raise TypeError(type(pairs).__name__)


class _WeightedSums(NamedTuple):
    """The expectations of V(x - loss) over several pairs, written as one matrix product.

    The number of pairs is S. The product has R rows, each of which is V shifted by a number of grid points.
    """

    starts: IntArray  # `[R]` where the rows of moved values start in the padded values
    weights: FloatArray  # `[S, R]` of the rows
    beyond: FloatArray  # `[S, 1]` the mass that leads left of all points, where V is 1


class _CoveredStep:
    """A composition step that takes the maximum over all pairs of a tree, or a little more.

    Leaves of the tree are pairs of the event. An inner node is a pair that dominates its children (`parts`). The search
    replaces a node by its children only where the expectation of the node is above those of the leaves seen so far. The
    nodes at which the search stops cover the whole tree. Successive steps have similar values V, so several steps use
    the same cover. The first steps differ most, so few of them share a cover.

    Args:
        grid: the grid of the values V.
        tree: the tree.
        negligible: an absolute error upwards that is allowed for speed.
    """

    def __init__(self, grid: LossGrid, tree: Box | Winner, negligible: float) -> None:
        self._grid = grid
        self._negligible = negligible
        self._is_winner = isinstance(tree, Winner)
        self._roots: list[Box | Pair] = [tree] if isinstance(tree, Box) else [*tree.roots]
        self._slack = _WINNER_SLACK if self._is_winner else _BOX_SLACK
        self._num_padding = grid.padding(tree.largest)
        summation = 2 * self._num_padding * 2.0**-52 if self._is_winner else 0.0
        self._rounding_factor = 1 + _ROUNDING + summation
        self._shifts_of_pair: dict[Box | Pair, Shifts] = {}
        # Pairs without parts that the last split reached.
        self._single_sums: list[_WeightedSums] = []
        self._cover: list[_WeightedSums] = []
        self._num_splits = self._uses_left = 0

    def __call__(self, values: FloatArray) -> FloatArray:
        padded = self._grid.padded(values, self._num_padding)
        if self._uses_left > 0:
            self._uses_left -= 1
            best = self._largest(self._cover, padded)
        else:
            best = self._split(padded)
            self._num_splits += 1
            self._uses_left = min(2 ** (self._num_splits // 2), _LARGEST_USES_OF_COVER)
        return np.minimum(best * self._rounding_factor, 1.0)

    def _split(self, padded_deltas: FloatArray) -> FloatArray:
        """Searches the tree from its roots, stores the new cover, and returns the maximum at each point, `[size]`.

        Args:
            padded_deltas: the values V on the padded grid.
        """
        attained = self._largest(self._single_sums, padded_deltas)  # a lower bound of the maximum
        best = attained.copy()
        pending = [*self._roots]
        inner: list[Shifts] = []
        single: list[Shifts] = []
        enough = attained * (1 + self._slack) + self._negligible
        while pending:
            pair = pending.pop()
            shifts = self._shifts(pair)
            # The laws of a winner are many. Those that are reached are computed at once, below.
            if self._is_winner and not pair.parts:
                single.append(shifts)
                continue
            moved = [
                self._grid.shifted(padded_deltas, self._num_padding, shift) for shift in shifts
            ]
            bound = reduce(np.add, moved)  # the sum of P(loss) V(x - loss)
            if pair.parts and (bound > enough).any():
                pending += pair.parts
                continue
            if not pair.parts:
                np.maximum(attained, bound, out=attained)
                enough = attained * (1 + self._slack) + self._negligible
            np.maximum(best, bound, out=best)
            (inner if pair.parts else single).append(shifts)
        self._single_sums = self._weighted_sums(single)
        self._cover = [*self._weighted_sums(inner), *self._single_sums]
        if self._is_winner:
            return np.maximum(best, self._largest(self._single_sums, padded_deltas))
        return best

    def _shifts(self, pair: Box | Pair) -> Shifts:
        """Returns the shifts by all losses of a pair, from a cache; an infinite loss shifts left of all points."""
        if pair not in self._shifts_of_pair:
            grid = self._grid
            if isinstance(pair, Box):
                up = grid.rounded_outward(pair.up)
                down = grid.rounded_outward(pair.down)
                p_up, p_down = two_point_probabilities(upper_loss=up, lower_loss=down)
                self._shifts_of_pair[pair] = (
                    grid.shift(up, loss_probability=p_up),
                    grid.shift(down, loss_probability=p_down),
                )
            else:
                rounded_losses = map(grid.rounded_outward, pair.losses.tolist())
                p_masses = (pair.masses * (1 + pair.excess)).tolist()
                missing = Shift(
                    whole_steps=-grid.num_points, lower_weight=pair.missing, upper_weight=0.0
                )
                self._shifts_of_pair[pair] = (*map(grid.shift, rounded_losses, p_masses), missing)
        return self._shifts_of_pair[pair]

    def _largest(self, weighted_sums: list[_WeightedSums], padded_deltas: FloatArray) -> FloatArray:
        """Returns the largest expectation of all pairs in `weighted_sums` at each point of the grid, `[size]`.

        Args:
            weighted_sums: the expectations as matrix products.
            padded_deltas: the values V on the padded grid.
        """
        size = self._grid.num_points
        # Row i holds the values moved by i - pad points.
        windows = sliding_window_view(padded_deltas, size)
        best = np.zeros(size)
        for batch in weighted_sums:
            for start in range(0, size, _POINTS_AT_ONCE):
                chunk = slice(start, start + _POINTS_AT_ONCE)
                expectations = batch.weights @ windows[batch.starts, chunk] + batch.beyond
                np.maximum(best[chunk], expectations.max(axis=0), out=best[chunk])
        return best

    def _weighted_sums(self, shifts_of_pairs: Sequence[Shifts]) -> list[_WeightedSums]:
        """Returns the expectations over pairs as matrix products, a batch of pairs in each.

        Pairs that follow each other share most shifts, so a batch needs few rows.

        Args:
            shifts_of_pairs: the shifts by all losses of each pair.
        """
        batches = []
        for start in range(0, len(shifts_of_pairs), _SUMS_TOGETHER):
            batch = shifts_of_pairs[start : start + _SUMS_TOGETHER]
            inside = {
                shift.whole_steps
                for shifts in batch
                for shift in shifts
                if shift.whole_steps > -self._grid.num_points
            }
            wholes = sorted(inside | {whole + 1 for whole in inside})
            column_of = {whole: column for column, whole in enumerate(wholes)}
            weights = np.zeros((len(batch), len(wholes)))
            beyond = np.zeros((len(batch), 1))
            for row, shifts in enumerate(batch):
                for shift in shifts:
                    if shift.whole_steps <= -self._grid.num_points:  # left of all points V is 1
                        beyond[row] += shift.lower_weight
                    else:
                        weights[row, column_of[shift.whole_steps]] += shift.lower_weight
                        weights[row, column_of[shift.whole_steps + 1]] += shift.upper_weight
            starts = np.array(wholes, dtype=np.int64) + self._num_padding
            batches.append(_WeightedSums(starts=starts, weights=weights, beyond=beyond))
        return batches


def _span_step(grid: LossGrid, length: float) -> CompositionStep:
    """Returns the composition step of a `Span`: the maximum over all pairs with the losses t and t - length.

    The interval of t is cut into pieces.

    On a piece of t the values V(x - t) and V(x - t + length) lie below their chords in e^-t. With these chords the
    expectation is A + B s - C / s in s = e^t. Over the piece that is at most its own chord plus D share (1 - share),
    where `share` runs from 0 to 1. The largest value of that parabola is a closed form.
    """
    length = grid.rounded_outward(length)
    # the ends of pieces of [0, length], at multiples of the spacing from either end
    count = max(math.ceil(length / grid.spacing - 0.5), 1)
    stride = math.ceil(count / _LARGEST_NUM_PIECES)
    from_start = [k * grid.spacing for k in range(0, count, stride)]
    from_end = [] if count * grid.spacing == length else [length - t for t in from_start]
    ends = sorted({*from_start, length, *from_end})
    losses = [(grid.rounded_outward(t), grid.rounded_outward(t - length)) for t in ends]
    num_padding = grid.padding(max(up - down for up, down in losses))
    moves = [
        (grid.shift(up), grid.shift(down), two_point_probabilities(upper_loss=up, lower_loss=down))
        for up, down in losses
    ]
    widths = [after - before for before, after in pairwise(ends)]
    # by which the changes of the two values along a piece bend the expectation, D = rising - falling
    bend_factors = [
        (-math.expm1(w) / math.expm1(-length), math.expm1(w) / math.expm1(length)) for w in widths
    ]

    def step(values: FloatArray) -> FloatArray:
        padded = grid.padded(values, num_padding)
        best = values
        up_before = down_before = expectation_before = values
        for number, (up_shift, down_shift, (p_up, p_down)) in enumerate(moves):
            up_values = grid.shifted(padded, num_padding, up_shift)
            down_values = grid.shifted(padded, num_padding, down_shift)
            expectation = p_up * up_values + p_down * down_values
            if number > 0:
                up_factor, down_factor = bend_factors[number - 1]
                rise = np.abs(expectation - expectation_before)
                # D, rounded up by more than its terms can be wrong
                bend = up_factor * (up_values * (1 + _BEND_SLACK) - up_before) - down_factor * (
                    down_values - down_before
                )
                bend = np.maximum(np.maximum(bend, rise), _LEAST_BEND)
                # the largest value of the chord + D share (1 - share)
                peak = (expectation_before + expectation) / 2 + (rise * (rise / bend) + bend) / 4
                best = np.maximum(best, peak)
            up_before, down_before, expectation_before = up_values, down_values, expectation
        return np.minimum(best * (1 + _ROUNDING), 1.0)

    return step


def fixed_pair_step(
    grid: LossGrid, loss_masses: FloatArray, infinite_mass: float
) -> CompositionStep:
    """Returns the composition step of a single pair, given the distribution of its loss.

    Args:
        grid: the grid of the values V.
        loss_masses: the probabilities of the losses -n..n times the grid's spacing, `[2 n + 1]`.
        infinite_mass: the probability of an infinite loss.
    """
    last = len(loss_masses) // 2
    rounding = _ROUNDING + len(loss_masses) * 2.0**-52

    def step(values: FloatArray) -> FloatArray:
        reached = grid.padded(values, last + 1)[1 : 1 + 2 * last + grid.num_points]
        expectation = np.convolve(reached, loss_masses, mode="valid") + infinite_mass
        return np.minimum(expectation * (1 + rounding), 1.0)

    return step


@lru_cache(maxsize=256)
def dominating_pairs(event: LeafEvent) -> DominatingPairs | None:
    """Returns the pairs of distributions that together dominate an event; None for an event that costs nothing.

    Raises `InvalidValue` for an event whose dominating pairs are not known.
    """
    match event:
        case events.NoOpEvent():
            return None
        case events.GaussianEvent() | events.SampledGaussianEvent(sampling_prob=1):
            return ShiftedMaximum(num_normals=1, mean_shift=1 / event.noise_multiplier)
        case events.NoisyMaxGaussianEvent():
            return NoisyMaximum(event) if event.num_candidates > 1 else None
        case events.WinnerEvent():
            if SMALLEST_MULTIPLIER < event.noise_multiplier < LARGEST_MULTIPLIER:
                return winner_pairs(event.noise_multiplier, event.num_moving)
            return ShiftedMaximum(
                num_normals=1, mean_shift=event.num_moving**0.5 / event.noise_multiplier
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
            return Box(
                upper_losses=np.array([event.epsilon]), lower_losses=np.array([-event.epsilon])
            )
        case events.BoundedRangeEvent():
            return Span(event.epsilon) if event.epsilon > 0 else None
        case events.BitEvent():
            return _bit_box(event)
    rule = "an event that the exact accountant can compose (the rdp accountant may know it)"
    raise InvalidValue("event", type(event).__name__, rule=rule)


def _bit_box(event: events.BitEvent) -> Box | None:
    """Returns the two-point pairs of a released bit for neighbors, in both directions; None where there is no pair.

    Pairs that another pair dominates are left out.
    """
    lower_logits, higher_logits = bit_pairs(event)
    if lower_logits.size == 0:
        return None
    loss_of_one = _rounded_difference(log_expit(higher_logits), smaller=log_expit(lower_logits))
    loss_of_zero = _rounded_difference(log_expit(-lower_logits), smaller=log_expit(-higher_logits))
    upper_losses = np.concatenate([loss_of_one, loss_of_zero])
    lower_losses = -np.concatenate([loss_of_zero, loss_of_one])
    order = np.lexsort(
        (lower_losses, -upper_losses)
    )  # falling upper loss; among equals the smallest lower loss first
    upper_losses = upper_losses[order]
    lower_losses = lower_losses[order]
    # A pair is dominated where an earlier pair, whose `up` is larger, has a `down` that is no larger.
    smallest_down_before = np.append(np.inf, np.minimum.accumulate(lower_losses)[:-1])
    is_undominated = lower_losses < smallest_down_before
    return Box(upper_losses=upper_losses[is_undominated], lower_losses=lower_losses[is_undominated])


def _rounded_difference(larger: FloatArray, smaller: FloatArray) -> FloatArray:
    """Returns `larger - smaller` of logarithms of probabilities with 36 binary digits, rounded upwards."""
    rounding = _LOG_EXPIT_ROUNDING * (larger + smaller)
    difference = larger - smaller - rounding + np.finfo(np.float64).tiny
    digits, exponent = np.frexp(difference)
    return np.asarray(np.ldexp(np.ceil(np.ldexp(digits, _LOSS_DIGITS)), exponent - _LOSS_DIGITS))

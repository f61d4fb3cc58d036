"""The exact accountant: optimal adaptive composition by dynamic programming, as a guaranteed upper bound.

V_0(x) = max(0, 1 - exp(x)). Each step replaces V by the largest expectation of V(x - loss) over the pairs that the step
allows, and delta(epsilon) is the last V at epsilon. The adversary picks neighbors adaptively, and this is its best
(docs/proofs/exact_composition.md).

What a mechanism can do to its output in one step, between neighbors, is a family of pairs of distributions. Most are
two-point pairs. A pair (up, down) with up > 0 > down stands for two outcomes whose log-likelihood ratios are `up` and
`down`; both probabilities follow from the ratios. A pair with a larger `up` and a smaller `down` dominates: it can be
garbled into the other one, so replacing pairs by a box that contains them is an upper bound for all later steps.

A step takes V on equally spaced points and returns the new V there. V falls and is convex in exp(x). Between points it
is taken as linear in exp(x), left of them as linear up to 1 at exp(x) = 0, right of them as constant: all above it. The
spacing has so few digits that its multiples are exact, and every weight is so to a few units in the last place, however
close two losses. All products and sums are of such numbers >= 0, so a factor covers what rounding may have taken away.

Many steps are taken in blocks. The profile of a block, the adversary's best play in it, is the profile of a pair. That
pair dominates the block in every adaptive composition, whatever comes before and after it.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial, reduce
from itertools import accumulate, pairwise
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from pate.accounting import events
from pate.accounting.conversion import gaussian_delta, gaussian_epsilon, rdp_to_epsilons
from pate.accounting.event_tree import by_accesses
from pate.accounting.events import Event, LeafEvent
from pate.accounting.gaussian_pairs import SampledPair, ShiftedMaximum, discretized_loss
from pate.accounting.noisy_maximum import NoisyMaximum, noisy_maximum_profile
from pate.accounting.rdp import LossAccountant
from pate.accounting.renyi import bit_pairs
from pate.accounting.special import Array, convex_minorant, log_expit
from pate.accounting.winner import (
    LARGEST_MULTIPLIER,
    SMALLEST_MULTIPLIER,
    Pair,
    Winner,
    winner_pairs,
)
from pate.validation import InvalidValue, require_count

# One pair, which nobody chooses. The losses of many are summed, before those of all other steps.
FixedPair = SampledPair | NoisyMaximum
# by how many points a loss moves the grid; weights of the point there and of the next
Shift = tuple[int, float, float]
Shifts = tuple[Shift, ...]
# where rows of moved values start, their weights, what is beyond
WeightedSums = tuple[NDArray[np.int64], Array, Array]
CompositionStep = Callable[[Array], Array]

_DIGITS = 32  # of a spacing, binary: its multiples up to 2**21 are exact
_OUTWARD = 1 + 2.0**-50
_NEARLY = 1e-8  # relative: a loss this little below a multiple of the spacing is rounded to it
_TOGETHER = 16
_POINTS_AT_ONCE = 4096
_ROUNDING = 2.0**-46  # 128 units of 2**-53; a value may be wrong by 72 of them
# relative, per step: a box is accepted whose value is this little above the best pair's
_SLACK = 3e-5
# relative, per step: a pair above many is accepted whose value is this little above a law's
_SLACK_OF_A_WINNER = 1e-4
_USES_OF_A_COVER = 12
_MOST_PIECES = 64
_BENT = 1e-9  # relative, of the nearest value: more than rounding can take from a bend
_LEAST = 1e-300
_ULPS = 2.0**-50  # relative rounding error of `log_expit`, four times over
_DIGITS_OF_A_LOSS = 36  # of a loss, binary: so few that mirror images are equal
_OF_BLOCKS = 1e-11  # relative: of a hull's values between its corners, and of the sums of a profile
CAPACITY = 720
"""Of a block, in quarters of a step: enough that it gives away little, with many divisors, as releases repeat."""
# points up to the reach where the losses of a fixed pair are summed: a second's work at most
_MOST_CONVOLVED = 6000
_MISSING_OF_A_MAXIMUM = 1e-15  # of the mass of its loss: there the grid of one release ends
_ROUNDING_OF_A_MAXIMUM = (
    1e-13  # added to its profile: above what double precision computes too small
)
_ENORMOUS = 30.0
_COST = 4
_COST_OF_A_WINNER = 10
_COST_OF_A_MAXIMUM = 240  # of all steps with the same noise: the profile of one
# of the variance of all losses: what the wider spacing between blocks may add
_WIDENING_BETWEEN_BLOCKS = 3e-4
_DEVIATIONS = 9.2
_LOGARITHM = 42.0  # of the mass beyond the largest loss of a block
_WIDENING = 3e-3  # of the variance of all losses: what interpolation may add
_POINTS_PER_REACH = 2000
_MOST_POINTS = 200_000
_LEFT_SHARE = 0.25  # of the reach: how far left of 0 the grid begins at least
# so few may move delta by much at once: the grid then begins as far left as it ends right
_FEW_STEPS = 10
_NEGLIGIBLE = 1e-3  # of the smallest delta
_LEVELS = (12, 24, 48, 96, 192)  # the grid may end where delta is below 10**-level
_MARGIN = 1e-4  # between a delta that is read off and the grid's smallest
_RENYI_MARGIN = 1e-6  # the same, from the delta of the Renyi accountant
_LEAST_DELTA = 1e-290
_SMALLEST_REACH = 1e-200
_LARGEST_REACH = 500.0
_ROUNDING_OF_A_FIGURE = 1e-9


@dataclass(frozen=True)
class LossGrid:
    """Points first * spacing, (first + 1) * spacing, ..."""

    first: int  # the index of the first point
    size: int  # how many points, >= 2
    spacing: float  # > 0, as `rounded_spacing` makes it
    mirrored: bool = False  # `first` is 0, of functions V(-x) = 1 - exp(-x) + exp(-x) V(x)

    @property
    def points(self) -> Array:
        """The losses of the grid's points."""
        return np.asarray(
            np.arange(self.first, self.first + self.size, dtype=np.float64) * self.spacing
        )

    def padding(self, largest_loss: float) -> int:
        """How many points `padded` has to add on either side for losses up to this."""
        return math.ceil(min(largest_loss / self.spacing, self.size)) + 3

    def padded(self, values: Array, pad: int) -> Array:
        """The bound, on the left the mirror image, at `pad` more points on either side, `[pad + size + pad]`."""
        away = self.spacing * np.arange(pad, 0, -1)
        right = np.full(pad, values[-1])
        if self.mirrored:
            near = np.concatenate(
                [values[1 : pad + 1], np.full(max(pad + 1 - self.size, 0), values[-1])]
            )[::-1]
            return np.concatenate([-np.expm1(-away) + np.exp(-away) * near, values, right])
        return np.concatenate([values[0] + (1 - values[0]) * -np.expm1(-away), values, right])

    def outward(self, loss: float) -> float:
        """The next multiple of the spacing where the loss is nearly that, else the loss; a little farther from 0."""
        multiple = (
            round(loss / self.spacing) * self.spacing
            if abs(loss) < self.size * self.spacing
            else math.inf
        )
        nearly = abs(loss) <= abs(multiple) <= abs(loss) * (1 + _NEARLY)
        return multiple if nearly else loss * _OUTWARD

    def shift(self, loss: float, weight: float = 1.0) -> Shift:
        """Where a loss moves the points to: the same expectation as the loss itself, for what is linear between."""
        if abs(loss) > (self.size - 1) * self.spacing:
            return -self.size if loss > 0 else self.size + 1, weight, 0.0
        whole = math.floor(-loss / self.spacing)
        # the quotient was rounded
        whole += (-loss >= (whole + 1) * self.spacing) - (-loss < whole * self.spacing)
        beyond = -loss - whole * self.spacing
        before = (whole + 1) * self.spacing + loss
        scale = weight / math.expm1(self.spacing)
        return whole, scale * math.exp(beyond) * math.expm1(before), scale * math.expm1(beyond)

    def moved(self, padded: Array, pad: int, shift: Shift) -> Array:
        """The weighted values where a shift leads, `[size]`; 1 where that is left of all points."""
        whole, lower, upper = shift
        if whole <= -self.size:
            return np.full(self.size, lower)
        here = padded[pad + whole : pad + whole + self.size]
        if upper == 0:
            return here if lower == 1 else lower * here
        return np.asarray(
            lower * here + upper * padded[pad + whole + 1 : pad + whole + 1 + self.size]
        )


def rounded_spacing(spacing: float) -> float:
    """A spacing with few digits, never smaller."""
    fraction, exponent = math.frexp(spacing)
    return math.ldexp(math.ceil(math.ldexp(fraction, _DIGITS)), exponent - _DIGITS)


@dataclass(frozen=True, eq=False)
class Box:
    """The pair that dominates a run of neighboring pairs of an event, and the two parts of the run."""

    ups: Array  # `[P]`, falling: the largest loss of the first outcome
    downs: Array  # `[P]`, falling: the smallest loss of the second outcome

    @cached_property
    def up(self) -> float:
        """The largest loss."""
        return float(self.ups[0])

    @cached_property
    def down(self) -> float:
        """The smallest loss."""
        return float(self.downs[-1])

    @property
    def largest(self) -> float:
        """The largest absolute loss."""
        return max(self.up, -self.down)

    @cached_property
    def parts(self) -> tuple[Self, ...]:
        """Made when they are asked for, as most never are; none of a single pair."""
        middle = len(self.ups) // 2
        parts = (slice(middle), slice(middle, None)) if middle else ()
        return tuple(replace(self, ups=self.ups[part], downs=self.downs[part]) for part in parts)

    @cached_property
    def variance(self) -> float:
        """The largest second moment of the loss among the pairs: a measure, not a bound."""
        with np.errstate(over="ignore", invalid="ignore"):
            first, second = probabilities(self.ups, self.downs)
            return float(
                np.fmax.reduce(first * self.ups * self.ups + second * self.downs * self.downs)
            )


@dataclass(frozen=True)
class Span:
    """All pairs (t, t - length) with 0 <= t <= length: log-likelihood ratios that span at most `length`."""

    length: float  # > 0

    @property
    def variance(self) -> float:
        """The largest variance of a loss that lies in the span."""
        return self.length * self.length / 4


DominatingPairs = Box | Span | ShiftedMaximum | FixedPair | Winner
Steps = tuple[tuple[DominatingPairs, int], ...]
Run = tuple[DominatingPairs, ...]


def probabilities(up: Any, down: Any) -> tuple[Any, Any]:
    """Of the first and the second outcome, under the distribution that the losses favor; both to their last digits."""
    scale = np.expm1(down - up)
    return np.expm1(down) / scale, np.exp(down) * np.expm1(-up) / scale


def composition_step(
    pairs: DominatingPairs, grid: LossGrid, *, negligible: float
) -> CompositionStep:
    """The step of one event's pairs on a grid; an absolute error of `negligible`, upwards, is allowed for speed."""
    match pairs:
        case Box() | Winner():
            return _CoveredStep(grid, pairs, negligible)
        case Span():
            return _span_step(grid, pairs.length)
        case ShiftedMaximum():
            return fixed_pair_step(
                grid, *discretized_loss(pairs, grid.spacing, grid.size, missing=negligible)
            )
    raise TypeError(type(pairs).__name__)


class _CoveredStep:
    """The largest over a tree of pairs, or little more.

    A pair above others is replaced by them only where its value exceeds what single pairs attain. Those that were not
    replaced cover all. The values of the next steps hardly differ, so those steps take the maximum over the same cover.
    At first the values differ most from one step to the next, so few steps share a cover.
    """

    def __init__(self, grid: LossGrid, pairs: Box | Winner, negligible: float) -> None:
        self._grid = grid
        self._negligible = negligible
        self._of_winner = isinstance(pairs, Winner)
        self._roots = list[Box | Pair](pairs.roots if isinstance(pairs, Winner) else [pairs])
        self._slack = _SLACK_OF_A_WINNER if self._of_winner else _SLACK
        self._pad = grid.padding(pairs.largest)
        self._factor = 1 + _ROUNDING + (2 * self._pad * 2.0**-52 if self._of_winner else 0.0)
        self._known: dict[Box | Pair, Shifts] = {}
        # of the pairs without parts that the last split reached
        self._single: list[WeightedSums] = []
        self._cover: list[WeightedSums] = []
        self._splits = self._uses_left = 0

    def __call__(self, values: Array) -> Array:
        padded = self._grid.padded(values, self._pad)
        if self._uses_left > 0:
            self._uses_left -= 1
            best = self._largest(self._cover, padded)
        else:
            best = self._split(padded)
            self._splits += 1
            self._uses_left = min(2 ** (self._splits // 2), _USES_OF_A_COVER)
        return np.minimum(best * self._factor, 1.0)

    def _split(self, padded: Array) -> Array:
        """The maximum from the roots of the tree down; renews the cover."""
        attained = self._largest(self._single, padded)
        best = attained.copy()
        pending = [*self._roots]
        several = list[Shifts]()
        single = list[Shifts]()
        enough = attained * (1 + self._slack) + self._negligible
        while pending:
            pair = pending.pop()
            shifts = self._shifts(pair)
            if self._of_winner and not pair.parts:  # all laws that are reached at once, below
                single.append(shifts)
                continue
            bound = reduce(
                np.add, [self._grid.moved(padded, self._pad, shift) for shift in shifts]
            )  # of P(loss) V(x - loss)
            if pair.parts and (bound > enough).any():
                pending += pair.parts
                continue
            if not pair.parts:
                enough = (
                    np.maximum(attained, bound, out=attained) * (1 + self._slack) + self._negligible
                )
            np.maximum(best, bound, out=best)
            (several if pair.parts else single).append(shifts)
        self._single = self._summed(single)
        self._cover = [*self._summed(several), *self._single]
        return np.maximum(best, self._largest(self._single, padded)) if self._of_winner else best

    def _shifts(self, pair: Box | Pair) -> Shifts:
        """All outcomes, weighted by their probabilities; what is missing leads left of all points."""
        if pair not in self._known:
            outward = self._grid.outward
            shift = self._grid.shift
            if isinstance(pair, Box):
                losses = outward(pair.up), outward(pair.down)
                self._known[pair] = tuple(map(shift, losses, probabilities(*losses)))
            else:
                shifts = map(
                    shift,
                    map(outward, pair.losses.tolist()),
                    (pair.masses * (1 + pair.excess)).tolist(),
                )
                self._known[pair] = (*shifts, (-self._grid.size, pair.missing, 0.0))
        return self._known[pair]

    def _largest(self, sums: list[WeightedSums], padded: Array) -> Array:
        """The largest of weighted sums of padded values as they are moved, `[size]`."""
        size = self._grid.size
        moved = sliding_window_view(padded, self._grid.size)
        best = np.zeros(size)
        for starts, weights, beyond in sums:
            for first in range(0, size, _POINTS_AT_ONCE):
                here = slice(first, first + _POINTS_AT_ONCE)
                np.maximum(
                    best[here], (weights @ moved[starts, here] + beyond).max(axis=0), out=best[here]
                )
        return best

    def _summed(self, sums: Sequence[Shifts]) -> list[WeightedSums]:
        """Sums of `LossGrid.moved` over tuples of shifts, some at a time: neighbors share most of their rows."""
        made = []
        for some in (sums[first : first + _TOGETHER] for first in range(0, len(sums), _TOGETHER)):
            inside = {
                whole for shifts in some for whole, _, _ in shifts if whole > -self._grid.size
            }
            wholes = sorted(inside | {whole + 1 for whole in inside})
            place = {whole: number for number, whole in enumerate(wholes)}
            weights = np.zeros((len(some), len(wholes)))
            beyond = np.zeros((len(some), 1))
            for row, shifts in enumerate(some):
                for whole, lower, upper in shifts:
                    if whole <= -self._grid.size:  # left of all points the values are 1
                        beyond[row] += lower
                    else:
                        weights[row, place[whole]] += lower
                        weights[row, place[whole + 1]] += upper
            made.append((np.array(wholes, dtype=np.int64) + self._pad, weights, beyond))
        return made


def _span_step(grid: LossGrid, length: float) -> CompositionStep:
    """The largest over all pairs (t, t - length), piece by piece."""
    # On a piece of t let V(x - t) and V(x - t + length) lie below their chords in exp(-t). Then the expectation is
    # A + B s - C / s in s = exp(t), which is at most its chord plus D * share * (1 - share), where `share` runs from 0
    # to 1 along the piece.
    length = grid.outward(length)
    # the ends of pieces of [0, length], at multiples of the spacing from either end
    count = max(math.ceil(length / grid.spacing - 0.5), 1)
    whole = [k * grid.spacing for k in range(0, count, math.ceil(count / _MOST_PIECES))]
    others = [] if count * grid.spacing == length else [length - t for t in whole]
    ends = sorted({*whole, length, *others})
    pairs = [(grid.outward(t), grid.outward(t - length)) for t in ends]
    pad = grid.padding(max(up - down for up, down in pairs))
    moves = [(grid.shift(up), grid.shift(down), *probabilities(up, down)) for up, down in pairs]
    widths = [after - before for before, after in pairwise(ends)]
    factors = [
        (-math.expm1(w) / math.expm1(-length), math.expm1(w) / math.expm1(length)) for w in widths
    ]

    def step(values: Array) -> Array:
        padded = grid.padded(values, pad)
        best = values
        before = (values, values, values)
        for number, (up, down, p, q) in enumerate(moves):
            first = grid.moved(padded, pad, up)
            second = grid.moved(padded, pad, down)
            here = (first, second, p * first + q * second)
            # the chord + D * share * (1 - share); D is rounded up by more than its terms can be
            # wrong
            if number > 0:
                (near, far) = factors[number - 1]
                rise = np.abs(here[2] - before[2])
                bend = near * (first * (1 + _BENT) - before[0]) - far * (second - before[1])
                bend = np.maximum(np.maximum(bend, rise), _LEAST)
                best = np.maximum(
                    best, (before[2] + here[2]) / 2 + (rise * (rise / bend) + bend) / 4
                )
            before = here
        return np.minimum(best * (1 + _ROUNDING), 1.0)

    return step


def fixed_pair_step(grid: LossGrid, masses: Array, missing: float) -> CompositionStep:
    """The expectation over one pair, from the masses at multiples of the spacing, both ways from 0."""
    last = len(masses) // 2
    rounding = _ROUNDING + len(masses) * 2.0**-52

    def step(values: Array) -> Array:
        reached = grid.padded(values, last + 1)[1 : 1 + 2 * last + grid.size]
        return np.minimum(
            (np.convolve(reached, masses, mode="valid") + missing) * (1 + rounding), 1.0
        )

    return step


@lru_cache(maxsize=256)
def dominating_pairs(event: LeafEvent) -> DominatingPairs | None:
    """All pairs that an event can produce between neighbors; None where nothing can happen."""
    match event:
        case events.NoOpEvent():
            return None
        case events.GaussianEvent() | events.SampledGaussianEvent(sampling_prob=1):
            return ShiftedMaximum(1, 1 / event.noise_multiplier)
        case events.NoisyMaxGaussianEvent():
            return NoisyMaximum(event) if event.num_candidates > 1 else None
        case events.WinnerEvent():
            if SMALLEST_MULTIPLIER < event.noise_multiplier < LARGEST_MULTIPLIER:
                return winner_pairs(event.noise_multiplier, event.num_moving)
            return ShiftedMaximum(1, event.num_moving**0.5 / event.noise_multiplier)
        case events.SampledGaussianEvent():
            # Its own pair, a removed unit's where it may come or go (docs/proofs/alternatives.md).
            return SampledPair(
                event.sampling_prob, event.shift, -event.shift if event.is_replaced else 0.0
            )
        case events.PureDpEvent():
            return (
                Box(np.array([event.epsilon]), np.array([-event.epsilon]))
                if event.epsilon > 0
                else None
            )
        case events.BoundedRangeEvent():
            return Span(event.epsilon) if event.epsilon > 0 else None
        case events.BitEvent():
            return _pairs_of_bit(event)
    rule = "an event that the exact accountant can compose (the rdp accountant may know it)"
    raise InvalidValue("event", type(event).__name__, rule=rule)


def _pairs_of_bit(event: events.BitEvent) -> Box | None:
    """The bit at two statistics that differ by the reach, either way round, less the pairs that others dominate."""
    near, far = bit_pairs(event)
    if near.size == 0:
        return None
    # The loss of a 1, and minus that of a 0, both > 0: differences of two logarithms, never below the true ones.
    losses = []
    for larger, smaller in ((log_expit(far), log_expit(near)), (log_expit(-near), log_expit(-far))):
        difference = larger - smaller - _ULPS * (larger + smaller) + np.finfo(np.float64).tiny
        digits, exponent = np.frexp(difference)
        losses.append(
            np.ldexp(np.ceil(np.ldexp(digits, _DIGITS_OF_A_LOSS)), exponent - _DIGITS_OF_A_LOSS)
        )
    ups = np.concatenate(losses)
    downs = -np.concatenate(losses[::-1])
    order = np.lexsort((downs, -ups))  # falling up; among equals the smallest down first
    ups = ups[order]
    downs = downs[order]
    kept = downs < np.append(np.inf, np.minimum.accumulate(downs)[:-1])
    return Box(ups[kept], downs[kept])


@dataclass(frozen=True, eq=False)
class Block:
    """A pair of distributions by the losses of the first: masses at multiples of a spacing, both ways from 0."""

    masses: Array  # `[2 n + 1]` at -n..n times the spacing; they may sum to a little more than 1
    missing: float  # mass on an infinite loss
    spacing: float  # > 0

    @classmethod
    def above(cls, values: Array, spacing: float) -> Self:
        """A pair whose profile is nowhere below these values at 0, 1, 2, … times the spacing, or their mirror image."""
        losses = np.arange(len(values), dtype=np.float64) * spacing
        hull = convex_minorant(np.exp(losses), values)
        mirrored = -np.expm1(-losses) + np.exp(-losses) * hull
        whole = np.concatenate([mirrored[:0:-1], hull])
        before = np.append(mirrored[1:2], hull[:-1])
        after = np.append(hull[1:], hull[-1])
        # of the pair whose profile is linear in exp(epsilon) between these values, or nearly
        right = np.maximum(
            (before - hull) / -np.expm1(-spacing) - (hull - after) / np.expm1(spacing), 0.0
        )
        missing = float(hull[-1])
        made = cls(
            np.concatenate([(right[1:] * np.exp(-losses[1:]))[::-1], right]), missing, spacing
        )
        reached = made.profile()
        lacking = np.divide(whole, reached, out=np.ones_like(whole), where=whole > 0)
        factor = max(1.0, float(lacking.max()), 1 / (float(made.masses.sum()) + missing)) * (
            1 + _OF_BLOCKS
        )
        return replace(made, masses=made.masses * factor, missing=missing * factor)

    def profile(self) -> Array:
        """Its delta at -n..n times the spacing, `[2 n + 1]`, to a relative 1e-11."""
        near = -np.expm1(-self.spacing)
        far = np.exp(-self.spacing)
        # from the last place down: the mass farther up
        beyond = [0.0, *np.cumsum(self.masses[:0:-1]).tolist()]
        deltas = [*accumulate(beyond, lambda delta, mass: near * mass + far * delta)]
        return np.array(deltas[::-1]) + self.missing

    def times(self, other: Self, *, most: int) -> Self:
        """Both, one after the other; losses beyond `most` times the spacing are moved to it or count as infinite."""
        masses = np.convolve(self.masses, other.masses)
        masses *= 1 + min(len(self.masses), len(other.masses)) * 2.0**-51
        missing = self.missing * max(other.total, 1.0) + other.missing * max(self.total, 1.0)
        middle = len(masses) // 2
        if middle > most:
            missing += float(masses[middle + most + 1 :].sum()) * (1 + _OF_BLOCKS)
            below = float(masses[: middle - most].sum()) * (1 + _OF_BLOCKS)
            masses = masses[middle - most : middle + most + 1].copy()
            masses[0] += below
        return replace(self, masses=masses, missing=missing * (1 + _OF_BLOCKS))

    def power(self, count: int, *, most: int) -> Self:
        """Returns the distribution of the sum of `count` losses; the tails beyond `most` go to infinity."""
        square = self
        done = None
        while count:
            if count & 1:
                done = square if done is None else done.times(square, most=most)
            count >>= 1
            square = square.times(square, most=most) if count else square
        return done or square

    @property
    def total(self) -> float:
        """The sum of all masses, the missing one included."""
        return float(self.masses.sum()) + self.missing


def composed_in_blocks(
    steps: Steps, *, spacing: float, reach: float, negligible: float, any_order: bool = False
) -> Block:
    """Returns the pair above all steps in this order, or in any order, where each is a block of its own."""
    runs = Counter(_runs(steps, capacity=0 if any_order else CAPACITY))
    fixed = [(pairs, times) for pairs, times in steps if isinstance(pairs, FixedPair)]
    negligible = 10.0 ** math.floor(math.log10(negligible))  # the same for similar counts
    variance = math.fsum(times * pairs.variance for pairs, times in steps)
    number = runs.total() + sum(times for _, times in fixed)
    coarser = max(int(math.sqrt(4 * _WIDENING_BETWEEN_BLOCKS * variance / number) / spacing), 1)
    if fixed:
        coarser = max(coarser, math.ceil(reach / spacing / _MOST_CONVOLVED))
    most = math.ceil(reach / spacing / coarser) + 1
    between = LossGrid(first=0, size=most, spacing=coarser * rounded_spacing(spacing))
    made: dict[Run, Block] = {}
    # a run that another one ends with is read off on the way
    for longest in sorted(runs, key=len, reverse=True):
        if longest in made:
            continue
        # as far as its losses reach but for a tiny share, which counts as infinite
        far = _DEVIATIONS * math.sqrt(math.fsum(pairs.variance for pairs in longest))
        beyond = max(
            _largest(pairs, otherwise=0.0) - 2 * math.sqrt(pairs.variance) for pairs in longest
        )
        size = math.ceil(min(far + max(_LOGARITHM / 3 * beyond, 0.0), reach) / spacing) + 3
        grid = LossGrid(first=0, size=size, spacing=rounded_spacing(spacing), mirrored=True)
        profiles = _last_profiles(longest, grid, negligible)
        for run in runs:
            if run not in made and longest[len(longest) - len(run) :] == run:
                made[run] = Block.above(profiles[len(run) - 1][::coarser], coarser * grid.spacing)
    blocks = [block.power(runs[run], most=most) for run, block in made.items()]
    blocks += [_repeated(pair, times, between, negligible) for pair, times in fixed]
    return reduce(lambda one, other: one.times(other, most=most), blocks)


def _repeated(pair: FixedPair, times: int, grid: LossGrid, negligible: float) -> Block:
    """Returns the summed losses of one fixed pair, as nobody chooses between its steps; infinite beyond the grid."""
    most = grid.first + grid.size
    if isinstance(pair, NoisyMaximum):
        block = _maximum_block(pair, grid.spacing, most)
    else:
        masses, missing = discretized_loss(pair, grid.spacing, grid.size, missing=negligible)
        block = Block(masses, missing, grid.spacing)
    return block.power(times, most=most)


@lru_cache(maxsize=16)
def _maximum_block(pair: NoisyMaximum, spacing: float, most: int) -> Block:
    """Returns a pair above a noisy maximum, with losses of at most `most` times the spacing."""
    size = min(math.ceil(pair.reach(_MISSING_OF_A_MAXIMUM) / spacing) + 1, most)
    epsilons = np.arange(-size, size + 1, dtype=np.float64) * spacing
    # At 0 and above alone: neighbors can be exchanged, so that the mirror image holds below.
    profile = noisy_maximum_profile(pair.event, epsilons)[size:] + _ROUNDING_OF_A_MAXIMUM
    return Block.above(np.minimum(profile, 1.0), spacing)


@lru_cache(maxsize=6)
def _last_profiles(run: Run, grid: LossGrid, negligible: float) -> Array:
    """The profiles of the last 1, 2, … steps at 0 and above, `[steps, size]`; kept, as other counts need them, too."""
    steps: dict[DominatingPairs, CompositionStep] = {}
    values = np.zeros(grid.size)
    made = np.empty((len(run), grid.size))
    for place, pairs in enumerate(reversed(run)):
        if pairs not in steps:
            steps[pairs] = composition_step(pairs, grid, negligible=negligible)
        made[place] = values = steps[pairs](values)
    return made


def _in_one(steps: Steps) -> bool:
    """Whether steps are taken one by one: few, or with rare losses beside which the usual ones are tiny."""
    whole = sum(times * _cost(pairs) for pairs, times in steps)
    rare = any(
        _largest(pairs, otherwise=0.0) > _ENORMOUS * math.sqrt(pairs.variance) for pairs, _ in steps
    )
    return whole <= CAPACITY or rare


def _cost(pairs: DominatingPairs) -> int:
    """How long a step takes, in the units of `CAPACITY`; those of a fixed pair are one convolution."""
    if isinstance(pairs, FixedPair):
        return 0
    return _COST_OF_A_WINNER if isinstance(pairs, Winner) else _COST


def _runs(steps: Steps, *, capacity: int) -> Iterator[Run]:
    """Yields consecutive steps, as many at a time as a block holds; those of a fixed pair need none."""
    run = list[DominatingPairs]()
    left = capacity
    for pairs, times in steps:
        for _ in range(0 if isinstance(pairs, FixedPair) else times):
            run.append(pairs)
            left -= _cost(pairs)
            if left <= 0:
                yield tuple(run)
                run = []
                left = capacity
    if run:
        yield tuple(run)


def _largest(pairs: DominatingPairs, *, otherwise: float) -> float:
    """The largest loss of one step where it has one."""
    if isinstance(pairs, Box):
        return pairs.up
    return pairs.length if isinstance(pairs, Span) else otherwise


@dataclass(frozen=True, eq=False)
class Profile:
    """Upper bounds for delta on the points of a grid, and between them by convexity in exp(epsilon)."""

    grid: LossGrid  # the epsilons
    values: Array  # `[size]` the deltas

    def delta(self, epsilon: float) -> float:
        """Returns an upper bound of delta at an epsilon."""
        grid = self.grid
        position = epsilon / grid.spacing - grid.first
        if position >= grid.size - 1:
            return float(self.values[-1])
        index = max(math.floor(position), 0)
        share = math.expm1(epsilon - (grid.first + index) * grid.spacing) / math.expm1(grid.spacing)
        return float(
            self.values[index]
            + min(max(share, 0.0), 1.0) * (self.values[index + 1] - self.values[index])
        )

    def epsilon(self, delta: float) -> float:
        """Where the values fall to `delta`; 0 where they are there from the start, infinity where never."""
        above = np.flatnonzero(
            (self.values > delta) & (np.arange(self.grid.size) + self.grid.first >= 0)
        )
        if above.size == 0:
            return 0.0
        last = int(above[-1])
        if last + 1 == self.grid.size:
            return math.inf
        share = float((self.values[last] - delta) / (self.values[last] - self.values[last + 1]))
        return (self.grid.first + last) * self.grid.spacing + math.log1p(
            share * math.expm1(self.grid.spacing)
        )


@lru_cache(maxsize=16)
def composed(
    steps: Steps,
    *,
    reach: float,
    smallest_delta: float,
    in_blocks: bool = True,
    any_order: bool = False,
) -> Profile:
    """Returns the profile of steps taken in this order, or in any order.

    It is remembered, as the same release is priced again and again.
    """
    num_steps = sum(times for _, times in steps)
    negligible = _NEGLIGIBLE * smallest_delta / num_steps
    variance = math.fsum(times * pairs.variance for pairs, times in steps)
    # the widest spacing at which interpolation adds little
    narrow = math.sqrt(4 * _WIDENING * variance / num_steps)
    if any_order or (in_blocks and not _in_one(steps)):
        block = composed_in_blocks(
            steps,
            spacing=_aligned(narrow, steps),
            reach=reach,
            negligible=negligible,
            any_order=any_order,
        )
        deltas = block.profile()[len(block.masses) // 2 :]
        return Profile(
            LossGrid(first=0, size=len(deltas), spacing=block.spacing), np.minimum(deltas, 1.0)
        )
    # Spaced so that interpolation widens the losses little, and that the widest steps move by whole points.
    most = (
        _MOST_CONVOLVED if any(isinstance(pairs, FixedPair) for pairs, _ in steps) else _MOST_POINTS
    )
    spacing = _aligned(max(min(reach / _POINTS_PER_REACH, narrow), reach / most), steps)
    first = -math.ceil(min(max(_LEFT_SHARE, _FEW_STEPS / num_steps), 1.0) * reach / spacing) - 1
    grid = LossGrid(first=first, size=math.ceil(reach / spacing) + 3 - first, spacing=spacing)
    made: dict[DominatingPairs, CompositionStep] = {}
    values = -np.expm1(np.minimum(grid.points, 0.0))
    for pairs, times in reversed(steps):
        if isinstance(pairs, FixedPair):
            block = _repeated(pairs, times, grid, negligible)
            values = fixed_pair_step(grid, block.masses, block.missing)(values)
            continue
        if pairs not in made:
            made[pairs] = composition_step(pairs, grid, negligible=negligible)
        for _ in range(times):
            values = made[pairs](values)
    return Profile(grid, values)


def _aligned(spacing: float, steps: Steps) -> float:
    """About this spacing, one that divides the widest steps."""
    spacing = rounded_spacing(spacing)
    weights = {0.0: 0.0}
    # what should be a multiple: the length of a span, the loss of a single pair
    for pairs, times in steps:
        length = 0.0 if isinstance(pairs, Box) and pairs.parts else _largest(pairs, otherwise=0.0)
        if length >= spacing:
            weights[length] = weights.get(length, 0.0) + times * length * length
    length = max(weights, key=weights.__getitem__)
    return rounded_spacing(length / (2 * math.ceil(length / (2 * spacing)))) if length else spacing


class ExactAccountant(LossAccountant):
    """Composes bits, bounded ranges, pure DP, Gaussians, their maxima and samples optimally, whoever adapts.

    Formal guarantees, for the adjacency that the events were made for:
        * The best play of an adversary who picks two neighbors anew for every step, having seen all losses before, is
          never better than these figures; their own rounding is covered.
        * Gaussians alone are exact. Sampled Gaussians have one worst pair, whose losses are summed; a unit that comes
          or goes does so in the same way at all of them. A noisy maximum with Gaussian noise is replaced by one pair
          that dominates it, whose losses are summed: the bound is not the best play.
        * Never above the Renyi accountant, the price of noisy counts whose winner alone is released, or that of a
          session by its hits: the smallest of these bounds is returned.

    Edge cases: the bound is for steps in the order of the event, but Gaussians, their samples and maxima count as the
    first, which gives the adversary of the others the most freedom. With `any_order` each step is replaced by one pair
    that dominates it, and the bound holds for every order. More than 180 other steps are composed in blocks, some
    tenths of a percent above the best play, unless `in_blocks` is False. Then every step takes some milliseconds, as
    for optimal tables of the stability test, whose losses can be enormous. Epsilons above 500 and deltas below 1e-187
    are those of the Renyi accountant. Source: Murtagh & Vadhan 2016; Zhu, Dong & Wang 2022;
    docs/proofs/exact_composition.md.

    >>> from pate.accounting import BoundedRangeEvent, RdpAccountant, SelfComposedEvent
    >>> event = SelfComposedEvent(BoundedRangeEvent(0.1), 20)
    >>> [round(kind().compose(event).get_epsilon(1e-6), 2) for kind in (RdpAccountant, ExactAccountant)]
    [0.98, 0.93]
    """

    name = "exact"

    def __init__(self, *, in_blocks: bool = True, any_order: bool = False) -> None:
        super().__init__()
        self.in_blocks = in_blocks
        self.any_order = any_order
        self._steps: list[tuple[DominatingPairs, int]] = []
        self._mu_squared = 0.0
        self._mu_squared_of_winners = 0.0  # as releases of their counts

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event `count` times, by the pairs of distributions that dominate it."""
        steps: list[tuple[DominatingPairs, int]] = []
        mu_squared = winners = 0.0
        for leaf, times in _in_order(by_accesses(event), require_count("count", count, minimum=0)):
            price = getattr(leaf, "epsilon", 0.0)
            noise = getattr(leaf, "noise_multiplier", 1.0)
            # No pair dominates what has no protection; the Renyi accountant prices it, at infinity.
            if (
                times == 0
                or noise == 0
                or price == math.inf
                or isinstance(leaf, events.NonPrivateEvent)
            ):
                continue
            if isinstance(leaf, events.GaussianEvent):
                mu_squared = _up(mu_squared + _mu_squared(noise, times))
            elif (pairs := dominating_pairs(leaf)) is not None:
                steps.append((pairs, times))
            if isinstance(leaf, events.WinnerEvent):
                winners = _up(winners + _mu_squared(noise, leaf.num_moving * times))
        self._compose_renyi(event, count)
        self._steps += steps
        self._mu_squared = _up(self._mu_squared + mu_squared) if mu_squared else self._mu_squared
        if winners:
            self._mu_squared_of_winners = _up(self._mu_squared_of_winners + winners)
        return self

    def work(self) -> int:
        """How long the first reading takes, in quarters of a step of some milliseconds; repeated blocks take none."""
        steps = tuple(self._steps)
        maxima = {pairs for pairs, _ in steps if isinstance(pairs, NoisyMaximum)}
        work_of_maxima = _COST_OF_A_MAXIMUM * len(maxima)
        if _in_one(steps) and not self.any_order:
            return work_of_maxima + sum(times * _cost(pairs) for pairs, times in steps)
        runs = set(_runs(steps, capacity=0 if self.any_order else CAPACITY))
        return work_of_maxima + sum(sum(map(_cost, run)) for run in runs)

    def _epsilon(self, target_delta: float, bound: float) -> float:
        alone = partial(gaussian_epsilon, target_delta=target_delta)
        least = self._least(
            alone, lambda profile: profile.epsilon(target_delta), target_delta * _MARGIN
        )
        return least * (1 + _ROUNDING_OF_A_FIGURE)

    def _delta(self, target_epsilon: float, bound: float) -> float:
        def read(profile: Profile) -> float:
            return max(profile.delta(target_epsilon), _LEAST_DELTA) * (1 + _ROUNDING_OF_A_FIGURE)

        return self._least(
            partial(gaussian_delta, epsilon=target_epsilon), read, bound * _RENYI_MARGIN
        )

    def _least(
        self,
        alone: Callable[[float], float],
        read: Callable[[Profile], float],
        smallest_delta: float,
    ) -> float:
        """The least figure of what composes to a bound: that of mu where Gaussians are alone, else the profiles'."""
        bounds = [(self._steps, _up(math.sqrt(self._mu_squared)))]
        if winners := self._mu_squared_of_winners:  # by their counts, as Gaussians
            others = [step for step in self._steps if not isinstance(step[0], Winner)]
            bounds.append((others, _up(math.sqrt(_up(self._mu_squared + winners)))))
        figures = []
        for steps, mu in bounds:
            # and with two neighbors exchanged where that makes a difference: a unit comes or goes
            exchanged = [
                (step.exchanged if isinstance(step, SampledPair) else step, times)
                for step, times in steps
            ]
            ways = (steps,) if exchanged == steps else (steps, exchanged)
            profiles = [self._profile(way, mu, smallest_delta) for way in ways if way]
            figures_of_ways = [
                math.inf if profile is None else read(profile) for profile in profiles
            ]
            figures.append(max(figures_of_ways) if figures_of_ways else alone(mu))
        return min(figures)

    def _profile(
        self, parts: list[tuple[DominatingPairs, int]], mu: float, smallest_delta: float
    ) -> Profile | None:
        """The profile down to a delta, one for many questions; None where no grid can hold it."""
        level = next((level for level in _LEVELS if 10.0**-level <= smallest_delta), None)
        if level is None:
            return None
        fixed = Counter[DominatingPairs]()
        for pairs, times in parts:
            fixed[pairs] += times * isinstance(pairs, FixedPair)
        gaussians = [(ShiftedMaximum(1, mu), 1)] if mu > 0 else []
        steps: Steps = (
            *gaussians,
            *(+fixed).items(),
            *(step for step in parts if not fixed[step[0]]),
        )
        epsilons = rdp_to_epsilons(self._rdp.orders, self._rdp.rdp, target_delta=10.0**-level)
        # there delta is 0
        beyond = math.fsum(times * _largest(pairs, otherwise=math.inf) for pairs, times in steps)
        reach = min(float(epsilons.min()), beyond)
        if not _SMALLEST_REACH < reach < _LARGEST_REACH:
            return None
        return composed(
            steps,
            reach=reach,
            smallest_delta=10.0**-level,
            in_blocks=self.in_blocks,
            any_order=self.any_order,
        )


def _mu_squared(noise_multiplier: float, count: int) -> float:
    """Of that many Gaussians, rounded up."""
    return _up(_up(max(count / noise_multiplier / noise_multiplier, _LEAST_DELTA)))


def _up(number: float) -> float:
    """The next larger float, which covers a rounding error; 0 stays."""
    return math.nextafter(number, math.inf) if number else number


def _in_order(event: Event, count: int) -> Iterator[tuple[LeafEvent, int]]:
    if isinstance(event, LeafEvent):
        yield event, count
    elif isinstance(event, events.ApproximateEvent):
        yield from _in_order(event.event, count)
    elif isinstance(event, events.SelfComposedEvent) and isinstance(event.event, LeafEvent):
        yield event.event, count * event.count
    elif isinstance(event, events.SelfComposedEvent):
        for _ in range(count * event.count):
            yield from _in_order(event.event, 1)
    elif isinstance(event, events.ComposedEvent):
        for _ in range(count):
            for part in event.events:
                yield from ((part, 1),) if isinstance(part, LeafEvent) else _in_order(part, 1)

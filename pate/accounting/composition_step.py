"""One step of the optimal composition: the largest expectation of V(x - loss) over dominating pairs, bounded above.

What a mechanism can do to its output in one step, between neighbors, is a family of pairs of distributions. Most are
two-point pairs. A pair (up, down) with up > 0 > down stands for two outcomes whose log-likelihood ratios are `up` and
`down`; both probabilities follow from the ratios. A pair with a larger `up` and a smaller `down` dominates: it can be
garbled into the other one, so replacing pairs by a box that contains them is an upper bound for every later composition
(docs/proofs/exact_composition.md).

A step takes V on equally spaced points and returns the new V there. V falls and is convex in exp(x). Between points it
is taken as linear in exp(x), left of them as linear up to 1 at exp(x) = 0, right of them as constant: all above it. The
spacing has so few digits that its multiples are exact, and every weight is so to a few units in the last place, however
close two losses. All products and sums are of such numbers >= 0, so a factor covers what rounding may have taken away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from pate.accounting.sampled_gaussian import log_mixture_ratio, mixture
from pate.accounting.special import Array, log_ndtr
from pate.accounting.winner import Pair, Winner

Shift = tuple[int, float, float]  # by how many points a loss moves the grid; weights of the point there and of the next
Shifts = tuple[Shift, ...]
WeightedSums = tuple[NDArray[np.int64], Array, Array]  # where rows of moved values start, their weights, what is beyond
CompositionStep = Callable[[Array], Array]

FARTHEST = 39.0  # standard deviations beyond which a normal has no mass in double precision
_DIGITS = 32  # of a spacing, binary: its multiples up to 2**21 are exact
_OUTWARD = 1 + 2.0**-50
_NEARLY = 1e-8  # relative: a loss this little below a multiple of the spacing is rounded to it
_ULPS = 2.0**-50  # relative rounding error of `log_expit`, four times over
_NEAR = 9.0  # standard deviations
_LOCATION = 1e-9  # relative to the spacing: how well the ends of an interval are known at best
_BISECTIONS = 80
_OF_MASSES = 2.0**-44
_LARGEST_LOSS = 700.0  # a larger one counts as missing; its exponential may be no float
_TOGETHER, _POINTS_AT_ONCE = 16, 4096
_ROUNDING = 2.0**-46  # 128 units of 2**-53; a value may be wrong by 72 of them
_SLACK = 3e-5  # relative, per step: a box is accepted whose value is this little above the best pair's
_SLACK_OF_A_WINNER = 1e-4  # relative, per step: a pair above many is accepted whose value is this little above a law's
_USES_OF_A_COVER = 12
_MOST_PIECES = 64
_BENT = 1e-9  # relative, of the nearest value: more than rounding can take from a bend
_LEAST = 1e-300


@dataclass(frozen=True)
class LossGrid:
    """Points first * spacing, (first + 1) * spacing, ..."""

    first: int  # the index of the first point
    size: int  # how many points, >= 2
    spacing: float  # > 0, as `rounded_spacing` makes it
    mirrored: bool = False  # `first` is 0, of functions V(-x) = 1 - exp(-x) + exp(-x) V(x)

    @property
    def points(self) -> Array:
        return np.asarray(np.arange(self.first, self.first + self.size, dtype=np.float64) * self.spacing)

    def padding(self, largest_loss: float) -> int:
        """How many points `padded` has to add on either side for losses up to this."""
        return math.ceil(min(largest_loss / self.spacing, self.size)) + 3

    def padded(self, values: Array, pad: int) -> Array:
        """The bound, on the left the mirror image, at `pad` more points on either side, `[pad + size + pad]`."""
        away, right = self.spacing * np.arange(pad, 0, -1), np.full(pad, values[-1])
        if self.mirrored:
            near = np.concatenate([values[1 : pad + 1], np.full(max(pad + 1 - self.size, 0), values[-1])])[::-1]
            return np.concatenate([-np.expm1(-away) + np.exp(-away) * near, values, right])
        return np.concatenate([values[0] + (1 - values[0]) * -np.expm1(-away), values, right])

    def outward(self, loss: float) -> float:
        """The next multiple of the spacing where the loss is nearly that, else the loss; a little farther from 0."""
        multiple = round(loss / self.spacing) * self.spacing if abs(loss) < self.size * self.spacing else math.inf
        nearly = abs(loss) <= abs(multiple) <= abs(loss) * (1 + _NEARLY)
        return multiple if nearly else loss * _OUTWARD

    def shift(self, loss: float, weight: float = 1.0) -> Shift:
        """Where a loss moves the points to: the same expectation as the loss itself, for what is linear between."""
        if abs(loss) > (self.size - 1) * self.spacing:
            return -self.size if loss > 0 else self.size + 1, weight, 0.0
        whole = math.floor(-loss / self.spacing)
        whole += (-loss >= (whole + 1) * self.spacing) - (-loss < whole * self.spacing)  # the quotient was rounded
        beyond, before = -loss - whole * self.spacing, (whole + 1) * self.spacing + loss
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
        return np.asarray(lower * here + upper * padded[pad + whole + 1 : pad + whole + 1 + self.size])


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
        return float(self.ups[0])

    @cached_property
    def down(self) -> float:
        return float(self.downs[-1])

    @property
    def largest(self) -> float:
        return max(self.up, -self.down)

    @cached_property
    def parts(self) -> tuple[Box, ...]:
        """Made when they are asked for, as most never are; none of a single pair."""
        middle = len(self.ups) // 2
        parts = (slice(middle), slice(middle, None)) if middle else ()
        return tuple(Box(self.ups[part], self.downs[part]) for part in parts)

    @cached_property
    def variance(self) -> float:
        """The largest second moment of the loss among the pairs: a measure, not a bound."""
        with np.errstate(over="ignore", invalid="ignore"):
            first, second = probabilities(self.ups, self.downs)
            return float(np.fmax.reduce(first * self.ups * self.ups + second * self.downs * self.downs))


@dataclass(frozen=True)
class Span:
    """All pairs (t, t - length) with 0 <= t <= length: log-likelihood ratios that span at most `length`."""

    length: float  # > 0

    @property
    def variance(self) -> float:
        return self.length * self.length / 4


@dataclass(frozen=True)
class ShiftedMaximum:
    """The single pair M + shift and M, the largest of `count` standard normals; one normal is a Gaussian release."""

    count: int  # how many normals, >= 1
    shift: float  # > 0

    @property
    def variance(self) -> float:
        """The second moment of the loss where it is positive, under both distributions: a measure, not a bound."""
        x = np.linspace(-_NEAR, self.shift + _NEAR, 1001)
        mass = np.diff(self.first(x)[0] + self.second(x)[0])
        return float(np.sum(mass * np.maximum(self.loss(x[1:]), 0.0) ** 2))

    def loss(self, x: Array) -> Array:
        """Log density(M + shift) - log density(M) at x, rising."""
        slope = x * self.shift - self.shift * self.shift / 2
        return np.asarray(slope + (self.count - 1) * (log_ndtr(x - self.shift) - log_ndtr(x)))

    def loss_rounding(self, x: Array) -> Array:
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
        """The same of M."""
        log_below = self.count * log_ndtr(x)
        return np.asarray(np.exp(log_below)), np.asarray(-np.expm1(log_below))


@dataclass(frozen=True)
class SampledPair:
    """The single pair of two mixtures of N(0, 1) with N(up, 1), and with N(down, 1): a Gaussian release of a sample.

    Its properties are those of a shifted maximum.
    """

    sampling_prob: float  # of the second part of both mixtures, in (0, 1)
    up: float  # >= 0
    down: float  # <= 0, below up

    @property
    def exchanged(self) -> SampledPair:
        """The pair whose losses are those of the same two distributions exchanged; itself where up = -down."""
        return SampledPair(self.sampling_prob, -self.down, -self.up)

    @property
    def variance(self) -> float:
        x = np.linspace(self.down - _NEAR, self.up + _NEAR, 2001)
        return float(np.sum(np.diff(self.first(x)[0]) * self.loss(x[1:]) ** 2))

    def loss(self, x: Array) -> Array:
        first, second = (log_mixture_ratio(x, shift, self.sampling_prob) for shift in (self.up, self.down))
        return np.asarray(first - second)

    def loss_rounding(self, x: Array) -> Array:
        return np.asarray(_ULPS * sum(2 * np.abs(shift * x) + shift * shift for shift in (self.up, self.down)))

    @property
    def farthest(self) -> float:
        return max(self.up, -self.down) + FARTHEST

    def first(self, x: Array) -> tuple[Array, Array]:
        return mixture(x, -self.up, self.sampling_prob), mixture(-x, self.up, self.sampling_prob)

    def second(self, x: Array) -> tuple[Array, Array]:
        return mixture(x, -self.down, self.sampling_prob), mixture(-x, self.down, self.sampling_prob)


DominatingPairs = Box | Span | ShiftedMaximum | SampledPair | Winner


def probabilities(up: Any, down: Any) -> tuple[Any, Any]:
    """Of the first and the second outcome, under the distribution that the losses favor; both to their last digits."""
    scale = np.expm1(down - up)
    return np.expm1(down) / scale, np.exp(down) * np.expm1(-up) / scale


def discretized_loss(pair: ShiftedMaximum | SampledPair, grid: LossGrid, *, missing: float) -> tuple[Array, float]:
    """The masses of a pair's loss at multiples of the spacing, both ways from 0, and that on an infinite loss."""
    # A `SampledPair` is taken as it is. Of a shifted maximum, the pair is (M + shift, M) from the point x on where
    # P(M + shift > x) = P(M <= x), together with its mirror image, the same losses with their signs and the two
    # distributions exchanged (docs/proofs/exact_composition.md).
    x, multiples = _edges(pair, grid, missing)
    location = _LOCATION + pair.loss_rounding(x) / grid.spacing  # [C + 1]
    blur = np.maximum(location[:-1], location[1:])
    # Masses of intervals, [C], under the distribution that the losses favor and under its neighbor, and their rounding
    # errors: differences of a distribution function from the side where it is small.
    masses = []
    for below, above in (pair.first(x), pair.second(x)):
        left = below[1:] < above[:-1]
        difference = np.where(left, below[1:] - below[:-1], above[:-1] - above[1:])
        masses.append((np.maximum(difference, 0.0), _OF_MASSES * np.where(left, below[1:], above[:-1])))
    last = int(np.abs(multiples).max())
    made, middle = np.zeros(2 * last + 3), last + 1
    losses, scale = multiples.astype(np.float64) * grid.spacing, -math.expm1(-grid.spacing)
    images = [(losses[:-1], *masses), (-losses[1:], *masses[::-1])]
    for low, (here, lost_here), (there, lost_there) in images[: 1 if isinstance(pair, SampledPair) else 2]:
        # The mass of an interval goes to its two ends such that both distributions keep theirs: no smaller for whatever
        # is convex in exp(-loss). What rounding and the search for the ends may have moved goes one point farther,
        # where V is larger.
        at, ratio = middle + np.round(low / grid.spacing).astype(np.int64), np.exp(low)
        upper = np.clip((here - ratio * there) / scale, 0.0, here)
        moved = (lost_here + ratio * lost_there) / scale + (here + lost_here) * blur
        for farther, part in enumerate((here - upper, upper, 2 * moved)):
            np.add.at(made, at + farther, part)
    (below, _), (above, beyond) = (tails.tolist() for tails in pair.first(x[[0, -1]]))
    if isinstance(pair, SampledPair):
        made[middle + int(multiples[0]) + 1] += below * (1 + _OF_MASSES)
    else:
        other_above, other_beyond = pair.second(x[[0, -1]])[1].tolist()
        made[middle - int(multiples[-1])] += other_beyond
        beyond += abs(1 - above - other_above)  # unmatched
    return made, beyond * (1 + _OF_MASSES)


def _edges(pair: ShiftedMaximum | SampledPair, grid: LossGrid, missing: float) -> tuple[Array, NDArray[np.int64]]:
    """Where the loss is a multiple of the spacing, up to a tail of `missing`; and these multiples."""
    most = min(grid.size, int(_LARGEST_LOSS / grid.spacing))

    def inside(x: Array) -> NDArray[np.bool_]:
        above = pair.first(x)[1]
        begins = pair.loss(x) > -most * grid.spacing if isinstance(pair, SampledPair) else pair.second(x)[0] > above
        return np.where([True, False], begins, above < missing)

    def bisected(above: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array) -> Array:
        """Where a rising condition begins to hold."""
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            holds = above(middle)
            low, high = np.where(holds, low, middle), np.where(holds, middle, high)
        return np.asarray(high)

    ends = bisected(inside, np.full(2, -pair.farthest), np.full(2, pair.farthest))
    low, high = np.clip(pair.loss(ends) / grid.spacing, -most, most).tolist()
    multiples = np.arange(math.floor(low), max(math.ceil(high), math.floor(low) + 1) + 1)
    every = np.zeros(len(multiples))
    x = bisected(lambda x: pair.loss(x) > multiples * grid.spacing, every + ends[0], every + pair.farthest)
    x[0] = ends[0]
    return x, multiples


def composition_step(pairs: DominatingPairs, grid: LossGrid, *, negligible: float) -> CompositionStep:
    """The step of one event's pairs on a grid; an absolute error of `negligible`, upwards, is allowed for speed."""
    match pairs:
        case Box() | Winner():
            return _CoveredStep(grid, pairs, negligible)
        case Span():
            return _span_step(grid, pairs.length)
        case ShiftedMaximum():
            return fixed_pair_step(grid, *discretized_loss(pairs, grid, missing=negligible))
    raise TypeError(type(pairs).__name__)


class _CoveredStep:
    """The largest over a tree of pairs, or little more.

    A pair above others is replaced by them only where its value exceeds what single pairs attain. Those that were not
    replaced cover all. The values of the next steps hardly differ, so those steps take the maximum over the same cover.
    At first the values differ most from one step to the next, so few steps share a cover.
    """

    def __init__(self, grid: LossGrid, pairs: Box | Winner, negligible: float) -> None:
        self._grid, self._negligible = grid, negligible
        self._of_winner = isinstance(pairs, Winner)
        self._roots = list[Box | Pair](pairs.roots if isinstance(pairs, Winner) else [pairs])
        self._slack = _SLACK_OF_A_WINNER if self._of_winner else _SLACK
        self._pad = grid.padding(pairs.largest)
        self._factor = 1 + _ROUNDING + (2 * self._pad * 2.0**-52 if self._of_winner else 0.0)
        self._known: dict[Box | Pair, Shifts] = {}
        self._single: list[WeightedSums] = []  # of the pairs without parts that the last split reached
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
        best, pending = attained.copy(), [*self._roots]
        several, single = list[Shifts](), list[Shifts]()
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
                enough = np.maximum(attained, bound, out=attained) * (1 + self._slack) + self._negligible
            np.maximum(best, bound, out=best)
            (several if pair.parts else single).append(shifts)
        self._single = self._summed(single)
        self._cover = [*self._summed(several), *self._single]
        return np.maximum(best, self._largest(self._single, padded)) if self._of_winner else best

    def _shifts(self, pair: Box | Pair) -> Shifts:
        """All outcomes, weighted by their probabilities; what is missing leads left of all points."""
        if pair not in self._known:
            outward, shift = self._grid.outward, self._grid.shift
            if isinstance(pair, Box):
                losses = outward(pair.up), outward(pair.down)
                self._known[pair] = tuple(map(shift, losses, probabilities(*losses)))
            else:
                shifts = map(shift, map(outward, pair.losses.tolist()), (pair.masses * (1 + pair.excess)).tolist())
                self._known[pair] = (*shifts, (-self._grid.size, pair.missing, 0.0))
        return self._known[pair]

    def _largest(self, sums: list[WeightedSums], padded: Array) -> Array:
        """The largest of weighted sums of padded values as they are moved, `[size]`."""
        size, moved = self._grid.size, sliding_window_view(padded, self._grid.size)
        best = np.zeros(size)
        for starts, weights, beyond in sums:
            for first in range(0, size, _POINTS_AT_ONCE):
                here = slice(first, first + _POINTS_AT_ONCE)
                np.maximum(best[here], (weights @ moved[starts, here] + beyond).max(axis=0), out=best[here])
        return best

    def _summed(self, sums: Sequence[Shifts]) -> list[WeightedSums]:
        """Sums of `LossGrid.moved` over tuples of shifts, some at a time: neighbors share most of their rows."""
        made = []
        for some in (sums[first : first + _TOGETHER] for first in range(0, len(sums), _TOGETHER)):
            inside = {whole for shifts in some for whole, _, _ in shifts if whole > -self._grid.size}
            wholes = sorted(inside | {whole + 1 for whole in inside})
            place = {whole: number for number, whole in enumerate(wholes)}
            weights, beyond = np.zeros((len(some), len(wholes))), np.zeros((len(some), 1))
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
    factors = [(-math.expm1(w) / math.expm1(-length), math.expm1(w) / math.expm1(length)) for w in widths]

    def step(values: Array) -> Array:
        padded = grid.padded(values, pad)
        best, before = values, (values, values, values)
        for number, (up, down, p, q) in enumerate(moves):
            first, second = grid.moved(padded, pad, up), grid.moved(padded, pad, down)
            here = (first, second, p * first + q * second)
            if number > 0:  # the chord + D * share * (1 - share); D is rounded up by more than its terms can be wrong
                (near, far), rise = factors[number - 1], np.abs(here[2] - before[2])
                bend = near * (first * (1 + _BENT) - before[0]) - far * (second - before[1])
                bend = np.maximum(np.maximum(bend, rise), _LEAST)
                best = np.maximum(best, (before[2] + here[2]) / 2 + (rise * (rise / bend) + bend) / 4)
            before = here
        return np.minimum(best * (1 + _ROUNDING), 1.0)

    return step


def fixed_pair_step(grid: LossGrid, masses: Array, missing: float) -> CompositionStep:
    """The expectation over one pair, from the masses at multiples of the spacing, both ways from 0."""
    last = len(masses) // 2
    rounding = _ROUNDING + len(masses) * 2.0**-52

    def step(values: Array) -> Array:
        reached = grid.padded(values, last + 1)[1 : 1 + 2 * last + grid.size]
        return np.minimum((np.convolve(reached, masses, mode="valid") + missing) * (1 + rounding), 1.0)

    return step

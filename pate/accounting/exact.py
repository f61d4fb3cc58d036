"""The exact accountant: optimal adaptive composition by dynamic programming, as a guaranteed upper bound.

V_0(x) = max(0, 1 - exp(x)). Each step replaces V by the largest expectation of V(x - loss) over the pairs that the step
allows, and delta(epsilon) is the last V at epsilon. The adversary picks neighbors adaptively, and this is its best
(docs/proofs/exact_composition.md).

Many steps are taken in blocks. The profile of a block, the adversary's best play in it, is the profile of a pair. That
pair dominates the block in every adaptive composition, whatever comes before and after it. Pairs on one grid of losses
are then composed by sums of products, all of them numbers >= 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from itertools import accumulate
from typing import Self

import numpy as np

from pate.accounting import events
from pate.accounting.composition_step import (
    Box,
    CompositionStep,
    DominatingPairs,
    LossGrid,
    SampledPair,
    ShiftedMaximum,
    Span,
    composition_step,
    discretized_loss,
    fixed_pair_step,
    rounded_spacing,
)
from pate.accounting.conversion import gaussian_delta, gaussian_epsilon, rdp_to_epsilons
from pate.accounting.events import Event, LeafEvent, by_accesses
from pate.accounting.rdp import LossAccountant
from pate.accounting.renyi import bit_pairs
from pate.accounting.special import Array, convex_minorant, log_expit
from pate.accounting.winner import LARGEST_MULTIPLIER, SMALLEST_MULTIPLIER, Winner, winner_pairs
from pate.validation import InvalidValue, require_count

Steps = tuple[tuple[DominatingPairs, int], ...]
Run = tuple[DominatingPairs, ...]

_ULPS = 2.0**-50  # relative rounding error of `log_expit`, four times over
_DIGITS = 36  # of a loss, binary: so few that mirror images are equal
_OF_BLOCKS = 1e-11  # relative: of a hull's values between its corners, and of the sums of a profile
CAPACITY = 720
"""Of a block, in quarters of a step: enough that it gives away little, with many divisors, as releases repeat."""
_MOST_CONVOLVED = 6000  # points up to the reach where the losses of a fixed pair are summed: a second's work at most
_ENORMOUS = 30.0
_COST, _COST_OF_A_WINNER = 4, 10
_WIDENING_BETWEEN_BLOCKS = 3e-4  # of the variance of all losses: what the wider spacing between blocks may add
_DEVIATIONS = 9.2
_LOGARITHM = 42.0  # of the mass beyond the largest loss of a block
_WIDENING = 3e-3  # of the variance of all losses: what interpolation may add
_POINTS_PER_REACH, _MOST_POINTS = 2000, 200_000
_LEFT_SHARE = 0.25  # of the reach: how far left of 0 the grid begins at least
_FEW_STEPS = 10  # so few may move delta by much at once: the grid then begins as far left as it ends right
_NEGLIGIBLE = 1e-3  # of the smallest delta
_LEVELS = (12, 24, 48, 96, 192)  # the grid may end where delta is below 10**-level
_MARGIN = 1e-4  # between a delta that is read off and the grid's smallest
_RENYI_MARGIN = 1e-6  # the same, from the delta of the Renyi accountant
_LEAST = 1e-290
_SMALLEST_REACH, _LARGEST_REACH = 1e-200, 500.0
_ROUNDING = 1e-9


@lru_cache(maxsize=256)
def dominating_pairs(event: LeafEvent) -> DominatingPairs | None:
    """All pairs that an event can produce between neighbors; None where nothing can happen."""
    match event:
        case events.NoOpEvent():
            return None
        case events.GaussianEvent() | events.SampledGaussianEvent(sampling_prob=1):
            return ShiftedMaximum(1, 1 / event.noise_multiplier)
        case events.NoisyMaxGaussianEvent():
            # The pair of which every hockey stick is above the release's (docs/proofs/gap_selection.md, step 5).
            count = event.num_candidates - 1
            return ShiftedMaximum(count, 2 / event.noise_multiplier) if count > 0 else None
        case events.WinnerEvent():
            if SMALLEST_MULTIPLIER < event.noise_multiplier < LARGEST_MULTIPLIER:
                return winner_pairs(event.noise_multiplier, event.num_moving)
            return ShiftedMaximum(1, event.num_moving**0.5 / event.noise_multiplier)
        case events.SampledGaussianEvent():
            # Its own pair, a removed unit's where it may come or go (docs/proofs/alternatives.md).
            return SampledPair(event.sampling_prob, event.shift, -event.shift if event.is_replaced else 0.0)
        case events.PureDpEvent():
            return Box(np.array([event.epsilon]), np.array([-event.epsilon])) if event.epsilon > 0 else None
        case events.BoundedRangeEvent():
            return Span(event.epsilon) if event.epsilon > 0 else None
        case events.BitEvent():
            return _pairs_of_bit(event)
    rule = "an event that the exact accountant can compose (the rdp accountant may know it)"
    raise InvalidValue(f"event={type(event).__name__}: expected {rule}")


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
        losses.append(np.ldexp(np.ceil(np.ldexp(digits, _DIGITS)), exponent - _DIGITS))
    ups, downs = np.concatenate(losses), -np.concatenate(losses[::-1])
    order = np.lexsort((downs, -ups))  # falling up; among equals the smallest down first
    ups, downs = ups[order], downs[order]
    kept = downs < np.append(np.inf, np.minimum.accumulate(downs)[:-1])
    return Box(ups[kept], downs[kept])


@dataclass(frozen=True, eq=False)
class Block:
    """A pair of distributions by the losses of the first: masses at multiples of a spacing, both ways from 0."""

    masses: Array  # `[2 n + 1]` at -n..n times the spacing; they may sum to a little more than 1
    missing: float  # mass on an infinite loss
    spacing: float  # > 0

    @classmethod
    def above(cls, values: Array, spacing: float) -> Block:
        """A pair whose profile is nowhere below these values at 0, 1, 2, … times the spacing, or their mirror image."""
        losses = np.arange(len(values), dtype=np.float64) * spacing
        hull = convex_minorant(np.exp(losses), values)
        mirrored = -np.expm1(-losses) + np.exp(-losses) * hull
        whole = np.concatenate([mirrored[:0:-1], hull])
        before, after = np.append(mirrored[1:2], hull[:-1]), np.append(hull[1:], hull[-1])
        # of the pair whose profile is linear in exp(epsilon) between these values, or nearly
        right = np.maximum((before - hull) / -np.expm1(-spacing) - (hull - after) / np.expm1(spacing), 0.0)
        missing = float(hull[-1])
        made = cls(np.concatenate([(right[1:] * np.exp(-losses[1:]))[::-1], right]), missing, spacing)
        reached = made.profile()
        lacking = np.divide(whole, reached, out=np.ones_like(whole), where=whole > 0)
        factor = max(1.0, float(lacking.max()), 1 / (float(made.masses.sum()) + missing)) * (1 + _OF_BLOCKS)
        return cls(made.masses * factor, missing * factor, spacing)

    def profile(self) -> Array:
        """Its delta at -n..n times the spacing, `[2 n + 1]`, to a relative 1e-11."""
        near, far = -np.expm1(-self.spacing), np.exp(-self.spacing)
        beyond = [0.0, *np.cumsum(self.masses[:0:-1]).tolist()]  # from the last place down: the mass farther up
        deltas = [*accumulate(beyond, lambda delta, mass: near * mass + far * delta)]
        return np.array(deltas[::-1]) + self.missing

    def times(self, other: Block, *, most: int) -> Block:
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
        return Block(masses, missing * (1 + _OF_BLOCKS), self.spacing)

    def power(self, count: int, *, most: int) -> Block:
        square, done = self, None
        while count:
            if count & 1:
                done = square if done is None else done.times(square, most=most)
            count >>= 1
            square = square.times(square, most=most) if count else square
        return done or square

    @property
    def total(self) -> float:
        return float(self.masses.sum()) + self.missing


def composed_in_blocks(steps: Steps, *, spacing: float, reach: float, negligible: float) -> Block:
    """The pair above all steps, in this order."""
    runs = Counter(_runs(steps))
    fixed = [(pairs, times) for pairs, times in steps if isinstance(pairs, SampledPair)]
    negligible = 10.0 ** math.floor(math.log10(negligible))  # the same for similar counts
    variance = math.fsum(times * pairs.variance for pairs, times in steps)
    number = runs.total() + sum(times for _, times in fixed)
    coarser = max(int(math.sqrt(4 * _WIDENING_BETWEEN_BLOCKS * variance / number) / spacing), 1)
    if fixed:
        coarser = max(coarser, math.ceil(reach / spacing / _MOST_CONVOLVED))
    most = math.ceil(reach / spacing / coarser) + 1
    between = LossGrid(first=0, size=most, spacing=coarser * rounded_spacing(spacing))
    made: dict[Run, Block] = {}
    for longest in sorted(runs, key=len, reverse=True):  # a run that another one ends with is read off on the way
        if longest in made:
            continue
        # as far as its losses reach but for a tiny share, which counts as infinite
        far = _DEVIATIONS * math.sqrt(math.fsum(pairs.variance for pairs in longest))
        beyond = max(_largest(pairs, otherwise=0.0) - 2 * math.sqrt(pairs.variance) for pairs in longest)
        size = math.ceil(min(far + max(_LOGARITHM / 3 * beyond, 0.0), reach) / spacing) + 3
        grid = LossGrid(first=0, size=size, spacing=rounded_spacing(spacing), mirrored=True)
        profiles = _last_profiles(longest, grid, negligible)
        for run in runs:
            if run not in made and longest[len(longest) - len(run) :] == run:
                made[run] = Block.above(profiles[len(run) - 1][::coarser], coarser * grid.spacing)
    blocks = [block.power(runs[run], most=most) for run, block in made.items()]
    blocks += [_repeated(pair, times, between, negligible) for pair, times in fixed]
    return reduce(lambda one, other: one.times(other, most=most), blocks)


def _repeated(pair: SampledPair, times: int, grid: LossGrid, negligible: float) -> Block:
    """The losses of one fixed pair, summed, as nobody chooses between its steps; infinite beyond the grid."""
    block = Block(*discretized_loss(pair, grid, missing=negligible), grid.spacing)
    return block.power(times, most=grid.first + grid.size)


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
    rare = any(_largest(pairs, otherwise=0.0) > _ENORMOUS * math.sqrt(pairs.variance) for pairs, _ in steps)
    return whole <= CAPACITY or rare


def _cost(pairs: DominatingPairs) -> int:
    """How long a step takes, in the units of `CAPACITY`; those of a fixed pair are one convolution."""
    return 0 if isinstance(pairs, SampledPair) else _COST_OF_A_WINNER if isinstance(pairs, Winner) else _COST


def _runs(steps: Steps) -> Iterator[Run]:
    """Consecutive steps, as many at a time as a block holds; those of a fixed pair need none."""
    run, left = list[DominatingPairs](), CAPACITY
    for pairs, times in steps:
        for _ in range(0 if isinstance(pairs, SampledPair) else times):
            run.append(pairs)
            left -= _cost(pairs)
            if left <= 0:
                yield tuple(run)
                run, left = [], CAPACITY
    if run:
        yield tuple(run)


def _largest(pairs: DominatingPairs, *, otherwise: float) -> float:
    """The largest loss of one step where it has one."""
    return pairs.up if isinstance(pairs, Box) else pairs.length if isinstance(pairs, Span) else otherwise


@dataclass(frozen=True, eq=False)
class Profile:
    """Upper bounds for delta on the points of a grid, and between them by convexity in exp(epsilon)."""

    grid: LossGrid  # the epsilons
    values: Array  # `[size]` the deltas

    def delta(self, epsilon: float) -> float:
        grid = self.grid
        position = epsilon / grid.spacing - grid.first
        if position >= grid.size - 1:
            return float(self.values[-1])
        index = max(math.floor(position), 0)
        share = math.expm1(epsilon - (grid.first + index) * grid.spacing) / math.expm1(grid.spacing)
        return float(self.values[index] + min(max(share, 0.0), 1.0) * (self.values[index + 1] - self.values[index]))

    def epsilon(self, delta: float) -> float:
        """Where the values fall to `delta`; 0 where they are there from the start, infinity where never."""
        above = np.flatnonzero((self.values > delta) & (np.arange(self.grid.size) + self.grid.first >= 0))
        if above.size == 0:
            return 0.0
        last = int(above[-1])
        if last + 1 == self.grid.size:
            return math.inf
        share = float((self.values[last] - delta) / (self.values[last] - self.values[last + 1]))
        return (self.grid.first + last) * self.grid.spacing + math.log1p(share * math.expm1(self.grid.spacing))


@lru_cache(maxsize=16)
def composed(steps: Steps, *, reach: float, smallest_delta: float, in_blocks: bool = True) -> Profile:
    """The profile of steps taken in this order; remembered, as the same release is priced again and again."""
    num_steps = sum(times for _, times in steps)
    negligible = _NEGLIGIBLE * smallest_delta / num_steps
    variance = math.fsum(times * pairs.variance for pairs, times in steps)
    narrow = math.sqrt(4 * _WIDENING * variance / num_steps)  # the widest spacing at which interpolation adds little
    if in_blocks and not _in_one(steps):
        block = composed_in_blocks(steps, spacing=_aligned(narrow, steps), reach=reach, negligible=negligible)
        deltas = block.profile()[len(block.masses) // 2 :]
        return Profile(LossGrid(first=0, size=len(deltas), spacing=block.spacing), np.minimum(deltas, 1.0))
    # Spaced so that interpolation widens the losses little, and that the widest steps move by whole points.
    most = _MOST_CONVOLVED if any(isinstance(pairs, SampledPair) for pairs, _ in steps) else _MOST_POINTS
    spacing = _aligned(max(min(reach / _POINTS_PER_REACH, narrow), reach / most), steps)
    first = -math.ceil(min(max(_LEFT_SHARE, _FEW_STEPS / num_steps), 1.0) * reach / spacing) - 1
    grid = LossGrid(first=first, size=math.ceil(reach / spacing) + 3 - first, spacing=spacing)
    made: dict[DominatingPairs, CompositionStep] = {}
    values = -np.expm1(np.minimum(grid.points, 0.0))
    for pairs, times in reversed(steps):
        if isinstance(pairs, SampledPair):
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
    for pairs, times in steps:  # what should be a multiple: the length of a span, the loss of a single pair
        length = 0.0 if isinstance(pairs, Box) and pairs.parts else _largest(pairs, otherwise=0.0)
        if length >= spacing:
            weights[length] = weights.get(length, 0.0) + times * length * length
    length = max(weights, key=weights.__getitem__)
    return rounded_spacing(length / (2 * math.ceil(length / (2 * spacing)))) if length else spacing


class ExactAccountant(LossAccountant):
    """Composes one-bit, bounded-range, pure-DP, Gaussian and sampled Gaussian events optimally, whoever adapts.

    Formal guarantees, for the adjacency that the events were made for:
        * The best play of an adversary who picks two neighbors anew for every step, having seen all losses before, is
          never better than these figures; their own rounding is covered.
        * Gaussians alone are exact. Sampled Gaussians have one worst pair, whose losses are summed; a unit that comes
          or goes does so in the same way at all of them. A noisy maximum with Gaussian noise is replaced by a pair that
          dominates it: the bound is not the best play, and the PLD accountant's is tighter.
        * Never above the Renyi accountant, the price of noisy counts whose winner alone is released, or that of a
          session by its hits: the smallest of these bounds is returned.

    Edge cases: the bound is for steps in the order of the event, but Gaussians, sampled ones too, count as the first,
    which gives the adversary of the others the most freedom. More than 180 other steps are composed in blocks, some
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

    def __init__(self, *, in_blocks: bool = True) -> None:
        super().__init__()
        self.in_blocks = in_blocks
        self._steps: list[tuple[DominatingPairs, int]] = []
        self._mu_squared = 0.0
        self._mu_squared_of_winners = 0.0  # as releases of their counts

    def compose(self, event: Event, count: int = 1) -> Self:
        steps: list[tuple[DominatingPairs, int]] = []
        mu_squared, winners = self._mu_squared, self._mu_squared_of_winners
        for leaf, times in _in_order(by_accesses(event), require_count("count", count, minimum=0)):
            price, noise = getattr(leaf, "epsilon", 0.0), getattr(leaf, "noise_multiplier", 1.0)
            # No pair dominates what has no protection; the Renyi accountant prices it, at infinity.
            if times == 0 or noise == 0 or price == math.inf or isinstance(leaf, events.NonPrivateEvent):
                continue
            if isinstance(leaf, events.GaussianEvent):
                mu_squared = _up(mu_squared + _mu_squared(noise, times))
            elif (made := dominating_pairs(leaf)) is not None:
                steps.append((made, times))
            if isinstance(leaf, events.WinnerEvent):
                winners = _up(winners + _mu_squared(noise, leaf.num_moving * times))
        self._compose_renyi(event, count)
        self._steps += steps
        self._mu_squared, self._mu_squared_of_winners = mu_squared, winners
        return self

    def work(self) -> int:
        """How long the first reading takes, in quarters of a step of some milliseconds; repeated blocks take none."""
        steps = tuple(self._steps)
        if _in_one(steps):
            return sum(times * _cost(pairs) for pairs, times in steps)
        return sum(sum(map(_cost, run)) for run in set(_runs(steps)))

    def _epsilon(self, target_delta: float, bound: float) -> float:
        alone = partial(gaussian_epsilon, target_delta=target_delta)
        least = self._least(alone, lambda profile: profile.epsilon(target_delta), target_delta * _MARGIN)
        return least * (1 + _ROUNDING)

    def _delta(self, target_epsilon: float, bound: float) -> float:
        def read(profile: Profile) -> float:
            return max(profile.delta(target_epsilon), _LEAST) * (1 + _ROUNDING)

        return self._least(partial(gaussian_delta, epsilon=target_epsilon), read, bound * _RENYI_MARGIN)

    def _least(self, alone: Callable[[float], float], read: Callable[[Profile], float], smallest_delta: float) -> float:
        """The least figure of what composes to a bound: that of mu where Gaussians are alone, else the profiles'."""
        bounds = [(self._steps, _up(math.sqrt(self._mu_squared)))]
        if winners := self._mu_squared_of_winners:  # by their counts, as Gaussians
            others = [step for step in self._steps if not isinstance(step[0], Winner)]
            bounds.append((others, _up(math.sqrt(_up(self._mu_squared + winners)))))
        found = []
        for steps, mu in bounds:
            # and with two neighbors exchanged where that makes a difference: a unit comes or goes
            exchanged = [(step.exchanged if isinstance(step, SampledPair) else step, times) for step, times in steps]
            ways = (steps,) if exchanged == steps else (steps, exchanged)
            profiles = [self._profile(way, mu, smallest_delta) for way in ways if way]
            each = [math.inf if profile is None else read(profile) for profile in profiles]
            found.append(max(each) if each else alone(mu))
        return min(found)

    def _profile(self, parts: list[tuple[DominatingPairs, int]], mu: float, smallest_delta: float) -> Profile | None:
        """The profile down to a delta, one for many questions; None where no grid can hold it."""
        level = next((level for level in _LEVELS if 10.0**-level <= smallest_delta), None)
        if level is None:
            return None
        fixed = Counter[DominatingPairs]()
        for pairs, times in parts:
            fixed[pairs] += times * isinstance(pairs, SampledPair)
        gaussians = [(ShiftedMaximum(1, mu), 1)] if mu > 0 else []
        steps = (*gaussians, *(+fixed).items(), *(step for step in parts if not fixed[step[0]]))
        epsilons = rdp_to_epsilons(self._rdp.orders, self._rdp.rdp, target_delta=10.0**-level)
        beyond = math.fsum(times * _largest(pairs, otherwise=math.inf) for pairs, times in steps)  # there delta is 0
        reach = min(float(epsilons.min()), beyond)
        if not _SMALLEST_REACH < reach < _LARGEST_REACH:
            return None
        return composed(steps, reach=reach, smallest_delta=10.0**-level, in_blocks=self.in_blocks)


def _mu_squared(noise_multiplier: float, count: int) -> float:
    """Of that many Gaussians, rounded up."""
    return _up(_up(max(count / noise_multiplier / noise_multiplier, _LEAST)))


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

"""The joint law of a gap selection and the test of what it chose, and the accountant that knows it.

A law is a distribution over types of candidates. Its divergence is linear in it but for two ratios: by how much all
weights together grow, and by how much refusals become likelier. Where both are known, the worst law is a linear
program. A cover of the two ratios has such programs at its corners. Any multipliers of their rows give a bound, so the
solver is not trusted: it only makes the bound small (docs/proofs/joint_law.md).

The solver is the simplex method on many small programs at once, a step of all of them per array operation. A library's
solver takes longer to call than such a program takes to solve, and a price needs a thousand of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting.conversion import rdp_to_epsilons
from pate.accounting.event_tree import count_leaves, nodes
from pate.accounting.events import Event, SelectThenTestEvent
from pate.accounting.loss_accountant import AccountantBesideRenyi
from pate.accounting.rdp import rdp_curve
from pate.accounting.special import Array, expit

Places = NDArray[np.int64]
# A convex function >= 0 of Q / P, 0 at 1: what an outcome adds per mass under P
Divergence = Callable[[Array], Array]
Corner = tuple[float, float, float]
"""Logs, in units of the largest move: the ratio of refusals is in the first two, the weights grow by the third."""
_Span = tuple[float, float, float, float]
"""What one bound covers: ratios of refusals in the first two and growths in the last two, in the units of a corner."""

MOST_TEACHERS = 20_000
"""Of a joint law, which goes over every gap: with more of them selection and test cost what they do alone."""

_OF_RATIOS = 2.0**-50  # of a log, and of each of about eight steps to a ratio
_PENALTY = 20.0  # the largest price of a row
# by which rows may be missed for nothing: of many prices that are as good, the smallest are found
_ALLOWED = 1e-7
_MORE = 1e-9  # than 0
_MOST_STEPS = 200
_ROUNDING = 2.0**-46  # of a sum of at most 16 products, relative to the sum of their sizes
# the parts of the programs
_FAILS = 0
_MOVED = 1
_MOVED_FAILS = 2
_ONE = 3
_LIMITS = slice(4, 7)
# their values and rows
_VALUES = 0
_EVEN = 1
_SHARED = slice(2, 5)
_REFUSED = slice(5, 7)
_GROWTHS = (-1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0)  # logs, in units of the largest move
_REFUSALS = (-math.inf, -1.25, -0.75, -0.3, 0.0, 0.3, 0.75, 1.25, math.inf)  # the same
_WIDEST = 0.3  # of growths, where a part of unbounded refusals is divided by these
# where such a part is divided no more, and how far out it is divided
_FAR_OUT = 8.0
_FARTHER = 1.6
_HALVINGS = 10
_MOST_SPANS = 300
_CLOSE_BOUND = 1.01  # of the bound to the programs' values
_SOLVED_FIRST = 80  # types
# types, in all programs that are looked at together: products so small need one thread
_AT_ONCE = 36_000
_ROUNDS = 8  # of adding types to the programs, at most
_UP = 1e-12  # for the rounding of a divergence's values about 1
# between two orders minus 1, on one grid for all: what was found serves other readings
_STEP = 1.05
_STRIDES = (2, 1)  # of the search on that grid
_FARTHEST = 24  # places from where it starts
_LARGEST_RANGE = 20.0  # of a selection; beyond, the parts are as good
_LOWEST_LOGIT = -700.0  # of a gap's test; the probability of passing is a full double then
_LARGEST_LOG = 700.0
# of deltas
_LEAST = 1e-30
_CLOSE = 1.01
_RESOLUTION = 0.003
_WORTH_IT = 0.99  # of the Renyi accountant's price at the first order


@dataclass(frozen=True, eq=False)
class CandidateTypes:
    """The types of candidates, `[K]`: a gap in 0..T, and by how many votes it moves between neighbors.

    A query's law is a distribution over types, and whether the test of the chosen one passes. The distribution is
    limited by what n gaps share: they sum up to at most T, and their moves to at most what one gap moves.
    """

    largest: float  # log of the most by which a move changes a candidate's weight
    rounding: float  # at most this is the log of a ratio, of masses before and after a move, off
    moved: Array  # the factor on the weight
    passes: Array  # the probability of passing, and `moved_passes` that after the move
    moved_passes: Array
    fails: Array  # 1 - passes, and `moved_fails`, to their last digits
    moved_fails: Array
    limits: Array  # `[3, K]`; the mean of each row is at most 0 in every law

    @classmethod
    @lru_cache(maxsize=32)  # made once for many questions
    def of(cls, event: SelectThenTestEvent) -> CandidateTypes:
        """Makes the types of candidates that a selection followed by a test has."""
        logits = np.array(event.bit.logits)
        reach = event.bit.reach
        num_teachers = event.num_teachers
        largest = event.selection.epsilon / 2
        every = np.meshgrid(np.arange(num_teachers + 1), np.arange(-reach, reach + 1))
        inside = (sum(every) >= 0) & (sum(every) <= num_teachers)
        gaps, moves = (of[inside] for of in every)
        before, after = (logits[np.minimum(some, len(logits) - 1)] for some in (gaps, gaps + moves))
        finite = np.isfinite(before) & np.isfinite(after)
        furthest = float(np.abs(after[finite] - before[finite]).max(initial=0.0))
        # the test's good part refuses where the sets differ
        other_set = (gaps <= reach) & (gaps + moves <= reach)
        before, after = (
            np.append(side, np.full(other_set.sum(), -np.inf)) for side in (before, after)
        )
        gaps = np.append(gaps, gaps[other_set])
        moves = np.append(moves, moves[other_set])
        cancel = reach / event.num_candidates
        rows = np.stack(
            [gaps * event.num_candidates / num_teachers - 1, moves - cancel, -moves - cancel]
        )
        limits = np.exp(-largest / reach * gaps) * rows
        return cls(
            largest=largest,
            rounding=_OF_RATIOS * (8 + 2 * largest + furthest),
            moved=np.exp(largest / reach * moves),
            passes=expit(before),
            moved_passes=expit(after),
            fails=expit(-before),
            moved_fails=expit(-after),
            limits=limits / np.abs(limits).max(axis=1, keepdims=True),
        )


def row_prices(values: Array, rows: Array) -> Array:
    """What relaxing each row would add to the largest mean of the values, and that mean."""
    # of the rows and of the ones, with what is allowed
    limits = np.full((len(rows), rows.shape[1] + 1), _ALLOWED)
    limits[:, 0] *= np.sign(rows[:, 0].max(axis=1) + rows[:, 0].min(axis=1))
    limits[:, -1] = 1
    tableau, basis, inverse = _start(values, rows, limits)
    found = np.zeros(basis.shape)
    rising = np.arange(len(basis))
    for _ in range(_MOST_STEPS):
        prices = np.take_along_axis(tableau[:, :1], basis[:, None], axis=2) @ inverse
        found[rising] = prices[:, 0]
        gains = (tableau[:, :1] - prices @ tableau[:, 1:])[:, 0]
        entering = gains.argmax(axis=1)
        more = gains.max(axis=1) > _MORE
        if not more.any():
            break
        if not more.all():
            parts = (rising, limits, tableau, basis, inverse, entering)
            rising, limits, tableau, basis, inverse, entering = (part[more] for part in parts)
        each = np.arange(len(basis))  # one column of each basis is exchanged
        # of the basis, as the new column rises
        falls = (inverse @ tableau[each, 1:, entering][:, :, None])[:, :, 0]
        held = (inverse @ limits[:, :, None])[:, :, 0]
        room = np.divide(held, falls, out=np.full_like(falls, np.inf), where=falls > _MORE)
        leaving = room.argmin(axis=1)
        row = inverse[each, leaving] / falls[each, leaving, None]
        inverse -= falls[:, :, None] * row[:, None, :]
        inverse[each, leaving] = row
        basis[each, leaving] = entering
    return found


def _start(values: Array, rows: Array, limits: Array) -> tuple[Array, Places, Array]:
    """All weight on the type with the largest value."""
    num_programs, num_rows, num_types = rows.shape
    above = slice(num_rows)
    below = slice(num_rows, 2 * num_rows)
    types = slice(2 * num_rows, None)
    tableau = np.zeros((num_programs, num_rows + 2, 2 * num_rows + num_types))
    tableau[:, 1:-1, above], tableau[:, 1:-1, below] = -np.eye(num_rows), np.eye(num_rows)
    # the first row may not be below 0 either
    tableau[:, 0, above] = -_PENALTY
    tableau[:, 0, num_rows] = -_PENALTY
    tableau[:, 0, types] = values
    tableau[:, 1:-1, types] = rows
    tableau[:, -1, types] = 1
    chosen = values.argmax(axis=1)
    entries = np.take_along_axis(rows, chosen[:, None, None], axis=2)[:, :, 0]
    fits = entries <= limits[:, :-1]
    diagonal = np.arange(num_rows)
    basis = np.column_stack([diagonal + num_rows * fits, 2 * num_rows + chosen])
    inverse = np.zeros((num_programs, num_rows + 1, num_rows + 1))
    inverse[:, diagonal, diagonal] = np.where(fits, 1.0, -1.0)
    inverse[:, :-1, -1] = np.where(fits, -entries, entries)
    inverse[:, -1, -1] = 1
    return tableau, basis, inverse


@dataclass(frozen=True, eq=False)
class LinearPrograms:
    """B programs: the largest mean of values under a distribution over K types that is limited by R rows."""

    parts: Array  # `[M, K]`
    weights: Array  # `[B, 1 + R, M]`: of the values, then of the rows
    # `[B, 1 + R]`: at least the sum of the sizes of all terms of which an entry is added up
    sizes: Array
    own: Array  # `[B, K]`: what is added to the values of each program

    def left(self, multipliers: Array) -> Array:
        """What each type's value is beyond the rows, `[B, K]`, for multipliers `[B, R]` of the rows."""
        weights = self.weights[:, 0] - (multipliers[:, None] @ self.weights[:, 1:])[:, 0]
        return np.asarray(weights @ self.parts + self.own)

    def bounds(self, multipliers: Array, left: Array) -> Array:
        """At least the programs' values, rounded up, `[B]`; infinity where double precision cannot say it."""
        sizes = self.sizes[:, 0] + (np.abs(multipliers) * self.sizes[:, 1:]).sum(axis=1)
        bounds = left.max(axis=1) + _ROUNDING * sizes
        return np.where(np.isfinite(bounds), bounds, np.inf)


def best_multipliers(programs: LinearPrograms) -> tuple[Array, Array]:
    """Those that make each bound small, zeros where double precision cannot say them."""
    table = programs.weights @ programs.parts  # values and rows, `[B, 1 + R, K]`
    table[:, 0] += programs.own
    largest = np.abs(table).max(axis=2)
    found = np.zeros_like(largest)
    known = (largest[:, 0] > 0) & np.isfinite(largest).all(axis=1)
    if known.any():
        units = np.where(largest > 0, largest, 1.0)[known]  # so that one penalty suits all
        scaled = table[known] / units[:, :, None]
        found[known] = row_prices(scaled[:, 0], scaled[:, 1:]) * units[:, :1]
        found[known, :-1] /= units[:, 1:]
    np.maximum(found[:, 1:-1], 0.0, out=found[:, 1:-1])
    return found[:, :-1], found[:, -1]


def largest_divergence(types: CandidateTypes, divergence: Divergence) -> float:
    """An upper bound on the divergence of the laws of any two neighbors, for one query."""
    with np.errstate(all="ignore"):  # what double precision cannot say becomes infinite
        solved = _Solved(types, divergence)
        bounds = solved.bounds(
            [(*low, *high) for low in pairwise(_REFUSALS) for high in pairwise(_GROWTHS)]
        )
        for _ in range(_HALVINGS):
            enough = _CLOSE_BOUND * solved.attained
            halves = [
                half for span, bound in bounds.items() if bound > enough for half in _halves(*span)
            ]
            if not halves or len(bounds) > _MOST_SPANS:
                break
            bounds = {
                span: bound for span, bound in bounds.items() if bound <= enough
            } | solved.bounds(halves)
        return max(bounds.values()) + _UP


def _halves(low: float, high: float, start: float, end: float) -> tuple[_Span, _Span]:
    """Two spans that cover one."""
    edge = low if math.isinf(high) else high
    if end - start > _WIDEST or math.isfinite(high - low) or abs(edge) > _FAR_OUT:
        middle = (start + end) / 2
        return (low, high, start, middle), (low, high, middle, end)
    return (low, _FARTHER * edge, start, end), (_FARTHER * edge, high, start, end)


class _Solved:
    """Programs at corners and multipliers: the best over some types, to which those are added that they leave out."""

    def __init__(self, types: CandidateTypes, divergence: Divergence) -> None:
        self._types = types
        self._divergence = divergence
        # `[2, K]`: by how much a type's weight is multiplied, and its refusals
        self._moved = np.stack([types.moved, types.moved * types.moved_fails])
        self._parts = np.stack(
            [types.fails, *self._moved, np.ones_like(types.fails), *types.limits]
        )
        self._places: dict[Corner, int] = {}  # of each corner in the arrays
        # what the moved weights are multiplied by, so that all together are 1 again
        self._shares = np.zeros(0)
        # whether refusals are limited from below and from above
        self._limited = np.zeros((0, 2), dtype=bool)
        self._weights = np.zeros((0, 7, 7))
        self._sizes = np.zeros((0, 7))
        self._added: list[Array] = []
        self._growth = cache(self._of_growth)
        self._of_move = [
            np.flatnonzero(types.moved == factor) for factor in sorted(set(types.moved.tolist()))
        ]
        self._some = np.arange(len(types.moved)) % max(1, len(types.moved) // _SOLVED_FIRST) == 0
        self._multipliers = np.zeros((0, 6))
        self._bounds = np.zeros(0)
        # the largest value where refusals are limited: no finer growths bring a bound below it
        self.attained = 0.0

    def bounds(self, spans: list[_Span]) -> dict[_Span, float]:
        """On the divergence of the laws in each span."""
        corners = [[(low, high, start), (low, high, end)] for low, high, start, end in spans]
        self._add(corner for both in corners for corner in both)
        first, second = np.array([[self._places[corner] for corner in both] for both in corners]).T
        # At most `missed` is above both corners of each span where multipliers change evenly.
        bent = self._multipliers[second] - self._multipliers[first]
        width = self._shares[second] - self._shares[first]
        weights = np.column_stack([bent[:, 0], bent[:, -1] - bent[:, -2]]) * width[:, None]
        missed = np.concatenate(
            [(weights[some] @ self._moved).max(axis=1) for some in self._portions(len(weights))]
        )
        bounds = np.maximum(self._bounds[first], self._bounds[second]) + np.maximum(missed, 0.0) / 4
        wide = np.flatnonzero(~(bounds <= _CLOSE_BOUND * self.attained))
        for here, there in ((first[wide], second[wide]), (second[wide], first[wide])):
            for some, elsewhere, _ in self._looked_at(there, self._multipliers[here]):
                of_one = np.maximum(self._bounds[here[some]], elsewhere)
                bounds[wide[some]] = np.fmin(bounds[wide[some]], of_one)
        return dict(zip(spans, bounds.tolist(), strict=True))

    def _add(self, corners: Iterable[Corner]) -> None:
        """Makes programs at new corners, and finds multipliers; types are added where they would lower a bound much."""
        known = len(self._places)
        if new := [corner for corner in dict.fromkeys(corners) if corner not in self._places]:
            self._places |= {corner: known + number for number, corner in enumerate(new)}
            self._make(new)
        places = np.arange(known, len(self._places))
        for _ in range(_ROUNDS):
            places = self._solve(places) if places.size else places

    def _solve(self, places: Places) -> Places:
        """Keeps multipliers that are better, adds types that they left out, and returns where there were such."""
        limited = self._limited[places]
        multipliers, attained = best_multipliers(self._programs(places, np.flatnonzero(self._some)))
        multipliers[:, -2:] *= limited
        self.attained = max(self.attained, float(attained[limited.all(axis=1)].max(initial=0.0)))
        enough = _CLOSE_BOUND * np.maximum(attained, self.attained)
        added = self._some.copy()
        lacking = []
        for some, bounds, left in self._looked_at(places, multipliers):
            here = places[some]
            better = bounds < self._bounds[here]
            self._multipliers[here[better]] = multipliers[some][better]
            self._bounds[here[better]] = bounds[better]
            wide = np.flatnonzero(~(bounds <= enough[some]))
            peaks = np.column_stack(
                [of[left[wide[:, None], of].argmax(axis=1)] for of in self._of_move]
            )
            new = (left[wide[:, None], peaks] > attained[some][wide, None]) & ~self._some[peaks]
            added[peaks[new]] = True
            lacking.append(here[wide[new.any(axis=1)]])
        self._some = added
        return np.concatenate(lacking)

    def _looked_at(
        self, places: Places, multipliers: Array
    ) -> Iterator[tuple[slice, Array, Array]]:
        """Bounds by these multipliers at corners, `[b]`, and what is left of each type, `[b, K]`, some at a time."""
        for some in self._portions(len(places)):
            programs = self._programs(places[some])
            left = programs.left(multipliers[some])
            yield some, programs.bounds(multipliers[some], left), left

    def _portions(self, count: int) -> list[slice]:
        """So few corners at a time that what is computed of all types stays small."""
        size = max(1, _AT_ONCE // self._moved.shape[1])
        return [slice(first, first + size) for first in range(0, count, size)]

    def _programs(self, places: Places, some: Places | slice = slice(None)) -> LinearPrograms:
        added = np.stack([self._added[place][some] for place in places.tolist()])
        return LinearPrograms(
            self._parts[:, some], self._weights[places], self._sizes[places], added
        )

    def _make(self, corners: list[Corner]) -> None:
        low, high, growth = np.array(corners).T
        low, high, share = (np.exp(self._types.largest * logs) for logs in (low, high, -growth))
        limited = np.column_stack([low > 0, high < np.inf])
        near, far = self._divergence(np.stack([low, high]))
        chord = limited.all(axis=1) & np.isfinite(near) & np.isfinite(far)
        slope = np.where(chord, (far - near) / (high - low), 0.0)
        added = [self._growth(*of) for of in zip(growth.tolist(), chord.tolist(), strict=True)]
        weights = np.zeros((len(corners), 7, 7))
        weights[:, _VALUES, _FAILS] = np.where(chord, near - slope * low, 0.0)
        weights[:, _VALUES, _MOVED_FAILS] = slope * share
        weights[:, _EVEN, _MOVED] = share
        weights[:, _EVEN, _ONE] = -1
        weights[:, _SHARED, _LIMITS] = np.eye(3)
        of_refusals = np.stack([[low, -share], [-high, share]])
        weights[:, _REFUSED, _FAILS:_ONE:2] = np.where(
            limited[:, :, None], of_refusals.transpose(2, 0, 1), 0.0
        )
        sizes = np.abs(weights) @ np.abs(self._parts).max(axis=1)
        sizes[:, _VALUES] += np.where(chord, 2 * np.abs(slope * low), 0.0) + [
            np.abs(part).max() for part in added
        ]
        self._shares, self._limited = (
            np.append(self._shares, share),
            np.append(self._limited, limited, axis=0),
        )
        self._weights, self._sizes = (
            np.append(self._weights, weights, axis=0),
            np.append(self._sizes, sizes, axis=0),
        )
        self._added += added
        self._multipliers = np.append(self._multipliers, np.zeros((len(corners), 6)), axis=0)
        self._bounds = np.append(self._bounds, np.full(len(corners), np.inf))

    def _of_growth(self, growth: float, by_chord: bool) -> Array:
        """What passing adds to the divergence, and refusing where that is not by the chord."""
        types = self._types
        share = math.exp(-self._types.largest * growth)
        if by_chord:
            ratios = np.where(
                types.passes > 0, types.moved * types.moved_passes * share / types.passes, 1.0
            )
            return np.where(types.passes > 0, types.passes * self._divergence(ratios), 0.0)
        refused = types.fails * self._divergence(
            types.moved * types.moved_fails * share / types.fails
        )
        return np.asarray(self._growth(growth, True) + refused)


class JointLawAccountant(AccountantBesideRenyi):
    """Prices a gap selection and the test of what it chose as one release, and all else as `RdpAccountant` does.

    T votes allow few large gaps, so not every gap that may be chosen can also pass its test. With 40 labels, 600
    queries and an optimal table at epsilon 8 a stable top-k of 400 teachers is a quarter cheaper, one of 800 a
    seventh, and one of 2,000 a thirtieth. `AutoAccountant` asks it where that may be less than the others say.

    It is an upper bound at each Renyi order that it looks at, a few near the best one of `RdpAccountant`. A price takes
    a tenth of a second; those of two nearly equal releases may differ by a relative 0.003 more than exact bounds would.

    Source: docs/proofs/joint_law.md.
    """

    name = "joint_law"
    any_order = True

    def __init__(self) -> None:
        super().__init__()
        self._joint: Counter[SelectThenTestEvent] = Counter()

    def compose(self, event: Event, count: int = 1) -> Self:
        """Adds an event `count` times; selections with their tests are kept apart for the joint law."""
        self._rdp.compose(event, count)
        self.failure_prob = self._rdp.failure_prob
        counts = select_then_tests(event, count)
        self._joint.update(
            {kind: times for kind, times in counts.items() if kind.num_teachers <= MOST_TEACHERS}
        )
        return self

    def resolution(self, target_delta: float) -> float:
        """Returns how finely the joint law is computed; 0 where there is none."""
        return _RESOLUTION if self._joint else 0.0

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the epsilon by the joint law, or by Renyi where that is less."""
        renyi_epsilon = self._rdp.get_epsilon(target_delta)
        left = self.remaining_delta(target_delta)
        if not self._joint or not 0 < renyi_epsilon < math.inf:
            return renyi_epsilon

        @cache
        def value(place: int) -> float:
            orders = np.array([1 + _STEP**place])
            return float(rdp_to_epsilons(orders, self._curve(orders), target_delta=left)[0])

        middle = best = round(math.log(self._rdp.best_order(target_delta) - 1) / math.log(_STEP))
        for stride in _STRIDES if value(middle) <= renyi_epsilon * _WORTH_IT else ():
            start = best
            for way in (-stride, stride):
                place = start
                while abs(place + way - middle) <= _FARTHEST and value(place) <= value(best):
                    place += way
                    best = min(best, place, key=value)
        return min(renyi_epsilon, value(best))

    def get_delta(self, target_epsilon: float) -> float:
        """The smallest delta whose epsilon is at most this, failure probabilities included; to a relative 0.01."""
        renyi_delta = self._rdp.get_delta(target_epsilon)
        if not self._joint or not self.failure_prob < renyi_delta < 1:
            return renyi_delta
        least_delta = renyi_delta
        low = max(_LEAST, 2 * math.ulp(self.failure_prob))
        high = renyi_delta - self.failure_prob
        while high > low * _CLOSE:
            middle = math.sqrt(low * high)
            # above failures alone, as `low` is more than they are rounded by
            delta = self.failure_prob + middle
            if self.get_epsilon(delta) <= target_epsilon:
                least_delta = delta
                high = middle
            else:
                low = middle
        return least_delta

    def _curve(self, orders: Array) -> Array:
        total = self._rdp.curve(orders)
        for event, count in self._joint.items():
            parts = rdp_curve(count_leaves(event), orders)
            joint = np.array([joint_rdp(event, order) for order in orders.tolist()])
            saved = np.subtract(parts, joint, out=np.zeros_like(parts), where=parts < math.inf)
            total = total - count * saved
        return total


@lru_cache(maxsize=1024)
def joint_rdp(event: SelectThenTestEvent, order: float) -> float:
    """An upper bound on one query's Renyi divergence of an order > 1, outside of its failure; at most its parts'."""

    def divergence(ratios: Array) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            logs = np.log(ratios)
            return np.asarray(np.expm1((1 - order) * logs) + (order - 1) * np.expm1(logs))

    parts = float(rdp_curve(count_leaves(event), np.array([order]))[0])
    lowest = min((logit for logit in event.bit.logits if logit > -math.inf), default=0.0)
    if (
        not 0 < event.selection.epsilon < _LARGEST_RANGE
        or lowest < _LOWEST_LOGIT
        or parts == math.inf
    ):
        return parts
    types = CandidateTypes.of(event)
    largest = largest_divergence(types, divergence)
    largest += math.expm1(min(order * types.rounding, _LARGEST_LOG)) * (largest + order)
    return min(parts, math.log1p(largest) / (order - 1))


def select_then_tests(event: Event, count: int) -> Counter[SelectThenTestEvent]:
    """How often each of them is in an event that happens `count` times."""
    counts = Counter[SelectThenTestEvent]()
    for node, times in nodes(event, count=count):
        if isinstance(node, SelectThenTestEvent):
            counts[node] += times
    return +counts  # without those that never happen

"""The largest divergence of one query's laws: a cover of two ratios, and linear programs at its corners.

A law is a distribution over types of candidates. Its divergence is linear in it but for two ratios: by how much all
weights together grow, and by how much refusals become likelier. Where both are known, the worst law is a linear
program. Any multipliers of its rows give a bound, so the solver is not trusted: it only makes the bound small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.accounting.joint_law.linear_program import LinearProgram, Multipliers, multipliers
from pate.accounting.joint_law.types import CandidateTypes

Array = NDArray[np.float64]
Divergence = Callable[[Array], Array]
"""A convex function >= 0 of Q / P, 0 at 1: what an outcome adds per mass under P."""

_GROWTHS = (-1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0)  # logs, in units of the largest move
_REFUSALS = (-math.inf, -1.25, -0.75, -0.3, 0.0, 0.3, 0.75, 1.25, math.inf)  # the same
_WIDEST = 0.3  # of growths, where a part of unbounded refusals is divided by these
_FARTHEST, _FARTHER = 8.0, 1.6  # where such a part is divided no more, and how far out it is divided
_HALVINGS, _MOST_SPANS = 10, 300
_CLOSE = 1.01  # of the bound to the programs' values
_SOLVED_FIRST = 80  # types
_MOST_KEPT = 500_000  # types, in all programs
_ROUNDS = 8  # of adding types to the programs, at most
_UP = 1e-12  # for the rounding of values: differences of terms that are at most an order times a log


def largest_divergence(types: CandidateTypes, divergence: Divergence) -> float:
    """An upper bound on the divergence of the laws of any two neighbors, for one query."""
    with np.errstate(all="ignore"):  # what double precision cannot say becomes infinite
        return _largest(_Programs(types, divergence))


def _largest(programs: _Programs) -> float:
    bounds = programs.bounds(
        [_Span(*refusals, *growths) for refusals in pairwise(_REFUSALS) for growths in pairwise(_GROWTHS)]
    )
    for _ in range(_HALVINGS):
        enough = _CLOSE * programs.attained
        halves = [half for span, bound in bounds.items() if bound > enough for half in span.halves()]
        if not halves or len(bounds) > _MOST_SPANS:
            break
        bounds = {span: bound for span, bound in bounds.items() if bound <= enough} | programs.bounds(halves)
    return max(bounds.values()) + _UP


class _Corner(NamedTuple):
    """Where a program is made: the log of the ratio of refusals is in low..high, that of the weights' growth is known.

    All in units of the largest move.
    """

    low: float
    high: float
    growth: float


class _Span(NamedTuple):
    """What one bound covers: ratios of refusals in low..high and growths in start..end, in the units of a corner."""

    low: float
    high: float
    start: float
    end: float

    @property
    def corners(self) -> tuple[_Corner, _Corner]:
        """Both ends of the growths."""
        return _Corner(self.low, self.high, self.start), _Corner(self.low, self.high, self.end)

    def halves(self) -> tuple[_Span, _Span]:
        """Two that cover it."""
        low, high, start, end = self
        edge = low if math.isinf(high) else high
        if end - start > _WIDEST or math.isfinite(high - low) or abs(edge) > _FARTHEST:
            middle = (start + end) / 2
            return _Span(low, high, start, middle), _Span(low, high, middle, end)
        return _Span(low, _FARTHER * edge, start, end), _Span(_FARTHER * edge, high, start, end)


class _Solution(NamedTuple):
    """Of one program: a bound, and the multipliers that give it, 0 for refusals that are not limited."""

    multipliers: Multipliers
    bound: float


class _Grown(NamedTuple):
    """What all programs of one growth share, each `[K]`."""

    even: Array
    """By how much a type's weight grows beyond that."""
    refused: Array
    """A type's refusals after the move."""
    passing: Array
    """What passing adds to the divergence."""
    failing: Array
    """What refusing adds, by the type's own ratio."""


class _Programs:
    """The linear programs at all corners, over some types, to which those are added that multipliers leave out.

    Attributes:
        attained: the largest value of a program where refusals are limited. No finer growths bring a bound below it.
    """

    def __init__(self, types: CandidateTypes, divergence: Divergence) -> None:
        self._types, self._divergence = types, divergence
        self._of_move = [np.flatnonzero(types.moved == factor) for factor in np.unique(types.moved)]
        count = len(types.moved)
        self._some = list(range(0, count, max(1, count // _SOLVED_FIRST)))
        self._solutions: dict[_Corner, _Solution] = {}
        self._kept: dict[_Corner, LinearProgram] = {}
        self._of_growth: dict[float, _Grown] = {}
        self.attained = 0.0

    def bounds(self, spans: list[_Span]) -> dict[_Span, float]:
        """On the divergence of the laws in each span."""
        corners = dict.fromkeys(corner for span in spans for corner in span.corners)
        self._solve([corner for corner in corners if corner not in self._solutions])
        return {span: self._bound(span) for span in spans}

    def _bound(self, span: _Span) -> float:
        """The least of three: multipliers change evenly from corner to corner, or are those of one of both."""
        first, second = (self._solutions[corner] for corner in span.corners)
        bound = max(first.bound, second.bound) + self._missed(span)
        if not bound <= _CLOSE * self.attained:
            start, end = span.corners
            of_first = max(first.bound, first.multipliers.bound(self._program(end)))
            of_second = max(second.bound, second.multipliers.bound(self._program(start)))
            bound = min(bound if bound < math.inf else math.inf, of_first, of_second)
        return bound

    def _missed(self, span: _Span) -> float:
        """At most this is above both corners where multipliers change evenly."""
        first, second = (self._solutions[corner].multipliers for corner in span.corners)
        width = self._share(span.end) - self._share(span.start)
        least, most = second.of_sides[3:] - first.of_sides[3:]
        bent = (second.of_even - first.of_even) + (most - least) * self._types.moved_fails
        return max(float((bent * self._types.moved * width).max()), 0.0) / 4

    def _solve(self, corners: list[_Corner]) -> None:
        """Finds the solutions of all corners; types are added where they would lower a bound much."""
        for _ in range(_ROUNDS):
            few = np.array(self._some)
            found = multipliers([self._program(corner).take(few) for corner in corners])
            missing = [self._keep(corner, multiplier) for corner, multiplier in zip(corners, found, strict=True)]
            corners = [corner for corner, places in zip(corners, missing, strict=True) if places]
            if not corners:
                break
            self._some += sorted(set().union(*missing))

    def _keep(self, corner: _Corner, found: Multipliers) -> set[int]:
        """Keeps the solution that these multipliers give if it is the best, and returns what the program left out."""
        found.of_sides[3:] *= [corner.low > -math.inf, corner.high < math.inf]
        program = self._program(corner)
        left, bound = found.left(program), found.bound(program)
        if corner not in self._solutions or bound < self._solutions[corner].bound:
            self._solutions[corner] = _Solution(found, bound)
        if math.isfinite(corner.high - corner.low):
            self.attained = max(self.attained, found.attained)
        if bound <= _CLOSE * max(found.attained, self.attained):
            return set()
        peaks = {int(places[left[places].argmax()]) for places in self._of_move}
        return {peak for peak in peaks if left[peak] > found.attained} - set(self._some)

    def _share(self, growth: float) -> float:
        return math.exp(-self._types.largest * growth)

    def _program(self, corner: _Corner) -> LinearProgram:
        """At one corner, over all types; kept for later questions while there are few."""
        if (kept := self._kept.get(corner)) is not None:
            return kept
        made = self._made(corner)
        if len(self._kept) * made.values.size < _MOST_KEPT:
            self._kept[corner] = made
        return made

    def _made(self, corner: _Corner) -> LinearProgram:
        """The program: values, "the weights grow by this", the rows of the types and two on refusals.

        What a type adds counts refusals by the chord between their two ratios, or by its own ratio where a ratio is
        missing.
        """
        types, grown = self._types, self._grown(corner.growth)
        # 0 and infinity stand for "not limited"
        low, high = np.exp(types.largest * np.array([corner.low, corner.high])).tolist()
        ends = self._divergence(np.array([low, high]))
        if low == 0 or high == math.inf or not np.isfinite(ends).all():
            values = grown.passing + grown.failing
        else:
            slope = (ends[1] - ends[0]) / (high - low)
            values = grown.passing + (ends[0] - slope * low) * types.fails + slope * grown.refused
        least = low * types.fails - grown.refused if low > 0 else np.zeros_like(values)
        most = grown.refused - high * types.fails if high < math.inf else np.zeros_like(values)
        return LinearProgram(values, grown.even, np.stack([*types.limits, least, most]))

    def _grown(self, growth: float) -> _Grown:
        """Kept for the other corners of the same growth."""
        if growth not in self._of_growth:
            types, share = self._types, self._share(growth)
            refused = types.moved * types.moved_fails * share
            ratios = np.where(types.passes > 0, types.moved * types.moved_passes * share / types.passes, 1.0)
            passing = np.where(types.passes > 0, types.passes * self._divergence(ratios), 0.0)
            failing = types.fails * self._divergence(refused / types.fails)
            self._of_growth[growth] = _Grown(types.moved * share - 1, refused, passing, failing)
        return self._of_growth[growth]

"""The largest divergence of one query's laws: a cover of two ratios, and linear programs at its corners.

A law is a distribution over types of candidates. Its divergence is linear in it but for two ratios: by how much all
weights together grow, and by how much refusals become likelier. Where both are known, the worst law is a linear
program. Any multipliers of its rows give a bound, so the solver is not trusted: it only makes the bound small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.accounting.joint_law.corners import Corner, Corners, Divergence
from pate.accounting.joint_law.linear_programs import best_multipliers
from pate.accounting.joint_law.types import CandidateTypes

Array = NDArray[np.float64]
Places = NDArray[np.int64]

_GROWTHS = (-1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0)  # logs, in units of the largest move
_REFUSALS = (-math.inf, -1.25, -0.75, -0.3, 0.0, 0.3, 0.75, 1.25, math.inf)  # the same
_WIDEST = 0.3  # of growths, where a part of unbounded refusals is divided by these
_FARTHEST, _FARTHER = 8.0, 1.6  # where such a part is divided no more, and how far out it is divided
_HALVINGS, _MOST_SPANS = 10, 300
_CLOSE = 1.01  # of the bound to the programs' values
_SOLVED_FIRST = 80  # types
_AT_ONCE = 36_000  # types, in all programs that are looked at together: products so small need one thread
_ROUNDS = 8  # of adding types to the programs, at most
_UP = 1e-12  # for the rounding of a divergence's values about 1


def largest_divergence(types: CandidateTypes, divergence: Divergence) -> float:
    """An upper bound on the divergence of the laws of any two neighbors, for one query."""
    with np.errstate(all="ignore"):  # what double precision cannot say becomes infinite
        return _largest(_Solved(Corners(types, divergence)))


def _largest(solved: _Solved) -> float:
    bounds = solved.bounds(
        [_Span(*refusals, *growths) for refusals in pairwise(_REFUSALS) for growths in pairwise(_GROWTHS)]
    )
    for _ in range(_HALVINGS):
        enough = _CLOSE * solved.attained
        halves = [half for span, bound in bounds.items() if bound > enough for half in span.halves()]
        if not halves or len(bounds) > _MOST_SPANS:
            break
        bounds = {span: bound for span, bound in bounds.items() if bound <= enough} | solved.bounds(halves)
    return max(bounds.values()) + _UP


class _Span(NamedTuple):
    """What one bound covers: ratios of refusals in low..high and growths in start..end, in the units of a corner."""

    low: float
    high: float
    start: float
    end: float

    @property
    def corners(self) -> tuple[Corner, Corner]:
        """Both ends of the growths."""
        return Corner(self.low, self.high, self.start), Corner(self.low, self.high, self.end)

    def halves(self) -> tuple[_Span, _Span]:
        """Two that cover it."""
        low, high, start, end = self
        edge = low if math.isinf(high) else high
        if end - start > _WIDEST or math.isfinite(high - low) or abs(edge) > _FARTHEST:
            middle = (start + end) / 2
            return _Span(low, high, start, middle), _Span(low, high, middle, end)
        return _Span(low, _FARTHER * edge, start, end), _Span(_FARTHER * edge, high, start, end)


class _Solved:
    """Multipliers at corners: the best over some types, to which those are added that multipliers leave out.

    Attributes:
        attained: the largest value of a program where refusals are limited. No finer growths bring a bound below it.
    """

    def __init__(self, corners: Corners) -> None:
        self._corners = corners
        moved = corners.moved[0]
        self._of_move = [np.flatnonzero(moved == factor) for factor in sorted(set(moved.tolist()))]
        self._some = np.arange(len(moved)) % max(1, len(moved) // _SOLVED_FIRST) == 0
        self._multipliers, self._bounds = np.zeros((0, 6)), np.zeros(0)
        self.attained = 0.0

    def bounds(self, spans: list[_Span]) -> dict[_Span, float]:
        """On the divergence of the laws in each span.

        The least of three: multipliers change evenly from corner to corner, or are those of one of both.
        """
        self._add(corner for span in spans for corner in span.corners)
        places = self._corners.places
        first, second = np.array([[places[corner] for corner in span.corners] for span in spans]).T
        bounds = np.maximum(self._bounds[first], self._bounds[second]) + self._missed(first, second)
        wide = np.flatnonzero(~(bounds <= _CLOSE * self.attained))
        for here, there in ((first[wide], second[wide]), (second[wide], first[wide])):
            for some, elsewhere, _ in self._looked_at(there, self._multipliers[here]):
                of_one = np.maximum(self._bounds[here[some]], elsewhere)
                bounds[wide[some]] = np.fmin(bounds[wide[some]], of_one)
        return dict(zip(spans, bounds.tolist(), strict=True))

    def _missed(self, first: Places, second: Places) -> Array:
        """At most this is above both corners of each span where multipliers change evenly."""
        bent = self._multipliers[second] - self._multipliers[first]
        width = self._corners.shares[second] - self._corners.shares[first]
        weights = np.column_stack([bent[:, 0], bent[:, -1] - bent[:, -2]]) * width[:, None]
        parts = self._corners.moved
        missed = [(weights[some] @ parts).max(axis=1) for some in self._portions(len(weights))]
        return np.asarray(np.maximum(np.concatenate(missed), 0.0) / 4)

    def _add(self, corners: Iterable[Corner]) -> None:
        """Finds multipliers at new corners; types are added where they would lower a bound much."""
        places = self._corners.add(corners)
        self._multipliers = np.append(self._multipliers, np.zeros((len(places), 6)), axis=0)
        self._bounds = np.append(self._bounds, np.full(len(places), np.inf))
        for _ in range(_ROUNDS):
            if not places.size:
                break
            places = self._solve(places)

    def _solve(self, places: Places) -> Places:
        """Keeps multipliers that are better, adds types that they left out, and returns where there were such."""
        limited = self._corners.limited[places]
        multipliers, attained = best_multipliers(self._corners.programs(places, np.flatnonzero(self._some)))
        multipliers[:, -2:] *= limited
        self.attained = max(self.attained, float(attained[limited.all(axis=1)].max(initial=0.0)))
        enough, added, lacking = _CLOSE * np.maximum(attained, self.attained), self._some.copy(), []
        for some, bounds, left in self._looked_at(places, multipliers):
            here = places[some]
            better = bounds < self._bounds[here]
            self._multipliers[here[better]], self._bounds[here[better]] = multipliers[some][better], bounds[better]

            wide = np.flatnonzero(~(bounds <= enough[some]))
            peaks = np.column_stack([of[left[wide[:, None], of].argmax(axis=1)] for of in self._of_move])
            new = (left[wide[:, None], peaks] > attained[some][wide, None]) & ~self._some[peaks]
            added[peaks[new]] = True
            lacking.append(here[wide[new.any(axis=1)]])
        self._some = added
        return np.concatenate(lacking)

    def _looked_at(self, places: Places, multipliers: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Bounds by these multipliers at corners, `[b]`, and what is left of each type, `[b, K]`, some at a time."""
        for some in self._portions(len(places)):
            programs = self._corners.programs(places[some])
            left = programs.left(multipliers[some])
            yield some, programs.bounds(multipliers[some], left), left

    def _portions(self, count: int) -> list[slice]:
        """So few corners at a time that what is computed of all types stays small."""
        size = max(1, _AT_ONCE // self._corners.moved.shape[1])
        return [slice(first, first + size) for first in range(0, count, size)]

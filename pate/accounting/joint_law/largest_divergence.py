"""The largest divergence of one query's laws: a cover of two ratios, and a linear program wherever it is asked.

A law is a distribution over types of candidates. Its divergence is linear in it but for two ratios: by how much all
weights together grow, and by how much refusals become likelier. Where both are known, the worst law is a linear
program. Any multipliers of its rows give a bound, so the solver is not trusted: it only makes the bound small.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterator
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.accounting.joint_law.types import CandidateTypes

Array = NDArray[np.float64]
Divergence = Callable[[Array], Array]
"""A convex function >= 0 of Q / P, 0 at 1: what an outcome adds per mass under P."""

_GROWTHS = np.array([-1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0])  # logs, in units of the largest move
_REFUSALS = (-math.inf, -1.25, -0.75, -0.3, 0.0, 0.3, 0.75, 1.25, math.inf)  # the same
_WIDEST = 0.3  # of growths, where a part of unbounded refusals is divided by these
_FARTHEST, _FARTHER = 8.0, 1.6  # where such a part is divided no more, and how far out it is divided
_HALVINGS = 200  # at most
_CLOSE = 1.01  # of the bound to what the program attains
_PENALTY = 20.0  # the largest multiplier, in units of the largest value
_SOLVED_FIRST = 80  # types
_ROUNDS = 8  # of adding types to a program, at most
_UP = 1e-12  # for rounding


def largest_divergence(types: CandidateTypes, divergence: Divergence) -> float:
    """An upper bound on the divergence of the laws of any two neighbors, for one query."""
    program = _Program(types, divergence)
    spans = [span for low, high in pairwise(_REFUSALS) for span in program.spans(low, high, _GROWTHS)]
    spans.sort(key=attrgetter("bound"))
    for _ in range(_HALVINGS):
        worst = spans[-1]
        if worst.bound <= _CLOSE * max(span.attained for span in spans):
            break
        spans.pop()
        for low, high, growths in worst.halves():
            for span in program.spans(low, high, growths):
                insort(spans, span, key=attrgetter("bound"))
    return float(spans[-1].bound) + _UP


class _Span(NamedTuple):
    """The bound where two logs are in low..high, of the ratio of refusals, and in start..end, of the weights' growth.

    Both are in units of the largest move.
    """

    low: float
    high: float
    start: float
    end: float
    attained: float
    """By a law about there; 0 where refusals are not bounded."""
    bound: float

    def halves(self) -> list[tuple[float, float, Array]]:
        """Ratios of refusals and of growths that cover it in two parts."""
        growths, ends = self.end - self.start, np.array([self.start, self.end])
        edge = self.low if math.isinf(self.high) else self.high
        if growths > _WIDEST or math.isfinite(self.high - self.low) or abs(edge) > _FARTHEST:
            return [(self.low, self.high, np.array([self.start, (self.start + self.end) / 2, self.end]))]
        return [(self.low, _FARTHER * edge, ends), (_FARTHER * edge, self.high, ends)]


class _Solution(NamedTuple):
    """Multipliers at one growth: of "the weights grow by this", and of "refusals grow by at least", "by at most"."""

    of_growth: float
    of_refusals: Array
    attained: float
    bound: float


class _Program:
    """The linear program over some types, to which those are added that its multipliers leave out."""

    def __init__(self, types: CandidateTypes, divergence: Divergence) -> None:
        self._types, self._divergence = types, divergence
        count = len(types.moved)
        self._some = list(range(0, count, max(1, count // _SOLVED_FIRST)))

    def spans(self, low: float, high: float, growths: Array) -> Iterator[_Span]:
        """Between consecutive growths."""
        shares = np.exp(-self._types.largest * growths)
        with np.errstate(over="ignore", under="ignore"):  # 0 and infinity stand for "not bounded"
            ratios = np.exp(self._types.largest * np.array([low, high])).tolist()
        solutions = [self._solve(share, *ratios) for share in shares.tolist()]
        for i, (first, second) in enumerate(pairwise(solutions)):
            bound = max(first.bound, second.bound) + self._between(first, second, float(shares[i + 1] - shares[i]))
            bound = bound if bound < math.inf else math.inf  # what double precision cannot say is infinite
            attained = max(first.attained, second.attained) if math.isfinite(high - low) else 0.0
            yield _Span(low, high, float(growths[i]), float(growths[i + 1]), attained, bound)

    def _values(self, share: float, low: float, high: float) -> Array:
        """What each type adds at most, `[K]`, where a weight is divided by 1 / share = the growth of all of them.

        Refusals count by the chord between their two ratios, or by each type's own ratio where one of them is missing.
        """
        types = self._types
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            passing = np.where(types.passes > 0, types.moved * types.moved_passes * share / types.passes, 1.0)
            values = np.where(types.passes > 0, types.passes * self._divergence(passing), 0.0)
            refused = types.moved * types.moved_fails * share
            ends = self._divergence(np.array([low, high]))
            if low == 0 or high == math.inf or not np.isfinite(ends).all():
                return np.asarray(values + types.fails * self._divergence(refused / types.fails))
            slope = (ends[1] - ends[0]) / (high - low)
            return np.asarray(values + (ends[0] - slope * low) * types.fails + slope * refused)

    def _rows(self, share: float, low: float, high: float) -> tuple[Array, Array]:
        """What has mean 0, `[K]`, and what has a mean of at most 0, `[5, K]`."""
        types = self._types
        refused = types.moved * types.moved_fails * share
        least = low * types.fails - refused if low > 0 else np.zeros_like(refused)
        most = refused - high * types.fails if high < math.inf else np.zeros_like(refused)
        return types.moved * share - 1, np.stack([*types.limits, least, most])

    def _solve(self, share: float, low: float, high: float) -> _Solution:
        with np.errstate(over="ignore", invalid="ignore"):
            values, (growth, sides) = self._values(share, low, high), self._rows(share, low, high)
        bounded = np.array([low > 0, high < math.inf])
        best = _Solution(0.0, np.zeros(2), 0.0, float(np.nan_to_num(values, nan=np.inf, posinf=np.inf).max()))
        for _ in range(_ROUNDS):
            some = np.array(self._some)
            if (solved := _multipliers(values[some], growth[some], sides[:, some])) is None:
                break
            of_growth, of_sides, attained = solved
            of_sides[3:] *= bounded
            left = values - of_growth * growth - of_sides @ sides
            if (bound := float(left.max())) < best.bound:
                best = _Solution(of_growth, of_sides[3:], attained, bound)
            peaks = [int(places[left[places].argmax()]) for places in self._types.of_move]
            missing = [peak for peak in peaks if left[peak] > attained and peak not in self._some]
            if bound <= attained * _CLOSE or not missing:
                break
            self._some += missing
        return best

    def _between(self, first: _Solution, second: _Solution, width: float) -> float:
        """What the bound may miss between two growths, with multipliers that change evenly from one to the other."""
        least, most = second.of_refusals - first.of_refusals
        bent = (second.of_growth - first.of_growth) + (most - least) * self._types.moved_fails
        return float(max((bent * self._types.moved * width).max(), 0.0)) / 4


def _multipliers(values: Array, growth: Array, sides: Array) -> tuple[float, Array, float] | None:
    """Of the row with mean 0 and of those with a mean of at most 0, and the program's value; None where it fails.

    Rows may be missed at a penalty, which limits the multipliers.
    """
    from scipy.optimize import linprog  # loads slowly

    top, num_sides = float(np.abs(values).max()), len(sides)
    if not 0 < top < math.inf:
        return None
    no_slack = np.zeros((2, num_sides))
    solved = linprog(
        np.concatenate([-values / top, np.full(2 + num_sides, _PENALTY)]),
        A_ub=np.hstack([sides, np.zeros((num_sides, 2)), -np.eye(num_sides)]),
        b_ub=np.zeros(num_sides),
        A_eq=np.hstack([np.stack([growth, np.ones(len(growth))]), [[1.0, -1.0], [0.0, 0.0]], no_slack]),
        b_eq=np.array([0.0, 1.0]),
        method="highs-ds",
    )
    if solved.status != 0:
        return None
    of_sides = np.maximum(-solved.ineqlin.marginals, 0.0) * top
    return -float(solved.eqlin.marginals[0]) * top, of_sides, -float(solved.fun) * top

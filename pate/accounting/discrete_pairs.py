"""Pairs of discrete distributions (P, Q) that dominate others, by their test curves.

The test curve of a pair is the largest P(S) over all sets of outcomes S of a given Q(S), a concave function of Q(S) in
[0, 1]. One pair dominates another if and only if its curve lies above the other's (Blackwell 1953). A discrete pair has
a polygon as its curve: an outcome of mass q under Q and P / Q = 1 + excess is an edge of width q and slope 1 + excess.
So upper bounds on points of a curve give a pair, by their concave hull. All heights here are P(S) - Q(S), and all
slopes are excesses, so that nothing cancels where the loss is small (docs/proofs/winner.md, step 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pate.accounting.special import Array, log_ndtr, lower_hull, ndtr
from pate.accounting.winner_law import moved_mass

FARTHEST = 8.3
"""Standard deviations: the mass beyond, 5e-17, is missing, or is bounded by a closed form."""
_LEAST_EXCESS = -1 + 2.0**-50  # a smaller excess, of an impossible outcome, is rounding
_ROUNDING = 2.0**-50  # relative: of a power and of its exponent
# places of the tangents that cut a polygon off
_TANGENT_PLACES = np.array(
    [-FARTHEST, -6.0, -4.5, -3.25, -2.25, -1.5, 1.5, 2.25, 3.25, 4.5, 6.0, FARTHEST]
)
# places of the outcomes of a censored normal, beyond its threshold
_CENSORED_PLACES = np.array([0.0, 0.4, 0.8, 1.3, 2.0, 3.0])


@dataclass(frozen=True, eq=False)
class Pair:
    """A pair of distributions by its outcomes: their masses under Q, and P = Q (1 + excess)."""

    masses: Array  # `[K]` under Q
    excess: Array  # `[K]` P / Q - 1
    missing: float = 0.0  # mass of P on an infinite loss
    parts: tuple[Pair, ...] = ()  # the pairs that this pair dominates, in a tree

    @property
    def losses(self) -> Array:
        """The privacy loss log(P / Q) of each outcome; -inf for an outcome that has become impossible."""
        with np.errstate(divide="ignore"):
            return np.log1p(self.excess)

    def mixed_with(self, other: Pair, *, share: float) -> Pair:
        """Returns the experiment that is the other one with probability `share`, and shows which of both it is."""
        masses = np.concatenate([(1 - share) * self.masses, share * other.masses])
        missing = (1 - share) * self.missing + share * other.missing
        return Pair(masses, np.concatenate([self.excess, other.excess]), missing)

    def product(self, other: Pair) -> Pair:
        """Returns both experiments together, independent of each other."""
        masses = np.outer(self.masses, other.masses).ravel()
        excess = (self.excess[:, None] + other.excess + np.outer(self.excess, other.excess)).ravel()
        return Pair(masses, excess, self.missing + other.missing)


class _CurvePoints(NamedTuple):
    """Points of the test curve of N(shift, 1) against N(0, 1) at thresholds z, `[N]` each."""

    masses: Array  # Q(Z > z)
    heights: Array  # P(Z > z) - Q(Z > z)
    slopes: Array  # P / Q - 1 at z


def _gaussian_curve(z: Array, shift: float) -> _CurvePoints:
    """Returns the points of the curve of N(shift, 1) against N(0, 1) at thresholds z."""
    slopes = np.asarray(np.expm1(z * shift - shift * shift / 2))
    return _CurvePoints(np.asarray(ndtr(-z)), moved_mass(z, shift), slopes)


def pair_above_points(q: Array, heights: Array, *, shift: float) -> Pair:
    """Returns the least pair whose curve lies above points (q, q + height), `[N]`.

    The curve is cut off by tangents of the curve of N(shift, 1) against N(0, 1), which lies above every test.
    """
    x, y = _upper_hull(np.concatenate([[0.0, 1.0], q]), np.concatenate([[0.0, 0.0], heights]))
    widths = np.diff(x)
    tangents = _gaussian_curve(_TANGENT_PLACES, shift)
    # The edges of the polygon and the tangents, as lines offset + slope * q.
    slopes = np.concatenate([np.diff(y) / widths, tangents.slopes])
    line_x = np.concatenate([x[:-1], tangents.masses])
    offsets = np.concatenate([y[:-1], tangents.heights]) - slopes * line_x
    # Edges steeper than all tangents are dropped: fewer lines make a higher curve.
    is_needed = (slopes >= tangents.slopes[0]) & (slopes <= tangents.slopes[-1])
    # The least of the lines at every q in [0, 1]. By duality its lines are the corners of a hull of (slope, -offset).
    hull_slopes, hull_heights = _upper_hull(slopes[is_needed], -offsets[is_needed])
    slopes = hull_slopes[::-1]
    heights_of_lines = hull_heights[::-1]
    crossings = np.diff(heights_of_lines) / np.diff(slopes)
    corners = np.concatenate([[0.0], crossings, [1.0]]).clip(0, 1)
    masses = np.diff(np.maximum.accumulate(corners))
    missing = max(-float(heights_of_lines.max()), 0.0)
    return Pair(masses[masses > 0], slopes[masses > 0], missing)


def censored_pair(shift: float, threshold: float, *, falls: bool) -> Pair:
    """Returns a pair of few outcomes that dominates max(Z, threshold) under P = N(0, 1).

    Q is N(-shift, 1) where `falls`, and N(shift, 1) otherwise.
    """
    if falls:
        edges = np.append(threshold + shift + _CENSORED_PLACES, FARTHEST + shift)
        q_below = ndtr(threshold + shift)
        moved = moved_mass(np.array([threshold + shift]), shift)
    else:
        edges = np.append(-FARTHEST, -threshold + shift - _CENSORED_PLACES[::-1])
        q_below = ndtr(threshold - shift)
        moved = -moved_mass(np.array([threshold]), shift)
    above = gaussian_pair(shift, edges)
    masses = np.append(above.masses, q_below)
    return Pair(masses, np.append(above.excess, -moved / q_below), above.missing)


def gaussian_pair(shift: float, edges: Array) -> Pair:
    """Returns a pair that dominates N(shift, 1) against N(0, 1) between edges, `[N]` rising.

    The mass of each cell moves to both ends such that both distributions keep theirs. The mass above the last edge is
    missing where that edge is at `FARTHEST`.
    """
    curve = _gaussian_curve(edges, shift)  # masses fall, slopes rise
    slopes = curve.slopes
    q_of_cell = ndtr(edges[1:]) - ndtr(edges[:-1])
    height_of_cell = curve.heights[:-1] - curve.heights[1:]
    to_upper_end = np.clip(
        (height_of_cell - slopes[:-1] * q_of_cell) / (slopes[1:] - slopes[:-1]), 0.0, q_of_cell
    )
    masses = np.zeros(len(edges))
    masses[1:] += to_upper_end
    masses[:-1] += q_of_cell - to_upper_end
    if edges[0] <= -FARTHEST:
        masses[0] += ndtr(edges[0])
    missing = float(curve.masses[-1] + curve.heights[-1]) if edges[-1] >= FARTHEST else 0.0
    return Pair(masses, slopes, missing)


def pair_above_pairs(parts: list[Pair]) -> Pair:
    """Returns the least pair that dominates several pairs; the pair itself where there is one."""
    if len(parts) == 1:
        return parts[0]
    corners_x = []  # of the test curves: masses under Q, and heights
    corners_y = []
    for pair in parts:
        order = np.argsort(-pair.excess)
        masses = pair.masses[order]
        excess = pair.excess[order]
        inner_corners = np.minimum(np.cumsum(masses[:-1]), 1.0)
        corners_x.append(np.concatenate([[0.0], inner_corners, [1.0]]))
        corners_y.append(pair.missing + np.append(0.0, np.cumsum(masses * excess)))
    x, y = _upper_hull(np.concatenate(corners_x), np.concatenate(corners_y))
    slopes = np.diff(y) / np.diff(x)
    return Pair(np.diff(x), np.maximum(slopes, _LEAST_EXCESS), float(y[0]), tuple(parts))


def _upper_hull(x: Array, y: Array) -> tuple[Array, Array]:
    """Returns the corners of the least concave function above points, in the order of x."""
    order = np.lexsort((-y, x))
    is_highest = np.append(True, np.diff(x[order]) > 0)  # of the points with the same x
    order = order[is_highest]
    corners = order[lower_hull(x[order], -y[order])]
    return x[corners], y[corners]


def largest_excess_moment(pairs: tuple[Pair, ...], orders: Array, shift: float) -> Array:
    """Returns the largest E_Q[(P/Q)^a] - 1 among pairs at orders a `[A]`, rounded up.

    With E_Q[P/Q] = 1 taken out, E[(P/Q)^a] - 1 = E[(P/Q)^a - 1 - a (P/Q - 1)], whose terms are >= 0, so nothing
    cancels. A missing mass is that of a normal moved by `shift` beyond `FARTHEST`, whose moment is a closed form.
    """
    # E[(P/Q)^a] of N(shift, 1) against N(0, 1) beyond FARTHEST: e^(a (a - 1) shift^2 / 2) P(N(a shift, 1) > FARTHEST)
    log_moment = orders * (orders - 1) * (shift * shift / 2)
    far_moment = np.exp(log_moment + log_ndtr(orders * shift - FARTHEST))
    worst = np.zeros_like(orders)
    for pair in pairs:
        exponents = orders[:, None] * pair.losses
        terms = np.expm1(exponents) - orders[:, None] * pair.excess
        rounding = _ROUNDING * (np.abs(np.expm1(exponents)) + np.abs(exponents))
        # E[P/Q - 1] of a pair above others is a little more than 0, and counts a times.
        surplus = max(float(pair.masses @ pair.excess) + pair.missing, 0.0)
        excess_moment = (terms + rounding) @ pair.masses + orders * surplus
        if pair.missing > 0:
            excess_moment = excess_moment + far_moment
        np.maximum(worst, excess_moment, out=worst)
    return worst

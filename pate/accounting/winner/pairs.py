"""Discrete pairs of distributions that dominate: made from points which their test curves must not fall below.

A test curve tells the largest P(S) of all sets S of a given Q(S). It is written as its height P(S) - Q(S) over Q(S), a
concave function on [0, 1]. A pair whose curve lies above another's dominates it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import ndtr
from pate.accounting.winner.law import moved_mass

Array = NDArray[np.float64]

FARTHEST = 8.3
"""Standard deviations: what lies beyond has a mass of 5e-17 and counts as missing, or by a closed form."""
_LEAST_EXCESS = -1 + 2.0**-50  # below it is rounding
_TANGENTS = np.array([-FARTHEST, -6.0, -4.5, -3.25, -2.25, -1.5, 1.5, 2.25, 3.25, 4.5, 6.0, FARTHEST])


@dataclass(frozen=True, eq=False)
class Pair:
    """Outcomes with their masses under Q and P = Q (1 + excess).

    Attributes:
        masses: `[K]` under Q.
        excess: `[K]` P / Q - 1.
        missing: mass of P on an infinite loss.
    """

    masses: Array
    excess: Array
    missing: float = 0.0

    @property
    def second_moment(self) -> float:
        """Of P / Q - 1 under Q: a measure, not a bound."""
        return float(self.masses @ (self.excess * self.excess))

    def curve(self) -> tuple[Array, Array]:
        """The corners of its test curve: masses under Q and heights, `[K + 1]` each."""
        order = np.argsort(-self.excess)
        masses, excess = self.masses[order], self.excess[order]
        q = np.append(np.append(0.0, np.minimum(np.cumsum(masses[:-1]), 1.0)), 1.0)
        return q, self.missing + np.append(0.0, np.cumsum(masses * excess))

    @property
    def losses(self) -> Array:
        """log(P / Q), `[K]`."""
        with np.errstate(divide="ignore"):  # -inf where an outcome has become impossible
            return np.log1p(self.excess)

    def beside(self, other: Pair, *, share: float) -> Pair:
        """The experiment that is the other one with probability `share`, and says so."""
        return Pair(
            np.concatenate([(1 - share) * self.masses, share * other.masses]),
            np.concatenate([self.excess, other.excess]),
            (1 - share) * self.missing + share * other.missing,
        )

    def times(self, other: Pair) -> Pair:
        """Both experiments, independent of each other."""
        masses = np.outer(self.masses, other.masses).ravel()
        excess = (self.excess[:, None] + other.excess + np.outer(self.excess, other.excess)).ravel()
        return Pair(masses, excess, self.missing + other.missing)


def polygon(q: Array, height: Array, *, shift: float) -> Pair:
    """The least pair with a curve above these points `[N]`, cut off where no test of N(shift, 1) and N(0, 1) gets."""
    x, y = _upper_hull(np.concatenate([[0.0, 1.0], q]), np.concatenate([[0.0, 0.0], height]))
    width = np.diff(x)
    tangent_q, tangent_height, tangent_slope = _curve(_TANGENTS, shift)
    slopes = np.concatenate([np.diff(y) / width, tangent_slope])
    offsets = np.concatenate([y[:-1], tangent_height]) - slopes * np.concatenate([x[:-1], tangent_q])
    needed = (slopes >= tangent_slope[0]) & (slopes <= tangent_slope[-1])  # fewer lines are higher ones
    return _below(slopes[needed], offsets[needed])


def common_pair(pairs: list[Pair]) -> Pair:
    """The least pair above several."""
    if len(pairs) == 1:
        return pairs[0]
    curves = [pair.curve() for pair in pairs]
    x, y = _upper_hull(np.concatenate([q for q, _ in curves]), np.concatenate([height for _, height in curves]))
    width = np.diff(x)
    return Pair(width, np.maximum(np.diff(y) / width, _LEAST_EXCESS), float(y[0]))


def gaussian_pair(shift: float, edges: Array) -> Pair:
    """N(shift, 1) and N(0, 1), the mass of each cell of the noise moved to its two ends: `edges` rise."""
    return _cells(edges, shift)


def censored_pair(shift: float, threshold: float, *, falls: bool) -> Pair:
    """max(Z, threshold) of Z under P = N(0, 1) and Q = N(-shift, 1), or N(shift, 1) where it rises: few outcomes.

    Where it `falls` from P to Q, what is above the threshold speaks for P.
    """
    if falls:
        edges = np.append(threshold + shift + np.array([0.0, 0.4, 0.8, 1.3, 2.0, 3.0]), FARTHEST + shift)
        below = float(ndtr(threshold + shift)), float(moved_mass(np.array([threshold + shift]), shift)[0])
        above = _cells(edges, shift)
    else:
        edges = np.append(-FARTHEST, -threshold + shift - np.array([0.0, 0.4, 0.8, 1.3, 2.0, 3.0])[::-1])
        below = float(ndtr(threshold - shift)), -float(moved_mass(np.array([threshold]), shift)[0])
        above = _cells(edges, shift)
    q, moved = below
    return Pair(np.append(above.masses, q), np.append(above.excess, -moved / q), above.missing)


def _cells(edges: Array, shift: float) -> Pair:
    """Cells of N(shift, 1) against N(0, 1); what is above the last edge, where that is far out, is missing."""
    q, height, slopes = _curve(edges, shift)  # q falls, slopes rise
    width, rise = ndtr(edges[1:]) - ndtr(edges[:-1]), height[:-1] - height[1:]
    upper = np.clip((rise - slopes[:-1] * width) / (slopes[1:] - slopes[:-1]), 0.0, width)
    masses = np.zeros(len(edges))
    masses[1:] += upper
    masses[:-1] += width - upper
    far_below, far_above = edges[0] <= -FARTHEST, edges[-1] >= FARTHEST
    if far_below:
        masses[0] += ndtr(edges[0])
    return Pair(masses, slopes, float(q[-1] + height[-1]) if far_above else 0.0)


def _curve(z: Array, shift: float) -> tuple[Array, Array, Array]:
    """The test "above z" of N(shift, 1) against N(0, 1): mass under Q, height, and slope there."""
    return np.asarray(ndtr(-z)), moved_mass(z, shift), np.asarray(np.expm1(z * shift - shift * shift / 2))


def _upper_hull(x: Array, y: Array) -> tuple[Array, Array]:
    """The corners of the least concave function above points, x strictly rising."""
    order = np.lexsort((-y, x))
    kept: list[tuple[float, float]] = []
    for point in zip(x[order].tolist(), y[order].tolist(), strict=True):
        if kept and point[0] == kept[-1][0]:
            continue
        while len(kept) > 1 and _turns_up(kept[-2], kept[-1], point):
            kept.pop()
        kept.append(point)
    corners = np.array(kept)
    return corners[:, 0], corners[:, 1]


def _turns_up(first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]) -> bool:
    return (second[1] - first[1]) * (third[0] - first[0]) <= (third[1] - first[1]) * (second[0] - first[0])


def _below(slopes: Array, offsets: Array) -> Pair:
    """The pair whose curve is the least of these lines on [0, 1]."""
    here, corners, pieces = 0.0, [0.0], []
    line = min(range(len(slopes)), key=lambda i: (offsets[i], slopes[i]))
    missing = max(float(offsets[line]), 0.0)
    while True:
        pieces.append(line)
        lower = np.flatnonzero(slopes < slopes[line])
        crossings = (offsets[lower] - offsets[line]) / (slopes[line] - slopes[lower])
        if lower.size == 0 or crossings.min() >= 1:
            break
        nearest = crossings.min()
        here = max(here, float(nearest))
        corners.append(here)
        ties = lower[crossings <= nearest]
        line = int(ties[np.argmin(slopes[ties])])
    masses = np.diff(np.array([*corners, 1.0]))
    kept = masses > 0
    return Pair(masses[kept], slopes[pieces][kept], missing)


def log_far_moment(orders: Array, shift: float) -> Array:
    """Log of the moment E_Q[(P/Q)^a] of N(shift, 1) and N(0, 1) beyond `FARTHEST`: `[A]`."""
    from pate.accounting.special import log_ndtr

    return np.asarray(orders * (orders - 1) * (shift * shift / 2) + log_ndtr(orders * shift - FARTHEST))


def log_whole_moment(orders: Array, shift: float) -> Array:
    """The same of the whole of it."""
    return np.asarray(orders * (orders - 1) * (shift * shift / 2))


def share_below(z: float) -> float:
    """Φ(z)."""
    return 0.5 * math.erfc(-z / math.sqrt(2))

"""The price of a noisy maximum that releases the winner alone, where one or two counts move (docs/proofs/winner.md).

First the law of a winner, pairs of distributions that dominate it, and bounds on how its law bends. A cover of the
plane of places has a pair above each part. From these follow the Renyi curve, and the tree for optimal composition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import Array, gauss_legendre, log_ndtr, lower_hull, ndtr

Range = tuple[Array, Array]

SMALLEST_MULTIPLIER = 0.25
LARGEST_MULTIPLIER = 1e7
"""With less noise, or more, the counts themselves are priced."""
_MANY_NODES = 64
_FEW_NODES = 16
_FARTHEST_PLACE = 9.0
# standard deviations: what lies beyond has a mass of 5e-17 and is missing, or by a closed form
_FARTHEST = 8.3
_LEAST_EXCESS = -1 + 2.0**-50  # below it is rounding
_TANGENTS = np.array(
    [-_FARTHEST, -6.0, -4.5, -3.25, -2.25, -1.5, 1.5, 2.25, 3.25, 4.5, 6.0, _FARTHEST]
)
_LOWEST = -1.8  # of a place: below it its count is censored
_HIGHEST_SUM = 2.8  # of both places: above it one bit is released, but for a share
# where the threshold of a bit is farther off than this, the censored statistic is released
_FAR_BIT = 2.4
_HALF = np.append(np.arange(7) / 10, 0.6 + np.arange(1, 10) / 5)
_THRESHOLDS = np.append(-_HALF[:0:-1], _HALF)
_SMALL = 1e-3  # a shift so small that the squares for it are good for all
_TARGET = 1.3  # of a corner's cost; no law's second moment over shift**2 exceeds 1.2800
_SKEW = 0.1  # what large losses count extra
# slope over shift: beyond it the test curve of the two counts themselves cuts the pairs off
_STEEPEST = 4.0
_WIDEST = 0.64
_NARROWEST = 0.16
_CORNERS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
_OF_CORNERS = 1e-13
# the largest first and second derivative of the normal density
_BEND_OF_NORMAL = 0.2420
_BEND_OF_DENSITY = 0.3990
_ROUNDING = 2.0**-50
_UP = 1 + 1e-12
_STEPS = np.array([0.0, 0.6, 1.2, 1.8, 2.6, 3.6, 5.0, _FARTHEST])
_EDGES = np.append(-_STEPS[:0:-1], _STEPS)
_FEW_PAIRS = 40


def density(z: Array) -> Array:
    """Of a standard normal."""
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))


def moved_mass(z: Array, shift: float) -> Array:
    """Φ(z) - Φ(z - shift), to its last digits however small the shift: `[N]`."""
    nodes, weights = gauss_legendre(_FEW_NODES)
    steps = shift * (1 + nodes) / 2
    return np.asarray(shift / 2 * (density(z[:, None] - steps) @ weights))


def vertices(a: Array, b: Array, shift: float) -> tuple[Array, Array]:
    """The points of the pair's test curve that can matter: Q(S) and P(S) - Q(S) of four sets of outcomes, `[4, N]`."""
    nodes, weights = gauss_legendre(_FEW_NODES)
    steps = shift * (1 + nodes) / 2
    falls = density(a[:, None] - steps) * ndtr(-b[:, None] - steps)
    rises = ndtr(-a[:, None] + steps) * density(b[:, None] + steps)
    either = ndtr((a + b) / math.sqrt(2)) * moved_mass((a - b) / math.sqrt(2), math.sqrt(2) * shift)
    first = shift / 2 * (falls @ weights) + either
    rest = shift / 2 * ((rises - falls) @ weights)
    # Q of the first is P(X > max(0, Y)), by quadrature; wrong by about 1e-15.
    own = (a - shift)[:, None]
    other = (b + shift)[:, None]
    low = np.maximum(0.0, own - _FARTHEST_PLACE)
    high = np.maximum(own + _FARTHEST_PLACE, _FARTHEST_PLACE)
    many_nodes, many_weights = gauss_legendre(_MANY_NODES)
    half = (high - low) / 2
    x = half * many_nodes + (high + low) / 2
    q_first = half[:, 0] * ((density(x - own) * ndtr(x - other)) @ many_weights)
    q_rest = ndtr(-a + shift) * ndtr(-b - shift)
    # first; first or rest; rest; either count
    masses = np.stack([q_first, q_first + q_rest, q_rest, 1 - q_rest])
    return masses, np.stack([first, first + rest, rest, -rest])


@dataclass(frozen=True, eq=False)
class Pair:
    """Outcomes with their masses under Q and P = Q (1 + excess)."""

    masses: Array  # `[K]` under Q
    excess: Array  # `[K]` P / Q - 1
    missing: float = 0.0  # mass of P on an infinite loss
    parts: tuple[Pair, ...] = ()  # pairs below it, in a tree

    @property
    def losses(self) -> Array:
        """The privacy loss of each outcome; -inf for one that has become impossible."""
        with np.errstate(divide="ignore"):  # -inf where an outcome has become impossible
            return np.log1p(self.excess)

    def beside(self, other: Pair, *, share: float) -> Pair:
        """The experiment that is the other one with probability `share`, and says so."""
        masses = np.concatenate([(1 - share) * self.masses, share * other.masses])
        missing = (1 - share) * self.missing + share * other.missing
        return Pair(masses, np.concatenate([self.excess, other.excess]), missing)

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
    offsets = np.concatenate([y[:-1], tangent_height]) - slopes * np.concatenate(
        [x[:-1], tangent_q]
    )
    # fewer lines are higher ones
    needed = (slopes >= tangent_slope[0]) & (slopes <= tangent_slope[-1])
    # The pair whose curve is the least of these lines on [0, 1], which are the corners of a hull.
    slopes, raised = (side[::-1] for side in _upper_hull(slopes[needed], -offsets[needed]))
    corners = np.concatenate([[0.0], np.diff(raised) / np.diff(slopes), [1.0]]).clip(0, 1)
    masses = np.diff(np.maximum.accumulate(corners))
    return Pair(masses[masses > 0], slopes[masses > 0], max(-float(raised.max()), 0.0))


def censored_pair(shift: float, threshold: float, *, falls: bool) -> Pair:
    """max(Z, threshold) of Z under P = N(0, 1) and Q = N(-shift, 1), or N(shift, 1) where it rises: few outcomes."""
    beyond = np.array([0.0, 0.4, 0.8, 1.3, 2.0, 3.0])
    if falls:
        edges = np.append(threshold + shift + beyond, _FARTHEST + shift)
        q = ndtr(threshold + shift)
        moved = moved_mass(np.array([threshold + shift]), shift)
    else:
        edges = np.append(-_FARTHEST, -threshold + shift - beyond[::-1])
        q = ndtr(threshold - shift)
        moved = -moved_mass(np.array([threshold]), shift)
    above = gaussian_pair(shift, edges)
    return Pair(np.append(above.masses, q), np.append(above.excess, -moved / q), above.missing)


def gaussian_pair(shift: float, edges: Array) -> Pair:
    """Cells of N(shift, 1) against N(0, 1), their masses moved to both ends; what is far above the last is missing."""
    q, height, slopes = _curve(edges, shift)  # q falls, slopes rise
    width = ndtr(edges[1:]) - ndtr(edges[:-1])
    rise = height[:-1] - height[1:]
    upper = np.clip((rise - slopes[:-1] * width) / (slopes[1:] - slopes[:-1]), 0.0, width)
    masses = np.zeros(len(edges))
    masses[1:] += upper
    masses[:-1] += width - upper
    if edges[0] <= -_FARTHEST:
        masses[0] += ndtr(edges[0])
    return Pair(masses, slopes, float(q[-1] + height[-1]) if edges[-1] >= _FARTHEST else 0.0)


def _curve(z: Array, shift: float) -> tuple[Array, Array, Array]:
    return (
        np.asarray(ndtr(-z)),
        moved_mass(z, shift),
        np.asarray(np.expm1(z * shift - shift * shift / 2)),
    )


def _upper_hull(x: Array, y: Array) -> tuple[Array, Array]:
    """The corners of the least concave function above points."""
    order = np.lexsort((-y, x))
    order = order[np.append(True, np.diff(x[order]) > 0)]  # the highest of those at one place
    corners = order[lower_hull(x[order], -y[order])]
    return x[corners], y[corners]


def bend_of_mass(own: Range, other: Range, difference: Range, total: Range) -> Array:
    """Of P(X > max(0, Y)): the sum of both second derivatives' absolute values, `own` the place of X."""
    # In the place of X it is φ(a) Φ(-b) + φ(d) Φ(t) / √2, in that of Y it is -φ(d) Φ(t) / √2, with d = (a - b) / √2 and
    # t = (a + b) / √2.
    both = density(np.clip(0.0, *difference)) * density(np.clip(0.0, *total))
    crossed = (_slope(difference) * ndtr(total[1]) + both) / 2
    return np.asarray(_slope(own) * ndtr(-other[0]) + 2 * crossed)


def bend_of_change(own: Range, other: Range, difference: Range, total: Range) -> Array:
    """Of the derivative of P(X > max(0, Y)) as a falls and b rises, downwards: the sum of both second derivatives."""
    # It is φ(a) Φ(-b) + √2 φ(d) Φ(t); its second derivatives are, in a, φ''(a) Φ(-b) and, in b, φ(a) b φ(b), and of the
    # other term (φ'' Φ ± 2 φ' φ + φ φ') / √2.
    bulge = _bulge(difference) * ndtr(total[1]) + 2 * _slope(difference) * density(
        np.clip(0.0, *total)
    )
    crossed = (bulge + density(np.clip(0.0, *difference)) * _rise(total)) / 2**0.5
    alone = _bulge(own) * ndtr(-other[0]) + density(np.clip(0.0, *own)) * _rise(
        (-other[1], -other[0])
    )
    return np.asarray(alone + 2 * crossed)


def bend_of_rest(own: Range, other: Range) -> Array:
    """Of the derivative of P(X < 0 and Y < 0), -φ(a) Φ(-b) + Φ(-a) φ(b), as a falls and b rises, downwards."""
    # The largest φ''(x) = (x² - 1) φ(x) is at ±√3.
    top = 2 * density(np.sqrt([3.0]))
    dip = _largest(lambda x: (x * x - 1) * density(x), own, (-(3**0.5), 3**0.5), top)
    falling = dip * ndtr(-other[0]) + density(np.clip(0.0, *own)) * _rise(other)
    rising = _rise((-own[1], -own[0])) * density(np.clip(0.0, *other)) + ndtr(-own[0]) * _bulge(
        other
    )
    return np.asarray(falling + rising)


def _slope(places: Range) -> Array:
    """The largest |φ'| = |x| φ(x), which rises up to 1 and then falls."""
    return _largest(lambda x: np.abs(x) * density(x), places, (-1.0, 1.0), density(np.ones(1)))


def _rise(places: Range) -> Array:
    """The largest x φ(x), at least 0."""
    return _largest(lambda x: x * density(x), places, (1.0,), density(np.ones(1)))


def _largest(
    function: Callable[[Array], Array], places: Range, tops: tuple[float, ...], top: Array
) -> Array:
    """The largest value between two places, at least 0: at an end, or the top where it lies between."""
    inside = np.any([(places[0] <= x) & (x <= places[1]) for x in tops], axis=0)
    return np.maximum(np.maximum(*map(function, places)), np.where(inside, top, 0.0))


def _bulge(places: Range) -> Array:
    """The largest -φ''(x) = (1 - x²) φ(x), at least 0: at the place nearest to 0 where that is within 1."""
    x: Array = np.clip(0.0, *places)
    return np.maximum((1 - x * x) * density(x), 0.0)


@lru_cache(maxsize=64)
def bits(shift: float) -> tuple[Pair, ...]:
    """Pairs above every bit "Z > t" of N(shift, 1) and N(0, 1) with shift - t in -_FAR_BIT.._FAR_BIT."""
    steps = np.diff(_THRESHOLDS)
    width = np.maximum(np.append(steps, 0), np.append(0, steps))
    q = ndtr(_THRESHOLDS - shift)
    height = moved_mass(_THRESHOLDS, shift)
    # Between two thresholds the curve's point lies within the bend from the chord.
    slack = width**2 / 8 * _BEND_OF_NORMAL + _OF_CORNERS
    above = height + (width**2 / 8 * _BEND_OF_DENSITY + _OF_CORNERS) * shift
    return tuple(_polygons(q[None], above[None], slack, shift))


@lru_cache(maxsize=64)
def squares(shift: float) -> tuple[Pair, ...]:
    """Pairs above the laws at all places between the regions that are dominated otherwise."""
    lowest, width = _squares()
    corners = lowest[:, None] + width[:, None, None] * _CORNERS  # [S, 4, 2]
    places, corner_of = np.unique(corners.reshape(-1, 2).round(6), axis=0, return_inverse=True)
    slack = np.zeros((5, len(places)))
    for side, of_square in zip(slack, _slacks(lowest, width, shift), strict=True):
        np.maximum.at(side, corner_of.ravel(), np.repeat(of_square, 4))
    q, height = vertices(places[:, 0], places[:, 1], shift)
    return tuple(_polygons(q, height + slack[1:], slack[0], 2**0.5 * shift))


@lru_cache(maxsize=1)
def _squares() -> tuple[Array, Array]:
    """The lowest corners `[S, 2]` and the widths `[S]` of squares that cover what lies between the other regions."""
    starts = _LOWEST + _WIDEST * np.arange(round((_HIGHEST_SUM - 2 * _LOWEST) / _WIDEST))
    lowest = np.stack(np.meshgrid(starts, starts), axis=-1).reshape(-1, 2)
    done = list[tuple[Array, Array]]()
    width = _WIDEST
    while len(lowest):
        lowest = lowest[lowest.sum(axis=1) < _HIGHEST_SUM - 1e-9]
        # About the second moments of the pairs at corners, over shift**2, large losses counted extra.
        slack = np.repeat(_slacks(lowest, np.full(len(lowest), width), _SMALL), 4, axis=1)
        corners = (lowest[:, None] + width * _CORNERS).reshape(-1, 2)
        q, height = vertices(corners[:, 0], corners[:, 1], _SMALL)
        above = (height + slack[1:]) / _SMALL
        masses = np.stack([q[0] - slack[0], q[1] - q[0] - 2 * slack[0], 1 - q[1] - slack[0]])
        rises = np.stack([above[0], above[1] - above[0], -above[1]])
        masses = np.maximum(masses, np.abs(rises) / _STEEPEST)
        costs = (
            (rises**2 / masses * np.maximum(1 + _SKEW * rises / masses, 1))
            .sum(axis=0)
            .reshape(-1, 4)
        )
        good = (costs <= _TARGET).all(axis=1) | (width < 1.5 * _NARROWEST)
        done.append((lowest[good], np.full(int(good.sum()), width)))
        width /= 2
        lowest = (lowest[~good][:, None] + width * _CORNERS).reshape(-1, 2)
    places, widths = map(np.concatenate, zip(*done, strict=True))
    return places, widths


def _slacks(lowest: Array, width: Array, shift: float) -> Array:
    """How far the curve's points may lie from those between the corners of a square, `[5, S]`."""
    (a0, b0) = lowest.T
    (a1, b1) = lowest.T + width
    a = (a0 - shift, a1)
    b = (b0, b1 + shift)
    difference = (a[0] - b[1]) / 2**0.5, (a[1] - b[0]) / 2**0.5
    total = (a0 + b0) / 2**0.5, (a1 + b1) / 2**0.5
    share = width**2 / 8
    sideways = share * np.maximum(
        bend_of_mass(a, b, difference, total), bend_of_mass(b, a, difference, total)
    )
    first, second = (bend_of_change(x, y, difference, total) for x, y in ((a, b), (b, a)))
    upwards = (
        share * shift * np.stack([first, second, bend_of_rest(a, b), bend_of_rest(b, a)])
        + _OF_CORNERS * shift
    )
    return np.concatenate([sideways[None] + _OF_CORNERS, upwards])


def _polygons(q: Array, height: Array, slack: Array, shift: float) -> list[Pair]:
    """The pairs above points `[S, N]` that may lie `slack` `[N]` to either side."""
    left = (q - slack).clip(0, 1)
    right = (q + slack).clip(0, 1)
    points = zip(left.T, right.T, height.T, strict=True)
    return [polygon(np.append(x, y), np.append(z, z), shift=shift) for x, y, z in points]


def winner_rdp(noise_multiplier: float, num_moving: int, orders: Array) -> Array:
    """An upper bound for the Renyi curve of a winner, never above that of all counts: `[A]`."""
    if noise_multiplier == 0:
        return np.full_like(orders, np.inf)
    shift = 1 / noise_multiplier
    counts = orders * (num_moving * shift * shift / 2)
    if not SMALLEST_MULTIPLIER < noise_multiplier < LARGEST_MULTIPLIER:
        return counts
    # log E[(P/Q)^a] of N(shift, 1) and N(0, 1)
    log_moment = orders * (orders - 1) * (shift * shift / 2) * _UP
    with np.errstate(over="ignore", invalid="ignore"):
        # of the worst bit of N(one, 1) and N(0, 1): E[(P/Q)^a] - 1
        one = math.sqrt(num_moving) * shift
        excess = np.maximum(
            np.expm1(_log_censored(orders, one, _FAR_BIT)), _excess(bits(one), orders, one)
        )
        if num_moving == 2:
            wide = math.sqrt(2) * shift
            rare = math.exp(log_ndtr(-_HIGHEST_SUM / math.sqrt(2))) * _UP
            high = (1 - rare) * excess + rare * np.expm1(2 * log_moment)
            low = np.expm1(_log_censored(orders, shift, -_LOWEST) + log_moment)
            excess = np.maximum(np.maximum(high, low), _excess(squares(shift), orders, wide))
        curve = np.log1p(excess) * _UP / (orders - 1)
    return np.where(np.isfinite(curve), np.minimum(curve, counts), counts)


def _excess(pairs: Iterable[Pair], orders: Array, shift: float) -> Array:
    """The largest E[(P/Q)^a] - 1 among pairs, and what their missing mass may add: `[A]`."""
    worst = np.zeros_like(orders)
    far = np.exp(orders * (orders - 1) * (shift * shift / 2) + log_ndtr(orders * shift - _FARTHEST))
    for pair in pairs:
        losses = pair.losses
        grown = orders[:, None] * losses
        terms = np.expm1(grown) - orders[:, None] * pair.excess
        rounding = _ROUNDING * (np.abs(np.expm1(grown)) + np.abs(grown))
        total = (terms + rounding) @ pair.masses + orders * max(
            float(pair.masses @ pair.excess) + pair.missing, 0.0
        )
        np.maximum(worst, total + far if pair.missing > 0 else total, out=worst)
    return worst


def _log_censored(orders: Array, shift: float, threshold: float) -> Array:
    """Log E[(P/Q)^a] of max(Z, threshold), Z ~ N(0, 1) against N(-shift, 1) or N(shift, 1), the larger one: `[A]`."""
    moved = (orders - 1) * shift
    log_moment = orders * (orders - 1) * (shift * shift / 2) * _UP
    sides = []
    for sign in (1, -1):
        below = orders * log_ndtr(threshold) - (orders - 1) * log_ndtr(threshold + sign * shift)
        sides.append(np.logaddexp(below, log_moment + log_ndtr(sign * moved - threshold)))
    rounding = _ROUNDING * (1 + orders * -log_ndtr(threshold - shift))
    return np.asarray(np.maximum(np.maximum(*sides), 0.0) + rounding)


@dataclass(frozen=True)
class Winner:
    """All laws of a winner, below the roots of trees of pairs, each above its parts."""

    roots: tuple[Pair, ...]
    variance: float  # the largest second moment of a pair without parts
    largest: float  # size of a loss of any of them


@lru_cache(maxsize=16)
def winner_pairs(noise_multiplier: float, num_moving: int) -> Winner:
    """The trees for a noise multiplier > 0 and one or two counts that move: upwards, a pair above four."""
    shift = 1 / noise_multiplier
    wide = math.sqrt(num_moving) / noise_multiplier
    pairs = [*bits(wide), *(censored_pair(wide, _FAR_BIT, falls=falls) for falls in (True, False))]
    if num_moving == 2:
        rare = 0.5 * math.erfc(_HIGHEST_SUM / math.sqrt(2) / math.sqrt(2)) * _UP
        everything = gaussian_pair(wide, _EDGES)
        one = gaussian_pair(shift, _EDGES)
        low = [censored_pair(shift, -_LOWEST, falls=falls).times(one) for falls in (True, False)]
        pairs = [*(pair.beside(everything, share=rare) for pair in pairs), *low, *squares(shift)]
    variance = max(float(pair.masses @ (pair.excess * pair.excess)) for pair in pairs)
    # halved by what speaks clearly for either side, again and again
    scale = variance**0.5 / 4
    clear = [[p.masses[p.excess > scale].sum(), p.masses[p.excess < -scale].sum()] for p in pairs]
    level = [pairs[i] for i in _near_first(np.array(clear), np.arange(len(pairs)))]
    while len(level) > _FEW_PAIRS:
        level = [_above(level[start : start + 4]) for start in range(0, len(level), 4)]
        pairs += level
    return Winner(tuple(level), variance, max(float(np.abs(pair.losses).max()) for pair in pairs))


def _above(parts: list[Pair]) -> Pair:
    """The least pair above some; itself of one."""
    if len(parts) == 1:
        return parts[0]
    corners = []  # of the test curves: masses under Q, and heights
    for pair in parts:
        order = np.argsort(-pair.excess)
        masses = pair.masses[order]
        excess = pair.excess[order]
        q = np.concatenate([[0.0], np.minimum(np.cumsum(masses[:-1]), 1.0), [1.0]])
        corners.append((q, pair.missing + np.append(0.0, np.cumsum(masses * excess))))
    x, y = _upper_hull(*map(np.concatenate, zip(*corners, strict=True)))
    slopes = np.diff(y) / np.diff(x)
    return Pair(np.diff(x), np.maximum(slopes, _LEAST_EXCESS), float(y[0]), tuple(parts))


def _near_first(points: Array, some: NDArray[np.int64]) -> list[int]:
    """Some of the points `[N, 2]` in an order in which runs of 4, 16, … are near each other."""
    if len(some) <= 2:
        return [*some.tolist()]
    spread = np.ptp(points[some], axis=0)
    rank = some[np.argsort(points[some, int(spread.argmax())], kind="stable")]
    half = 2 ** (math.ceil(math.log2(len(some))) - 1)
    return _near_first(points, rank[:half]) + _near_first(points, rank[half:])

"""Single pairs of distributions on a line: of Gaussian releases, of noisy maxima, and of secret Poisson samples.

Of a sample one pair gives all: privacy profile and Renyi curve (docs/proofs/alternatives.md). Let C be the longest
contribution over the noise's std. Where a unit is replaced, the pair is N(0, 1) mixed with N(C, 1) and with N(-C, 1).
Where it is added or removed, the pair is N(0, 1) mixed with N(C, 1), and N(0, 1) alone.

Why no other pair is worse: at any γ the hockey stick is q E (Y - γ Y' - b)_+, with Y and Y' the ratios of the densities
of two Gaussians and N(0, 1). That is a convex function of Y - γ Y', so it rises with the variances of the two logs and
falls with their covariance. Both variances are at most C^2, and the covariance is at least -C^2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting.events import SampledGaussianEvent
from pate.accounting.special import Array, log_ndtr, ndtr

_ERROR = 1e-6  # of a Renyi divergence, relative: what the step and the ends of a sum may add to it
_AT_ONCE = 32  # orders
_MOST_NODES = 1_000_000  # of one order; beyond it the closed forms stand alone
# natural ones, of a smallest divergence: a smaller one is rounded up to e^-200
_MOST_DIGITS = 200.0
_ULP = 2.0**-49
# of (order - 1) C^2 / 2 above the sample's log odds: there the closed form has four digits
_FAR = 25.0
_FARTHEST = 39.0  # standard deviations beyond which a normal has no mass in double precision
_OF_LOSSES = 2.0**-50  # relative rounding error of the terms of a loss
_NEAR = 9.0  # standard deviations
_LOCATION = 1e-9  # relative to the spacing: how well the ends of an interval are known at best
_BISECTIONS = 80
_OF_MASSES = 2.0**-44
_LARGEST_LOSS = 700.0  # a larger one counts as missing; its exponential may be no float


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
        """Returns a bound on the rounding errors of losses at points."""
        terms = np.abs(x) * self.shift + self.shift * self.shift / 2
        return np.asarray(
            _OF_LOSSES * (terms - (self.count - 1) * (log_ndtr(x - self.shift) + log_ndtr(x)))
        )

    @property
    def farthest(self) -> float:
        """Beyond it, on either side, there is no mass in double precision."""
        return self.shift + _FARTHEST

    def first(self, x: Array) -> tuple[Array, Array]:
        """P(M + shift <= x) and P(M + shift > x), each to its last digits."""
        return self.second(x - self.shift)

    def second(self, x: Array) -> tuple[Array, Array]:
        """The same of M."""
        log_below = self.count * log_ndtr(x)
        return np.asarray(np.exp(log_below)), np.asarray(-np.expm1(log_below))


@dataclass(frozen=True)
class SampledPair:
    """The same for two mixtures of N(0, 1) with N(up, 1), and with N(down, 1): a Gaussian release of a sample."""

    sampling_prob: float  # of the second part of both mixtures, in (0, 1)
    up: float  # >= 0
    down: float  # <= 0, below up

    @property
    def exchanged(self) -> Self:
        """The pair whose losses are those of the same two distributions exchanged; itself where up = -down."""
        return replace(self, up=-self.down, down=-self.up)

    @property
    def variance(self) -> float:
        """The variance of the loss, to choose the spacing of a grid."""
        x = np.linspace(self.down - _NEAR, self.up + _NEAR, 2001)
        return float(np.sum(np.diff(self.first(x)[0]) * self.loss(x[1:]) ** 2))

    def loss(self, x: Array) -> Array:
        """Returns the privacy losses at points."""
        first, second = (
            log_mixture_ratio(x, shift, self.sampling_prob) for shift in (self.up, self.down)
        )
        return np.asarray(first - second)

    def loss_rounding(self, x: Array) -> Array:
        """Returns a bound on the rounding errors of losses at points."""
        return np.asarray(
            _OF_LOSSES
            * sum(2 * np.abs(shift * x) + shift * shift for shift in (self.up, self.down))
        )

    @property
    def farthest(self) -> float:
        """The point beyond which tails are bounded rather than computed."""
        return max(self.up, -self.down) + _FARTHEST

    def first(self, x: Array) -> tuple[Array, Array]:
        """Returns the first distribution's cumulative probabilities and tails at points."""
        return mixture(x, -self.up, self.sampling_prob), mixture(-x, self.up, self.sampling_prob)

    def second(self, x: Array) -> tuple[Array, Array]:
        """Returns the second distribution's cumulative probabilities and tails at points."""
        return mixture(x, -self.down, self.sampling_prob), mixture(
            -x, self.down, self.sampling_prob
        )


def sampled_gaussian_profiles(event: SampledGaussianEvent, epsilons: Array) -> list[Array]:
    """The hockey stick of the pair at epsilons of either sign, `[E]`, and of the same two distributions exchanged."""
    # The first distribution is above γ times the second on one side of a place x. Any other x gives less, and an error
    # in x counts by its square.
    q = event.sampling_prob
    shift = event.shift
    if not event.is_replaced:
        factor = np.exp(epsilons)
        # Where the mixture is 1 + e times N(0, 1), or -inf: 1 - q + q e^(C x - C^2 / 2) = 1 + e. Removed, it is above
        # γ φ right of it; added, below φ / γ left of it.
        right, left = (
            np.where(
                odds > 0,
                (np.log(np.where(odds > 0, odds, 1.0)) + shift * shift / 2) / shift,
                -np.inf,
            )
            for odds in (1 + np.expm1(epsilons) / q, 1 + np.expm1(-epsilons) / q)
        )
        removed = mixture(-right, shift, q) - np.exp(epsilons + log_ndtr(-right))
        return [np.asarray(removed), np.asarray(ndtr(left) - factor * mixture(left, -shift, q))]
    # At γ < 1 the two neighbors are exchanged, H_γ(P || Q) = 1 - γ + γ H_(1/γ)(Q || P). With y = e^(C x) the place is
    # where y - γ / y = (γ - 1) e^(C^2 / 2) (1 - q) / q, so that y = √γ e^(asinh(right side / (2 √γ))).
    size = np.abs(epsilons)
    with np.errstate(divide="ignore"):
        log_side = (
            np.log(-np.expm1(-size)) + np.log1p(-q) - np.log(q) + shift * shift / 2 + size / 2
        )
        y = np.arcsinh(np.exp(np.minimum(log_side, 300.0)) / 2) + np.maximum(log_side - 300.0, 0.0)
        x = (size / 2 + y) / shift
        above = mixture(-x, shift, q) - np.exp(size + np.log(mixture(-x, -shift, q)))
    return [np.asarray(np.where(epsilons < 0, -np.expm1(-size) + np.exp(-size) * above, above))]


def mixture(x: Array, shift: float, q: float) -> Array:
    """P(X > -x), which is P(-X <= x), where X is N(0, 1) or, with probability q, N(shift, 1)."""
    return np.asarray((1 - q) * ndtr(x) + q * ndtr(x + shift))


def sampled_gaussian_rdp(event: SampledGaussianEvent, orders: Array) -> Array:
    """The Renyi curve `[A]` of the pair from above, by a relative 1e-5 or less where a price is read off."""
    if event.noise_multiplier == 0:
        return np.full_like(orders, np.inf)
    # The least of three bounds: the release without sampling; Minkowski's, for large orders; and a sum over points of a
    # line. If a unit comes or goes, its removal costs the most (Mironov, Talwar & Zhang 2019, Theorem 5).
    q = event.sampling_prob
    shift = event.shift
    with np.errstate(over="ignore"):
        whole = orders * (np.square(1 / np.float64(event.noise_multiplier)) / 2)
    if q == 1:
        return np.asarray(whole)
    log_odds = np.log(q) - np.log1p(-q)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        exponent = (orders - 1) * (shift * shift / 2)
        # Minkowski: the norm of order a of 1 - q + q e^(C x - C^2 / 2) is at most 1 - q + q e^((a - 1) C^2 / 2).
        near = np.log1p(q * np.expm1(np.minimum(exponent, 1.0)))
        far = np.log(q + (1 - q) * np.exp(-exponent))
        log_norm = (
            np.where(exponent < 1, near, exponent + far) * (orders / (orders - 1)) * (1 + 4 * _ULP)
        )
        found = np.fmin(whole, log_norm - (np.log1p(-q) if event.is_replaced else 0.0))
        near = np.flatnonzero(exponent < _FAR + abs(log_odds))
        number = _steps(event, orders[near])[2]
        near = near[np.argsort(number)][: int((number <= _MOST_NODES).sum())]
        for start in range(0, len(near), _AT_ONCE):
            some = near[start : start + _AT_ONCE]
            found[some] = np.fmin(found[some], _by_sum(event, orders[some]))
    return np.asarray(found)


def _steps(event: SampledGaussianEvent, orders: Array) -> tuple[Array, Array, Array, Array, Array]:
    """How the integral over x of E = φ(x) w(x)^a v(x)^(1-a) becomes a sum, per order: `[A]` each.

    The first place and the last one, the number of steps between, the margin from the places where E falls to the ends,
    and an error. A sum over all places of the line differs from the integral by at most this share of the integral.
    """
    # Steps so small that the error is `_ERROR` of the smallest divergence that there may be.
    # E is analytic. In a strip |Im| <= y, |φ(x + iy)| = e^(y^2 / 2) φ(x), |w(x + iy)| <= w(x), and |v(x + iy)| >=
    # cos(C y / 2) v(x), because |A + B e^(it)|^2 = (A + B)^2 - 2 A B (1 - cos t) and 4 A B <= (A + B)^2. So the
    # integral of |E| along the strip's border is at most e^growth times that of E, and the sum's error at most 2
    # e^growth / (e^(2 pi y / h) - 1) of it (Trefethen & Weideman 2014, Theorem 5.1).
    q = event.sampling_prob
    shift = event.shift
    # about the log of the moment - 1
    small = np.log(orders * (orders - 1)) + 2 * np.log(q) + 2 * np.log(shift)
    digits = np.log(4 * (1 + orders) / _ERROR) - np.clip(small, -_MOST_DIGITS, 0.0)
    height = np.sqrt(2 * digits)
    growth = height * height / 2
    if event.is_replaced:
        height = np.minimum(np.sqrt(digits / (0.5 + (orders - 1) * (shift * shift / 8))), 2 / shift)
        growth = height * height / 2 - (orders - 1) * np.log(np.cos(shift * height / 2))
    error = 2 * np.exp(-digits) / -np.expm1(-digits - growth)
    margin = np.sqrt(2 * digits) + 1
    # Right of (a + (a - 1) q) C + margin and left of -C - margin, log E falls outward with a slope >= margin:
    # the slope of log w is at most C, that of -log v at most q C where x > 0.
    first = -shift - margin
    last = (orders + (orders - 1) * (q if event.is_replaced else 0.0)) * shift + margin
    number = np.ceil((last - first) * (digits + growth) / (2 * np.pi * height)) + 1
    return first, last, np.nan_to_num(number, nan=np.inf), margin, error


def _by_sum(event: SampledGaussianEvent, orders: Array) -> Array:
    """The Renyi divergences `[A]` from the sum of E - φ (a w - (a - 1) v), whose integral is the moment - 1."""
    # Its terms are >= 0, so nothing cancels where the moment is nearly 1. What is left out beyond the ends is at most
    # the last terms over the slope there; of E, and of (a - 1) φ v. Large moments are scaled down.
    low, high, numbers, margin, error = _steps(event, orders)  # [A] each
    q = event.sampling_prob
    shift = event.shift
    number = int(numbers.max())
    width = (high - low) / number
    a = orders[:, None]
    x = low[:, None] + width[:, None] * np.arange(number + 1)  # [A, X]
    log_w = log_mixture_ratio(x, shift, q)
    log_v = log_mixture_ratio(-x, shift, q) if event.is_replaced else np.zeros_like(x)
    loss = log_w - log_v
    log_density = -0.5 * x * x - 0.5 * np.log(2 * np.pi)
    log_e = log_density + a * log_w - (a - 1) * log_v
    scale = np.maximum(log_e.max(axis=1), 0.0)[:, None]
    e = np.exp(log_e - scale)
    base = np.exp(log_density + log_v - scale)
    first = np.exp(log_density + log_w - scale)
    small = np.abs(a * loss) < 1
    near = np.where(small, loss, 0.0)
    terms = np.where(
        small, base * (np.expm1(a * near) - a * np.expm1(near)), e - a * first + (a - 1) * base
    )
    # of what exponents are made of
    size = 1 + np.abs(log_density) + a * np.abs(log_w) + (a - 1) * np.abs(log_v)
    lost = np.where(small, base * a * np.abs(loss), e + a * (first + base))
    sums = (np.maximum(terms, 0.0) * (1 + _ULP * size) + _ULP * size * lost).sum(axis=1) * width
    scale = scale[:, 0]
    end = np.exp(-0.5 * margin * margin - scale) * (orders - 1)
    beyond = (e[:, 0] + e[:, -1] + 2 * end) / margin
    total = (sums * (1 + number * _ULP) + beyond + 2 * orders * error * np.exp(-scale)) / (
        1 - error
    )
    return np.asarray(np.logaddexp(0.0, scale + np.log(total)) * (1 + _ULP) / (orders - 1))


def log_mixture_ratio(x: Array, shift: float, q: float) -> Array:
    """The log of 1 - q + q e^(C x - C^2 / 2), the density of a mixture over that of N(0, 1), to its last digits."""
    power = shift * x - shift * shift / 2
    far = power > 1
    near = np.log1p(q * np.expm1(np.where(far, 0.0, power)))
    return np.where(far, power + np.log(q + (1 - q) * np.exp(-np.where(far, power, 0.0))), near)


def discretized_loss(
    pair: ShiftedMaximum | SampledPair, spacing: float, size: int, *, missing: float
) -> tuple[Array, float]:
    """The masses of a pair's loss at multiples of a spacing, both ways from 0, at most `size`, and that farther up."""
    # A `SampledPair` is taken as it is. Of a shifted maximum, the pair is (M + shift, M) from the point x on where
    # P(M + shift > x) = P(M <= x), together with its mirror image, the same losses with their signs and the two
    # distributions exchanged. Of one normal, which is all that is composed so, that is the pair itself.
    x, multiples = _edges(pair, spacing, size, missing)
    location = _LOCATION + pair.loss_rounding(x) / spacing  # [C + 1]
    blur = np.maximum(location[:-1], location[1:])
    # Masses of intervals, [C], under the distribution that the losses favor and under its neighbor, and their rounding
    # errors: differences of a distribution function from the side where it is small.
    masses = []
    for below, above in (pair.first(x), pair.second(x)):
        left = below[1:] < above[:-1]
        difference = np.where(left, below[1:] - below[:-1], above[:-1] - above[1:])
        masses.append(
            (np.maximum(difference, 0.0), _OF_MASSES * np.where(left, below[1:], above[:-1]))
        )
    last = int(np.abs(multiples).max())
    made = np.zeros(2 * last + 3)
    middle = last + 1
    losses = multiples.astype(np.float64) * spacing
    scale = -math.expm1(-spacing)
    images: list[Any] = [(losses[:-1], *masses), (-losses[1:], *masses[::-1])]
    for low, (here, lost_here), (there, lost_there) in images[
        : 1 if isinstance(pair, SampledPair) else 2
    ]:
        # The mass of an interval goes to its two ends such that both distributions keep theirs: no smaller for whatever
        # is convex in exp(-loss). What rounding and the search for the ends may have moved goes one point farther,
        # where V is larger.
        at = middle + np.round(low / spacing).astype(np.int64)
        ratio = np.exp(low)
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


def _edges(
    pair: ShiftedMaximum | SampledPair, spacing: float, size: int, missing: float
) -> tuple[Array, NDArray[np.int64]]:
    """Where the loss is a multiple of the spacing, up to a tail of `missing`; and these multiples."""
    most = min(size, int(_LARGEST_LOSS / spacing))

    def inside(x: Array) -> NDArray[np.bool_]:
        above = pair.first(x)[1]
        begins = (
            pair.loss(x) > -most * spacing
            if isinstance(pair, SampledPair)
            else pair.second(x)[0] > above
        )
        return np.where([True, False], begins, above < missing)

    def bisected(above: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array) -> Array:
        """Where a rising condition begins to hold."""
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            holds = above(middle)
            low = np.where(holds, low, middle)
            high = np.where(holds, middle, high)
        return np.asarray(high)

    ends = bisected(inside, np.full(2, -pair.farthest), np.full(2, pair.farthest))
    low, high = np.clip(pair.loss(ends) / spacing, -most, most).tolist()
    multiples = np.arange(math.floor(low), max(math.ceil(high), math.floor(low) + 1) + 1)
    every = np.zeros(len(multiples))
    x = bisected(
        lambda x: pair.loss(x) > multiples * spacing, every + ends[0], every + pair.farthest
    )
    x[0] = ends[0]
    return x, multiples

"""Kinds of noise at scale 1: density, distribution function and quantiles, in floats and between fractions."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np

from pate.accounting.special import expit, gauss_legendre, ndtr, ndtri, ndtri_exp, softmax
from pate.mechanisms.noise.uniforms import Array, Bounds, exp_bounds, log_bounds, normal_bounds
from pate.validation import require

Curve = Callable[[Array], Array]

_SMALL = -34.0  # below this, log(1 - exp(-q)) is log q to the last digit
_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class NoiseKind:
    """One kind of noise, at scale 1; the derivative of its quantile function is at most 2 / min(u, 1 - u)."""

    density: Curve
    cdf: Curve
    quantile: Curve  # of floats u in (0, 1); off by at most 2**-46 (1 + |value|) and what the error of u makes
    quantile_of_log: Curve  # from log q, where exp(-q) is the probability below the value
    within: Callable[[Fraction, int], Bounds]  # of one fraction, between fractions at most 3 * 10**-digits apart
    low: float  # the probability below it is lost in double precision, and above `high`
    high: float = 42.0
    kinks: tuple[float, ...] = (0.0,)  # where the density is not smooth
    panel: float = 0.5  # on which quadrature takes the density as a polynomial; infinity where it is one


def _log_above(log_q: Array) -> Array:
    """log(1 - exp(-q)): the logarithm of the probability above the value."""
    with np.errstate(divide="ignore"):
        return np.where(log_q < _SMALL, log_q, np.log(-np.expm1(-np.exp(log_q))))


def _positive(curve: Curve) -> Curve:
    """The curve for x >= 0, and 0 below."""
    return lambda x: np.where(x >= 0, curve(np.maximum(x, 0.0)), 0.0)


def _negative(bounds: Bounds) -> Bounds:
    return -bounds[1], -bounds[0]


def _gumbel_density(x: Array) -> Array:
    exponent = np.minimum(-x, 600.0)
    return np.asarray(np.exp(exponent - np.exp(exponent)))


def _gumbel_within(u: Fraction, digits: int) -> Bounds:
    more = digits + len(str(int(1 / (1 - u)))) + 1  # -log u is at least 1 - u
    low, high = log_bounds(u, more)
    return -log_bounds(-low, digits)[1], -log_bounds(-high, digits)[0]


def _laplace_cdf(x: Array) -> Array:
    tail = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, tail, 1 - tail)


def _laplace_of_log(log_q: Array) -> Array:
    q = np.exp(log_q)
    return np.where(q > math.log(2), math.log(2) - q, -math.log(2) - _log_above(log_q))


def _laplace_within(u: Fraction, digits: int) -> Bounds:
    return log_bounds(2 * u, digits) if u <= _HALF else _negative(log_bounds(2 * (1 - u), digits))


def _normal_of_log(log_q: Array) -> Array:
    with np.errstate(over="ignore"):
        log_below, log_above = -np.exp(log_q), _log_above(log_q)
        return np.asarray(np.where(log_below < log_above, ndtri_exp(log_below), -ndtri_exp(log_above)))


def _normal_within(u: Fraction, digits: int) -> Bounds:
    """By Newton's method from the float, until the normal distribution lies on either side of u."""
    if u > _HALF:
        return _negative(_normal_within(1 - u, digits))
    log_u = math.log(u.numerator) - math.log(u.denominator)
    x, slack, grid = Fraction(float(ndtri_exp(log_u))), Fraction(1, 10**digits), 10 ** (digits + 4)
    while True:
        log_density = -(float(x) ** 2) / 2 - math.log(2 * math.pi) / 2
        accuracy = digits + 4 + math.ceil(-log_density / math.log(10))
        if normal_bounds(x - slack, accuracy)[1] <= u <= normal_bounds(x + slack, accuracy)[0]:
            return x - slack, x + slack
        density = exp_bounds(-x * x / 2, accuracy)[1] / Fraction(math.sqrt(2 * math.pi))
        x = Fraction(round((x - (sum(normal_bounds(x, accuracy)) / 2 - u) / density) * grid), grid)


UNIT_NOISES = {
    "exponential": NoiseKind(
        density=_positive(lambda x: np.exp(-x)),
        cdf=_positive(lambda x: -np.expm1(-x)),
        quantile=lambda u: -np.log1p(-u),
        quantile_of_log=lambda log_q: -_log_above(log_q),
        within=lambda u, digits: _negative(log_bounds(1 - u, digits)),
        low=0.0,
    ),
    "gumbel": NoiseKind(
        density=_gumbel_density,
        cdf=lambda x: np.exp(-np.exp(np.minimum(-x, 600.0))),
        quantile=lambda u: -np.log(-np.log(u)),
        quantile_of_log=np.negative,
        within=_gumbel_within,
        low=-7.0,
    ),
    "half_logistic": NoiseKind(
        density=_positive(lambda x: 2 * expit(x) * expit(-x)),
        cdf=_positive(lambda x: np.tanh(x / 2)),
        quantile=lambda u: np.log((1 + u) / (1 - u)),
        quantile_of_log=lambda log_q: np.log1p(np.exp(-np.exp(log_q))) - _log_above(log_q),
        within=lambda u, digits: log_bounds((1 + u) / (1 - u), digits),
        low=0.0,
    ),
    "laplace": NoiseKind(
        density=lambda x: 0.5 * np.exp(-np.abs(x)),
        cdf=_laplace_cdf,
        quantile=lambda u: np.where(u < 0.5, 1, -1) * np.log(2 * np.minimum(u, 1 - u)),
        quantile_of_log=_laplace_of_log,
        within=_laplace_within,
        low=-42.0,
    ),
    "logistic": NoiseKind(
        density=lambda x: np.asarray(expit(x) * expit(-x)),
        cdf=lambda x: np.asarray(expit(x)),
        quantile=lambda u: np.log(u / (1 - u)),
        quantile_of_log=lambda log_q: -np.exp(log_q) - _log_above(log_q),
        within=lambda u, digits: log_bounds(u / (1 - u), digits),
        low=-42.0,
    ),
}
"""Kinds whose hazard rate is at most 1, so that the survival function falls no faster than exp(-x)."""

KINDS = UNIT_NOISES | {
    "gaussian": NoiseKind(
        density=lambda x: np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi),
        cdf=lambda x: np.asarray(ndtr(x)),
        quantile=lambda u: np.asarray(ndtri(u)),
        quantile_of_log=_normal_of_log,
        within=_normal_within,
        low=-9.5,
        high=9.5,
        kinks=(),
    ),
    "uniform": NoiseKind(
        density=lambda x: np.where(np.abs(x) <= 1, 0.5, 0.0),
        cdf=lambda x: np.clip((x + 1) / 2, 0.0, 1.0),
        quantile=lambda u: 2 * u - 1,
        quantile_of_log=lambda log_q: 2 * np.exp(-np.exp(log_q)) - 1,
        within=lambda u, digits: (2 * u - 1, 2 * u - 1),
        low=-1.0,
        high=1.0,
        kinks=(-1.0, 1.0),
        panel=np.inf,
    ),
}
"""All kinds of noise by name."""


_NODES = 16
_MOST_PANELS = 10_000


def gumbel_argmax(values: Array) -> Array:
    """Gumbel noise of scale 1: the exponential mechanism, p proportional to exp(value). `[..., n]`."""
    return np.asarray(softmax(values, axis=-1))


def exponential_argmax(values: Array) -> Array:
    """Exponential noise of mean 1 (permute-and-flip): p_i = w_i times the integral of prod_{j != i} (1 - w_j z) dz."""
    weights = np.exp(values - values.max(axis=-1, keepdims=True))
    nodes, half = panels(np.array([0.0, 1.0]), 8 / weights.shape[-1])  # for a polynomial of that degree
    return np.asarray(weights * _total(_of_others(1 - weights[..., None, None] * nodes), half))


def gaussian_argmax(values: Array) -> Array:
    """Standard normal noise, by quadrature over the winning value."""
    return np.apply_along_axis(_argmax, -1, values, KINDS["gaussian"])


def laplace_argmax(values: Array) -> Array:
    """Laplace noise of scale 1, by quadrature over the winning value."""
    return np.apply_along_axis(_argmax, -1, values, KINDS["laplace"])


def _argmax(values: Array, noise: NoiseKind) -> Array:
    return largest_distribution(values, np.ones(len(values)), noise)


def ordered_distribution(values: Array, k: int, noise: NoiseKind) -> dict[tuple[int, ...], float]:
    """The distribution of the k largest of `values + noise`, in falling order: for values `[d]`."""
    spread, widest = float(np.ptp(values)), _MOST_PANELS * noise.panel
    require(spread <= widest, "spread", spread, f"values at most {widest:g} noise scales apart, to be integrated")
    density, cdf, half = _on_grid(values, noise, values.min() + noise.low)
    above: dict[tuple[int, ...], Array] = {(): np.ones_like(density[0])}  # P[the prefix is in order, above a point]
    for _ in range(k - 1):
        above = {
            (*prefix, i): _integral_above(density[i] * tail, half)
            for prefix, tail in above.items()
            for i in range(len(values))
            if i not in prefix
        }
    distribution = {}
    for prefix, tail in above.items():
        for i in set(range(len(values))) - set(prefix):
            rest = [j for j in range(len(values)) if j not in prefix and j != i]
            distribution[*prefix, i] = float(_total(density[i] * tail * cdf[rest].prod(axis=0), half))
    return distribution


def largest_distribution(values: Array, sizes: Array, noise: NoiseKind) -> Array:
    """The distribution of the class of the largest; class c has `sizes[c]` members of value `values[c]`: `[n]`."""
    # far below the largest value nothing wins, not even beside values that lie there
    density, cdf, half = _on_grid(values, noise, max(values.min(), values.max() + noise.low) + noise.low)
    powers, sizes = cdf ** sizes[:, None, None], sizes[:, None, None]
    return _total(sizes * density * cdf ** (sizes - 1) * _of_others(powers), half)


def _of_others(factors: Array) -> Array:
    """For each of factors `[..., n, P, 16]` the product of the others."""
    ones = np.ones_like(factors[..., :1, :, :])
    before = np.cumprod(np.concatenate([ones, factors[..., :-1, :, :]], axis=-3), axis=-3)
    after = np.cumprod(np.concatenate([ones, factors[..., :0:-1, :, :]], axis=-3), axis=-3)
    return np.asarray(before * after[..., ::-1, :, :])


def _on_grid(values: Array, noise: NoiseKind, low: float) -> tuple[Array, Array, Array]:
    """Density and distribution function of each value with noise, `[n, P, 16]` each, and half widths of panels.

    The panels go up from `low` and end at the kinks of every value's density.
    """
    kinks = (values[:, None] + np.array(noise.kinks)).ravel()
    corners = np.unique([low, *kinks[kinks > low], values.max() + noise.high])
    points, half = panels(corners, noise.panel)
    shifted = points - values[:, None, None]
    return noise.density(shifted), noise.cdf(shifted), half


def panels(corners: Array, width: float) -> tuple[Array, Array]:
    """Points `[P, 16]` and half widths `[P, 1]` of panels, at most that wide, that end at all corners."""
    counts = [max(1, int(np.ceil((b - a) / width))) for a, b in pairwise(corners)]
    edges = [np.linspace(a, b, n + 1) for (a, b), n in zip(pairwise(corners), counts, strict=True)]
    low = np.concatenate([edge[:-1] for edge in edges])[:, None]
    half = (np.concatenate([edge[1:] for edge in edges])[:, None] - low) / 2
    return low + half * (1 + gauss_legendre(_NODES)[0]), half


def _total(integrand: Array, half: Array) -> Array:
    """Integrals over all panels: `[...]` of `[..., P, 16]`."""
    return np.asarray(((integrand @ gauss_legendre(_NODES)[1]) * half[:, 0]).sum(axis=-1))


def _integral_above(integrand: Array, half: Array) -> Array:
    """The integral from each point to the end of the grid: `[P, 16]`."""
    of_panels = np.asarray(integrand @ gauss_legendre(_NODES)[1]) * half[:, 0]
    later = np.append(np.cumsum(of_panels[::-1])[::-1][1:], 0.0)
    return np.asarray(half * (integrand @ _weights_to_the_end().T) + later[:, None])


@lru_cache
def _weights_to_the_end() -> Array:
    """`[a, b]` weight of node b in the integral from node a to 1 of the interpolating polynomial."""
    from numpy.polynomial import legendre  # loads slowly

    nodes, _ = gauss_legendre(_NODES)
    coefficients = np.linalg.inv(legendre.legvander(nodes, _NODES - 1))
    primitive = legendre.legint(coefficients)
    end, before = np.asarray(legendre.legval([1.0], primitive)), np.asarray(legendre.legval(nodes, primitive))
    return np.asarray((end - before).T)

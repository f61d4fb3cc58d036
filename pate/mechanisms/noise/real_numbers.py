"""Noise in real numbers at scale 1: its kinds, distributions of maxima and orders, and exact draws of these."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key, lru_cache, partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import expit, gauss_legendre, ndtr, ndtri, ndtri_exp, softmax
from pate.mechanisms.noise import uniforms
from pate.mechanisms.noise.uniforms import (
    Array,
    Bits,
    Bounds,
    Integers,
    LazyBitsUniform,
    LazyUniforms,
    Limits,
)
from pate.validation import require

Curve = Callable[[Array], Array]
Window = tuple[int, int]

_SMALL = -34.0  # below this, log(1 - exp(-q)) is log q to the last digit
_HALF = Fraction(1, 2)
_NODES = 16
_MOST_PANELS = 10_000
# over the smaller of u and 1 - u; u is off by 2**-52, the derivative at most 2 / m
_ERROR_OF_UNIFORM = 2.0**-49
_TOO_FAR_OUT = 2.0**-46
_ERROR_OF_LOG = 2.0**-46
# of both terms; far above the rounding error of quotient, quantile and sum
_FEW_OPERATIONS = 2.0**-44
_LARGEST_NOISE = 130.0
_GRID = 2.0**53
_LIMIT_ERROR = 2**10  # far above that of a limit and of a number on the grid
_SMALL_TABLE = 2**14
_AT_ONCE = 2**15  # numbers, so that working copies stay in the cache
# so that sums and errors stay finite; nothing is lost, as noise in floats is far smaller
_LOWEST = -(2.0**1000)


@dataclass(frozen=True)
class NoiseKind:
    """One kind of noise, at scale 1; the derivative of its quantile function is at most 2 / min(u, 1 - u)."""

    density: Curve
    cdf: Curve
    # of floats u in (0, 1); off by at most 2**-46 (1 + |value|) and what the error of u makes
    quantile: Curve
    # from log q, with P[below the value] = exp(-q), and log P[above]
    quantile_of_log: Callable[[Array, Array], Array]
    # of one fraction, between fractions at most 3 * 10**-digits apart
    within: Callable[[Fraction, int], Bounds]
    low: float  # the probability below it is lost in double precision, and above `high`
    high: float = 42.0
    kinks: tuple[float, ...] = (0.0,)  # where the density is not smooth
    # on which quadrature takes the density as a polynomial; infinity where it is one
    panel: float = 0.5


def _positive(curve: Curve) -> Curve:
    return lambda x: np.where(x >= 0, curve(np.maximum(x, 0.0)), 0.0)


def _negative(bounds: Bounds) -> Bounds:
    return -bounds[1], -bounds[0]


def _gumbel_within(u: Fraction, digits: int) -> Bounds:
    more = digits + len(str(int(1 / (1 - u)))) + 1  # -log u is at least 1 - u
    low, high = uniforms.log_bounds(u, more)
    return -uniforms.log_bounds(-low, digits)[1], -uniforms.log_bounds(-high, digits)[0]


def _normal_within(u: Fraction, digits: int) -> Bounds:
    """By Newton's method from the float, until the normal distribution lies on either side of u."""
    if u > _HALF:
        return _negative(_normal_within(1 - u, digits))
    log_u = math.log(u.numerator) - math.log(u.denominator)
    x = Fraction(float(ndtri_exp(log_u)))
    slack = Fraction(1, 10**digits)
    grid = 10 ** (digits + 4)
    while True:
        log_density = -(float(x) ** 2) / 2 - math.log(2 * math.pi) / 2
        accuracy = digits + 4 + math.ceil(-log_density / math.log(10))
        below, at, above = (
            uniforms.normal_bounds(x + step, accuracy) for step in (-slack, 0, slack)
        )
        if below[1] <= u <= above[0]:
            return x - slack, x + slack
        density = uniforms.exp_bounds(-x * x / 2, accuracy)[1] / Fraction(math.sqrt(2 * math.pi))
        x = Fraction(round((x - (sum(at) / 2 - u) / density) * grid), grid)


# kinds whose hazard rate is at most 1, so that the survival function falls no faster than exp(-x)
UNIT_NOISES = {
    "exponential": NoiseKind(
        density=_positive(lambda x: np.exp(-x)),
        cdf=_positive(lambda x: -np.expm1(-x)),
        quantile=lambda u: -np.log1p(-u),
        quantile_of_log=lambda log_q, log_above: -log_above,
        within=lambda u, digits: _negative(uniforms.log_bounds(1 - u, digits)),
        low=0.0,
    ),
    "gumbel": NoiseKind(
        density=lambda x: np.exp(-x - np.exp(-np.maximum(x, -600.0))),
        cdf=lambda x: np.exp(-np.exp(np.minimum(-x, 600.0))),
        quantile=lambda u: -np.log(-np.log(u)),
        quantile_of_log=lambda log_q, log_above: -log_q,
        within=_gumbel_within,
        low=-7.0,
    ),
    "half_logistic": NoiseKind(
        density=_positive(lambda x: 2 * expit(x) * expit(-x)),
        cdf=_positive(lambda x: np.tanh(x / 2)),
        quantile=lambda u: np.log((1 + u) / (1 - u)),
        quantile_of_log=lambda log_q, log_above: np.log1p(np.exp(-np.exp(log_q))) - log_above,
        within=lambda u, digits: uniforms.log_bounds((1 + u) / (1 - u), digits),
        low=0.0,
    ),
    "laplace": NoiseKind(
        density=lambda x: 0.5 * np.exp(-np.abs(x)),
        cdf=lambda x: np.where(
            x < 0, 0.5 * np.exp(np.minimum(x, 0.0)), 1 - 0.5 * np.exp(-np.maximum(x, 0.0))
        ),
        quantile=lambda u: np.where(u < 0.5, 1, -1) * np.log(2 * np.minimum(u, 1 - u)),
        quantile_of_log=lambda log_q, log_above: np.where(
            log_q > math.log(math.log(2)), math.log(2) - np.exp(log_q), -math.log(2) - log_above
        ),
        within=lambda u, digits: (
            uniforms.log_bounds(2 * u, digits)
            if u <= _HALF
            else _negative(uniforms.log_bounds(2 - 2 * u, digits))
        ),
        low=-42.0,
    ),
    "logistic": NoiseKind(
        density=lambda x: np.asarray(expit(x) * expit(-x)),
        cdf=lambda x: np.asarray(expit(x)),
        quantile=lambda u: np.log(u / (1 - u)),
        quantile_of_log=lambda log_q, log_above: -np.exp(log_q) - log_above,
        within=lambda u, digits: uniforms.log_bounds(u / (1 - u), digits),
        low=-42.0,
    ),
}

KINDS = UNIT_NOISES | {
    "gaussian": NoiseKind(
        density=lambda x: np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi),
        cdf=lambda x: np.asarray(ndtr(x)),
        quantile=lambda u: np.asarray(ndtri(u)),
        quantile_of_log=lambda log_q, log_above: np.where(
            -np.exp(log_q) < log_above, ndtri_exp(-np.exp(log_q)), -ndtri_exp(log_above)
        ),
        within=_normal_within,
        low=-9.5,
        high=9.5,
        kinks=(),
    ),
    "uniform": NoiseKind(
        density=lambda x: np.where(np.abs(x) <= 1, 0.5, 0.0),
        cdf=lambda x: np.clip((x + 1) / 2, 0.0, 1.0),
        quantile=lambda u: 2 * u - 1,
        quantile_of_log=lambda log_q, log_above: 2 * np.exp(-np.exp(log_q)) - 1,
        within=lambda u, digits: (2 * u - 1, 2 * u - 1),
        low=-1.0,
        high=1.0,
        kinks=(-1.0, 1.0),
        panel=np.inf,
    ),
}


def gumbel_argmax(values: Array) -> Array:
    """Gumbel noise of scale 1: the exponential mechanism, p proportional to exp(value). `[..., n]`."""
    return np.asarray(softmax(values, axis=-1))


def exponential_argmax(values: Array) -> Array:
    """Exponential noise of mean 1 (permute-and-flip): p_i = w_i times the integral of prod_{j != i} (1 - w_j z) dz."""
    weights = np.exp(values - values.max(axis=-1, keepdims=True))
    # for a polynomial of that degree
    nodes, half = panels(np.array([0.0, 1.0]), 8 / weights.shape[-1])
    return np.asarray(weights * _total(_of_others(1 - weights[..., None, None] * nodes), half))


def _argmax(noise: NoiseKind, values: Array) -> Array:
    return np.apply_along_axis(
        lambda row: largest_distribution(row, np.ones(len(row)), noise), -1, values
    )


# standard normal noise, by quadrature over the winning value
gaussian_argmax = partial(_argmax, KINDS["gaussian"])
laplace_argmax = partial(_argmax, KINDS["laplace"])


def ordered_distribution(values: Array, k: int, noise: NoiseKind) -> dict[tuple[int, ...], float]:
    """The distribution of the k largest of `values + noise`, in falling order: for values `[d]`."""
    spread = float(np.ptp(values))
    widest = _MOST_PANELS * noise.panel
    require(
        spread <= widest,
        "spread",
        spread,
        f"values at most {widest:g} noise scales apart, to be integrated",
    )
    density, cdf, half = _on_grid(values, noise, values.min() + noise.low)
    # P[the prefix is in order, above a point]
    above: dict[tuple[int, ...], Array] = {(): np.ones_like(density[0])}
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
            distribution[*prefix, i] = float(
                _total(density[i] * tail * cdf[rest].prod(axis=0), half)
            )
    return distribution


def largest_distribution(values: Array, sizes: Array, noise: NoiseKind) -> Array:
    """The distribution of the class of the largest; class c has `sizes[c]` members of value `values[c]`: `[n]`."""
    # far below the largest value nothing wins, not even beside values that lie there
    density, cdf, half = _on_grid(
        values, noise, max(values.min(), values.max() + noise.low) + noise.low
    )
    powers = cdf ** sizes[:, None, None]
    sizes = sizes[:, None, None]
    return _total(sizes * density * cdf ** (sizes - 1) * _of_others(powers), half)


def _of_others(factors: Array) -> Array:
    """For each of factors `[..., n, P, 16]` the product of the others."""
    ones = np.ones_like(factors[..., :1, :, :])
    before = np.cumprod(np.concatenate([ones, factors[..., :-1, :, :]], axis=-3), axis=-3)
    after = np.cumprod(np.concatenate([ones, factors[..., :0:-1, :, :]], axis=-3), axis=-3)
    return np.asarray(before * after[..., ::-1, :, :])


def _on_grid(values: Array, noise: NoiseKind, low: float) -> tuple[Array, Array, Array]:
    """Density and distribution function of each value with noise, `[n, P, 16]`; half widths of panels from `low` up."""
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
    return np.asarray(half * (integrand @ _weights_to_the_end()) + later[:, None])


@lru_cache
def _weights_to_the_end() -> Array:
    """`[b, a]` weight of node b in the integral from node a to 1 of the interpolating polynomial."""
    from numpy.polynomial import legendre  # loads slowly

    nodes, _ = gauss_legendre(_NODES)
    primitive = legendre.legint(np.linalg.inv(legendre.legvander(nodes, _NODES - 1)))
    return np.asarray(
        np.asarray(legendre.legval([1.0], primitive))
        - np.asarray(legendre.legval(nodes, primitive))
    )


@dataclass(frozen=True)
class Number:
    """A real number between bounds, infinite where nothing is known, that more bits narrow as far as it takes."""

    bounds: Callable[[], Limits]
    more: Sequence[Callable[[], None]]  # of the bits of each uniform number in it


def _value(uniform: LazyBitsUniform, within: Callable[[Fraction, int], Bounds]) -> Number:
    """A rising function of a uniform number."""

    def bounds() -> Limits:
        low, high = uniform.bounds()
        least = within(low, uniform.digits)[0] if low > 0 else -math.inf
        return least, within(high, uniform.digits)[1] if high < 1 else math.inf

    return Number(bounds, (uniform.extend,))


def _combined(numbers: Sequence[Number], join: Callable[[list[Limits]], Limits]) -> Number:
    more = [extend for number in numbers for extend in number.more]
    return Number(lambda: join([number.bounds() for number in numbers]), more)


def _sum(constant: Fraction, terms: Sequence[tuple[Fraction | int, Number]]) -> Number:
    """A number known exactly plus multiples, by factors > 0 or < 0, of others."""

    def join(bounds: list[Limits]) -> Limits:
        ends = [
            sorted(factor * end for end in pair)
            for (factor, _), pair in zip(terms, bounds, strict=True)
        ]
        return sum((low for low, _ in ends), constant), sum((high for _, high in ends), constant)

    return _combined([number for _, number in terms], join)


@dataclass(frozen=True)
class DrawnNoise:
    """Values of noise."""

    values: Array  # [Q, n]
    error: float  # how far a value can lie from the exact one; infinite where nothing is sure
    exact: Callable[..., Number]  # the exact value at a row and a place

    def summed(self) -> Self:
        """The sum of each row: `[Q, 1]`, of values >= 0."""
        count = self.values.shape[1]
        exact = self.exact
        sums = self.values.sum(axis=1, keepdims=True)
        error = count * (self.error + 2 * _ERROR_OF_LOG * (1 + float(self.values.max())))
        return type(self)(
            sums,
            error,
            lambda row, _: _sum(Fraction(0), [(1, exact(row, one)) for one in range(count)]),
        )

    def times(self, factor: Self) -> Self:
        """Each value times the one value, `[Q, 1]`, that its row has of another."""
        one, other = (float(np.abs(noise.values).max()) for noise in (self, factor))
        error = (
            self.error * (other + factor.error) + factor.error * one + _ERROR_OF_LOG * (one * other)
        )

        def product(bounds: list[Limits]) -> Limits:
            if any(isinstance(end, float) for pair in bounds for end in pair):  # infinite
                return -math.inf, math.inf
            products = [a * b for a in bounds[0] for b in bounds[1]]
            return min(products), max(products)

        def exact(row: int, place: int) -> Number:
            return _combined([self.exact(row, place), factor.exact(row, 0)], product)

        return type(self)(self.values * factor.values, error, exact)

    def with_last(self, other: Self, last: Integers) -> Self:
        """The same with the value of another, `[Q, 1]`, at the place `last` of each row."""
        values = self.values.copy()
        np.put_along_axis(values, last[:, None], other.values, axis=1)

        def exact(row: int, place: int) -> Number:
            return other.exact(row, 0) if place == last[row] else self.exact(row, place)

        return type(self)(values, max(self.error, other.error), exact)


def draw_noise(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> DrawnNoise:
    """Independent values of a kind of noise of `KINDS`, at scale 1."""
    of_kind = KINDS[kind]
    drawn = LazyUniforms.draw(shape, rng)

    def exact(row: int, place: int) -> Number:
        return _value(drawn.at(row, place if shape[1] > 1 else 0), of_kind.within)

    u = drawn.approximate()
    return DrawnNoise(of_kind.quantile(u), _quantile_error(u), exact)


def draw_largest(
    kind: str,
    log_sizes: Array,
    size: Callable[..., int],
    rng: np.random.Generator,
    error: float = 0.0,
) -> DrawnNoise:
    """The largest of N independent values each, for N far beyond a float: `size` at a place, logs off by `error`."""
    drawn = LazyUniforms.draw(log_sizes.shape, rng)
    u = drawn.approximate()
    log_q = np.log(-np.log(u)) - log_sizes
    with np.errstate(divide="ignore", over="ignore"):
        log_above = np.where(log_q < _SMALL, log_q, np.log(-np.expm1(-np.exp(log_q))))
        values = KINDS[kind].quantile_of_log(log_q, log_above)
    of_logs = error + _ERROR_OF_LOG * (1 + float(np.abs(log_sizes).max()))
    of_values = (_quantile_error(u) + of_logs) * (1 + float(np.abs(values).max()))

    def within(number: int, u: Fraction, digits: int) -> Bounds:
        # the value below which so many lie with probability u: the quantile of u**(1 / number)
        if number > 1:
            spare = (
                digits + 4 + sum(len(str(int(inverse))) for inverse in (number, 1 / u, 1 / (1 - u)))
            )
            low, high = (
                uniforms.exp_bounds(log / number, spare) for log in uniforms.log_bounds(u, spare)
            )
            return KINDS[kind].within(low[0], digits)[0], KINDS[kind].within(high[1], digits)[1]
        return KINDS[kind].within(u, digits)

    return DrawnNoise(
        values, of_values, lambda *place: _value(drawn.at(*place), partial(within, size(*place)))
    )


def _quantile_error(u: Array) -> float:
    near = min(float(u.min()), 1 - float(u.max()))
    return math.inf if near < _TOO_FAR_OUT else _ERROR_OF_UNIFORM / near


@dataclass(frozen=True, eq=False)
class Values:
    """What noise is added to, in units of the noise."""

    floats: Array  # [Q, n], off by at most 2**-46 (1 + |value|)
    exact: Callable[[int, int], Fraction]  # of a row and a place

    @classmethod
    def scaled(cls, numbers: NDArray[Any], scale: float | Array) -> Self:
        """(number - largest) / scale for whole numbers up to 2**53, or floats whose differences are exact: `[Q, n]`."""
        below = np.asarray(numbers - numbers.max(axis=1, keepdims=True))
        divisors = np.broadcast_to(scale, (len(below), 1))

        def exact(row: int, place: int) -> Fraction:
            return Fraction(below[row, place].item()) / Fraction(divisors[row, 0].item())

        with np.errstate(over="ignore"):
            return cls(np.maximum(below / divisors, _LOWEST), exact)


# places and their sums, the largest first
def _compared(one: tuple[int, Number], other: tuple[int, Number]) -> int:
    (_, first) = one
    (_, second) = other
    return 1 if uniforms.is_below(first.bounds, second.bounds, *first.more, *second.more) else -1


def largest_noisy(values: Values, noise: DrawnNoise, k: int, part: Bits | None = None) -> Integers:
    """The places of the k largest of value + noise, the largest first: `[Q, k]`; outside of `part`, `[Q, n]`, last."""
    noisy = values.floats + noise.values
    if part is not None:
        noisy[~part] = -np.inf
    order: Integers
    if k == 1:
        order = noisy.argmax(axis=1)[:, None]
        best = np.take_along_axis(noisy, order, axis=1)
        apart = (noisy >= best - 3 * _error_of(best, noise.error)).sum(axis=1) == 1
    else:
        order = np.indices(noisy.shape)[1]
        if k + 1 < noisy.shape[1]:
            order = np.argpartition(noisy, -(k + 1), axis=1)[:, -(k + 1) :]
        order = np.take_along_axis(
            order, np.argsort(-np.take_along_axis(noisy, order, axis=1), axis=1), axis=1
        )
        ranked = np.take_along_axis(noisy, order, axis=1)
        with np.errstate(invalid="ignore"):  # infinity beside infinity: neither competes
            errors = _error_of(ranked, noise.error)
            far = (ranked[:, :-1] - errors[:, :-1] > ranked[:, 1:] + errors[:, 1:]) | np.isneginf(
                ranked[:, 1:]
            )
        order = order[:, :k]
        apart = far.all(axis=1)
    for row in np.flatnonzero(~apart).tolist():
        # those that compete, and of them what can be among the k
        places = np.flatnonzero(np.isfinite(noisy[row]))
        errors = _error_of(noisy[row, places], noise.error)
        lower = noisy[row, places] - errors
        upper = noisy[row, places] + errors
        if k < len(places):
            places = places[upper >= np.partition(lower, len(lower) - k)[len(lower) - k]]
        sums = [
            (at, _sum(values.exact(row, at), ((1, noise.exact(row, at)),)))
            for at in places.tolist()
        ]
        order[row] = [
            *(at for at, _ in sorted(sums, key=cmp_to_key(_compared))),
            *np.flatnonzero(np.isneginf(noisy[row])),
        ][:k]
    return order


def _error_of(noisy: Array, of_noise: float) -> Array:
    """How far a sum can lie from the exact one; noisy + error rises with noisy, and so does noisy - error."""
    # A value is at most |noisy| + |noise| in size, and noise in floats below 64 or, where it is larger, has that in its
    # own error.
    return np.asarray(_FEW_OPERATIONS * (_LARGEST_NOISE + np.abs(noisy)) + of_noise)


def are_normally_above(
    numbers: NDArray[Any],
    threshold: float,
    std: float,
    rng: np.random.Generator,
    *,
    within: Window | None = None,
) -> Bits:
    """Whether number + N(0, std**2) >= threshold, elementwise and exactly: `[Q, n]`; of counts >= 0 put `within`."""
    if within is None:
        return are_above(numbers, threshold, [(draw_noise("gaussian", numbers.shape, rng), std)])
    # is a uniform number at least the probability to stay below, which comes from a table?
    drawn = LazyUniforms.draw(numbers.shape, rng)
    above = np.empty(numbers.shape, dtype=np.bool_)
    limits = (
        _limits(threshold, std, *within) if within[1] < max(numbers.size, _SMALL_TABLE) else None
    )
    at_once = max(1, _AT_ONCE // numbers.shape[1])
    for start in range(0, len(numbers), at_once):
        rows = slice(start, start + at_once)
        excess = drawn[rows].grid()
        if limits is None:
            excess -= _below(np.clip(numbers[rows], *within), threshold, std)
        else:
            excess -= limits.take(numbers[rows], mode="clip")
        np.greater_equal(excess, 0, out=above[rows])
        if np.abs(excess, out=excess).min() > _LIMIT_ERROR:
            continue
        for offset, place in np.argwhere(excess <= _LIMIT_ERROR).tolist():
            row = start + offset
            noise = _value(drawn.at(row, place), KINDS["gaussian"].within)
            count = min(max(numbers[row, place].item(), within[0]), within[1])
            above[row, place] = _is_above(count, threshold, [(Fraction(std), noise)])
    return above


@lru_cache(maxsize=8)
def _limits(threshold: float, std: float, least: int, most: int) -> Integers:
    return _below(np.maximum(np.arange(most + 1), least), threshold, std)


def _below(counts: Integers, threshold: float, std: float) -> Integers:
    """2**53 P[count + N(0, std**2) < threshold], off by less than 2**6."""
    with np.errstate(over="ignore"):
        return np.asarray(ndtr((threshold - counts) / std) * _GRID).astype(np.int64)


def are_above(
    numbers: NDArray[Any], threshold: float, terms: Sequence[tuple[DrawnNoise, float]]
) -> Bits:
    """Whether number + the sum of noise `[Q, n]` or `[Q, 1]`, each times a scale, is at least threshold: `[Q, n]`."""
    excess = numbers - threshold
    error = _FEW_OPERATIONS * (np.abs(numbers) + abs(threshold))
    for noise, scale in terms:
        excess = excess + scale * noise.values
        error = error + abs(scale) * (noise.error + _FEW_OPERATIONS * _LARGEST_NOISE)
    above = excess >= 0
    for row, place in np.argwhere(np.abs(excess) <= error).tolist():
        exact = [(Fraction(scale), noise.exact(row, place)) for noise, scale in terms]
        above[row, place] = _is_above(numbers[row, place].item(), threshold, exact)
    return np.asarray(above)


def _is_above(number: float, threshold: float, terms: Sequence[tuple[Fraction, Number]]) -> bool:
    excess = _sum(Fraction(number) - Fraction(threshold), terms)
    return not uniforms.is_below(excess.bounds, lambda: (0, 0), *excess.more)

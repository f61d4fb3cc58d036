"""Kinds of continuous noise at scale 1: density, distribution and quantile function, and enclosures of quantiles."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pate.accounting.special import expit, ndtr, ndtri, ndtri_exp
from pate.array_types import FloatArray
from pate.mechanisms.noise.enclosures import Bounds, exp_bounds, log_bounds, normal_bounds

# A function of each number of an array.
Curve = Callable[[FloatArray], FloatArray]
# The probability of the median. Quantiles above the median are computed from those below it.
_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class NoiseKind:
    """A kind of noise at scale 1, whose quantile function has a derivative of at most 2 / min(u, 1 - u).

    Attributes:
        density: returns the density at each number.
        cdf: returns the distribution function at each number.
        quantile: returns the quantile of each float u in (0, 1). Its error is at most 2**-46 (1 + |value|), besides the
            error that comes from an error of u.
        quantile_of_logs: returns the same quantile from two arguments that are accurate at both ends: log(-log u) and
            log(1 - u).
        enclose_quantile: returns fractions below and above the quantile of a fraction u, for a number of decimal
            digits; they are at most 3 units of the last digit apart.
        negligible_below: the number below which the noise has a negligible probability in double precision.
        negligible_above: the number above which the noise has a negligible probability in double precision.
        kinks: the numbers at which panels of a quadrature end. The density is smooth everywhere else.
        panel_width: the largest width of a panel, on which quadrature approximates the density by a polynomial;
            infinity if the density is a polynomial between its kinks. A panel then reaches from kink to kink, or a part
            of that way if more than 32 noisy values are compared.
    """

    density: Curve
    cdf: Curve
    quantile: Curve
    quantile_of_logs: Callable[[FloatArray, FloatArray], FloatArray]
    enclose_quantile: Callable[[Fraction, int], Bounds]
    negligible_below: float
    negligible_above: float = 42.0
    kinks: tuple[float, ...] = (0.0,)
    panel_width: float = 0.5


def _zero_if_negative(curve: Curve) -> Curve:
    """Returns the function that is equal to `curve` for numbers >= 0, and 0 for negative numbers."""
    return lambda x: np.where(x >= 0, curve(np.maximum(x, 0.0)), 0.0)


def _negated(bounds: Bounds) -> Bounds:
    """Returns bounds of -x from bounds of x."""
    return -bounds[1], -bounds[0]


def _enclose_gumbel_quantile(u: Fraction, decimal_digits: int) -> Bounds:
    """Returns fractions below and above the Gumbel quantile -log(-log u)."""
    # -log u is at least 1 - u, so these digits are enough for the outer logarithm.
    num_digits = decimal_digits + len(str(int(1 / (1 - u)))) + 1
    low, high = log_bounds(u, decimal_digits=num_digits)
    _, high_of_log = log_bounds(-low, decimal_digits=decimal_digits)
    low_of_log, _ = log_bounds(-high, decimal_digits=decimal_digits)
    return -high_of_log, -low_of_log


def _enclose_normal_quantile(u: Fraction, decimal_digits: int) -> Bounds:
    """Returns fractions below and above the normal quantile of u, by Newton's method."""
    if u > _HALF:
        return _negated(_enclose_normal_quantile(1 - u, decimal_digits))
    log_u = math.log(u.numerator) - math.log(u.denominator)
    x = Fraction(float(ndtri_exp(log_u)))
    half_width = Fraction(1, 10**decimal_digits)
    # Steps are rounded to a grid, so that fractions stay short.
    steps_per_unit = 10 ** (decimal_digits + 4)
    while True:
        log_density = -(float(x) ** 2) / 2 - math.log(2 * math.pi) / 2
        num_digits = decimal_digits + 4 + math.ceil(-log_density / math.log(10))
        cdf_below = normal_bounds(x - half_width, decimal_digits=num_digits)
        cdf_above = normal_bounds(x + half_width, decimal_digits=num_digits)
        if cdf_below[1] <= u <= cdf_above[0]:
            return x - half_width, x + half_width
        cdf = sum(normal_bounds(x, decimal_digits=num_digits)) / 2
        _, high_of_exp = exp_bounds(-x * x / 2, decimal_digits=num_digits)
        density = high_of_exp / Fraction(math.sqrt(2 * math.pi))
        x = Fraction(round((x - (cdf - u) / density) * steps_per_unit), steps_per_unit)


# Kinds whose hazard rate is at most 1, so that the survival function falls no faster than exp(-x).
UNIT_NOISES = {
    "exponential": NoiseKind(
        density=_zero_if_negative(curve=lambda x: np.exp(-x)),
        cdf=_zero_if_negative(curve=lambda x: -np.expm1(-x)),
        quantile=lambda u: -np.log1p(-u),
        quantile_of_logs=lambda log_neg_log_u, log_above: -log_above,
        enclose_quantile=lambda u, decimal_digits: _negated(
            log_bounds(1 - u, decimal_digits=decimal_digits)
        ),
        negligible_below=0.0,
    ),
    "gumbel": NoiseKind(
        density=lambda x: np.exp(-x - np.exp(-np.maximum(x, -600.0))),
        cdf=lambda x: np.exp(-np.exp(np.minimum(-x, 600.0))),
        quantile=lambda u: -np.log(-np.log(u)),
        quantile_of_logs=lambda log_neg_log_u, log_above: -log_neg_log_u,
        enclose_quantile=_enclose_gumbel_quantile,
        negligible_below=-7.0,
    ),
    "half_logistic": NoiseKind(
        density=_zero_if_negative(curve=lambda x: 2 * expit(x) * expit(-x)),
        cdf=_zero_if_negative(curve=lambda x: np.tanh(x / 2)),
        quantile=lambda u: np.log((1 + u) / (1 - u)),
        quantile_of_logs=lambda log_neg_log_u, log_above: (
            np.log1p(np.exp(-np.exp(log_neg_log_u))) - log_above
        ),
        enclose_quantile=lambda u, decimal_digits: log_bounds(
            (1 + u) / (1 - u), decimal_digits=decimal_digits
        ),
        negligible_below=0.0,
    ),
    "laplace": NoiseKind(
        density=lambda x: 0.5 * np.exp(-np.abs(x)),
        cdf=lambda x: np.where(
            x < 0, 0.5 * np.exp(np.minimum(x, 0.0)), 1 - 0.5 * np.exp(-np.maximum(x, 0.0))
        ),
        quantile=lambda u: np.where(u < 0.5, 1, -1) * np.log(2 * np.minimum(u, 1 - u)),
        quantile_of_logs=lambda log_neg_log_u, log_above: np.where(
            log_neg_log_u > math.log(math.log(2)),
            math.log(2) - np.exp(log_neg_log_u),
            -math.log(2) - log_above,
        ),
        enclose_quantile=lambda u, decimal_digits: (
            log_bounds(2 * u, decimal_digits=decimal_digits)
            if u <= _HALF
            else _negated(log_bounds(2 - 2 * u, decimal_digits=decimal_digits))
        ),
        negligible_below=-42.0,
    ),
    "logistic": NoiseKind(
        density=lambda x: np.asarray(expit(x) * expit(-x)),
        cdf=lambda x: np.asarray(expit(x)),
        quantile=lambda u: np.log(u / (1 - u)),
        quantile_of_logs=lambda log_neg_log_u, log_above: -np.exp(log_neg_log_u) - log_above,
        enclose_quantile=lambda u, decimal_digits: log_bounds(
            u / (1 - u), decimal_digits=decimal_digits
        ),
        negligible_below=-42.0,
    ),
}
# All kinds, by the names that mechanisms have for them.
KINDS = UNIT_NOISES | {
    "gaussian": NoiseKind(
        density=lambda x: np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi),
        cdf=lambda x: np.asarray(ndtr(x)),
        quantile=lambda u: np.asarray(ndtri(u)),
        quantile_of_logs=lambda log_neg_log_u, log_above: np.where(
            -np.exp(log_neg_log_u) < log_above,
            ndtri_exp(-np.exp(log_neg_log_u)),
            -ndtri_exp(log_above),
        ),
        enclose_quantile=_enclose_normal_quantile,
        negligible_below=-9.5,
        negligible_above=9.5,
        kinks=(),
    ),
    "uniform": NoiseKind(
        density=lambda x: np.where(np.abs(x) <= 1, 0.5, 0.0),
        cdf=lambda x: np.clip((x + 1) / 2, 0.0, 1.0),
        quantile=lambda u: 2 * u - 1,
        quantile_of_logs=lambda log_neg_log_u, log_above: 2 * np.exp(-np.exp(log_neg_log_u)) - 1,
        enclose_quantile=lambda u, decimal_digits: (2 * u - 1, 2 * u - 1),
        negligible_below=-1.0,
        negligible_above=1.0,
        kinks=(-1.0, 1.0),
        panel_width=np.inf,
    ),
}

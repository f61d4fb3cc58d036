"""Upper bounds on second derivatives of a winner's law over ranges of places, pairs (low, high) of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import ndtr
from pate.accounting.winner.law import density

Array = NDArray[np.float64]
Range = tuple[Array, Array]


def bend_of_mass(own: Range, other: Range, difference: Range, total: Range) -> Array:
    """Of P(X > max(0, Y)): the sum of both second derivatives' absolute values, `own` the place of X.

    The derivative in the place of X is φ(a) Φ(-b) + φ(d) Φ(t) / √2, in that of Y it is -φ(d) Φ(t) / √2, with
    d = (a - b) / √2 and t = (a + b) / √2.
    """
    crossed = (_slope(difference) * ndtr(total[1]) + _density(difference) * _density(total)) / 2
    return np.asarray(_slope(own) * ndtr(-other[0]) + 2 * crossed)


def bend_of_change(own: Range, other: Range, difference: Range, total: Range) -> Array:
    """Of the derivative of P(X > max(0, Y)) as a falls and b rises, downwards: the sum of both second derivatives.

    The derivative is φ(a) Φ(-b) + √2 φ(d) Φ(t); its second derivatives are, in a, φ''(a) Φ(-b) and, in b,
    φ(a) b φ(b), and of the other term (φ'' Φ ± 2 φ' φ + φ φ') / √2.
    """
    bulge = _bulge(difference) * ndtr(total[1]) + 2 * _slope(difference) * _density(total)
    crossed = (bulge + _density(difference) * _rise(total)) / 2**0.5
    alone = _bulge(own) * ndtr(-other[0]) + _density(own) * _rise((-other[1], -other[0]))
    return np.asarray(alone + 2 * crossed)


def bend_of_rest(own: Range, other: Range) -> Array:
    """Of the derivative of P(X < 0 and Y < 0), -φ(a) Φ(-b) + Φ(-a) φ(b), as a falls and b rises, downwards.

    With both places exchanged it is minus that derivative.
    """
    falling = _dip(own) * ndtr(-other[0]) + _density(own) * _rise(other)
    rising = _rise((-own[1], -own[0])) * _density(other) + ndtr(-own[0]) * _bulge(other)
    return np.asarray(falling + rising)


def _nearest(places: Range) -> Array:
    """The place nearest to 0."""
    return np.asarray(np.clip(0.0, places[0], places[1]), dtype=np.float64)


def _density(places: Range) -> Array:
    """The largest φ."""
    return np.asarray(density(_nearest(places)))


def _slope(places: Range) -> Array:
    """The largest |φ'| = |x| φ(x), which rises up to 1 and then falls."""
    ends = np.maximum(*(_of_size(np.abs(x)) for x in places))
    top = _holds(places, 1.0) | _holds(places, -1.0)
    return np.maximum(ends, np.where(top, _of_size(np.ones(1)), 0.0))


def _rise(places: Range) -> Array:
    """The largest x φ(x), at least 0."""
    ends = np.maximum(*(x * density(x) for x in places))
    return np.maximum(ends, np.where(_holds(places, 1.0), _of_size(np.ones(1)), 0.0))


def _bulge(places: Range) -> Array:
    """The largest -φ''(x) = (1 - x²) φ(x), at least 0: at the place nearest to 0 where that is within 1."""
    x = _nearest(places)
    return np.maximum((1 - x * x) * density(x), 0.0)


def _dip(places: Range) -> Array:
    """The largest φ''(x) = (x² - 1) φ(x), at least 0; it is largest at ±√3."""
    ends = np.maximum(*((x * x - 1) * density(x) for x in places))
    top = _holds(places, 3**0.5) | _holds(places, -(3**0.5))
    return np.maximum(np.maximum(ends, 0.0), np.where(top, 2 * density(np.sqrt([3.0])), 0.0))


def _of_size(x: Array) -> Array:
    return np.asarray(x * density(x))


def _holds(places: Range, x: float) -> NDArray[np.bool_]:
    return np.asarray((places[0] <= x) & (x <= places[1]))

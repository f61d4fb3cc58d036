"""The divergences between gap selection on the votes at hand and on any of their neighbors."""

from __future__ import annotations

import math

import numpy as np

from pate import validation
from pate.accounting.events import BoundedRangeEvent
from pate.accounting.rdp import order_array
from pate.accounting.renyi import bounded_range_rdp
from pate.accounting.special import Array
from pate.validation import require

_LARGEST_EXPONENT = 600.0
# a smaller one is rounded up; times exp(_LARGEST_EXPONENT) it is still nothing
_SMALLEST_MASS = 1e-300
_CANCELS_BELOW = 1e-6


def top_log_odds(utilities: Array) -> Array:
    """Log odds of the likeliest candidate of the exponential mechanism: `[Q]` from utilities `[Q, n]`."""
    values = np.array(utilities, dtype=np.float64)
    require(
        values.ndim == 2 and values.shape[1] >= 2,
        "utilities.shape",
        values.shape,
        "[num_queries, at least 2]",
    )
    validation.require_entries("utilities", np.isfinite(values), "finite numbers")
    rows = np.arange(len(values))
    best = values.argmax(axis=1)
    largest = values[rows, best]
    values[rows, best] = -np.inf
    return np.asarray(largest - np.logaddexp.reduce(values, axis=1))


def gap_selection_rdp(
    log_odds: Array, *, event: BoundedRangeEvent, orders: object
) -> tuple[Array, Array]:
    """The suprema of D_a(P || P') and of D_a(P' || P) over all neighbors P' of a distribution P: `[Q, A]` each."""
    # All that is known of P is its largest probability. At most the data-independent price, which it is where no
    # candidate has more than half.
    array = order_array(orders)
    epsilon = event.epsilon
    # of the others, <= log(1/2)
    log_rest = -np.logaddexp(0.0, np.maximum(np.asarray(log_odds, dtype=np.float64), 0.0))
    ceiling = bounded_range_rdp(epsilon, array)
    if epsilon < _CANCELS_BELOW or math.isinf(epsilon):
        return np.tile(ceiling, (len(log_rest), 1)), np.tile(ceiling, (len(log_rest), 1))
    # The worst change makes a mass of at most exp(log_rest) likelier; the forward one less likely from order 2 on.
    forward = np.empty((len(log_rest), len(array)))
    for shift, some in ((epsilon, array < 2), (-epsilon, array >= 2)):
        a = array[some]
        power = np.expm1(np.minimum((1 - array[some]) * shift, _LARGEST_EXPONENT))
        peak = -((a - 1) / power + 1 / math.expm1(shift)) / a  # where the mass is free
        forward[:, some] = _moment(log_rest, shift, a - 1, (1 - a) * shift, np.maximum(peak, 0.0))
    power = np.expm1(np.minimum(array * epsilon, _LARGEST_EXPONENT))
    peak = np.maximum((1 / math.expm1(epsilon) - array / power) / (array - 1), 0.0)
    backward = _moment(log_rest, epsilon, -array, array * epsilon, peak)
    share = 1 / (array - 1)
    return np.clip(forward * share, 0.0, ceiling), np.clip(backward * share, 0.0, ceiling)


def _moment(log_rest: Array, shift: float, power: Array, exponent: Array, peak: Array) -> Array:
    """Power times log(1 + t expm1(shift)), plus log(1 + t expm1(exponent)): `[Q, A]`."""
    # [Q, 1]
    rest = np.maximum(np.exp(log_rest), _SMALLEST_MASS)[:, None]
    factor = math.expm1(shift)
    capped = (np.minimum if shift > 0 else np.maximum)(
        np.log1p(rest * factor), np.log1p(peak * factor)
    ) * power
    near = np.abs(exponent) < _LARGEST_EXPONENT
    mass = np.minimum(rest, peak)
    capped[:, near] += np.log1p(mass[:, near] * np.expm1(exponent[near]))
    with np.errstate(divide="ignore"):
        log_mass = np.minimum(log_rest[:, None], np.log(peak[~near]))
    capped[:, ~near] += np.logaddexp(log_mass + exponent[~near], np.log1p(-mass[:, ~near]))
    return np.asarray(capped)

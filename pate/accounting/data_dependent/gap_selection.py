"""The data-dependent cost of gap selection with Gumbel noise, in closed form (docs/proofs/data_dependent.md)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from pate.accounting.data_dependent.cost import DataDependentCost, order_array
from pate.accounting.events import BoundedRangeEvent
from pate.accounting.renyi import bounded_range_rdp
from pate.validation import require

Array = NDArray[np.float64]

_LARGEST_EXPONENT = 700.0
_CANCELS_BELOW = 1e-6


def gap_selection_cost(utilities: Array, *, event: BoundedRangeEvent, orders: object) -> DataDependentCost:
    """The realised cost of gap selection on all queries asked, answered and refused alike.

    Args:
        utilities: `[Q, n]` what competed: (gap + regularizer) / noise scale.
        event: the price of one query, whose epsilon is the range of a change of the utilities.
        orders: `[A]` orders > 1.
    """
    array = order_array(orders)
    odds, counts = np.unique(top_log_odds(utilities), return_counts=True)
    forward, backward = gap_selection_rdp(odds, event=event, orders=array)
    return DataDependentCost(array, counts.astype(np.float64) @ np.maximum(forward, backward))


def top_log_odds(utilities: Array) -> Array:
    """Log odds of the likeliest candidate of the exponential mechanism: `[Q]` from utilities `[Q, n]`.

    Between neighbours they move by at most the range of the mechanism's event.
    """
    values = np.asarray(utilities, dtype=np.float64)
    require(values.ndim == 2 and values.shape[1] >= 2, "utilities.shape", values.shape, "[num_queries, at least 2]")
    require(bool(np.isfinite(values).all()), "utilities", "…", "finite numbers")
    falling = -np.sort(-values, axis=1)
    return np.asarray(falling[:, 0] - logsumexp(falling[:, 1:], axis=1))


def gap_selection_rdp(log_odds: Array, *, event: BoundedRangeEvent, orders: object) -> tuple[Array, Array]:
    """The suprema of D_a(P || P') and of D_a(P' || P) over all neighbours P' of a law P: `[Q, A]` each.

    All that is known of P is its largest probability. Never above the data-independent price, and equal to it where no
    candidate has more than half.

    Args:
        log_odds: `[Q]` log odds of the likeliest candidate of each P.
        event: bounds the range of log(P / P').
        orders: `[A]` orders > 1.
    """
    a, e = order_array(orders), event.epsilon
    ceiling = bounded_range_rdp(e, a)
    rest = np.minimum(expit(-np.asarray(log_odds, dtype=np.float64)), 0.5)[:, None]  # [Q, 1]
    if e < _CANCELS_BELOW or math.isinf(e):
        return np.broadcast_to(ceiling, (len(rest), len(a))).copy(), np.broadcast_to(
            ceiling, (len(rest), len(a))
        ).copy()
    forward, backward = (
        np.maximum(moment(rest, e, a), moment(rest, -e, a)) / (a - 1) for moment in (_forward_moment, _backward_moment)
    )
    return np.clip(forward, 0.0, ceiling), np.clip(backward, 0.0, ceiling)


def _forward_moment(rest: Array, shift: float, a: Array) -> Array:
    """The largest log E_P[(P / P')^(a-1)] where a mass of at most `rest` is multiplied by exp(shift)."""
    best = -((a - 1) / _expm1(-(a - 1) * shift) + 1 / math.expm1(shift)) / a  # [A] the stationary point
    mass = np.minimum(rest, np.maximum(best, 0.0))
    return (a - 1) * _log_mixture(mass, np.array(shift)) + _log_mixture(mass, -(a - 1) * shift)


def _backward_moment(rest: Array, shift: float, a: Array) -> Array:
    """The largest log E_P[(P' / P)^a] where a mass of at most `rest` is multiplied by exp(shift)."""
    best = (1 / math.expm1(shift) - a / _expm1(a * shift)) / (a - 1)
    mass = np.minimum(rest, np.maximum(best, 0.0))
    return _log_mixture(mass, a * shift) - a * _log_mixture(mass, np.array(shift))


def _expm1(x: Array) -> Array:
    return np.expm1(np.minimum(x, _LARGEST_EXPONENT))


def _log_mixture(mass: Array, exponent: Array) -> Array:
    """log(1 - mass + mass e**exponent) for masses up to 1/2, exact for tiny masses and large exponents."""
    near = np.log1p(mass * np.expm1(np.minimum(exponent, 1.0)))
    with np.errstate(divide="ignore"):
        far = np.logaddexp(np.log(mass) + exponent, np.log1p(-mass))
    return np.where(exponent <= 1, near, far)

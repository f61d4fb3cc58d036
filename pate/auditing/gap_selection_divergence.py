"""Renyi divergences between gap selection on given votes and gap selection on any neighbor of these votes."""

from __future__ import annotations

import math

import numpy as np

from pate import validation
from pate.accounting.events import BoundedRangeEvent
from pate.accounting.rdp import order_array
from pate.accounting.renyi import bounded_range_rdp
from pate.array_types import FloatArray
from pate.validation import require

_LARGEST_EXPONENT = 600.0
# smaller masses are rounded up to it; times exp(_LARGEST_EXPONENT) it is still negligible
_SMALLEST_MASS = 1e-300
_CANCELS_BELOW = 1e-6  # an epsilon below which the closed form cancels; the price is returned


def top_log_odds(utilities: FloatArray) -> FloatArray:
    """Returns the log odds of the most probable candidate in Q exponential mechanisms, `[Q]`.

    Args:
        utilities: the utility of each of n >= 2 candidates, `[Q, n]`; a candidate is drawn in proportion to
            exp(utility).

    Raises:
        InvalidValue: the utilities have another shape or are not finite.
    """
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
    log_odds: FloatArray, *, event: BoundedRangeEvent, orders: object
) -> tuple[FloatArray, FloatArray]:
    """Returns the largest D_a(P || P') and the largest D_a(P' || P) over all neighbors P' of each of Q distributions P.

    The bounds never exceed the data-independent price. If the largest probability of P is at most 1/2, they are equal
    to this price. Source: docs/proofs/data_dependent.md, "Gap selection".

    Args:
        log_odds: the log odds of the largest probability of each distribution P, `[Q]`.
        event: the price of one selection.
        orders: the Renyi orders > 1, `[A]`.

    Returns:
        Two arrays `[Q, A]`, one for each direction.
    """
    array = order_array(orders)
    epsilon = event.epsilon
    # the log probability of all other candidates, <= log(1/2)
    log_rest = -np.logaddexp(0.0, np.maximum(np.asarray(log_odds, dtype=np.float64), 0.0))
    ceiling = bounded_range_rdp(epsilon, orders=array)
    if epsilon < _CANCELS_BELOW or math.isinf(epsilon):
        return np.tile(ceiling, (len(log_rest), 1)), np.tile(ceiling, (len(log_rest), 1))
    # The worst change multiplies the weight of a mass t <= exp(log_rest) by e^shift. Forward it is a mass of the other
    # candidates that gets likelier below order 2, and less likely from order 2 on; backward one that gets likelier.
    forward = np.empty((len(log_rest), len(array)))
    for shift, selected in ((epsilon, array < 2), (-epsilon, array >= 2)):
        a = array[selected]
        power = np.expm1(np.minimum((1 - array[selected]) * shift, _LARGEST_EXPONENT))
        peak = -((a - 1) / power + 1 / math.expm1(shift)) / a  # the best mass without a bound
        forward[:, selected] = _moment(
            log_rest,
            utility_shift=shift,
            power=a - 1,
            exponent=(1 - a) * shift,
            best_mass=np.maximum(peak, 0.0),
        )
    power = np.expm1(np.minimum(array * epsilon, _LARGEST_EXPONENT))
    peak = np.maximum((1 / math.expm1(epsilon) - array / power) / (array - 1), 0.0)
    backward = _moment(
        log_rest, utility_shift=epsilon, power=-array, exponent=array * epsilon, best_mass=peak
    )
    share = 1 / (array - 1)
    return np.clip(forward * share, 0.0, ceiling), np.clip(backward * share, 0.0, ceiling)


def _moment(
    log_rest: FloatArray,
    utility_shift: float,
    power: FloatArray,
    exponent: FloatArray,
    best_mass: FloatArray,
) -> FloatArray:
    """Returns power log(1 + t expm1(utility_shift)) + log(1 + t expm1(exponent)), `[Q, A]`.

    Here t = min(exp(log_rest), best_mass).

    Args:
        log_rest: the log of the largest possible t of each query, `[Q]`.
        utility_shift: the change of a utility.
        power: a factor for each order, `[A]`.
        exponent: an exponent for each order, `[A]`.
        best_mass: the best t for each order, `[A]`.
    """
    other_mass = np.maximum(np.exp(log_rest), _SMALLEST_MASS)[:, None]  # [Q, 1]
    factor = math.expm1(utility_shift)
    capped = (np.minimum if utility_shift > 0 else np.maximum)(
        np.log1p(other_mass * factor), np.log1p(best_mass * factor)
    ) * power
    near = np.abs(exponent) < _LARGEST_EXPONENT
    mass = np.minimum(other_mass, best_mass)
    capped[:, near] += np.log1p(mass[:, near] * np.expm1(exponent[near]))
    with np.errstate(divide="ignore"):
        log_mass = np.minimum(log_rest[:, None], np.log(best_mass[~near]))
    capped[:, ~near] += np.logaddexp(log_mass + exponent[~near], np.log1p(-mass[:, ~near]))
    return np.asarray(capped)

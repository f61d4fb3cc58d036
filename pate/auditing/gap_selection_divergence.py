"""Renyi divergences between gap selection on some votes and gap selection on any neighbor of these votes.

Gap selection draws one of n candidates, each a number of labels to release, by the exponential mechanism: with a
probability proportional to the exponential of its utility.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pate.accounting.events import BoundedRangeEvent
from pate.accounting.rdp import order_array
from pate.accounting.renyi import bounded_range_rdp
from pate.array_types import FloatArray
from pate.validation import require, require_entries

# The largest exponent of e that is computed without logarithms.
_MAX_EXPONENT = 600.0
# Smaller probabilities are rounded up to this number, which is negligible even times exp(_MAX_EXPONENT).
_MIN_MASS = 1e-300
# For a smaller epsilon, the closed form loses its digits by cancellation, and the price is returned instead.
_MIN_EPSILON = 1e-6


def log_odds_of_best_candidate(utilities: FloatArray) -> FloatArray:
    """Returns the log odds of the most probable candidate in Q exponential mechanisms, `[Q]`.

    Args:
        utilities: the utility of each of n >= 2 candidates, `[Q, n]`; a candidate is drawn in proportion to
            exp(utility).

    Raises:
        InvalidValue: the utilities have another shape or are not finite.
    """
    utility_by_query_and_candidate = np.array(utilities, dtype=np.float64)
    is_table = (
        utility_by_query_and_candidate.ndim == 2 and utility_by_query_and_candidate.shape[1] >= 2
    )
    require(
        is_table,
        "utilities.shape",
        utility_by_query_and_candidate.shape,
        "[num_queries, at least 2]",
    )
    require_entries(
        "utilities", holds=np.isfinite(utility_by_query_and_candidate), rule="finite numbers"
    )
    query_rows = np.arange(len(utility_by_query_and_candidate))
    best_candidates = utility_by_query_and_candidate.argmax(axis=1)
    largest_utilities = utility_by_query_and_candidate[query_rows, best_candidates]
    utility_by_query_and_candidate[query_rows, best_candidates] = -np.inf
    log_weights_of_others = np.logaddexp.reduce(utility_by_query_and_candidate, axis=1)
    log_odds_of_best = largest_utilities - log_weights_of_others
    return np.asarray(log_odds_of_best)


def gap_selection_rdp(
    log_odds: FloatArray, *, event: BoundedRangeEvent, orders: ArrayLike
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
    a = order_array(orders)
    epsilon = event.epsilon
    # The log probability of all other candidates, <= log(1/2).
    log_rest = -np.logaddexp(0.0, np.maximum(np.asarray(log_odds, dtype=np.float64), 0.0))
    price = bounded_range_rdp(epsilon, orders=a)
    if epsilon < _MIN_EPSILON or math.isinf(epsilon):
        prices = np.tile(price, (len(log_rest), 1))
        return prices, prices.copy()
    # The worst change multiplies the weight of a mass t <= exp(log_rest) of the other candidates by e^shift. For
    # D_a(P || P') the shift is positive below order 2 and negative from order 2 on; for D_a(P' || P) it is positive.
    forward = np.empty((len(log_rest), len(a)))
    for shift, selected in ((epsilon, a < 2), (-epsilon, a >= 2)):
        forward[:, selected] = _largest_moment(
            log_rest, utility_shift=shift, coefficient=a[selected] - 1
        )
    backward = _largest_moment(log_rest, utility_shift=epsilon, coefficient=-a)
    per_order = 1 / (a - 1)
    return np.clip(forward * per_order, 0.0, price), np.clip(backward * per_order, 0.0, price)


def _largest_moment(
    log_rest: FloatArray, *, utility_shift: float, coefficient: FloatArray
) -> FloatArray:
    """Returns the largest c log(1 + t F) + log(1 + t G) over 0 <= t <= exp(log_rest), `[Q, A]`.

    Here c is the coefficient, F = expm1(utility_shift) and G = expm1(-c utility_shift). t is the probability of the
    candidates whose utility changes between neighbors. The result is (a - 1) D_a, where c = a - 1 for D_a(P || P') and
    c = -a for D_a(P' || P).

    Args:
        log_rest: the log of the largest possible t of each query, `[Q]`.
        utility_shift: the change of a utility.
        coefficient: the factor c of the first logarithm at each order, `[A]`.
    """
    exponent = -coefficient * utility_shift
    growth = np.expm1(np.minimum(exponent, _MAX_EXPONENT))
    factor = math.expm1(utility_shift)
    # The derivative is 0 at this mass, which may be larger than allowed.
    best_changed_mass = np.maximum(
        -(coefficient / growth + 1 / factor) / (coefficient + 1), 0.0
    )  # [A]
    largest_changed_mass = np.maximum(np.exp(log_rest), _MIN_MASS)[:, None]  # [Q, 1]
    changed_mass = np.minimum(largest_changed_mass, best_changed_mass)  # [Q, A]
    # log(1 + t F) grows with t for a positive shift, and falls for a negative one.
    log_of_largest = np.log1p(largest_changed_mass * factor)
    log_of_best = np.log1p(best_changed_mass * factor)
    smaller_or_larger = np.minimum if utility_shift > 0 else np.maximum
    moment = smaller_or_larger(log_of_largest, log_of_best) * coefficient
    # Large exponents are added as logarithms.
    is_small = np.abs(exponent) < _MAX_EXPONENT
    moment[:, is_small] += np.log1p(changed_mass[:, is_small] * np.expm1(exponent[is_small]))
    with np.errstate(divide="ignore"):
        log_changed_mass = np.minimum(log_rest[:, None], np.log(best_changed_mass[~is_small]))
    moment[:, ~is_small] += np.logaddexp(
        log_changed_mass + exponent[~is_small], np.log1p(-changed_mass[:, ~is_small])
    )
    return np.asarray(moment)

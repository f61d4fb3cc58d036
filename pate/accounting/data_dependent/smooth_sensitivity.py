"""Smooth sensitivity of GNMax's data-dependent cost, and the price of noise scaled by it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pate.accounting.data_dependent.cost import order_array
from pate.accounting.data_dependent.gnmax import gnmax_rdp, log_q_of_deficits, one_vote_each, vote_deficits
from pate.accounting.renyi import smooth_sensitivity_rdp
from pate.accounting.special import log_ndtr, ndtri_exp
from pate.validation import require_non_negative, require_positive

Array = NDArray[np.float64]

_NUM_CELLS = 4096


def gnmax_smooth_sensitivity(
    votes: NDArray[np.integer], *, noise_std: float, num_teachers: int, order: float, beta: float
) -> float:
    """A beta-smooth upper bound on the local sensitivity of `gnmax_cost` at one order; private like the votes.

    One teacher's votes change, on all queries at once. A bound on the local sensitivity at distance d is summed over
    the queries, and the largest exp(-beta d) times the sum is returned.

    Args:
        votes: `[Q, L]` as for `gnmax_cost`.
        noise_std: as for `gnmax_cost`.
        num_teachers: as for `gnmax_cost`.
        order: > 1.
        beta: > 0; a larger one gives a smaller sensitivity and a dearer release.
    """
    require_positive("beta", beta)
    deficits = vote_deficits(one_vote_each(votes, num_teachers))
    edges, drops = _drop_table(noise_std, order, num_classes=deficits.shape[1] + 1)
    up_to, from_on = np.maximum.accumulate(drops), np.maximum.accumulate(drops[::-1])[::-1]
    at_most, best, farthest = len(deficits) * float(up_to[-1]), 0.0, int(deficits.max()) // 2 + 1
    for distance in range(farthest):
        if math.exp(-beta * distance) * at_most <= best:
            return best
        moved = 2 * (distance + 1)
        likely, unlikely = (
            np.searchsorted(edges, log_q_of_deficits(np.maximum(moved_by, 0), noise_std=noise_std), side="right")
            for moved_by in (deficits - moved, deficits + moved)
        )
        total = float(np.minimum(up_to[likely], from_on[np.maximum(unlikely - 1, 0)]).sum())
        best = max(best, math.exp(-beta * distance) * total)
    return max(best, math.exp(-beta * farthest) * at_most)


def _drop_table(noise_std: float, order: float, *, num_classes: int) -> tuple[Array, Array]:
    """Cells of log q and, in each, a bound on how far one change of a teacher can lower the cost of one query.

    Returns:
        The cells' edges, rising, `[E]`, and the bounds `[E + 1]`: below the first edge, between edges, and above.
    """
    largest = 2 * order / noise_std + 30.0
    edges = -np.square(np.linspace(largest, 1e-6, _NUM_CELLS))
    cost = gnmax_rdp(edges, noise_std=noise_std, orders=order)[:, 0]
    after = gnmax_rdp(_least_log_q_after(edges, noise_std, num_classes), noise_std=noise_std, orders=order)[:, 0]
    price = order / noise_std**2
    return edges, np.concatenate([cost[:1], cost[1:] - after[:-1], [price - after[-1]]])


def _least_log_q_after(log_q: Array, noise_std: float, num_classes: int) -> Array:
    """The least log q among the neighbors of votes with this log q: all deficits equal, and each two votes larger."""
    each = np.minimum(log_q - math.log(num_classes - 1), -1e-12)
    return np.asarray(math.log(num_classes - 1) + log_ndtr(ndtri_exp(each) - math.sqrt(2) / noise_std))


def smooth_noise_rdp(*, noise_multiplier: float, beta: float, orders: object) -> Array:
    """The Renyi price of value + N(0, (S noise_multiplier)**2), S a beta-smooth upper bound on sensitivity: `[A]`.

    Infinite at orders with a (1 - exp(-2 beta)) >= 1. Exact over all that smoothness allows, so never above
    a / (2 s**2 (1 - 2 a b)) + (a b - log(1 - 2 a b) / 2) / (a - 1). Theorem 23 of Papernot et al. 2018,
    a exp(2 b) / s**2 + (a b - log(1 - 2 a b) / 2) / (a - 1), is below it for some a b > 1/4 and false there.

    Args:
        noise_multiplier: noise std / smooth sensitivity, >= 0; 0 costs infinity.
        beta: >= 0, of the smooth sensitivity.
        orders: `[A]` orders > 1.
    """
    require_non_negative("noise_multiplier", noise_multiplier)
    return smooth_sensitivity_rdp(noise_multiplier, require_non_negative("beta", beta), order_array(orders))

"""The smooth sensitivity of the data-dependent cost of GNMax, by which the cost can be published with noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import log_ndtr, ndtri_exp
from pate.auditing.gnmax_divergence import gnmax_log_q, gnmax_rdp, one_vote_each
from pate.validation import require_positive

_CELLS_OF_LOG_Q = 4096


def gnmax_smooth_sensitivity(
    votes: NDArray[np.integer], *, noise_std: float, num_teachers: int, order: float, beta: float
) -> float:
    """Returns a beta-smooth upper bound on the local sensitivity of `gnmax_cost` at one Renyi order.

    The bound depends on the votes and is private. A release of the cost with noise, whose scale is this bound times a
    multiplier, has the price `SmoothSensitivityEvent`.

    Args:
        votes: `[Q, L]`; each teacher has one vote in each query.
        noise_std: the standard deviation of the noise of GNMax, in votes.
        num_teachers: the number of teachers T.
        order: the Renyi order of the cost.
        beta: the log of the largest ratio of the bounds of two neighboring data sets, > 0.

    Source: docs/proofs/data_dependent.md, "Smooth sensitivity of GNMax".
    """
    require_positive("beta", beta)
    counts = one_vote_each(votes, num_teachers)
    # `drops`: in each cell of log q, a bound on how far one change of a teacher can lower the cost of one query
    log_others = math.log(counts.shape[1] - 1)
    edges = -np.square(np.linspace(2 * order / noise_std + 30.0, 1e-6, _CELLS_OF_LOG_Q))
    # the least log q of neighbors: all deficits equal, and each two votes larger
    log_q_of_each = np.minimum(edges - log_others, -1e-12)
    least = log_others + log_ndtr(ndtri_exp(log_q_of_each) - math.sqrt(2) / noise_std)
    cost, after = (
        gnmax_rdp(log_q, noise_std=noise_std, orders=order)[:, 0] for log_q in (edges, least)
    )
    drops = np.concatenate([cost[:1], cost[1:] - after[:-1], [order / noise_std**2 - after[-1]]])
    up_to = np.maximum.accumulate(drops)
    from_on = np.maximum.accumulate(drops[::-1])[::-1]
    largest_deficit = int((counts.max(axis=1) - counts.min(axis=1)).max())
    at_most = len(counts) * float(up_to[-1])
    best = 0.0
    farthest = largest_deficit // 2 + 1
    for distance in range(farthest):
        if math.exp(-beta * distance) * at_most <= best:
            return best
        log_qs = (
            gnmax_log_q(counts, noise_std=noise_std, added_lead=way * (distance + 1))
            for way in (-2, 2)
        )
        likely, unlikely = (np.searchsorted(edges, log_q, side="right") for log_q in log_qs)
        total = float(np.minimum(up_to[likely], from_on[np.maximum(unlikely - 1, 0)]).sum())
        best = max(best, math.exp(-beta * distance) * total)
    return max(best, math.exp(-beta * farthest) * at_most)

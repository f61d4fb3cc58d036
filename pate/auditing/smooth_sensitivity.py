"""The smooth sensitivity of the data-dependent cost of GNMax, by which the cost can be published with noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import log_ndtr, ndtri_exp
from pate.auditing.gnmax_divergence import gnmax_log_q, gnmax_rdp, one_vote_each
from pate.validation import require_positive

# The number of edges between the cells of log q. Within a cell, the largest sensitivity is used.
_NUM_EDGES = 4096


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
    vote_counts = one_vote_each(vote_counts=votes, num_teachers=num_teachers)
    # `cost_drops` is a bound, for each cell of log q, on how far one change of a teacher can lower the cost of a query.
    log_others = math.log(vote_counts.shape[1] - 1)
    log_q_edges = -np.square(np.linspace(2 * order / noise_std + 30.0, 1e-6, _NUM_EDGES))
    # The smallest log q of a neighbor: all leads of the plurality are equal, and each is two votes larger.
    log_q_of_each = np.minimum(log_q_edges - log_others, -1e-12)
    smallest_log_q = log_others + log_ndtr(ndtri_exp(log_q_of_each) - math.sqrt(2) / noise_std)
    cost_at_edges = gnmax_rdp(log_q_edges, noise_std=noise_std, orders=order)[:, 0]
    neighbor_cost = gnmax_rdp(smallest_log_q, noise_std=noise_std, orders=order)[:, 0]
    price = order / noise_std**2
    cost_drops = np.concatenate(
        [cost_at_edges[:1], cost_at_edges[1:] - neighbor_cost[:-1], [price - neighbor_cost[-1]]]
    )
    # The largest drop of a cell up to each cell, and from each cell on.
    largest_drop_up_to = np.maximum.accumulate(cost_drops)
    largest_drop_from = np.maximum.accumulate(cost_drops[::-1])[::-1]
    largest_lead = int((vote_counts.max(axis=1) - vote_counts.min(axis=1)).max())
    max_sensitivity = len(vote_counts) * float(largest_drop_up_to[-1])
    smooth_bound = 0.0
    # Farther data sets can have any log q.
    max_distance = largest_lead // 2 + 1
    for distance in range(max_distance):
        discount = math.exp(-beta * distance)
        if discount * max_sensitivity <= smooth_bound:
            return smooth_bound
        # After `distance` changes and one more, each lead has moved by at most two votes for each change.
        moved_votes = 2 * (distance + 1)
        largest_log_q = gnmax_log_q(vote_counts, noise_std=noise_std, added_lead=-moved_votes)
        lowest_log_q = gnmax_log_q(vote_counts, noise_std=noise_std, added_lead=moved_votes)
        last_cells = np.searchsorted(log_q_edges, largest_log_q, side="right")
        first_cells = np.maximum(np.searchsorted(log_q_edges, lowest_log_q, side="right") - 1, 0)
        cost_drop_of_queries = np.minimum(
            largest_drop_up_to[last_cells], largest_drop_from[first_cells]
        )
        sensitivity = float(cost_drop_of_queries.sum())
        smooth_bound = max(smooth_bound, discount * sensitivity)
    return max(smooth_bound, math.exp(-beta * max_distance) * max_sensitivity)

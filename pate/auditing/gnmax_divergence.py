"""Renyi divergences between GNMax on some votes and GNMax on any neighbor of these votes.

GNMax adds Gaussian noise to the counts of votes and outputs the class with the largest sum. The *plurality* is the
class with the most votes. q is a bound on the probability that GNMax outputs another class, and decides the divergence.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pate.accounting.rdp import order_array
from pate.accounting.special import log_ndtr
from pate.array_types import FloatArray
from pate.validation import (
    InvalidValue,
    require,
    require_count,
    require_histogram,
    require_positive,
)

# Where x = sqrt(-log q) is smaller, 1 - q has few digits left, and the data-independent price is returned.
_MIN_X = 1e-6


def gnmax_log_q(
    votes: NDArray[np.integer], *, noise_std: float, added_lead: float = 0
) -> FloatArray:
    """Returns log q for each query, `[Q]`, where q bounds the probability that GNMax does not output the plurality.

    The plurality is the class with the most votes.

    Args:
        votes: counts of votes, `[Q, L]`.
        noise_std: the standard deviation of the noise on each count, in votes.
        added_lead: a number of votes that is added to the lead of the plurality over every other class; may be
            negative. A lead below 0 counts as 0.
    """
    # The sorted counts `[Q, L]`, the largest first.
    sorted_counts = -np.sort(-np.asarray(votes, dtype=np.int64), axis=1)
    leads = sorted_counts[:, :1] - sorted_counts[:, 1:] + int(added_lead)
    leads = np.maximum(leads, 0)  # [Q, L - 1], rising
    # The standard deviation of the difference of two noisy counts.
    difference_std = math.sqrt(2) * require_positive("noise_std", noise_std)
    largest_lead = int(leads.max())
    if largest_lead < leads.size:
        # A table of normal tails by whole votes is smaller than the array of leads.
        log_tails = log_ndtr(-np.arange(largest_lead + 1) / difference_std)[leads]
    else:
        log_tails = log_ndtr(-leads / difference_std)
    # The log of the sum of the tails, computed relative to the largest one.
    largest = log_tails[:, :1]
    log_q = largest[:, 0] + np.log(np.exp(log_tails - largest).sum(axis=1))
    # The plurality has at least the probability of a uniform draw.
    num_classes = sorted_counts.shape[1]
    return np.asarray(np.minimum(log_q, math.log1p(-1 / num_classes)))


def gnmax_rdp(log_q: FloatArray, *, noise_std: float, orders: object) -> FloatArray:
    """Returns a bound on both D_a(M(D) || M(D')) and D_a(M(D') || M(D)) for GNMax M and all neighbors D' of votes D.

    The bound is at most the data-independent a / std**2. It never decreases in q, so an upper bound on q suffices.
    Source: docs/proofs/data_dependent.md, "GNMax".

    Args:
        log_q: log q of each query, see `gnmax_log_q`, `[Q]`.
        noise_std: the standard deviation of the noise on each count, in votes.
        orders: the Renyi orders a > 1, `[A]`.

    Returns:
        The bound for each query at each order, `[Q, A]`.
    """
    a = order_array(orders)
    std = require_positive("noise_std", noise_std)
    x = np.sqrt(-np.asarray(log_q, dtype=np.float64))[:, None]
    is_bounded = (x >= _MIN_X) & (a < std * x)
    x = np.maximum(x, _MIN_X)
    smaller_x = np.maximum(x - 1 / std, 1e-7)
    # The slope of log m as a function of the order.
    slope = 2 * x / std - 1 / std**2
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_p = np.log1p(-np.exp(-x * x))
        largest_log_p = np.log1p(-np.exp(-np.square(x + 1 / std)))
        # A change of one teacher lowers log p by at most `fall_of_log_p`, and raises it by at most `rise_of_log_p`.
        fall_of_log_p = log_p - np.log1p(-np.exp(-smaller_x * smaller_x))
        rise_of_log_p = largest_log_p - log_p
        # The part of the most probable outcome. The sharper bound is used where it never falls with q: where the three
        # conditions of the proof hold, on dg/dq, on dh/dq and on dm/dq.
        reciprocal_of_std_x = 1 / (std * x)
        tight = np.log1p(reciprocal_of_std_x) <= slope + 2 / std**2
        tight = tight & (slope + np.log1p(-np.minimum(reciprocal_of_std_x, 1 - 1e-12)) >= 0)
        steepest = (a - 1) * np.maximum(fall_of_log_p, rise_of_log_p)
        tight = tight & (
            a * slope + np.log1p(-np.minimum(a * reciprocal_of_std_x, 1 - 1e-12)) >= steepest
        )
        sharp_part = np.maximum(
            (a - 1) * fall_of_log_p + log_p, (a - 1) * rise_of_log_p + largest_log_p
        )
        loose_part = (a - 1) * (fall_of_log_p - log_p)
        main_part = np.where(tight, np.minimum(sharp_part, loose_part), loose_part)
        bound_on_votes = np.logaddexp(main_part, a * slope - x * x) / (a - 1)
    data_independent_rdp = a / std**2
    return np.where(is_bounded, np.fmin(bound_on_votes, data_independent_rdp), data_independent_rdp)


def theorem_6_rdp(log_q: FloatArray, *, noise_std: float, orders: object) -> FloatArray:
    """Returns the bound of Theorem 6 of Papernot et al. 2018 for GNMax, with the orders of its Proposition 10.

    The bound is used for comparison with papers only. It bounds D_a(M(D) || M(D')), while D_a(M(D') || M(D)) can be a
    thousand times as large. `gnmax_rdp` bounds both.

    Args:
        log_q: log q of each query, see `gnmax_log_q`, `[Q]`.
        noise_std: the standard deviation of the noise on each count, in votes.
        orders: the Renyi orders a > 1, `[A]`.

    Returns:
        The bound for each query at each order, `[Q, A]`.
    """
    a = order_array(orders)
    std = require_positive("noise_std", noise_std)
    data_independent_rdp = a / std**2
    bound = np.tile(data_independent_rdp, (len(log_q), 1))
    for row, query_log_q in enumerate(np.asarray(log_q, dtype=np.float64)):
        mu_2 = std * math.sqrt(-query_log_q)
        mu_1 = mu_2 + 1
        rho_2 = mu_2 / std**2
        # The theorem's conditions on its orders.
        if mu_2 <= 1 or -query_log_q <= rho_2:
            continue
        # The theorem's condition on q. Without it the bound may fall as q grows.
        ratio = mu_1 / (mu_1 - 1) * mu_2 / (mu_2 - 1)
        if query_log_q > (mu_2 - 1) * mu_2 / std**2 - mu_2 * math.log(ratio):
            continue
        log_not_q = math.log1p(-math.exp(query_log_q))
        log_a = log_not_q - math.log1p(-math.exp((query_log_q + rho_2) * (mu_2 - 1) / mu_2))
        log_b = mu_1 / std**2 - query_log_q / (mu_1 - 1)
        theorem_rdp = np.logaddexp(log_not_q + (a - 1) * log_a, query_log_q + (a - 1) * log_b) / (
            a - 1
        )
        bound[row] = np.where(a < mu_1, np.minimum(bound[row], theorem_rdp), bound[row])
    return bound


def one_vote_each(vote_counts: NDArray[np.integer], *, num_teachers: int) -> NDArray[np.integer]:
    """Returns counts of votes `[Q, L]`, after a check that each teacher has one vote in each query.

    Raises `InvalidValue` if there are fewer than two labels, or if the votes of a query do not add up to
    `num_teachers`.
    """
    require_count("num_teachers", num_teachers)
    counts = require_histogram("votes", vote_counts, largest_count=num_teachers, num_axes=2)
    require(counts.shape[1] >= 2, "votes.shape", counts.shape, "at least two classes")
    wrong_queries = np.flatnonzero(counts.sum(axis=1) != num_teachers)
    if len(wrong_queries) > 0:
        rule = f"{num_teachers}, one vote per teacher"
        raise InvalidValue(f"votes[{wrong_queries[0]}].sum", rule=rule)
    return counts

"""The data-dependent cost of GNMax, the noisy plurality of one vote per teacher (docs/proofs/data_dependent.md)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pate.accounting.data_dependent.consensus import consensus_blocks
from pate.accounting.data_dependent.cost import DataDependentCost, order_array, rank_of
from pate.accounting.special import log_ndtr
from pate.validation import InvalidValue, require, require_count, require_histogram, require_positive

Array = NDArray[np.float64]


def gnmax_cost(votes: NDArray[np.integer], *, noise_std: float, num_teachers: int, orders: object) -> DataDependentCost:
    """The realized cost of GNMax on the queries that drew its noise.

    Where a noisy threshold decides which queries are answered, `votes` holds the queries that passed, and the cost of
    the threshold on every query, passed or not, is added to this one.

    Args:
        votes: `[Q, L]` votes for each of L >= 2 classes, each teacher casting one.
        noise_std: of the noise on every count, in votes, > 0.
        num_teachers: the number of votes of each query.
        orders: `[A]` orders > 1.
    """
    array = order_array(orders)
    counts = one_vote_each(votes, num_teachers)
    log_q, times = np.unique(gnmax_log_q(counts, noise_std=noise_std), return_counts=True)
    rising, weights = np.sort(array), times.astype(np.float64)
    total, price = np.zeros_like(array), rising / noise_std**2
    for rows, block in consensus_blocks(log_q, noise_std=noise_std, orders=rising):
        served = block.shape[1]
        total[:served] += weights[rows] @ block
        total[served:] += weights[rows].sum() * price[served:]
    return DataDependentCost(array, total[rank_of(array)])


def gnmax_log_q(votes: NDArray[np.integer], *, noise_std: float) -> Array:
    """Log of a bound on the probability that another class than the plurality's wins: `[Q]` from votes `[Q, L]`.

    The sum over the other classes of Phi(-(difference of votes) / (sqrt 2 noise_std)), at most 1 - 1 / L.

    Args:
        votes: one vote per teacher: counts `[Q, L]`.
        noise_std: standard deviation of the noise on each count, in votes.
    """
    return log_q_of_deficits(vote_deficits(votes), noise_std=noise_std)


def vote_deficits(votes: NDArray[np.integer]) -> NDArray[np.int64]:
    """By how much every other class trails the plurality's: `[Q, L - 1]`, rising, from votes `[Q, L]`."""
    falling = -np.sort(-np.asarray(votes, dtype=np.int64), axis=1)
    return falling[:, :1] - falling[:, 1:]


def log_q_of_deficits(deficits: NDArray[np.int64], *, noise_std: float) -> Array:
    """`gnmax_log_q` from the deficits `[Q, L - 1]`, rising: `[Q]`; looks normal tails up by whole votes."""
    scale, num_classes = math.sqrt(2) * require_positive("noise_std", noise_std), deficits.shape[1] + 1
    largest_deficit = int(deficits.max())
    if largest_deficit < deficits.size:
        tails = log_ndtr(-np.arange(largest_deficit + 1) / scale)[deficits]
    else:
        tails = log_ndtr(-deficits / scale)
    largest = tails[:, 0]
    others = np.exp(tails - largest[:, None]).sum(axis=1)
    return np.asarray(np.minimum(largest + np.log(others), math.log1p(-1 / num_classes)))


def gnmax_rdp(log_q: Array, *, noise_std: float, orders: object) -> Array:
    """Bounds both D_a(M(D) || M(D')) and D_a(M(D') || M(D)) by q alone: `[Q, A]`.

    At most the data-independent a / std**2, and never decreasing in q, so an upper bound on the probability will do.

    Args:
        log_q: `[Q]` logs of an upper bound on the probability of another outcome than the likeliest, < 0.
        noise_std: in votes, > 0.
        orders: `[A]` orders > 1.
    """
    array = order_array(orders)
    rising = np.sort(array)
    bound = np.tile(rising / require_positive("noise_std", noise_std) ** 2, (len(log_q), 1))
    for rows, block in consensus_blocks(np.asarray(log_q, np.float64), noise_std=noise_std, orders=rising):
        bound[rows, : block.shape[1]] = block
    return np.asarray(bound[:, rank_of(array)])


def theorem_6_rdp(log_q: Array, *, noise_std: float, orders: object) -> Array:
    """Theorem 6 of Papernot et al. 2018 at the orders of its Proposition 10: `[Q, A]`, for comparison with papers.

    Bounds D_a(M(D) || M(D')) for the D at hand, and only that direction: D_a(M(D') || M(D)) can be a thousand times
    as large. `gnmax_rdp` covers both and is what costs are made of.

    Args:
        log_q: `[Q]` as for `gnmax_rdp`.
        noise_std: in votes, > 0.
        orders: `[A]` orders > 1.
    """
    a, std = order_array(orders), require_positive("noise_std", noise_std)
    bound = np.tile(a / std**2, (len(log_q), 1))
    for row, value in enumerate(np.asarray(log_q, dtype=np.float64)):
        mu_2 = std * math.sqrt(-value)
        mu_1, rho_2 = mu_2 + 1, mu_2 / std**2
        if mu_2 <= 1 or -value <= rho_2 or value > _largest_log_q(mu_1, mu_2, std):
            continue
        log_not_q = math.log1p(-math.exp(value))
        log_a = log_not_q - math.log1p(-math.exp((value + rho_2) * (mu_2 - 1) / mu_2))
        log_b = mu_1 / std**2 - value / (mu_1 - 1)
        small = np.logaddexp(log_not_q + (a - 1) * log_a, value + (a - 1) * log_b) / (a - 1)
        bound[row] = np.where(a < mu_1, np.minimum(bound[row], small), bound[row])
    return bound


def _largest_log_q(mu_1: float, mu_2: float, std: float) -> float:
    """The theorem's condition on q, without which its bound may fall as q grows."""
    return (mu_2 - 1) * mu_2 / std**2 - mu_2 * math.log(mu_1 / (mu_1 - 1) * mu_2 / (mu_2 - 1))


def one_vote_each(votes: NDArray[np.integer], num_teachers: int) -> NDArray[np.integer]:
    """Returns votes `[Q, L]`, L >= 2, in which every query has `num_teachers` votes, or raises."""
    counts = require_histogram("votes", votes, num_teachers=require_count("num_teachers", num_teachers), rank=2)
    require(counts.shape[1] >= 2, "votes.shape", counts.shape, "at least two classes")
    totals = counts.sum(axis=1)
    if (wrong := np.flatnonzero(totals != num_teachers)).size:
        raise InvalidValue(f"votes[{wrong[0]}].sum: expected {num_teachers}, one vote per teacher")
    return counts

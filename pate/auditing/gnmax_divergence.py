"""Renyi divergences between GNMax on given votes and GNMax on any neighbor of these votes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pate import validation
from pate.accounting.rdp import order_array
from pate.accounting.special import log_ndtr
from pate.array_types import FloatArray
from pate.validation import InvalidValue, require, require_count, require_positive

_SMALLEST_X = 1e-6  # below it the independent price: 1 - q has no digits left


def gnmax_log_q(
    votes: NDArray[np.integer], *, noise_std: float, added_lead: float = 0
) -> FloatArray:
    """Returns log q for each query, `[Q]`, where q bounds the probability that GNMax does not output the plurality.

    Args:
        votes: counts of votes, `[Q, L]`.
        noise_std: the standard deviation of the noise on each count, in votes.
        added_lead: a number of votes that is added to the lead of the plurality over every other class; may be
            negative.
    """
    falling = -np.sort(-np.asarray(votes, dtype=np.int64), axis=1)
    deficits = np.maximum(
        falling[:, :1] - falling[:, 1:] + int(added_lead), 0
    )  # [Q, L - 1], rising
    scale = math.sqrt(2) * require_positive("noise_std", noise_std)
    largest_deficit = int(deficits.max())
    if largest_deficit < deficits.size:  # a table of normal tails by whole votes is smaller
        tails = log_ndtr(-np.arange(largest_deficit + 1) / scale)[deficits]
    else:
        tails = log_ndtr(-deficits / scale)
    largest = tails[:, :1]
    log_q = largest[:, 0] + np.log(np.exp(tails - largest).sum(axis=1))
    return np.asarray(np.minimum(log_q, math.log1p(-1 / falling.shape[1])))


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
    served = (x >= _SMALLEST_X) & (a < std * x)
    x = np.maximum(x, _SMALLEST_X)
    above = np.maximum(x - 1 / std, 1e-7)
    slope = 2 * x / std - 1 / std**2  # of log m, as a function of the order
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_p = np.log1p(-np.exp(-x * x))
        log_p_most = np.log1p(-np.exp(-np.square(x + 1 / std)))
        # by how much a change moves log p, down and up
        fall = log_p - np.log1p(-np.exp(-above * above))
        rise = log_p_most - log_p
        # The part of the likeliest outcome. The sharper bound serves where it never falls with q: the condition on
        # dm/dq of the proof.
        inverse = 1 / (std * x)
        tight = np.log1p(inverse) <= slope + 2 / std**2
        tight = tight & (slope + np.log1p(-np.minimum(inverse, 1 - 1e-12)) >= 0)
        steepest = (a - 1) * np.maximum(fall, rise)
        tight = tight & (a * slope + np.log1p(-np.minimum(a * inverse, 1 - 1e-12)) >= steepest)
        likeliest = np.maximum((a - 1) * fall + log_p, (a - 1) * rise + log_p_most)
        loose = (a - 1) * (fall - log_p)
        likeliest = np.where(tight, np.minimum(likeliest, loose), loose)
        bound = np.logaddexp(likeliest, a * slope - x * x) / (a - 1)
    return np.where(served, np.fmin(bound, a / std**2), a / std**2)


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
    bound = np.tile(a / std**2, (len(log_q), 1))
    for row, value in enumerate(np.asarray(log_q, dtype=np.float64)):
        mu_2 = std * math.sqrt(-value)
        mu_1 = mu_2 + 1
        rho_2 = mu_2 / std**2
        # the theorem's conditions on q, without the second of which its bound may fall as q grows
        if (
            mu_2 <= 1
            or -value <= rho_2
            or value
            > (mu_2 - 1) * mu_2 / std**2 - mu_2 * math.log(mu_1 / (mu_1 - 1) * mu_2 / (mu_2 - 1))
        ):
            continue
        log_not_q = math.log1p(-math.exp(value))
        log_a = log_not_q - math.log1p(-math.exp((value + rho_2) * (mu_2 - 1) / mu_2))
        log_b = mu_1 / std**2 - value / (mu_1 - 1)
        small = np.logaddexp(log_not_q + (a - 1) * log_a, value + (a - 1) * log_b) / (a - 1)
        bound[row] = np.where(a < mu_1, np.minimum(bound[row], small), bound[row])
    return bound


def one_vote_each(votes: NDArray[np.integer], num_teachers: int) -> NDArray[np.integer]:
    """Returns votes `[Q, L]`, after a check that each teacher has one vote in each query.

    Raises `InvalidValue` if there are fewer than two labels, or if the votes of a query do not add up to
    `num_teachers`.
    """
    require_count("num_teachers", num_teachers)
    counts = validation.require_histogram("votes", votes, num_teachers=num_teachers, num_axes=2)
    require(counts.shape[1] >= 2, "votes.shape", counts.shape, "at least two classes")
    if (wrong := np.flatnonzero(counts.sum(axis=1) != num_teachers)).size:
        raise InvalidValue(f"votes[{wrong[0]}].sum", rule=f"{num_teachers}, one vote per teacher")
    return counts

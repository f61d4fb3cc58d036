"""The data-dependent cost of a release: its Renyi divergences on the votes that were cast, not on the worst votes.

If the teachers agree, a release reveals less than its price. The data-dependent cost is the largest divergence between
the release on the votes that were cast and the release on any neighbor of these votes. The cost depends on the votes,
so the cost itself is private and is no privacy guarantee. Therefore `DataDependentCost` is a type that no accountant
accepts. Source: docs/proofs/data_dependent.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate import validation
from pate.accounting.conversion import rdp_to_epsilons
from pate.accounting.data_dependent_epsilon import DataDependentEpsilon
from pate.accounting.events import BitEvent, BoundedRangeEvent
from pate.accounting.rdp import order_array
from pate.accounting.renyi import bernoulli_rdp
from pate.accounting.special import log_expit
from pate.array_types import FloatArray, IntArray
from pate.auditing.gap_selection_divergence import gap_selection_rdp, top_log_odds
from pate.auditing.gnmax_divergence import gnmax_log_q, gnmax_rdp, one_vote_each
from pate.validation import normalize_field, require

_CELLS_AT_ONCE = 16384


@dataclass(frozen=True, eq=False, repr=False)
class DataDependentCost:
    """The Renyi divergences of a release on the votes D that were cast, at A orders.

    For a release M, the divergences bound D_a(M(D) || M(D')) and D_a(M(D') || M(D)) for all neighbors D' of D. They
    depend on D, so they are private and no privacy guarantee. A cost is no `Event`: accountants, ledgers and files
    refuse it, and its repr shows no number.

    The costs of releases on the same data are added by `+`. A query that gets no answer also has a cost.
    """

    orders: FloatArray  # [A], the Renyi orders > 1
    rdp: FloatArray  # [A], the divergence at each order, >= 0; infinity is allowed
    failure_prob: float = 0.0  # in [0, 1), the probability that the divergences do not hold

    def __post_init__(self) -> None:
        orders = order_array(self.orders).copy()
        rdp = np.array(self.rdp, dtype=np.float64)
        require(
            rdp.shape == orders.shape,
            "rdp.shape",
            rdp.shape,
            f"{orders.shape}, one number for each order",
        )
        num_bad = int((~(rdp >= 0)).sum())  # the message has no cost, which is private
        require(num_bad == 0, "rdp", f"{num_bad} of {rdp.size} numbers", "numbers >= 0")
        require(0 <= self.failure_prob < 1, "failure_prob", self.failure_prob, "a number in [0, 1)")
        for name, array in (("orders", orders), ("rdp", rdp)):
            array.setflags(write=False)
            normalize_field(self, name, array)

    def __add__(self, other: DataDependentCost) -> DataDependentCost:
        if not isinstance(other, DataDependentCost):
            return NotImplemented
        are_equal = np.array_equal(self.orders, other.orders)
        require(
            are_equal, "orders", f"{self.orders}, {other.orders}", "the same orders in both costs"
        )
        return DataDependentCost(
            orders=self.orders,
            rdp=self.rdp + other.rdp,
            failure_prob=self.failure_prob + other.failure_prob,
        )

    def epsilon(self, target_delta: float) -> DataDependentEpsilon:
        """Returns the data-dependent epsilon at a delta that includes the failure probability; it is private too.

        Raises `InvalidValue` unless `failure_prob` < `target_delta` < 1 + `failure_prob`.
        """
        left = target_delta - self.failure_prob
        require(
            0 < left < 1, "target_delta", target_delta, f"more than {self.failure_prob}, below 1"
        )
        epsilons = rdp_to_epsilons(self.orders, self.rdp, target_delta=left)
        return DataDependentEpsilon(value=float(epsilons.min()), delta=target_delta)

    def __repr__(self) -> str:
        return "DataDependentCost(private: computed from votes; release it through a sanitizer)"


def one_bit_cost(
    statistics: NDArray[np.integer], *, event: BitEvent, orders: object, failure_prob: float = 0.0
) -> DataDependentCost:
    """Returns the data-dependent cost of a release of one bit for each query, or for each label of each query.

    The bits have independent noise. Between neighboring data sets all statistics may move at once, each by at most
    `event.reach` in either direction. So the divergences of all bits are added.

    Args:
        statistics: the whole number on which each bit depends, `[Q]`, or `[Q, L]` for a bit for each label. Examples
            are the gap in a stability test and the votes of `GaussianVotes`. It is an index of the event's log odds.
        event: the price of one bit.
        orders: Renyi orders > 1.
        failure_prob: the failure probability of all queries together.
    """
    array = order_array(orders)
    logits = event.log_odds
    last = len(logits) - 1
    actual = validation.require_histogram(
        "statistics", np.atleast_1d(statistics), num_teachers=last
    )

    def both_ways(statistic_levels: IntArray) -> tuple[FloatArray, FloatArray]:
        """Returns the largest divergence between n bits and their neighbors, in both directions: `[n, A]` each.

        Args:
            statistic_levels: the statistic of each bit, `[n]`.
        """
        low = logits[np.maximum(statistic_levels - event.reach, 0)]
        high = logits[np.minimum(statistic_levels + event.reach, last)]
        # of a bit and its neighbor, and of the two exchanged
        curves = np.zeros((2, 2, len(statistic_levels), len(array)))
        for curve, first, second in zip(
            curves, (low, logits[statistic_levels]), (logits[statistic_levels], high), strict=True
        ):
            moved = first != second
            first_odds = first[moved, None]
            second_odds = second[moved, None]
            # logarithms of the probabilities of 1 and 0 of either bit
            log_p = log_expit(first_odds)
            log_not_p = log_expit(-first_odds)
            log_q = log_expit(second_odds)
            log_not_q = log_expit(-second_odds)
            curve[0, moved] = bernoulli_rdp(
                log_p, log_not_p=log_not_p, log_q=log_q, log_not_q=log_not_q, orders=array
            )
            curve[1, moved] = bernoulli_rdp(
                log_q, log_not_p=log_not_q, log_q=log_p, log_not_q=log_not_p, orders=array
            )
        (rising_here, falling_here), (rising, falling) = curves
        return np.maximum(falling_here, rising), np.maximum(rising_here, falling)

    rdp = _summed(actual.astype(np.int64), orders=array, divergences_of=both_ways)
    return DataDependentCost(orders=array, rdp=rdp, failure_prob=failure_prob)


def gap_selection_cost(
    utilities: FloatArray, *, event: BoundedRangeEvent, orders: object
) -> DataDependentCost:
    """Returns the data-dependent cost of gap selection on all queries, including queries that get no answer.

    Args:
        utilities: (gap + regularizer) / noise scale of each of n candidates, `[Q, n]`.
        event: the price of one selection.
        orders: Renyi orders > 1.
    """
    array = order_array(orders)
    both_ways = partial(gap_selection_rdp, event=event, orders=array)
    log_odds = top_log_odds(utilities)
    rdp = _summed(log_odds, orders=array, divergences_of=both_ways)
    return DataDependentCost(orders=array, rdp=rdp)


def gnmax_cost(
    votes: NDArray[np.integer], *, noise_std: float, num_teachers: int, orders: object
) -> DataDependentCost:
    """Returns the data-dependent cost of GNMax on the answered queries.

    If a noisy threshold decides which queries are answered, the cost of that threshold on all queries must be added.

    Args:
        votes: the counts of votes on the answered queries, `[Q, L]` with L >= 2. Each teacher has one vote in each
            query.
        noise_std: the standard deviation of the noise on each count, in votes.
        num_teachers: the number of teachers T.
        orders: Renyi orders > 1.

    Raises:
        InvalidValue: the votes of a query do not add up to `num_teachers`.
    """
    array = order_array(orders)
    log_q = gnmax_log_q(one_vote_each(votes, num_teachers), noise_std=noise_std)

    def divergences_of(log_q_part: NDArray[Any]) -> tuple[FloatArray, ...]:
        return (gnmax_rdp(log_q_part, noise_std=noise_std, orders=array),)

    rdp = _summed(log_q, orders=array, divergences_of=divergences_of)
    return DataDependentCost(orders=array, rdp=rdp)


def _summed(
    query_values: NDArray[Any],
    orders: FloatArray,
    divergences_of: Callable[[NDArray[Any]], tuple[FloatArray, ...]],
) -> FloatArray:
    """Returns the sum of the divergences of all queries, `[A]`, in the direction whose sum is larger at each order.

    Args:
        query_values: the number on which the divergence of each query depends. Equal numbers are evaluated once.
        orders: the Renyi orders, `[A]`.
        divergences_of: returns the divergences of n different numbers, an array `[n, A]` for each direction.
    """
    different, counts = np.unique(query_values, return_counts=True)
    values_at_once = max(1, _CELLS_AT_ONCE // orders.size)
    sums = np.zeros((1, orders.size))
    for start in range(0, len(different), values_at_once):
        rows = slice(start, start + values_at_once)
        sums = sums + [counts[rows] @ direction for direction in divergences_of(different[rows])]
    return np.asarray(sums.max(axis=0))

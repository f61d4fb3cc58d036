"""The data-dependent cost of a release: its Renyi divergences on the votes that were cast, not on the worst votes.

If the teachers agree, a release reveals less than its price. The data-dependent cost bounds the divergences between the
release on the votes that were cast and the release on any neighbor of these votes. The cost depends on the votes, so
the cost itself is private and is no privacy guarantee. Therefore `DataDependentCost` is a type that no accountant
accepts. Source: docs/proofs/data_dependent.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting.accountant import delta_after_failures
from pate.accounting.conversion import rdp_to_epsilons
from pate.accounting.data_dependent_epsilon import DataDependentEpsilon
from pate.accounting.events import BitEvent, BoundedRangeEvent
from pate.accounting.rdp import order_array
from pate.accounting.renyi import bernoulli_rdp
from pate.accounting.special import log_expit
from pate.array_types import FloatArray, IntArray
from pate.auditing.gap_selection_divergence import gap_selection_rdp, log_odds_of_best_candidate
from pate.auditing.gnmax_divergence import gnmax_log_q, gnmax_rdp, one_vote_each
from pate.validation import InvalidValue, normalize_field, require, require_histogram

# The number of divergences that are computed at a time, over queries and orders.
_BLOCK_SIZE = 16384


@dataclass(frozen=True, eq=False, repr=False)  # == of arrays is an array
class DataDependentCost:
    """Bounds on the Renyi divergences of a release on the votes D that were cast, at A orders.

    For a release M, they bound D_a(M(D) || M(D')) and D_a(M(D') || M(D)) for all neighbors D' of D. The bounds depend
    on D, so they are private and no privacy guarantee. A cost is no `Event`: accountants, ledgers and files refuse it,
    and its repr shows no number.

    The costs of releases on the same data are added by `+`. A query that gets no answer also has a cost.

    Attributes:
        orders: the Renyi orders > 1, `[A]`.
        rdp: the bound at each order, >= 0, possibly infinity, `[A]`.
        failure_prob: the probability that the bounds do not hold, in [0, 1).
    """

    orders: FloatArray
    rdp: FloatArray
    failure_prob: float = 0.0

    def __post_init__(self) -> None:
        orders = order_array(self.orders).copy()
        rdp = np.array(self.rdp, dtype=np.float64)
        rule = f"{orders.shape}, one number for each order"
        require(rdp.shape == orders.shape, "rdp.shape", rdp.shape, rule)
        # The error shows the number of bad values, and not a cost, which is private.
        num_bad = int((~(rdp >= 0)).sum())
        require(num_bad == 0, "rdp", f"{num_bad} of {rdp.size} numbers", "numbers >= 0")
        require(0 <= self.failure_prob < 1, "failure_prob", self.failure_prob, "a number in [0, 1)")
        for field_name, checked_array in (("orders", orders), ("rdp", rdp)):
            checked_array.setflags(write=False)
            normalize_field(self, name=field_name, value=checked_array)

    def __add__(self, other: DataDependentCost) -> DataDependentCost:
        if not isinstance(other, DataDependentCost):
            return NotImplemented
        if not np.array_equal(self.orders, other.orders):
            orders_of_both = f"{self.orders}, {other.orders}"
            raise InvalidValue("orders", orders_of_both, rule="the same orders in both costs")
        return DataDependentCost(
            orders=self.orders,
            rdp=self.rdp + other.rdp,
            failure_prob=self.failure_prob + other.failure_prob,
        )

    def epsilon(self, target_delta: float) -> DataDependentEpsilon:
        """Returns the data-dependent epsilon at a delta that includes the failure probability; it is private too.

        Raises `InvalidValue` unless `target_delta` is in (0, 1) and above `failure_prob`.
        """
        remaining_delta = delta_after_failures(target_delta, failure_prob=self.failure_prob)
        epsilons = rdp_to_epsilons(self.orders, self.rdp, target_delta=remaining_delta)
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
            are the gap in a stability test and the votes of `GaussianVotes`. The entry of `event.log_odds` at this
            index has the log odds that the bit is 1.
        event: the price of one bit.
        orders: Renyi orders > 1.
        failure_prob: the failure probability of all queries together.
    """
    checked_orders = order_array(orders)
    last_statistic = len(event.log_odds) - 1
    checked_statistics = require_histogram(
        "statistics", np.atleast_1d(statistics), largest_count=last_statistic
    )
    rdp = _summed_rdp(
        query_values=checked_statistics.astype(np.int64),
        orders=checked_orders,
        compute_divergences=partial(_one_bit_divergences, event=event, orders=checked_orders),
    )
    return DataDependentCost(orders=checked_orders, rdp=rdp, failure_prob=failure_prob)


def _one_bit_divergences(
    statistics: IntArray, *, event: BitEvent, orders: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Returns the largest Renyi divergences between n bits and these bits on neighboring data sets, `[n, A]` each.

    The first array is D_a(bit || neighbor), the second is D_a(neighbor || bit).

    Args:
        statistics: the whole number on which each bit depends, an index of `event.log_odds`, `[n]`.
        event: the price of one bit.
        orders: the Renyi orders, `[A]`.
    """
    log_odds = event.log_odds
    last_statistic = len(log_odds) - 1
    # A bit is furthest from its neighbors whose statistic has moved as far as it can, down or up.
    bit_log_odds = log_odds[statistics]
    lower_neighbor_log_odds = log_odds[np.maximum(statistics - event.reach, 0)]
    higher_neighbor_log_odds = log_odds[np.minimum(statistics + event.reach, last_statistic)]
    divergences_to_lower = _bernoulli_divergences(
        first_log_odds=bit_log_odds, second_log_odds=lower_neighbor_log_odds, orders=orders
    )
    divergences_from_lower = _bernoulli_divergences(
        first_log_odds=lower_neighbor_log_odds, second_log_odds=bit_log_odds, orders=orders
    )
    divergences_to_higher = _bernoulli_divergences(
        first_log_odds=bit_log_odds, second_log_odds=higher_neighbor_log_odds, orders=orders
    )
    divergences_from_higher = _bernoulli_divergences(
        first_log_odds=higher_neighbor_log_odds, second_log_odds=bit_log_odds, orders=orders
    )
    return np.maximum(divergences_to_lower, divergences_to_higher), np.maximum(
        divergences_from_lower, divergences_from_higher
    )


def _bernoulli_divergences(
    first_log_odds: FloatArray, second_log_odds: FloatArray, *, orders: FloatArray
) -> FloatArray:
    """Returns the Renyi divergence D_a(P || Q) of n pairs of bits, `[n, A]`, from their log odds.

    Args:
        first_log_odds: the log odds of 1 for the first bit P of each pair, `[n]`.
        second_log_odds: the log odds of 1 for the second bit Q of each pair, `[n]`.
        orders: the Renyi orders a, `[A]`.
    """
    divergences = np.zeros((len(first_log_odds), len(orders)))
    is_different = first_log_odds != second_log_odds
    first_logits = first_log_odds[is_different, None]
    second_logits = second_log_odds[is_different, None]
    # p and q are the probabilities of 1 for the first and the second bit.
    divergences[is_different] = bernoulli_rdp(
        log_p=log_expit(first_logits),
        log_not_p=log_expit(-first_logits),
        log_q=log_expit(second_logits),
        log_not_q=log_expit(-second_logits),
        orders=orders,
    )
    return divergences


def gap_selection_cost(
    utilities: FloatArray, *, event: BoundedRangeEvent, orders: object
) -> DataDependentCost:
    """Returns the data-dependent cost of gap selection on all queries, including queries that get no answer.

    Args:
        utilities: (gap + regularizer) / noise scale of each of n candidates, `[Q, n]`.
        event: the price of one selection.
        orders: Renyi orders > 1.
    """
    checked_orders = order_array(orders)
    rdp = _summed_rdp(
        query_values=log_odds_of_best_candidate(utilities),
        orders=checked_orders,
        compute_divergences=partial(gap_selection_rdp, event=event, orders=checked_orders),
    )
    return DataDependentCost(orders=checked_orders, rdp=rdp)


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
    checked_orders = order_array(orders)
    counts = one_vote_each(vote_counts=votes, num_teachers=num_teachers)
    log_q = gnmax_log_q(counts, noise_std=noise_std)

    def compute_divergences(log_q_part: NDArray[Any]) -> tuple[FloatArray, ...]:
        """Returns an array `[n, A]` that bounds the divergences in both directions, from n values of log q."""
        return (gnmax_rdp(log_q_part, noise_std=noise_std, orders=checked_orders),)

    rdp = _summed_rdp(
        query_values=log_q, orders=checked_orders, compute_divergences=compute_divergences
    )
    return DataDependentCost(orders=checked_orders, rdp=rdp)


def _summed_rdp(
    query_values: NDArray[Any],
    *,
    orders: FloatArray,
    compute_divergences: Callable[[NDArray[Any]], tuple[FloatArray, ...]],
) -> FloatArray:
    """Returns the sum of the divergences of all queries, `[A]`, in the direction whose sum is larger at each order.

    Args:
        query_values: the number on which the divergence of each query depends. Equal numbers are evaluated once.
        orders: the Renyi orders, `[A]`.
        compute_divergences: returns the divergences of n different numbers, an array `[n, A]` for each direction.
    """
    distinct_values, query_counts = np.unique(query_values, return_counts=True)
    values_per_block = max(1, _BLOCK_SIZE // orders.size)
    # The first sum broadcasts this row to a row for each direction.
    sums_by_divergence_direction = np.zeros((1, orders.size))
    for start in range(0, len(distinct_values), values_per_block):
        block = slice(start, start + values_per_block)
        divergences = compute_divergences(distinct_values[block])
        sums_by_divergence_direction = sums_by_divergence_direction + [
            query_counts[block] @ direction for direction in divergences
        ]
    return np.asarray(sums_by_divergence_direction.max(axis=0))

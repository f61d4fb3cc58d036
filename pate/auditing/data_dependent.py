"""Data-dependent cost: the Renyi curve of a release on its own votes. It is itself private, and no guarantee.

A release on which the teachers agree gives away less than its price says. The cost on the votes at hand is the largest
divergence between that release and one on a neighbor of these votes. Another set of votes has another cost, so the
cost tells about the votes: `DataDependentCost` is a type of its own, which no accountant takes. Source:
docs/proofs/data_dependent.md.
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
from pate.accounting.special import Array, log_expit
from pate.auditing.gap_selection_divergence import gap_selection_rdp, top_log_odds
from pate.auditing.gnmax_divergence import gnmax_log_q, gnmax_rdp, one_vote_each
from pate.validation import normalize_field, require

_CELLS_AT_ONCE = 16384


@dataclass(frozen=True, eq=False, repr=False)
class DataDependentCost:
    """The Renyi curve of a release on its own votes.

    The curve bounds D_a(M(D) || M(D')) and D_a(M(D') || M(D)) for the votes D at hand and all of their neighbors D'.
    Another D has another curve, so the cost is no guarantee and reveals something of the votes. It is no `Event`:
    accountants, ledgers and files refuse it, and its repr shows no number.

    Costs of releases on the same data add: `cost + cost`. A refused query costs what its refusal costs.
    """

    orders: Array  # `[A]` orders > 1
    rdp: Array  # `[A]`, the divergence at each order, >= 0; infinity is allowed
    failure_prob: float = 0.0  # in [0, 1), of the event outside of which the curve holds

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
            self.orders, self.rdp + other.rdp, self.failure_prob + other.failure_prob
        )

    def epsilon(self, target_delta: float) -> DataDependentEpsilon:
        """Returns the epsilon at a delta, failures included; as private as the cost."""
        left = target_delta - self.failure_prob
        require(
            0 < left < 1, "target_delta", target_delta, f"more than {self.failure_prob}, below 1"
        )
        epsilons = rdp_to_epsilons(self.orders, self.rdp, target_delta=left)
        return DataDependentEpsilon(float(epsilons.min()), target_delta)

    def __repr__(self) -> str:
        return "DataDependentCost(private: computed from votes; release it through a sanitizer)"


def one_bit_cost(
    statistics: NDArray[np.integer], *, event: BitEvent, orders: object, failure_prob: float = 0.0
) -> DataDependentCost:
    """Returns the cost of one bit for each query, or for each label of each query.

    The bits have independent noise, and one change may move all their statistics at once, each by the event's reach in
    either direction. So divergences add over all bits, and the worst neighbor is the worst for every bit.

    Args:
        statistics: the integers on which the bits depend, `[Q]`, or `[Q, L]` with a bit for each label: gaps of a
            stability test, votes of `GaussianVotes`. They are places in the event's log odds.
        event: the price of one bit.
        orders: Renyi orders > 1.
        failure_prob: of all queries together, where the event stands inside an `ApproximateEvent`.
    """
    array = order_array(orders)
    logits = event.log_odds
    last = len(logits) - 1
    actual = validation.require_histogram(
        "statistics", np.atleast_1d(statistics), num_teachers=last
    )

    def both_ways(levels: NDArray[np.int64]) -> tuple[Array, Array]:
        """Returns the largest divergence from a neighbor, and to a neighbor, of bits at levels `[n]`: `[n, A]` each."""
        low = logits[np.maximum(levels - event.reach, 0)]
        high = logits[np.minimum(levels + event.reach, last)]
        # of a bit and its neighbor, and of the two exchanged
        curves = np.zeros((2, 2, len(levels), len(array)))
        for curve, first, second in zip(
            curves, (low, logits[levels]), (logits[levels], high), strict=True
        ):
            moved = first != second
            first_odds = first[moved, None]
            second_odds = second[moved, None]
            # logarithms of the probabilities of 1 and 0 of either bit
            p = log_expit(first_odds)
            not_p = log_expit(-first_odds)
            q = log_expit(second_odds)
            not_q = log_expit(-second_odds)
            curve[0, moved] = bernoulli_rdp(p, not_p, q, not_q, array)
            curve[1, moved] = bernoulli_rdp(q, not_q, p, not_p, array)
        (rising_here, falling_here), (rising, falling) = curves
        return np.maximum(falling_here, rising), np.maximum(rising_here, falling)

    return DataDependentCost(
        array, _summed(actual.astype(np.int64), array, both_ways), failure_prob
    )


def gap_selection_cost(
    utilities: Array, *, event: BoundedRangeEvent, orders: object
) -> DataDependentCost:
    """Returns the cost of gap selection on all queries, answered and refused alike.

    Args:
        utilities: of the candidates, `[Q, n]`: (gap + regularizer) / noise scale.
        event: the price of one selection; its epsilon is the range of a change of utilities.
        orders: Renyi orders > 1.
    """
    array = order_array(orders)
    both_ways = partial(gap_selection_rdp, event=event, orders=array)
    return DataDependentCost(array, _summed(top_log_odds(utilities), array, both_ways))


def gnmax_cost(
    votes: NDArray[np.integer], *, noise_std: float, num_teachers: int, orders: object
) -> DataDependentCost:
    """Returns the cost of GNMax on the queries that drew its noise.

    Where a noisy threshold decides which queries are answered, these are the queries that passed. The cost of the
    threshold on all queries comes on top.

    Args:
        votes: `[Q, L]` with L >= 2, one vote of each teacher in each query.
        noise_std: of the noise on each count, in votes.
        num_teachers: T.
        orders: Renyi orders > 1.
    """
    array = order_array(orders)
    log_q = gnmax_log_q(one_vote_each(votes, num_teachers), noise_std=noise_std)
    rdp = _summed(log_q, array, lambda part: (gnmax_rdp(part, noise_std=noise_std, orders=array),))
    return DataDependentCost(array, rdp)


def _summed(
    queries: NDArray[Any], orders: Array, divergences: Callable[[NDArray[Any]], tuple[Array, ...]]
) -> Array:
    """Returns the sum of divergences over all queries, in the direction whose sum is larger: `[A]`.

    Args:
        queries: any numbers, one for each query; equal ones are computed once, a few at a time.
        orders: `[A]`.
        divergences: returns the divergences `[n, A]` of n different queries, once for each direction.
    """
    different, counts = np.unique(queries, return_counts=True)
    size = max(1, _CELLS_AT_ONCE // orders.size)
    sums = np.zeros((1, orders.size))
    for start in range(0, len(different), size):
        rows = slice(start, start + size)
        sums = sums + [counts[rows] @ direction for direction in divergences(different[rows])]
    return np.asarray(sums.max(axis=0))

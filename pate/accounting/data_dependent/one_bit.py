"""The data-dependent cost of released bits: their distributions at the actual statistics against those within reach."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pate.accounting.data_dependent.cost import DataDependentCost, order_array
from pate.accounting.events import OneBitEvent
from pate.accounting.renyi import bernoulli_rdp
from pate.accounting.special import log_expit
from pate.validation import require_histogram

Array = NDArray[np.float64]

_CELLS_AT_ONCE = 16384


def one_bit_cost(
    statistics: NDArray[np.integer], *, event: OneBitEvent, orders: object, failure_prob: float = 0.0
) -> DataDependentCost:
    """The realized cost of one bit for each query asked, or for each label of each query, whatever came out.

    The bits have independent noise, and one change may move all their statistics at once, each by the event's reach in
    either direction. So divergences add over all bits, and the worst neighbor is the worst for every bit. Exact where
    the statistics move independently: the counts of a query under replace-one, where a teacher may change any of its
    votes.

    Args:
        statistics: `[Q]` the integer each bit depended on (for a stability test the gap), or `[Q, L]` with a bit for
            each label (for `GaussianVotes` the votes); below len(event.logits).
        event: the price of one bit: its logits at every statistic, and the reach of a change.
        orders: `[A]` orders > 1.
        failure_prob: of all the queries together, where the event stands inside an `ApproximateEvent`.
    """
    array, last = order_array(orders), len(event.logits) - 1
    actual = require_histogram("statistics", np.atleast_1d(statistics), num_teachers=last)
    levels, counts = np.unique(actual.astype(np.int64), return_counts=True)
    sums = [np.zeros_like(array), np.zeros_like(array)]
    size = max(1, _CELLS_AT_ONCE // array.size)
    for start in range(0, len(levels), size):
        rows = slice(start, start + size)
        for total, block in zip(sums, _at_levels(levels[rows], event, array), strict=True):
            total += counts[rows].astype(np.float64) @ block
    return DataDependentCost(array, np.maximum(*sums), failure_prob)


def _at_levels(levels: NDArray[np.int64], event: OneBitEvent, orders: Array) -> tuple[Array, Array]:
    """The largest divergence from each level's distribution to one within reach, and to it from one: `[K, A]` each."""
    last, logits = len(event.logits) - 1, np.array(event.logits)
    lower, upper = np.maximum(levels - event.reach, 0), np.minimum(levels + event.reach, last)
    pairs = np.stack([np.concatenate([lower, levels]), np.concatenate([levels, upper])])
    (low, high), which = np.unique(pairs, axis=1, return_inverse=True)
    rising, falling = _between(logits[low], logits[high], orders)
    below, above = which.reshape(2, -1)
    return np.maximum(falling[below], rising[above]), np.maximum(rising[below], falling[above])


def _between(first: Array, second: Array, orders: Array) -> tuple[Array, Array]:
    """Both divergences between bits with these logits: `[P, A]` each."""
    curves = np.zeros((2, len(first), len(orders)))
    moved = first != second
    one, two = ((log_expit(logits), log_expit(-logits)) for logits in (first[moved, None], second[moved, None]))
    curves[0, moved] = bernoulli_rdp(*one, *two, orders)
    curves[1, moved] = bernoulli_rdp(*two, *one, orders)
    return curves[0], curves[1]

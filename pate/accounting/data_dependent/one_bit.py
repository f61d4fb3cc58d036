"""The data-dependent cost of one released bit: its law at the actual statistic against those within reach."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from pate.accounting.data_dependent.cost import DataDependentCost, order_array
from pate.accounting.events import OneBitEvent
from pate.accounting.renyi import bernoulli_rdp
from pate.validation import require_histogram

Array = NDArray[np.float64]


def one_bit_cost(
    statistics: NDArray[np.integer], *, event: OneBitEvent, orders: object, failure_prob: float = 0.0
) -> DataDependentCost:
    """The realised cost of one bit for each query asked, whether it came out 0 or 1.

    Args:
        statistics: `[Q]` the integer each bit depended on (for a stability test the gap), below len(event.logits).
        event: the price of one bit: its logits at every statistic, and the reach of a change.
        orders: `[A]` orders > 1.
        failure_prob: of all the queries together, where the event stands inside an `ApproximateEvent`.
    """
    array, last = order_array(orders), len(event.logits) - 1
    actual = np.atleast_1d(require_histogram("statistics", statistics, num_teachers=last, rank=1))
    levels, counts = np.unique(actual, return_counts=True)
    logits = np.array(event.logits)
    here, curves = logits[levels], np.zeros((len(levels), len(array)))
    for there in (logits[np.maximum(levels - event.reach, 0)], logits[np.minimum(levels + event.reach, last)]):
        moved = here != there
        pair = here[moved, None], there[moved, None]
        curves[moved] = np.maximum(curves[moved], _either_way(*pair, array))
    return DataDependentCost(array, counts.astype(np.float64) @ curves, failure_prob)


def _either_way(here: Array, there: Array, orders: Array) -> Array:
    """The larger of both divergences between bits with these logits `[K, 1]`: `[K, A]`."""
    first, second = [(log_expit(logits), log_expit(-logits)) for logits in (here, there)]
    return np.maximum(bernoulli_rdp(*first, *second, orders), bernoulli_rdp(*second, *first, orders))

"""Data-dependent costs, a type that no accountant takes, and those of one bit and of gap selection, in closed form.

docs/proofs/data_dependent.md has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting.events import BoundedRangeEvent, OneBitEvent
from pate.accounting.renyi import bernoulli_rdp, bounded_range_rdp
from pate.accounting.special import log_expit
from pate.validation import require, require_each, require_entries, require_histogram

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class DataDependentCost:
    """The Renyi curve of releases that were made, computed from the votes they were made on.

    It bounds D_a(M(D) || M(D')) and D_a(M(D') || M(D)) for the D at hand and all of its neighbors D'. It is not a
    guarantee: another D has another curve. And it is private: it tells about the votes, so it may leave the machine
    only through a sanitizer. That is why it is no `Event`: accountants, ledgers and files refuse it, and its repr shows
    no number.

    Costs of releases on the same data add: `cost + cost`. A query that was refused costs what its refusal cost.

    Attributes:
        orders: `[A]` orders > 1.
        rdp: `[A]` the divergence at each, >= 0; infinity is allowed.
        failure_prob: in [0, 1), the probability outside of which the curve holds.
    """

    orders: Array
    rdp: Array
    failure_prob: float = 0.0

    def __post_init__(self) -> None:
        orders, rdp = order_array(self.orders).copy(), np.array(self.rdp, dtype=np.float64)
        require(rdp.shape == orders.shape, "rdp.shape", rdp.shape, f"{orders.shape}, one number for each order")
        bad = int((~(rdp >= 0)).sum())  # their number only: the cost is private
        require(bad == 0, "rdp", f"{bad} of {rdp.size} numbers", "numbers >= 0")
        require(0 <= self.failure_prob < 1, "failure_prob", self.failure_prob, "a number in [0, 1)")
        for name, array in (("orders", orders), ("rdp", rdp)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def __add__(self, other: DataDependentCost) -> DataDependentCost:
        """The cost of both, at the same orders."""
        if not isinstance(other, DataDependentCost):
            return NotImplemented
        same = np.array_equal(self.orders, other.orders)
        require(same, "orders", f"{self.orders}, {other.orders}", "the same orders in both costs")
        return DataDependentCost(self.orders, self.rdp + other.rdp, self.failure_prob + other.failure_prob)

    def __repr__(self) -> str:
        """Says that it is private, and nothing else."""
        return "DataDependentCost(private: computed from votes; release it through a sanitizer)"


def order_array(orders: object) -> Array:
    """Orders as an array `[A]`, or raises unless there is one and all are finite and > 1."""
    array = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    require(array.ndim == 1 and array.size > 0, "orders.shape", array.shape, "[num_orders], at least one")
    require_each("orders", array, (array > 1) & np.isfinite(array), "finite numbers > 1")
    return array


def rank_of(orders: Array) -> NDArray[np.intp]:
    """Where each order stands among the sorted orders."""
    return np.argsort(np.argsort(orders, kind="stable"), kind="stable")


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


_LARGEST_EXPONENT = 600.0
_SMALLEST_MASS = 1e-300  # a smaller one is rounded up; times exp(_LARGEST_EXPONENT) it is still nothing
_CANCELS_BELOW = 1e-6
_MANY_CELLS = 2**18  # of log odds times orders: beyond it queries whose log odds are close are priced together
_CLOSE, _BEND = 0.05, 10.0


def gap_selection_cost(utilities: Array, *, event: BoundedRangeEvent, orders: object) -> DataDependentCost:
    """The realized cost of gap selection on all queries asked, answered and refused alike.

    The sum over the queries, in the direction in which it is larger. For thousands of queries at hundreds of orders,
    queries whose log odds differ by less than 0.05 or 0.5% are priced at their mean: never less, and by less than a
    relative 1e-4 more.

    Args:
        utilities: `[Q, n]` what competed: (gap + regularizer) / noise scale.
        event: the price of one query, whose epsilon is the range of a change of the utilities.
        orders: `[A]` orders > 1.
    """
    array = order_array(orders)
    rising = np.sort(array)
    odds, counts = np.unique(top_log_odds(utilities), return_counts=True)
    log_rest, weights = _log_rest(odds), counts.astype(np.float64)
    if odds.size * array.size > _MANY_CELLS:
        log_rest, weights = _merged(log_rest, weights)
    sums = [np.zeros_like(array), np.zeros_like(array)]
    size = max(1, _CELLS_AT_ONCE // array.size)
    for start in range(0, len(log_rest), size):
        rows = slice(start, start + size)
        for total, block in zip(sums, _both_ways(log_rest[rows], event.epsilon, rising), strict=True):
            total += weights[rows] @ block
    return DataDependentCost(array, np.maximum(*sums)[rank_of(array)])


def top_log_odds(utilities: Array) -> Array:
    """Log odds of the likeliest candidate of the exponential mechanism: `[Q]` from utilities `[Q, n]`.

    Between neighbors they move by at most the range of the mechanism's event.

    Args:
        utilities: `[Q, n]`, divided by the noise scale.
    """
    values = np.array(utilities, dtype=np.float64)
    require(values.ndim == 2 and values.shape[1] >= 2, "utilities.shape", values.shape, "[num_queries, at least 2]")
    require_entries("utilities", np.isfinite(values), "finite numbers")
    rows, best = np.arange(len(values)), values.argmax(axis=1)
    largest = values[rows, best]
    values[rows, best] = -np.inf
    second = values.max(axis=1)
    values -= second[:, None]
    return np.asarray(largest - second - np.log(np.exp(values, out=values).sum(axis=1)))


def gap_selection_rdp(log_odds: Array, *, event: BoundedRangeEvent, orders: object) -> tuple[Array, Array]:
    """The suprema of D_a(P || P') and of D_a(P' || P) over all neighbors P' of a distribution P: `[Q, A]` each.

    All that is known of P is its largest probability. Never above the data-independent price, and equal to it where no
    candidate has more than half.

    Args:
        log_odds: `[Q]` log odds of the likeliest candidate of each P.
        event: bounds the range of log(P / P').
        orders: `[A]` orders > 1.
    """
    array = order_array(orders)
    log_rest = _log_rest(np.asarray(log_odds, dtype=np.float64))
    forward, backward = _both_ways(log_rest, event.epsilon, np.sort(array))
    ranks = rank_of(array)
    return forward[:, ranks], backward[:, ranks]


def _log_rest(log_odds: Array) -> Array:
    """Logs of the probability of the others than the likeliest, at most log(1/2): `[Q]`."""
    return -np.logaddexp(0.0, np.maximum(log_odds, 0.0))


def _merged(log_rest: Array, weights: Array) -> tuple[Array, Array]:
    """Fewer rows `[B]`: means of the masses of rows near each other; both moments are concave in the mass."""
    bent = -_BEND * (1 + np.log(np.maximum(log_rest / -_BEND, 1.0)))
    _, cells = np.unique(np.floor(np.maximum(log_rest, bent) / _CLOSE), return_inverse=True)
    totals = np.bincount(cells, weights).astype(np.float64)
    highest = np.full(len(totals), -np.inf)
    np.maximum.at(highest, cells, log_rest)
    means = np.bincount(cells, weights * np.exp(log_rest - highest[cells])) / totals
    return highest + np.log(means), totals


def _both_ways(log_rest: Array, epsilon: float, a: Array) -> tuple[Array, Array]:
    """Forward and backward divergences at rising orders, `[Q, A]` each.

    The worst change makes a mass of at most exp(log_rest) likelier, but for the forward one from order 2 on: there less
    likely.
    """
    ceiling = bounded_range_rdp(epsilon, a)
    if epsilon < _CANCELS_BELOW or math.isinf(epsilon):
        whole = np.tile(ceiling, (len(log_rest), 1))
        return whole, whole.copy()
    split = int(np.searchsorted(a, 2.0))
    low, high = a[:split], a[split:]
    forward = np.concatenate(
        [
            _moment(log_rest, epsilon, low - 1, (1 - low) * epsilon, _forward_peak(epsilon, low)),
            _moment(log_rest, -epsilon, high - 1, (high - 1) * epsilon, _forward_peak(-epsilon, high)),
        ],
        axis=1,
    )
    backward = _moment(log_rest, epsilon, -a, a * epsilon, _backward_peak(epsilon, a))
    return _divergence(forward, a, ceiling), _divergence(backward, a, ceiling)


def _divergence(log_moment: Array, a: Array, ceiling: Array) -> Array:
    log_moment *= 1 / (a - 1)
    np.clip(log_moment, 0.0, ceiling, out=log_moment)
    return log_moment


def _forward_peak(shift: float, a: Array) -> Array:
    """The mass at which the forward moment is largest, if it is free: `[A]`."""
    return np.maximum(-((a - 1) / _expm1(-(a - 1) * shift) + 1 / math.expm1(shift)) / a, 0.0)


def _backward_peak(shift: float, a: Array) -> Array:
    """The mass at which the backward moment is largest, if it is free: `[A]`."""
    return np.maximum((1 / math.expm1(shift) - a / _expm1(a * shift)) / (a - 1), 0.0)


def _moment(log_rest: Array, shift: float, power: Array, exponent: Array, peak: Array) -> Array:
    """Power times log(1 + t expm1(shift)), plus log(1 + t expm1(exponent)): `[Q, A]`.

    The mass t is the smaller of exp(log_rest) and the peak.
    """
    rest, factor = np.maximum(np.exp(log_rest), _SMALLEST_MASS)[:, None], math.expm1(shift)  # [Q, 1]
    capped = (np.minimum if shift > 0 else np.maximum)(np.log1p(rest * factor), np.log1p(peak * factor))
    capped *= power
    near = int(np.searchsorted(np.abs(exponent), _LARGEST_EXPONENT))
    mass = np.minimum(rest, peak)
    mixed = mass[:, :near]
    mixed *= np.expm1(exponent[:near])
    capped[:, :near] += np.log1p(mixed, out=mixed)
    with np.errstate(divide="ignore"):
        log_mass = np.minimum(log_rest[:, None], np.log(peak[near:]))
    capped[:, near:] += np.logaddexp(log_mass + exponent[near:], np.log1p(-mass[:, near:]))
    return np.asarray(capped)


def _expm1(x: Array) -> Array:
    return np.expm1(np.minimum(x, _LARGEST_EXPONENT))

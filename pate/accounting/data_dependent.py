"""Data-dependent cost: what a release cost on the given votes. It is itself private, and no guarantee.

Costs are of a type that no accountant takes; a sanitizer, with a price of its own, is the only way in which one leaves
the machine (docs/proofs/data_dependent.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate import validation
from pate.accounting.adjacency import Adjacency
from pate.accounting.conversion import rdp_to_epsilons
from pate.accounting.events import (
    BitEvent,
    BoundedRangeEvent,
    GaussianEvent,
    SmoothSensitivityEvent,
)
from pate.accounting.rdp import RdpAccountant, order_array
from pate.accounting.renyi import bernoulli_rdp, bounded_range_rdp
from pate.accounting.rounding import format_delta, format_epsilon
from pate.accounting.special import Array, log_expit, log_ndtr, ndtri, ndtri_exp
from pate.validation import (
    InvalidValue,
    normalize_field,
    require,
    require_count,
    require_positive,
    require_probability,
)

if TYPE_CHECKING:
    from pate.accounting.ledger import Ledger

__all__ = [
    "DataDependentCost",
    "DataDependentEpsilon",
    "GapCostSanitizer",
    "GnmaxCostSanitizer",
    "estimated_epsilon",
    "gap_selection_cost",
    "gnmax_cost",
    "one_bit_cost",
    "statement",
]


_CELLS_AT_ONCE = 16384
_LARGEST_EXPONENT = 600.0
# a smaller one is rounded up; times exp(_LARGEST_EXPONENT) it is still nothing
_SMALLEST_MASS = 1e-300
_CANCELS_BELOW = 1e-6
_SMALLEST_X = 1e-6  # below it the independent price: 1 - q has no digits left
_CELLS_OF_LOG_Q = 4096
_CELLS_OF_LOG_ODDS = 60_000
_LARGEST_LOG_ODDS = 60.0
_PARTS = 100
_MOST_CELLS = 1_000_000
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class DataDependentCost:
    """The Renyi curve of releases that were made, computed from the votes they were made on.

    It bounds D_a(M(D) || M(D')) and D_a(M(D') || M(D)) for the D at hand and all of its neighbors D'. It is no
    guarantee, as another D has another curve, and it tells about the votes. That is why it is no `Event`: accountants,
    ledgers and files refuse it, and its repr shows no number.

    Costs of releases on the same data add: `cost + cost`. A query that was refused costs what its refusal cost.
    """

    orders: Array  # `[A]` orders > 1
    rdp: Array  # `[A]` the divergence at each, >= 0; infinity is allowed
    failure_prob: float = 0.0  # in [0, 1), the probability outside of which the curve holds

    def __post_init__(self) -> None:
        orders = order_array(self.orders).copy()
        rdp = np.array(self.rdp, dtype=np.float64)
        require(
            rdp.shape == orders.shape,
            "rdp.shape",
            rdp.shape,
            f"{orders.shape}, one number for each order",
        )
        bad = int((~(rdp >= 0)).sum())  # their number only: the cost is private
        require(bad == 0, "rdp", f"{bad} of {rdp.size} numbers", "numbers >= 0")
        require(0 <= self.failure_prob < 1, "failure_prob", self.failure_prob, "a number in [0, 1)")
        for name, array in (("orders", orders), ("rdp", rdp)):
            array.setflags(write=False)
            normalize_field(self, name, array)

    def __add__(self, other: DataDependentCost) -> DataDependentCost:
        if not isinstance(other, DataDependentCost):
            return NotImplemented
        same = np.array_equal(self.orders, other.orders)
        require(same, "orders", f"{self.orders}, {other.orders}", "the same orders in both costs")
        return DataDependentCost(
            self.orders, self.rdp + other.rdp, self.failure_prob + other.failure_prob
        )

    def epsilon(self, target_delta: float) -> DataDependentEpsilon:
        """What it comes to at a delta, failures included; as private as the cost."""
        left = target_delta - self.failure_prob
        require(
            0 < left < 1, "target_delta", target_delta, f"more than {self.failure_prob}, below 1"
        )
        epsilons = rdp_to_epsilons(self.orders, self.rdp, target_delta=left)
        return DataDependentEpsilon(float(epsilons.min()), target_delta)

    def __repr__(self) -> str:
        return "DataDependentCost(private: computed from votes; release it through a sanitizer)"


@dataclass(frozen=True)
class DataDependentEpsilon:
    """What a release cost on the votes at hand: no guarantee, no number that adds up with one, and itself private."""

    value: float  # >= 0; infinity is allowed
    delta: float  # in (0, 1)

    def __str__(self) -> str:
        return (
            f"{format_epsilon(self.value)} at delta = {format_delta(self.delta)} on "
            "these votes: private, no guarantee"
        )


def one_bit_cost(
    statistics: NDArray[np.integer], *, event: BitEvent, orders: object, failure_prob: float = 0.0
) -> DataDependentCost:
    """The realized cost of one bit for each query asked, or for each label of each query, whatever came out.

    The bits have independent noise, and one change may move all their statistics at once, each by the event's reach in
    either direction. So divergences add over all bits, and the worst neighbor is the worst for every bit. The
    integers the bits depended on are `statistics`, `[Q]`, or `[Q, L]` with a bit for each label: gaps for a stability
    test, votes for `GaussianVotes`. They are places in the event's log odds. `failure_prob` is that of all the queries
    together, where the event stands inside an `ApproximateEvent`.
    """
    array = order_array(orders)
    logits = event.log_odds
    last = len(logits) - 1
    actual = validation.require_histogram(
        "statistics", np.atleast_1d(statistics), num_teachers=last
    )

    def both_ways(levels: NDArray[np.int64]) -> tuple[Array, Array]:
        low = logits[np.maximum(levels - event.reach, 0)]
        high = logits[np.minimum(levels + event.reach, last)]
        # of a bit and its neighbor, and of the two exchanged
        curves = np.zeros((2, 2, len(levels), len(array)))
        for made, first, second in zip(
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
            made[0, moved] = bernoulli_rdp(p, not_p, q, not_q, array)
            made[1, moved] = bernoulli_rdp(q, not_q, p, not_p, array)
        (rising_here, falling_here), (rising, falling) = curves
        return np.maximum(falling_here, rising), np.maximum(rising_here, falling)

    return DataDependentCost(
        array, _summed(actual.astype(np.int64), array, both_ways), failure_prob
    )


def _summed(
    queries: NDArray[Any], orders: Array, divergences: Callable[[NDArray[Any]], tuple[Array, ...]]
) -> Array:
    """The larger of the sums over all queries of their divergences, one way and the other, `[A]`.

    Equal queries are looked at once, and few at a time, so that what is computed of them stays small.
    """
    different, counts = np.unique(queries, return_counts=True)
    size = max(1, _CELLS_AT_ONCE // orders.size)
    sums = np.zeros((1, orders.size))
    for start in range(0, len(different), size):
        rows = slice(start, start + size)
        sums = sums + [counts[rows] @ way for way in divergences(different[rows])]
    return np.asarray(sums.max(axis=0))


def gap_selection_cost(
    utilities: Array, *, event: BoundedRangeEvent, orders: object
) -> DataDependentCost:
    """The realized cost of gap selection on all queries asked, answered and refused alike, in the larger direction.

    `utilities` `[Q, n]` are what competed: (gap + regularizer) / noise scale. The event's epsilon is the range of a
    change of theirs.
    """
    array = order_array(orders)
    both_ways = partial(gap_selection_rdp, event=event, orders=array)
    return DataDependentCost(array, _summed(top_log_odds(utilities), array, both_ways))


def top_log_odds(utilities: Array) -> Array:
    """Log odds of the likeliest candidate of the exponential mechanism: `[Q]` from utilities `[Q, n]`."""
    values = np.array(utilities, dtype=np.float64)
    require(
        values.ndim == 2 and values.shape[1] >= 2,
        "utilities.shape",
        values.shape,
        "[num_queries, at least 2]",
    )
    validation.require_entries("utilities", np.isfinite(values), "finite numbers")
    rows = np.arange(len(values))
    best = values.argmax(axis=1)
    largest = values[rows, best]
    values[rows, best] = -np.inf
    return np.asarray(largest - np.logaddexp.reduce(values, axis=1))


def gap_selection_rdp(
    log_odds: Array, *, event: BoundedRangeEvent, orders: object
) -> tuple[Array, Array]:
    """The suprema of D_a(P || P') and of D_a(P' || P) over all neighbors P' of a distribution P: `[Q, A]` each."""
    # All that is known of P is its largest probability. At most the data-independent price, which it is where no
    # candidate has more than half.
    array = order_array(orders)
    epsilon = event.epsilon
    # of the others, <= log(1/2)
    log_rest = -np.logaddexp(0.0, np.maximum(np.asarray(log_odds, dtype=np.float64), 0.0))
    ceiling = bounded_range_rdp(epsilon, array)
    if epsilon < _CANCELS_BELOW or math.isinf(epsilon):
        return np.tile(ceiling, (len(log_rest), 1)), np.tile(ceiling, (len(log_rest), 1))
    # The worst change makes a mass of at most exp(log_rest) likelier; the forward one less likely from order 2 on.
    forward = np.empty((len(log_rest), len(array)))
    for shift, some in ((epsilon, array < 2), (-epsilon, array >= 2)):
        a = array[some]
        power = np.expm1(np.minimum((1 - array[some]) * shift, _LARGEST_EXPONENT))
        peak = -((a - 1) / power + 1 / math.expm1(shift)) / a  # where the mass is free
        forward[:, some] = _moment(log_rest, shift, a - 1, (1 - a) * shift, np.maximum(peak, 0.0))
    power = np.expm1(np.minimum(array * epsilon, _LARGEST_EXPONENT))
    peak = np.maximum((1 / math.expm1(epsilon) - array / power) / (array - 1), 0.0)
    backward = _moment(log_rest, epsilon, -array, array * epsilon, peak)
    share = 1 / (array - 1)
    return np.clip(forward * share, 0.0, ceiling), np.clip(backward * share, 0.0, ceiling)


def _moment(log_rest: Array, shift: float, power: Array, exponent: Array, peak: Array) -> Array:
    """Power times log(1 + t expm1(shift)), plus log(1 + t expm1(exponent)): `[Q, A]`."""
    # [Q, 1]
    rest = np.maximum(np.exp(log_rest), _SMALLEST_MASS)[:, None]
    factor = math.expm1(shift)
    capped = (np.minimum if shift > 0 else np.maximum)(
        np.log1p(rest * factor), np.log1p(peak * factor)
    ) * power
    near = np.abs(exponent) < _LARGEST_EXPONENT
    mass = np.minimum(rest, peak)
    capped[:, near] += np.log1p(mass[:, near] * np.expm1(exponent[near]))
    with np.errstate(divide="ignore"):
        log_mass = np.minimum(log_rest[:, None], np.log(peak[~near]))
    capped[:, ~near] += np.logaddexp(log_mass + exponent[~near], np.log1p(-mass[:, ~near]))
    return np.asarray(capped)


def gnmax_cost(
    votes: NDArray[np.integer], *, noise_std: float, num_teachers: int, orders: object
) -> DataDependentCost:
    """The realized cost of GNMax on the queries that drew its noise: `votes` `[Q, L]`, L >= 2, one of each teacher.

    Where a noisy threshold decides which queries are answered, these are the queries that passed. The cost of the
    threshold on every query, passed or not, is added to this one. `noise_std` is that on every count, in votes.
    """
    array = order_array(orders)
    log_q = gnmax_log_q(one_vote_each(votes, num_teachers), noise_std=noise_std)
    rdp = _summed(log_q, array, lambda some: (gnmax_rdp(some, noise_std=noise_std, orders=array),))
    return DataDependentCost(array, rdp)


def gnmax_log_q(votes: NDArray[np.integer], *, noise_std: float, farther: float = 0) -> Array:
    """Log of a bound on the probability that another class than the plurality's wins: `[Q]` from votes `[Q, L]`.

    Every other class may trail by so many votes `farther`. Normal tails are looked up by whole votes.
    """
    falling = -np.sort(-np.asarray(votes, dtype=np.int64), axis=1)
    deficits = np.maximum(falling[:, :1] - falling[:, 1:] + int(farther), 0)  # [Q, L - 1], rising
    scale = math.sqrt(2) * require_positive("noise_std", noise_std)
    most = int(deficits.max())
    few = most < deficits.size
    tails = log_ndtr(-np.arange(most + 1) / scale)[deficits] if few else log_ndtr(-deficits / scale)
    largest = tails[:, :1]
    log_q = largest[:, 0] + np.log(np.exp(tails - largest).sum(axis=1))
    return np.asarray(np.minimum(log_q, math.log1p(-1 / falling.shape[1])))


def gnmax_rdp(log_q: Array, *, noise_std: float, orders: object) -> Array:
    """Bounds both D_a(M(D) || M(D')) and D_a(M(D') || M(D)) by q = exp(-x**2) < 1 alone: `[Q, A]`.

    At most the data-independent a / std**2, and never decreasing in q, so an upper bound on the probability will do.
    """
    a = order_array(orders)
    std = require_positive("noise_std", noise_std)
    x = np.sqrt(-np.asarray(log_q, dtype=np.float64))[:, None]
    served = (x >= _SMALLEST_X) & (a < std * x)
    x = np.maximum(x, _SMALLEST_X)
    above = np.maximum(x - 1 / std, 1e-7)
    slope = 2 * x / std - 1 / std**2  # of log m in the order
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_p = np.log1p(-np.exp(-x * x))
        log_p_most = np.log1p(-np.exp(-np.square(x + 1 / std)))
        # of log p, by a change
        fall = log_p - np.log1p(-np.exp(-above * above))
        rise = log_p_most - log_p
        # The likeliest outcome's part; its sharper bound where that never falls with q, the note's condition on dm/dq.
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


def theorem_6_rdp(log_q: Array, *, noise_std: float, orders: object) -> Array:
    """Theorem 6 of Papernot et al. 2018 at the orders of its Proposition 10: `[Q, A]`, for comparison with papers.

    Bounds D_a(M(D) || M(D')) only: D_a(M(D') || M(D)) can be a thousand times as large. `gnmax_rdp` covers both.
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
    """Returns votes `[Q, L]`, L >= 2, in which every query has `num_teachers` votes, or raises."""
    require_count("num_teachers", num_teachers)
    counts = validation.require_histogram("votes", votes, num_teachers=num_teachers, rank=2)
    require(counts.shape[1] >= 2, "votes.shape", counts.shape, "at least two classes")
    if (wrong := np.flatnonzero(counts.sum(axis=1) != num_teachers)).size:
        raise InvalidValue(f"votes[{wrong[0]}].sum", rule=f"{num_teachers}, one vote per teacher")
    return counts


def gnmax_smooth_sensitivity(
    votes: NDArray[np.integer], *, noise_std: float, num_teachers: int, order: float, beta: float
) -> float:
    """A beta-smooth upper bound on the local sensitivity of `gnmax_cost` at one order; private like the votes."""
    require_positive("beta", beta)
    counts = one_vote_each(votes, num_teachers)
    # cells of log q and, in each, a bound on how far one change of a teacher can lower the cost of one query
    log_others = math.log(counts.shape[1] - 1)
    edges = -np.square(np.linspace(2 * order / noise_std + 30.0, 1e-6, _CELLS_OF_LOG_Q))
    # the least log q of neighbors: all deficits equal, and each two votes larger
    each = np.minimum(edges - log_others, -1e-12)
    least = log_others + log_ndtr(ndtri_exp(each) - math.sqrt(2) / noise_std)
    cost, after = (
        gnmax_rdp(log_q, noise_std=noise_std, orders=order)[:, 0] for log_q in (edges, least)
    )
    drops = np.concatenate([cost[:1], cost[1:] - after[:-1], [order / noise_std**2 - after[-1]]])
    up_to = np.maximum.accumulate(drops)
    from_on = np.maximum.accumulate(drops[::-1])[::-1]
    most = int((counts.max(axis=1) - counts.min(axis=1)).max())  # by which a class trails
    at_most = len(counts) * float(up_to[-1])
    best = 0.0
    farthest = most // 2 + 1
    for distance in range(farthest):
        if math.exp(-beta * distance) * at_most <= best:
            return best
        log_qs = (
            gnmax_log_q(counts, noise_std=noise_std, farther=way * (distance + 1))
            for way in (-2, 2)
        )
        likely, unlikely = (np.searchsorted(edges, log_q, side="right") for log_q in log_qs)
        total = float(np.minimum(up_to[likely], from_on[np.maximum(unlikely - 1, 0)]).sum())
        best = max(best, math.exp(-beta * distance) * total)
    return max(best, math.exp(-beta * farthest) * at_most)


@dataclass(frozen=True, kw_only=True)
class GapCostSanitizer:
    """Releases the cost of gap selection at one order with Gaussian noise scaled to its global sensitivity.

    Formal guarantees:
        * The likeliest candidate's log odds move by at most `query.epsilon` between neighbors, on every query at once,
          and the cost never rises with them. So the release costs a `GaussianEvent`, whatever the votes.
        * What is released estimates what was spent. It is no (epsilon, delta) guarantee that was fixed beforehand.
    """

    query: BoundedRangeEvent  # the price of one query's selection
    num_queries: int  # how many were asked, answered and refused alike; public
    order: float  # > 1, fixed before the votes are seen
    noise_multiplier: float  # noise std / global sensitivity, > 0
    adjacency: Adjacency = Adjacency.REPLACE_ONE  # the one that `query` was made for

    def __post_init__(self) -> None:
        normalize_field(self, "adjacency", Adjacency.parse(self.adjacency))
        require_count("num_queries", self.num_queries)
        require_positive("query.epsilon", self.query.epsilon)
        _require_order_and_noise(self)

    @property
    def event(self) -> GaussianEvent:
        """The price of the release, beside that of the queries themselves."""
        return GaussianEvent(self.noise_multiplier)

    @cached_property
    def sensitivity(self) -> float:
        """An upper bound on how far the cost of all queries moves between neighbors; public."""

        def drops(cells: Array, width: float) -> list[Array]:
            """By how much a change lowers the cost of one query in each cell, `[C]`: at its lower end; at most."""
            moved = (self._costs(cells + beyond + self.query.epsilon) for beyond in (0.0, width))
            return [(self._costs(cells) - after).max(axis=0) for after in moved]

        cells, width = np.linspace(0.0, _LARGEST_LOG_ODDS, _CELLS_OF_LOG_ODDS, retstep=True)
        attained, largest = drops(cells, float(width))
        candidates = cells[largest >= attained.max()]  # the others hold nothing larger
        parts = max(1, min(_PARTS, _MOST_CELLS // len(candidates)))
        finer = candidates[:, None] + width / parts * np.arange(parts)
        beyond = self._costs(np.array([_LARGEST_LOG_ODDS]))
        largest = max(drops(finer.ravel(), float(width) / parts)[1].max(), beyond.max())
        return self.num_queries * float(largest) * (1 + _ROUNDING)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise; public."""
        return self.noise_multiplier * self.sensitivity

    def __call__(
        self, utilities: Array, *, rng: np.random.Generator, ledger: Ledger | None = None
    ) -> float:
        """The cost at `order` plus noise, possibly negative: from utilities `[num_queries, n]` as for the cost."""
        validation.require_generator(rng)
        values = np.asarray(utilities, dtype=np.float64)
        costs = self._costs(top_log_odds(values))
        require(
            costs.shape[1] == self.num_queries,
            "utilities.shape",
            values.shape,
            f"{self.num_queries} queries",
        )
        _charge(self, ledger)
        return float(costs.sum(axis=1).max() + self.noise_std * rng.standard_normal())

    def upper_bound(self, released: float, *, failure_prob: float) -> float:
        """A number that the true cost exceeds with at most this probability over the draw of the noise."""
        return released - self.noise_std * float(
            ndtri(require_probability("failure_prob", failure_prob))
        )

    def _costs(self, log_odds: Array) -> Array:
        """Forward and backward divergence of each query: `[2, Q]`; neither rises with the log odds."""
        return np.stack(gap_selection_rdp(log_odds, event=self.query, orders=self.order))[:, :, 0]


@dataclass(frozen=True, kw_only=True)
class GnmaxCostSanitizer:
    """Releases the cost of GNMax at one order with Gaussian noise scaled to its smooth sensitivity.

    Formal guarantees:
        * The release costs a `SmoothSensitivityEvent`, whatever the votes: its Renyi curve is infinite at high orders.
        * Neighbors are those of replace-one: every query has one vote of each teacher, and T is public.
        * The noise's standard deviation is as private as the votes and is not returned.
        * What is released estimates what was spent. It is no (epsilon, delta) guarantee that was fixed beforehand.
    """

    noise_std: float  # of GNMax itself, in votes, > 0
    num_teachers: int  # the number of votes of each query
    order: float  # > 1, fixed before the votes are seen
    noise_multiplier: float  # noise std / smooth sensitivity, > 0
    beta: float  # of the smooth sensitivity, > 0; around 0.2 / order is a start
    adjacency: ClassVar[Adjacency] = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        require_positive("noise_std", self.noise_std)
        require_positive("beta", self.beta)
        require_count("num_teachers", self.num_teachers)
        _require_order_and_noise(self)

    @property
    def event(self) -> SmoothSensitivityEvent:
        """The price of the release, beside that of the queries themselves."""
        return SmoothSensitivityEvent(self.noise_multiplier, self.beta)

    def __call__(
        self, votes: NDArray[np.integer], *, rng: np.random.Generator, ledger: Ledger | None = None
    ) -> float:
        """The cost at `order` plus noise, possibly negative: from votes `[Q, L]`."""
        validation.require_generator(rng)
        cost = gnmax_cost(
            votes, noise_std=self.noise_std, num_teachers=self.num_teachers, orders=self.order
        )
        scale = gnmax_smooth_sensitivity(
            votes,
            noise_std=self.noise_std,
            num_teachers=self.num_teachers,
            order=self.order,
            beta=self.beta,
        )
        _charge(self, ledger)
        return float(cost.rdp[0] + self.noise_multiplier * scale * rng.standard_normal())


Sanitizer = GapCostSanitizer | GnmaxCostSanitizer


def _require_order_and_noise(sanitizer: Sanitizer) -> None:
    require(1 < sanitizer.order < math.inf, "order", sanitizer.order, "a finite number > 1")
    require_positive("noise_multiplier", sanitizer.noise_multiplier)


def _charge(sanitizer: Sanitizer, ledger: Ledger | None) -> None:
    """Charges a release before it is drawn; each call is a release of its own."""
    if ledger is not None:
        rule = "a pate.accounting.Ledger, such as Ledger(PATH, target_delta=…)"
        require(hasattr(ledger, "charge"), "ledger", ledger, rule)
        ledger.charge(
            sanitizer.event, adjacency=sanitizer.adjacency, description=f"cost, {sanitizer!r}"
        )


def estimated_epsilon(sanitizer: Sanitizer, released: float, *, target_delta: float) -> float:
    """The epsilon at `target_delta` of a released cost and of its release, both at the sanitizer's order.

    An estimate: the true cost may be larger than what was released.
    """
    order = order_array(sanitizer.order)
    rdp = max(released, 0.0) + RdpAccountant(orders=order).compose(sanitizer.event).rdp
    return float(rdp_to_epsilons(order, rdp, target_delta=target_delta)[0])


def statement(sanitizer: Sanitizer, released: float, *, target_delta: float) -> str:
    """A sentence that may be published with a released cost or its `upper_bound`, and says what it is and is not."""
    spent = estimated_epsilon(sanitizer, released, target_delta=target_delta)
    price = RdpAccountant().compose(sanitizer.event).get_epsilon(target_delta)
    delta = format_delta(target_delta)
    return (
        f"Estimate, not a guarantee: epsilon = {format_epsilon(spent)} at delta = {delta} was spent on the votes at "
        f"hand, from order {sanitizer.order:g}, the release of this number included. The number was computed from "
        f"private votes and carries noise; it alone is ({format_epsilon(price)}, {delta})-DP ({sanitizer.adjacency}). "
        "What holds for all votes is the price of the queries fixed in advance, composed with that release."
    )

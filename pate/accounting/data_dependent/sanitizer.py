"""Sanitizers: the only way in which a data-dependent cost leaves the machine, each with its own price."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting.conversion import rdp_to_epsilons
from pate.accounting.data_dependent.cost import Array, gap_selection_rdp, order_array, top_log_odds
from pate.accounting.data_dependent.gnmax import gnmax_cost, gnmax_smooth_sensitivity
from pate.accounting.events import Adjacency, BoundedRangeEvent, GaussianEvent, SmoothSensitivityEvent
from pate.accounting.ledger import Ledger, require_ledger
from pate.accounting.rdp import RdpAccountant
from pate.accounting.special import ndtri
from pate.validation import require, require_count, require_generator, require_positive, require_probability

_NUM_CELLS = 60_000
_LARGEST_LOG_ODDS = 60.0
_PARTS, _MOST_CELLS = 100, 1_000_000
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class GapCostSanitizer:
    """Releases the cost of gap selection at one order with Gaussian noise scaled to its global sensitivity.

    Formal guarantees:
        * The likeliest candidate's log odds move by at most `query.epsilon` between neighbors, on every query at
          once, and the cost is a function of them that never rises: its sensitivity is bounded over all votes.
        * So the release costs a `GaussianEvent`, whatever the votes.
        * What is released estimates what was spent. It is no (epsilon, delta) guarantee that was fixed beforehand.

    Attributes:
        query: the price of one query's selection.
        num_queries: how many were asked, answered and refused alike; public.
        order: > 1, fixed before the votes are seen.
        noise_multiplier: noise std / global sensitivity, > 0.
        adjacency: the one that `query` was made for.
    """

    query: BoundedRangeEvent
    num_queries: int
    order: float
    noise_multiplier: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        require_count("num_queries", self.num_queries)
        require_positive("query.epsilon", self.query.epsilon)
        require(1 < self.order < math.inf, "order", self.order, "a finite number > 1")
        require_positive("noise_multiplier", self.noise_multiplier)

    @property
    def event(self) -> GaussianEvent:
        """The price of the release, beside that of the queries themselves."""
        return GaussianEvent(self.noise_multiplier)

    @cached_property
    def sensitivity(self) -> float:
        """An upper bound on how far the cost of all queries moves between neighbors; public."""
        cells, width = np.linspace(0.0, _LARGEST_LOG_ODDS, _NUM_CELLS, retstep=True)
        attained, largest = self._drops(cells, float(width))
        candidates = cells[largest >= attained.max()]  # the others hold nothing larger
        parts = max(1, min(_PARTS, _MOST_CELLS // len(candidates)))
        finer = candidates[:, None] + width / parts * np.arange(parts)
        _, largest = self._drops(finer.ravel(), float(width) / parts)
        beyond = self._costs(np.array([_LARGEST_LOG_ODDS]))
        return self.num_queries * float(max(largest.max(), beyond.max())) * (1 + _ROUNDING)

    def _drops(self, cells: Array, width: float) -> tuple[Array, Array]:
        """By how much a change lowers the cost of one query in each cell: at its lower end, and at most: `[C]` each."""
        most = self._costs(cells)
        drops = [most - self._costs(cells + beyond + self.query.epsilon) for beyond in (0.0, width)]
        return drops[0].max(axis=0), drops[1].max(axis=0)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise; public."""
        return self.noise_multiplier * self.sensitivity

    def __call__(self, utilities: Array, *, rng: np.random.Generator, ledger: Ledger | None = None) -> float:
        """The cost at `order` plus noise, possibly negative: from utilities `[num_queries, n]` as for the cost.

        A ledger is charged, and on disk, before the noise is drawn.
        """
        require_generator(rng)
        values = np.asarray(utilities, dtype=np.float64)
        costs = self._costs(top_log_odds(values))
        require(costs.shape[1] == self.num_queries, "utilities.shape", values.shape, f"{self.num_queries} queries")
        charge(self, ledger)
        return float(costs.sum(axis=1).max() + self.noise_std * rng.standard_normal())

    def upper_bound(self, released: float, *, failure_prob: float) -> float:
        """A number that the true cost exceeds with at most this probability over the draw of the noise."""
        return released - self.noise_std * float(ndtri(require_probability("failure_prob", failure_prob)))

    def _costs(self, log_odds: Array) -> Array:
        """Forward and backward divergence of each query: `[2, Q]`; neither rises with the log odds."""
        return np.stack(gap_selection_rdp(log_odds, event=self.query, orders=self.order))[:, :, 0]


@dataclass(frozen=True, kw_only=True)
class GnmaxCostSanitizer:
    """Releases the cost of GNMax at one order with Gaussian noise scaled to its smooth sensitivity.

    Formal guarantees:
        * The release costs a `SmoothSensitivityEvent`, whatever the votes: its Renyi curve is infinite at high orders.
        * Neighbors are those of replace-one: every query has one vote of each teacher, and T is public.
        * The noise's standard deviation depends on the votes. It is as private as they are and is not returned.
        * What is released estimates what was spent. It is no (epsilon, delta) guarantee that was fixed beforehand.

    Attributes:
        noise_std: of GNMax itself, in votes, > 0.
        num_teachers: the number of votes of each query.
        order: > 1, fixed before the votes are seen.
        noise_multiplier: noise std / smooth sensitivity, > 0.
        beta: of the smooth sensitivity, > 0; around 0.2 / order is a start.
    """

    noise_std: float
    num_teachers: int
    order: float
    noise_multiplier: float
    beta: float
    adjacency: ClassVar[Adjacency] = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        for name in ("noise_std", "noise_multiplier", "beta"):
            require_positive(name, getattr(self, name))
        require_count("num_teachers", self.num_teachers)
        require(1 < self.order < math.inf, "order", self.order, "a finite number > 1")

    @property
    def event(self) -> SmoothSensitivityEvent:
        """The price of the release, beside that of the queries themselves."""
        return SmoothSensitivityEvent(self.noise_multiplier, self.beta)

    def rdp(self, orders: object) -> Array:
        """The Renyi curve of `event`: `[A]`."""
        return RdpAccountant(orders=order_array(orders)).compose(self.event).rdp

    def __call__(self, votes: NDArray[np.integer], *, rng: np.random.Generator, ledger: Ledger | None = None) -> float:
        """The cost at `order` plus noise, possibly negative: from votes `[Q, L]`.

        A ledger is charged, and on disk, before the noise is drawn.
        """
        require_generator(rng)
        std, teachers = self.noise_std, self.num_teachers
        cost = gnmax_cost(votes, noise_std=std, num_teachers=teachers, orders=self.order)
        scale = gnmax_smooth_sensitivity(votes, noise_std=std, num_teachers=teachers, order=self.order, beta=self.beta)
        charge(self, ledger)
        return float(cost.rdp[0] + self.noise_multiplier * scale * rng.standard_normal())


Sanitizer = GapCostSanitizer | GnmaxCostSanitizer


def charge(sanitizer: Sanitizer, ledger: Ledger | None) -> None:
    """Charges a release before it is drawn; each call is a release of its own."""
    if ledger is not None:
        description = f"cost, {sanitizer!r}"
        require_ledger(ledger).charge(sanitizer.event, adjacency=sanitizer.adjacency, description=description)


def estimated_epsilon(sanitizer: Sanitizer, released: float, *, target_delta: float) -> float:
    """The epsilon at `target_delta` of a released cost and of its release, both at the sanitizer's order.

    An estimate: the true cost may be larger than what was released.

    Args:
        sanitizer: the one that released the cost.
        released: what it released.
        target_delta: in (0, 1).
    """
    order = order_array(sanitizer.order)
    rdp = max(released, 0.0) + RdpAccountant(orders=order).compose(sanitizer.event).rdp
    return float(rdp_to_epsilons(order, rdp, target_delta=target_delta)[0])


def statement(sanitizer: Sanitizer, released: float, *, target_delta: float) -> str:
    """A sentence that may be published with a released cost, and says what it is and what it is not.

    Args:
        sanitizer: the one that released the cost.
        released: what it released, or its `upper_bound`.
        target_delta: in (0, 1).
    """
    spent = estimated_epsilon(sanitizer, released, target_delta=target_delta)
    price = RdpAccountant().compose(sanitizer.event).get_epsilon(target_delta)
    return (
        f"Estimate, not a guarantee: epsilon = {_up(spent)} at delta = {target_delta} was spent on the votes at hand, "
        f"from order {sanitizer.order:g}, the release of this number included. The number was computed from private "
        f"votes and carries noise; it alone is ({_up(price)}, {target_delta})-DP ({sanitizer.adjacency}). What holds "
        "for all votes is the price of the queries fixed in advance, composed with that release."
    )


def _up(epsilon: float) -> str:
    """Two decimals, rounded up: what is printed is a bound as well."""
    return "inf" if math.isinf(epsilon) else f"{math.ceil(100 * epsilon) / 100:.2f}"

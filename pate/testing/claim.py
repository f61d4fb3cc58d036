"""Claims: bounds on divergences at a few orders and epsilons, which the verifier compares with distributions."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pate.accounting import Accountant, Event, RdpAccountant, SelfComposedEvent
from pate.accounting.event_tree import count_leaves, failure_probability
from pate.accounting.rdp import rdp_curve
from pate.validation import require, require_kind

# Points of a claim: pairs of an order and a divergence, or of an epsilon and a delta.
Points = tuple[tuple[float, float], ...]
# The orders, epsilons and deltas at which prices are compared, unless the caller passes others.
ORDERS: tuple[float, ...] = (1.05, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 64.0, 1024.0)
EPSILONS: tuple[float, ...] = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
DELTAS: tuple[float, ...] = (1e-6, 1e-3, 0.05)


@dataclass(frozen=True)
class Claim:
    """Claimed bounds on the divergences between the outcome distributions of a mechanism on neighboring data sets.

    Attributes:
        renyi: pairs of an order and a bound on the Renyi divergence at the order, which holds except with probability
            `failure_prob`.
        deltas: pairs of an epsilon and a delta, each a claim of (epsilon, delta)-DP. A delta includes the failure
            probability.
        failure_prob: the probability that the Renyi bounds do not hold, in [0, 1).

    >>> Claim(deltas=((1.617, 1e-5),)).scaled(0.9).deltas
    ((1.617, 9e-06),)
    """

    renyi: Points = ()
    deltas: Points = ()
    failure_prob: float = 0.0

    def __post_init__(self) -> None:
        require(bool(self.renyi or self.deltas), "renyi, deltas", "(), ()", "at least one point")
        for order, divergence in self.renyi:
            is_valid = 1 < order < math.inf and divergence >= 0
            rule = "finite orders > 1, divergences >= 0"
            require(is_valid, "renyi", (order, divergence), rule)
        for epsilon, delta in self.deltas:
            is_valid = 0 <= epsilon < math.inf and delta >= 0
            rule = "finite epsilons, deltas, >= 0"
            require(is_valid, "deltas", (epsilon, delta), rule)
        require(0 <= self.failure_prob < 1, "failure_prob", self.failure_prob, "a number in [0, 1)")

    @classmethod
    def from_event(
        cls,
        event: Event | Self,
        *,
        accountant: Callable[[], Accountant] = RdpAccountant,
        orders: Sequence[float] = ORDERS,
        epsilons: Sequence[float] = EPSILONS,
        deltas: Sequence[float] = DELTAS,
        count: int = 1,
    ) -> Self:
        """Returns the price of `count` releases as a claim, without points whose epsilon is infinite.

        Args:
            event: the event of one release. A `Claim`, which is about all `count` releases, is returned unchanged.
            accountant: computes a delta for each of `epsilons`, and an epsilon for each of `deltas`.
            orders: the orders at which Renyi divergences are claimed.
            epsilons: the epsilons at which deltas are claimed.
            deltas: further points. For each, an epsilon is claimed at the sum of this delta and the failure
                probability.
            count: the number of releases.

        Raises:
            InvalidValue: the event has no known price.
        """
        if isinstance(event, Claim):
            return event
        require_kind("event", event, kind=Event, rule="an event of pate.accounting, or a Claim")
        all_releases = SelfComposedEvent(event, count=count)
        failure_prob = failure_probability(all_releases)
        price = accountant().compose(all_releases)
        epsilon_delta_pairs = [(float(epsilon), price.get_delta(epsilon)) for epsilon in epsilons]
        for delta in deltas:
            total_delta = failure_prob + delta
            if total_delta < 1:
                epsilon_delta_pairs.append((price.get_epsilon(total_delta), total_delta))
        finite_epsilon_delta_pairs = tuple(
            point for point in epsilon_delta_pairs if point[0] < math.inf
        )
        if failure_prob >= 1:
            return cls(deltas=finite_epsilon_delta_pairs)
        order_divergence_pairs: Points = ()
        if len(orders) > 0:
            order_array = np.array(orders, dtype=np.float64)
            curve = rdp_curve(count_leaves(all_releases), orders=order_array)
            order_divergence_pairs = tuple(zip(order_array.tolist(), curve.tolist(), strict=True))
        return cls(
            renyi=order_divergence_pairs,
            deltas=finite_epsilon_delta_pairs,
            failure_prob=failure_prob,
        )

    def scaled(self, factor: float) -> Self:
        """Returns the claim with every divergence and delta multiplied by `factor`; `failure_prob` stays as it is.

        Tests use a factor below 1 as a negative control, which the verifier must refute.
        """
        return replace(
            self,
            renyi=tuple((order, factor * divergence) for order, divergence in self.renyi),
            deltas=tuple((epsilon, factor * delta) for epsilon, delta in self.deltas),
        )

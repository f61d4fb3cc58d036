"""Claims: bounds on divergences at a few orders and epsilons, which the verifier compares with distributions."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pate.accounting import Accountant, Event, RdpAccountant, SelfComposedEvent
from pate.accounting.event_tree import count_leaves, failure_probability
from pate.accounting.rdp import rdp_curve
from pate.validation import (
    require,
)

Points = tuple[tuple[float, float], ...]
ORDERS: tuple[float, ...] = (1.05, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 64.0, 1024.0)
EPSILONS: tuple[float, ...] = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
DELTAS: tuple[float, ...] = (1e-6, 1e-3, 0.05)


@dataclass(frozen=True)
class Claim:
    """Claimed bounds on the divergences between the distributions of a mechanism on neighboring data sets.

    A bound on a Renyi divergence is claimed at an order, a bound on delta at an epsilon.

    >>> Claim(deltas=((1.617, 1e-5),)).scaled(0.9).deltas
    ((1.617, 9e-06),)
    """

    # (order, divergence) pairs: bounds on the Renyi divergence, which hold except with probability `failure_prob`
    renyi: Points = ()
    # (epsilon, delta) pairs: claims of (epsilon, delta)-DP; each delta includes the failure probability
    deltas: Points = ()
    failure_prob: float = 0.0  # in [0, 1), the probability that the Renyi bounds do not hold

    def __post_init__(self) -> None:
        require(bool(self.renyi or self.deltas), "renyi, deltas", "(), ()", "at least one point")
        for order, bound in self.renyi:
            require(
                1 < order < math.inf and bound >= 0,
                "renyi",
                (order, bound),
                "finite orders > 1, divergences >= 0",
            )
        for epsilon, bound in self.deltas:
            require(
                0 <= epsilon < math.inf and bound >= 0,
                "deltas",
                (epsilon, bound),
                "finite epsilons, deltas, >= 0",
            )
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
            event: the event of one release. A `Claim` is returned unchanged.
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
        require(
            isinstance(event, Event),
            "event",
            type(event).__name__,
            "an event of pate.accounting, or a Claim",
        )
        all_releases = SelfComposedEvent(event, count)
        failure = failure_probability(all_releases)
        spent = accountant().compose(all_releases)
        printed = [(float(epsilon), spent.get_delta(epsilon)) for epsilon in epsilons]
        beyond = [failure + delta for delta in deltas if failure + delta < 1]
        printed += [(spent.get_epsilon(delta), delta) for delta in beyond]
        grid = np.array(orders if failure < 1 else (), dtype=np.float64)
        curve = rdp_curve(count_leaves(all_releases), orders=grid) if grid.size else grid
        return cls(
            renyi=tuple(zip(grid.tolist(), curve.tolist(), strict=True)),
            deltas=tuple((epsilon, delta) for epsilon, delta in printed if epsilon < math.inf),
            failure_prob=failure if failure < 1 else 0.0,
        )

    def scaled(self, factor: float) -> Self:
        """Returns the claim with every divergence and delta multiplied by `factor`.

        Tests use a factor below 1 as a negative control, which the verifier must refute.
        """
        return replace(
            self,
            renyi=tuple((order, factor * bound) for order, bound in self.renyi),
            deltas=tuple((epsilon, factor * bound) for epsilon, bound in self.deltas),
        )

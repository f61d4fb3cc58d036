"""Claims: points on the curves of a price, which a verifier compares with exact or sampled distributions."""

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
    """Points on the curves of a price, of an event or of any other claim.

    >>> Claim(deltas=((1.617, 1e-5),)).scaled(0.9).deltas
    ((1.617, 9e-06),)
    """

    # (order, divergence) pairs: claimed bounds on the Renyi divergence outside of the failure
    renyi: Points = ()
    # (epsilon, delta) pairs: claims of (epsilon, delta)-DP, failures included
    deltas: Points = ()
    failure_prob: float = 0.0  # in [0, 1), of the event that the Renyi divergences leave out

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
        """Returns the price of an event, `count` times, as a claim; a claim is returned unchanged.

        Args:
            event: of one release.
            accountant: prints deltas at `epsilons`, and epsilons at `deltas`.
            orders: at which the event's Renyi curve is read.
            epsilons: at which deltas are printed.
            deltas: at which epsilons are printed, each beside the failure probability.
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
        curve = rdp_curve(count_leaves(all_releases), grid) if grid.size else grid
        return cls(
            renyi=tuple(zip(grid.tolist(), curve.tolist(), strict=True)),
            deltas=tuple((epsilon, delta) for epsilon, delta in printed if epsilon < math.inf),
            failure_prob=failure if failure < 1 else 0.0,
        )

    def scaled(self, factor: float) -> Self:
        """Returns the claim with every divergence and delta times `factor`: a control, to be refuted below 1."""
        return replace(
            self,
            renyi=tuple((order, factor * bound) for order, bound in self.renyi),
            deltas=tuple((epsilon, factor * bound) for epsilon, bound in self.deltas),
        )

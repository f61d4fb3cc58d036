"""What a price says: Renyi divergences at orders, and deltas at epsilons."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pate.accounting import Accountant, Event, RdpAccountant, SelfComposedEvent
from pate.accounting.events import count_leaves, failure_probability
from pate.accounting.rdp import rdp_curve
from pate.validation import require

Points = tuple[tuple[float, float], ...]

ORDERS: tuple[float, ...] = (1.05, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 64.0, 1024.0)
EPSILONS: tuple[float, ...] = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
DELTAS: tuple[float, ...] = (1e-6, 1e-3, 0.05)


@dataclass(frozen=True)
class Claim:
    """Points on the curves of a price, of an event or of any other claim.

    Attributes:
        renyi: (order, divergence) pairs: what is said to bound the Renyi divergence outside of the failure.
        deltas: (epsilon, delta) pairs: what is said to be (epsilon, delta)-DP, failures included.
        failure_prob: in [0, 1): what the Renyi divergences leave out.

    >>> Claim(deltas=((1.617, 1e-5),)).scaled(0.9).deltas
    ((1.617, 9e-06),)
    """

    renyi: Points = ()
    deltas: Points = ()
    failure_prob: float = 0.0

    def __post_init__(self) -> None:
        require(bool(self.renyi or self.deltas), "renyi, deltas", "(), ()", "at least one point")
        for order, divergence in self.renyi:
            require(1 < order < math.inf, "renyi", order, "finite orders > 1")
            require(divergence >= 0, "renyi", divergence, "divergences >= 0")
        for epsilon, delta in self.deltas:
            require(0 <= epsilon < math.inf, "deltas", epsilon, "finite epsilons >= 0")
            require(delta >= 0, "deltas", delta, "deltas >= 0")
        require(0 <= self.failure_prob < 1, "failure_prob", self.failure_prob, "a number in [0, 1)")

    @classmethod
    def of(
        cls,
        event: Event | Claim,
        *,
        accountant: Callable[[], Accountant] = RdpAccountant,
        orders: Sequence[float] = ORDERS,
        epsilons: Sequence[float] = EPSILONS,
        deltas: Sequence[float] = DELTAS,
        count: int = 1,
    ) -> Claim:
        """What an event costs `count` times; a claim is taken as it stands.

        Args:
            event: the price of one release, or a claim.
            accountant: makes the accountant that prints deltas at `epsilons` and epsilons at `deltas`.
            orders: where the event's Renyi curve is read; none for events without one.
            epsilons: where a delta is asked for.
            deltas: where an epsilon is asked for, beyond what failure probabilities take.
            count: how often the release is made.

        Raises:
            InvalidValue: neither an event nor a claim, or an event that cannot be priced.
        """
        if isinstance(event, Claim):
            return event
        require(isinstance(event, Event), "event", type(event).__name__, "an event of pate.accounting, or a Claim")
        whole = SelfComposedEvent(event, count)
        failure = failure_probability(whole)
        spent = accountant().compose(whole)
        printed = [(float(epsilon), spent.get_delta(epsilon)) for epsilon in epsilons]
        beyond = [failure + delta for delta in deltas if failure + delta < 1]
        printed += [(spent.get_epsilon(delta), delta) for delta in beyond]
        grid = np.array(orders if failure < 1 else (), dtype=np.float64)
        curve = rdp_curve(count_leaves(whole), grid) if grid.size else grid
        return cls(
            renyi=tuple(zip(grid.tolist(), curve.tolist(), strict=True)),
            deltas=tuple((epsilon, delta) for epsilon, delta in printed if epsilon < math.inf),
            failure_prob=failure if failure < 1 else 0.0,
        )

    def scaled(self, factor: float) -> Claim:
        """The same with every divergence and delta multiplied by `factor`: a control that should be refuted below 1."""
        return Claim(
            renyi=tuple((order, factor * divergence) for order, divergence in self.renyi),
            deltas=tuple((epsilon, factor * delta) for epsilon, delta in self.deltas),
            failure_prob=self.failure_prob,
        )

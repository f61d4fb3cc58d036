"""The Renyi filter: one order, fixed beforehand."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from pate.accounting.conversion import conversion_penalty, rdp_to_epsilons
from pate.accounting.events import Event
from pate.accounting.filters.privacy_filter import PrivacyFilter
from pate.accounting.rdp import DEFAULT_ORDERS, count_leaves, rdp_curve
from pate.validation import require, rounded_up

_REFINED = 2001


@dataclass(frozen=True)
class RenyiFilter(PrivacyFilter):
    """Adds Renyi divergences at one order; the default filter.

    Formal guarantees, for the adjacency that the events were made for:
        * Everything admitted is (max_epsilon, target_delta)-DP together, whatever was chosen on the way.

    Args:
        max_epsilon: the cap, > 0.
        target_delta: in (0, 1).
        max_failure_prob: see `FilterRule`.
        order: > 1; None for the order at which the most Gaussian releases fit.

    Source: Rogers et al. 2016; Feldman & Zrnic 2021; Lecuyer 2021; docs/proofs/filters.md.

    >>> from pate.accounting import GaussianEvent
    >>> from pate.accounting.filters import Spent
    >>> made = RenyiFilter(4.0, 1e-6)
    >>> made.order, made.affords(Spent(), GaussianEvent(30.0))
    (7.171, 559)
    """

    order: float | None = None

    name: ClassVar[str] = "renyi"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order is None:
            object.__setattr__(self, "order", best_order(self.max_epsilon, self.target_delta))
        require(1 < self._order < math.inf, "order", self.order, "a finite number > 1")
        least = float(conversion_penalty(self._orders, target_delta=self.target_delta)[0])
        require(
            least < self.max_epsilon, "order", self.order, f"an order at which max_epsilon is above {rounded_up(least)}"
        )

    def for_cap(self, max_epsilon: float) -> Self:
        """See `FilterRule.for_cap`; an order that is not the default for this cap is kept."""
        return replace(self, max_epsilon=max_epsilon, order=order_kept(self.order, self.max_epsilon, self.target_delta))

    @property
    def unit(self) -> str:
        """Renyi divergence at the filter's order."""
        return f"Renyi divergence at order {self._order:g}"

    def amount(self, event: Event) -> float:
        """The event's divergence at the order."""
        return float(rdp_curve(count_leaves(event), self._orders)[0])

    def epsilon(self, amount: float) -> float:
        """The conversion of Canonne, Kamath & Steinke (2020) at the order."""
        if amount == 0:
            return 0.0
        return float(rdp_to_epsilons(self._orders, np.array([amount]), target_delta=self.conversion_delta)[0])

    @property
    def _order(self) -> float:
        return float(self.order or 0.0)

    @property
    def _orders(self) -> np.ndarray:
        return np.array([self._order])


@lru_cache(maxsize=64)
def best_order(max_epsilon: float, target_delta: float) -> float:
    """The order at which a cap leaves the most room for Gaussian releases, to four digits."""

    def best(orders: np.ndarray) -> int:
        return int(np.argmax((max_epsilon - conversion_penalty(orders, target_delta=target_delta)) / orders))

    place = best(DEFAULT_ORDERS)
    low, high = DEFAULT_ORDERS[max(place - 1, 0)], DEFAULT_ORDERS[min(place + 1, len(DEFAULT_ORDERS) - 1)]
    near = 1 + np.geomspace(low - 1, high - 1, _REFINED)
    return 1 + float(f"{near[best(near)] - 1:.4g}")


def order_kept(order: float | None, max_epsilon: float, target_delta: float) -> float | None:
    """None for the order that a cap has by default, so that another cap has its own."""
    return None if order == best_order(max_epsilon, target_delta) else order

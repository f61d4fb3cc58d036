"""The price of one release by several accountants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pate.accounting import (
    Accountant,
    AutoAccountant,
    Budget,
    Event,
    GaussianEvent,
    NoisyMaxGaussianEvent,
    RdpAccountant,
)
from pate.accounting.event_tree import count_leaves
from pate.pricing.priced_release import PricedRelease
from pate.validation import InvalidValue

if TYPE_CHECKING:  # it loads others, that few quotes need
    pass

_BY_STEPS = ("exact", "auto")

_LOOSER = ("pld",)  # than exact

_FEW_STEPS = 64


@dataclass(frozen=True)
class AccountantPrice:
    """The price of a release by one accountant."""

    accountant: str
    epsilon: float | None = None  # None where it cannot price the event, with the reason
    num_orders: int | None = None  # of the Renyi accountant
    best_order: float | None = None  # of the Renyi accountant: where the epsilon is attained
    reason: str | None = None
    won_by: str | None = None  # of the auto accountant: whose figure it is


def _price_or_reason(
    name: str, make: Callable[[], Accountant], event: Event, delta: float
) -> AccountantPrice:
    try:
        spent = make().compose(event)
        epsilon = spent.get_epsilon(delta)
    except InvalidValue as error:
        return AccountantPrice(name, reason=str(error))
    except ImportError as error:
        return AccountantPrice(
            name, reason=f"needs the package {error.name}, which is not installed"
        )
    if isinstance(spent, RdpAccountant):
        return AccountantPrice(spent.name, epsilon, len(spent.orders), spent.best_order(delta))
    winner = spent.winner(delta) if isinstance(spent, AutoAccountant) else None
    return AccountantPrice(spent.name, epsilon, won_by=winner)


def cheapest_accountant(
    release: PricedRelease, budget: Budget, known: Mapping[str, Callable[[], Accountant]]
) -> AccountantPrice:
    """Returns the accountant with the smallest epsilon for a release, of those `known` that are quick on it."""
    # Optimal composition step by step is asked only if it has few steps, not counting those of Gaussian noise or of its
    # maxima. Elsewhere it takes a second and gives no smaller figure. Loss distributions never give one.
    own = budget.accountant()
    num_steps = sum(
        sum(times)
        for kind, (_, times) in count_leaves(release.event).items()
        if kind is not GaussianEvent and not issubclass(kind, NoisyMaxGaussianEvent)
    )
    left_out = set(_LOOSER)
    if isinstance(own, AutoAccountant) or num_steps > _FEW_STEPS:
        left_out.update(_BY_STEPS)
    names = [name for name in known if name not in left_out]
    others = [_price_or_reason(name, known[name], release.event, budget.delta) for name in names]
    prices = [
        AccountantPrice(own.name, release.epsilon),
        *(price for price in others if price.epsilon is not None),
    ]
    return min(prices, key=lambda price: price.epsilon or 0.0)

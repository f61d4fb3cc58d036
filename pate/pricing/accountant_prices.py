"""The price of one release by several accountants, and the accountant with the least price."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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

# The accountants that compose step by step. With more than `_MAX_STEPS` steps they take about a second or longer, and
# are left out, although their price may be the lowest.
_STEPWISE_ACCOUNTANT_NAMES = ("exact", "auto")
_MAX_STEPS = 64
# The accountants that are left out because their prices are hardly ever below those of `exact`.
_LOOSER_ACCOUNTANT_NAMES = ("pld",)


@dataclass(frozen=True)
class AccountantPrice:
    """The price of a release by one accountant.

    Attributes:
        accountant: the name of the accountant.
        epsilon: the price; None where the accountant cannot price the release.
        num_orders: the number of orders that Renyi's accountant compares; None for other accountants, and where it is
            not asked for.
        best_order: the order at which Renyi's accountant has its price; None as for `num_orders`.
        reason: why the accountant cannot price the release; None where it can.
        won_by: for `auto`, the name of the accountant with the lowest price; None for other accountants, and where it
            is not asked for.
    """

    accountant: str
    epsilon: float | None = None
    num_orders: int | None = None
    best_order: float | None = None
    reason: str | None = None
    won_by: str | None = None


def price_by(
    accountant_name: str, make_accountant: Callable[[], Accountant], event: Event, delta: float
) -> AccountantPrice:
    """Returns the price of an event by an accountant, or the reason why the accountant cannot price it.

    Args:
        accountant_name: the name of the accountant.
        make_accountant: a function without arguments that returns an empty accountant.
        event: the event to price.
        delta: the delta of the price.
    """
    try:
        composed_accountant = make_accountant().compose(event)
        epsilon = composed_accountant.get_epsilon(delta)
    except InvalidValue as error:
        return AccountantPrice(accountant=accountant_name, reason=str(error))
    except ImportError as error:
        reason = f"needs the package {error.name}, which is not installed"
        return AccountantPrice(accountant=accountant_name, reason=reason)
    if isinstance(composed_accountant, RdpAccountant):
        return AccountantPrice(
            accountant=composed_accountant.name,
            epsilon=epsilon,
            num_orders=len(composed_accountant.orders),
            best_order=composed_accountant.best_order(delta),
        )
    winner = (
        composed_accountant.winner(delta)
        if isinstance(composed_accountant, AutoAccountant)
        else None
    )
    return AccountantPrice(accountant=composed_accountant.name, epsilon=epsilon, won_by=winner)


def cheapest_accountant(
    release: PricedRelease, budget: Budget, accountants: Mapping[str, Callable[[], Accountant]]
) -> AccountantPrice:
    """Returns the lowest price of a release by the budget's accountant and by other accountants.

    Accountants that are slow for the event of the release are left out, and so are `pld` and, if the budget's
    accountant is `auto`, `exact`. If no other accountant has a lower price, the result has only the name and the price
    of the budget's accountant.

    Args:
        release: the release, priced by the budget's accountant.
        budget: the budget of the release.
        accountants: for each accountant's name, a function without arguments that returns an empty accountant.
    """
    budget_accountant = budget.accountant()
    skipped_accountant_names = set(_LOOSER_ACCOUNTANT_NAMES)
    # A stepwise price is left out if `auto` has computed it already, or if many steps make it slow.
    has_stepwise_price = isinstance(budget_accountant, AutoAccountant)
    has_many_steps = _num_steps(release.event) > _MAX_STEPS
    if has_stepwise_price or has_many_steps:
        skipped_accountant_names.update(_STEPWISE_ACCOUNTANT_NAMES)
    cheapest = AccountantPrice(accountant=budget_accountant.name, epsilon=release.epsilon)
    cheapest_epsilon = release.epsilon  # `cheapest.epsilon`, whose type also allows None
    for accountant_name, make_accountant in accountants.items():
        if accountant_name in skipped_accountant_names:
            continue
        price = price_by(
            accountant_name,
            make_accountant=make_accountant,
            event=release.event,
            delta=budget.delta,
        )
        if price.epsilon is not None and price.epsilon < cheapest_epsilon:
            cheapest = price
            cheapest_epsilon = price.epsilon
    return cheapest


def _num_steps(event: Event) -> int:
    """Returns the number of releases in an event that count as steps of the accountant `exact`.

    Gaussian noise, and noisy maxima with Gaussian noise, do not count: they are composed together.
    """
    num_steps = 0
    for leaf_class, counted_leaves in count_leaves(event).counted_leaves_by_kind.items():
        if leaf_class is not GaussianEvent and not issubclass(leaf_class, NoisyMaxGaussianEvent):
            num_steps += sum(counted_leaves.counts)
    return num_steps

"""What a ledger of several runs says of each data set: what was spent, and what the rest of its cap buys."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Any

from pate.accounting import Event, Ledger, RdpAccountant, SharedLedger
from pate.pricing.priced_release import Budget, PricedRelease, plan_release
from pate.validation import InvalidValue, require

_SMALLEST = 1e-3  # of the cap
_STEPS = 12
_A_LITTLE_LESS = 1 - 2e-4  # noise is solved for to a relative 1e-4


def charges_of(ledger: Ledger) -> dict[str, Any]:
    """What one data set of a ledger was charged for, by itself and in all, as plain values."""
    prices: dict[Event, float] = {}
    charges = []
    for entry in ledger.entries:
        if entry.event not in prices:
            prices[entry.event] = ledger.price(entry.event)
        who = {"time": entry.time, "user": entry.user, "command": entry.command}
        charges.append(who | {"mechanism": entry.description, "draw": entry.draw, "epsilon": prices[entry.event]})
    settings = {"delta": ledger.target_delta, "cap": ledger.max_epsilon}
    return {"data": ledger.data, "spent_epsilon": ledger.spent_epsilon, **settings, "charges": charges}


@dataclass(frozen=True)
class AccountLeft:
    """What one data set of a ledger has spent, and what is left of its cap."""

    data: str  # the digest of its private records; empty for a ledger that counts for whatever it is charged for
    num_releases: int
    epsilon: float  # with a cap by its filter
    max_epsilon: float | None = None  # None without a cap, as what follows
    more_releases: float | None = None  # how many of the planned release still fit, maybe infinity
    target_epsilon: float | None = None  # the largest of one such release that fits, noise solved for, to a hundredth


def accounts_left(path: str | os.PathLike[str], release: PricedRelease, budget: Budget) -> tuple[AccountLeft, ...]:
    """All data sets of a ledger, in the order of their first charges, and what the planned release leaves.

    Raises:
        InvalidValue: no ledger; one that counts for another adjacency or delta.
    """
    found = []
    for ledger in ledgers_in(path):
        rule = f"{ledger.adjacency}, as ledger={path} counts"
        require(ledger.adjacency == release.aggregator.adjacency, "adjacency", release.aggregator.adjacency, rule)
        rule = f"{ledger.target_delta}, as ledger={path} counts"
        require(ledger.target_delta == budget.target_delta, "target_delta", budget.target_delta, rule)
        left = AccountLeft(ledger.data, len(ledger.entries), ledger.spent_epsilon, ledger.max_epsilon)
        if left.max_epsilon is not None:
            more, target = ledger.affords(release.event), _largest_target(ledger, release, budget, left.max_epsilon)
            left = replace(left, more_releases=more, target_epsilon=target)
        found.append(left)
    return tuple(found)


def ledgers_in(path: str | os.PathLike[str]) -> list[Ledger]:
    """One for each data set of a file, in the order of their first charges; one in all where no charge names its data.

    Raises:
        InvalidValue: no ledger.
    """
    shared = SharedLedger.stored(path)
    return [shared.account(data) for data in shared.data] or [Ledger.stored(path)]


def _largest_target(ledger: Ledger, release: PricedRelease, budget: Budget, cap: float) -> float:
    """The largest target that fits: halved between a thousandth of the cap and the cap by Renyi's accountant.

    Which noise fits is the filter's to say. What that noise costs, the budget's accountant is asked once.
    """
    quick = replace(budget, accountant=RdpAccountant)
    low, high = math.log(_SMALLEST * cap), math.log(cap)
    if _fitting(ledger, release, budget, cap):
        return cap
    found = _fitting(ledger, release, quick, math.exp(low))
    for _ in range(_STEPS if found else 0):
        middle = (low + high) / 2
        event = _fitting(ledger, release, quick, math.exp(middle))
        low, high, found = (middle, high, event) if event else (low, middle, found)
    return min(cap, budget.epsilon_of(found) * _A_LITTLE_LESS) if found else 0.0


def _fitting(ledger: Ledger, release: PricedRelease, budget: Budget, target_epsilon: float) -> Event | None:
    """The price of the release with the noise that meets a target; None where no noise does, or it does not fit."""
    try:
        budget = replace(budget, target_epsilon=target_epsilon, max_epsilon=None)
        event = plan_release(release.aggregator, release.shape, budget).event
    except InvalidValue:
        return None
    return event if ledger.affords(event) >= 1 else None

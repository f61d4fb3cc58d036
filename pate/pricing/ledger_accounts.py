"""The accounts of a ledger: charges, and what a planned release leaves of each cap."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pate import accounting
from pate.accounting import (
    Accountant,
    Budget,
    Event,
    RdpAccountant,
)
from pate.pricing.priced_release import PricedRelease, planned_or_none
from pate.validation import require

if TYPE_CHECKING:  # it loads others, that few quotes need
    pass

_SMALLEST = 1e-3  # of the cap

_STEPS = 12

_A_LITTLE_LESS = 1 - 2e-4  # noise is solved for to a relative 1e-4


def charges_of(ledger: accounting.Ledger) -> dict[str, Any]:
    """Returns what one data set of a ledger was charged for, by itself and in all, as plain values."""
    price = cache(ledger.price)
    charges = []
    for entry in ledger.entries:
        who = {
            "time": entry.time,
            "user": entry.user,
            "command": entry.command,
            "mechanism": entry.description,
        }
        charges.append(who | {"draw": entry.draw, "epsilon": price(entry.event)})
    unit = ledger.unit
    return {
        "data": ledger.data,
        "spent_epsilon": ledger.spent_epsilon,
        "delta": ledger.target_delta,
        "cap": ledger.max_epsilon,
        "unit": None
        if unit is None
        else unit.protected_under(ledger.adjacency, num_releases=len(charges)),
        "unit_columns": [] if unit is None else list(unit.columns),
        "charges_without_unit": ledger.num_without_unit,
        "accountant": ledger.accountant_name,
        "accountant_epsilon": ledger.epsilon,
        "charges": charges,
    }


@dataclass(frozen=True)
class AccountLeft:
    """The account of one data set of a ledger: what it has spent, and what is left of its cap."""

    # the digest of its private records; empty for a ledger that counts for whatever it is charged
    # for
    data: str
    num_releases: int
    epsilon: float  # if all prices were fixed beforehand
    max_epsilon: float | None = None  # None without a cap, as what follows
    more_releases: float | None = None  # how many of the planned release still fit, maybe infinity
    # the largest of one such release that fits, noise solved for, to a hundredth
    target_epsilon: float | None = None
    accountant: str = ""  # the ledger's own, whose figure `epsilon` is


def accounts_left(
    path: str | os.PathLike[str], release: PricedRelease, budget: Budget
) -> tuple[AccountLeft, ...]:
    """All data sets of a ledger, in the order of their first charges, and what the planned release leaves."""
    accounts = []
    ours = {"adjacency": release.aggregator.adjacency, "target_delta": budget.delta}
    for ledger in ledgers_in(path):
        for name, own in ours.items():
            counted = getattr(ledger, name)
            require(counted == own, name, own, f"{counted}, as ledger={path} counts")
        left = AccountLeft(
            ledger.data,
            len(ledger.entries),
            ledger.spent_epsilon,
            ledger.max_epsilon,
            accountant=ledger.accountant_name,
        )
        if left.max_epsilon is not None:
            more = ledger.affords(release.event)
            target = _largest_target(ledger, release, budget, left.max_epsilon)
            left = replace(left, more_releases=more, target_epsilon=target)
        accounts.append(left)
    return tuple(accounts)


def ledgers_in(path: str | os.PathLike[str]) -> list[accounting.Ledger]:
    """One for each data set of a file, by their first charges; one in all where no charge names its data."""
    require(
        os.path.lexists(path), "ledger", path, "a ledger that runs are charged to, found no file"
    )
    shared = accounting.SharedLedger.stored(path)
    return [shared.account(data) for data in shared.data] or [accounting.Ledger.stored(path)]


def _largest_target(
    ledger: accounting.Ledger, release: PricedRelease, budget: Budget, cap: float
) -> float:
    """Returns the largest target that fits: halved between a thousandth of the cap and the cap by Renyi's accountant.

    Which noise fits is the filter's to say. What that noise costs, the budget's accountant is asked once.
    """

    def fitting(target: float, make: Callable[[], Accountant] = RdpAccountant) -> Event | None:
        """Returns the price with the noise that meets a target; None where no noise does, or it does not fit."""
        wanted = Budget(delta=budget.delta, epsilon=target, accountant=make)
        planned = planned_or_none(release.aggregator, release.shape, wanted)
        return planned.event if planned is not None and ledger.affords(planned.event) >= 1 else None

    if fitting(cap, budget.accountant):
        return cap
    low = math.log(_SMALLEST * cap)
    high = math.log(cap)
    fitting_event = fitting(math.exp(low))
    for _ in range(_STEPS if fitting_event else 0):
        middle = (low + high) / 2
        event = fitting(math.exp(middle))
        if event is None:
            high = middle
        else:
            low = middle
            fitting_event = event
    if fitting_event is None:
        return 0.0
    return min(cap, budget.epsilon_of(fitting_event) * _A_LITTLE_LESS)

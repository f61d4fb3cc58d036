"""The accounts of a ledger, for whoever plans a release: their charges, and the room under their caps."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pate import accounting
from pate.accounting import (
    Accountant,
    Budget,
    Event,
    RdpAccountant,
)
from pate.pricing.priced_release import PricedRelease, planned_or_none
from pate.validation import require

# The largest epsilon that fits is searched from a thousandth of the cap on, by so many halvings.
_SMALLEST_SHARE = 1e-3
_NUM_HALVINGS = 12
# Noise is solved for to a relative 1e-4, so an epsilon that is a little smaller surely fits.
_SAFE_SHARE = 1 - 2e-4


def charges_of(ledger: accounting.Ledger) -> dict[str, Any]:
    """Returns the charges of one account and their total as plain values, which `pate-account` prints as JSON."""
    price = cache(ledger.price)
    charges = []
    for entry in ledger.entries:
        charge = {
            "time": entry.time,
            "user": entry.user,
            "command": entry.command,
            "mechanism": entry.description,
            "draw": entry.draw,
            "epsilon": price(entry.event),
        }
        charges.append(charge)
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
    """The account of one data set in a ledger, and the room that its cap leaves for a planned release.

    Attributes:
        data: the digest of the private records; empty for a ledger that names no records with its charges.
        num_releases: the number of charges.
        epsilon: the total of all charges, which holds if their prices were fixed beforehand.
        max_epsilon: the cap; None without a cap, as the two fields that follow.
        more_releases: how many releases like the planned one still fit; it may be infinity.
        target_epsilon: the largest epsilon of one such release that fits, with its noise solved for, to a hundredth.
        accountant: the name of the ledger's accountant, by which `epsilon` is computed.
    """

    data: str
    num_releases: int
    epsilon: float
    max_epsilon: float | None = None
    more_releases: float | None = None
    target_epsilon: float | None = None
    accountant: str = ""


def accounts_left(
    path: str | os.PathLike[str], release: PricedRelease, budget: Budget
) -> tuple[AccountLeft, ...]:
    """Returns the accounts of a ledger in the order of their first charges, with the room for a planned release.

    Raises `InvalidValue` where the ledger counts for another adjacency or delta than the release.
    """
    accounts = []
    adjacency = release.aggregator.adjacency
    for ledger in ledgers_in(path):
        rule = f"{ledger.adjacency}, as ledger={path} counts"
        require(ledger.adjacency == adjacency, "adjacency", adjacency, rule)
        rule = f"{ledger.target_delta}, as ledger={path} counts"
        require(ledger.target_delta == budget.delta, "target_delta", budget.delta, rule)
        account = AccountLeft(
            data=ledger.data,
            num_releases=len(ledger.entries),
            epsilon=ledger.spent_epsilon,
            max_epsilon=ledger.max_epsilon,
            accountant=ledger.accountant_name,
        )
        if account.max_epsilon is not None:
            account = replace(
                account,
                more_releases=ledger.affords(release.event),
                target_epsilon=_largest_target(ledger, release, budget, account.max_epsilon),
            )
        accounts.append(account)
    return tuple(accounts)


def ledgers_in(path: str | os.PathLike[str]) -> list[accounting.Ledger]:
    """Returns the accounts in a ledger's file, in the order of their first charges.

    A ledger whose charges name no data has a single account. Raises `InvalidValue` where there is no file.
    """
    require(
        os.path.lexists(path), "ledger", path, "a ledger that runs are charged to, found no file"
    )
    shared = accounting.SharedLedger.stored(path)
    return [shared.account(data) for data in shared.data] or [accounting.Ledger.stored(path)]


def _largest_target(
    ledger: accounting.Ledger, release: PricedRelease, budget: Budget, cap: float
) -> float:
    """Returns the largest epsilon of a release that fits under a cap.

    The epsilon is searched by halving the logarithm between a thousandth of the cap and the cap, with noise by Renyi's
    accountant. The ledger's filter decides whether that noise fits. The budget's accountant prices the result, once.
    """

    def fitting(target: float, make: Callable[[], Accountant] = RdpAccountant) -> Event | None:
        """Returns the price with the noise that meets a target; None where no noise does, or the price does not fit."""
        target_budget = Budget(delta=budget.delta, epsilon=target, accountant=make)
        planned = planned_or_none(release.aggregator, release.shape, target_budget)
        if planned is None or ledger.affords(planned.event) < 1:
            return None
        return planned.event

    if fitting(cap, budget.accountant):
        return cap
    low = math.log(_SMALLEST_SHARE * cap)
    high = math.log(cap)
    fitting_event = fitting(math.exp(low))
    for _ in range(_NUM_HALVINGS if fitting_event else 0):
        middle = (low + high) / 2
        event = fitting(math.exp(middle))
        if event is None:
            high = middle
        else:
            low = middle
            fitting_event = event
    if fitting_event is None:
        return 0.0
    return min(cap, budget.epsilon_of(fitting_event) * _SAFE_SHARE)

"""The accounts of a ledger: their charges, and the room under their caps for a planned release."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
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
    """Returns the account of a ledger as plain values that JSON has: its charges, composed total, cap and unit."""
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
    """The account of one data set in a ledger, and the room under its cap for a planned release.

    Attributes:
        data: the digest of the private records; empty for a ledger whose charges name no records.
        num_releases: the number of charges.
        epsilon: the total of all charges, a valid bound if the prices were chosen before the first release.
        max_epsilon: the cap; None without a cap.
        more_releases: the number of releases like the planned one that still fit, possibly infinity; None without a
            cap.
        target_epsilon: the largest epsilon, to 1%, at which the planned release fits once its noise is solved for; 0 if
            none is found, None without a cap.
        accountant: the name of the ledger's accountant, which computes `epsilon`.
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

    Args:
        path: the file of the ledger.
        release: the planned release.
        budget: the budget that it was planned for.

    Raises:
        InvalidValue: the ledger has another adjacency or delta than the release.
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
                target_epsilon=_largest_target(
                    ledger, release, budget, max_epsilon=account.max_epsilon
                ),
            )
        accounts.append(account)
    return tuple(accounts)


def ledgers_in(path: str | os.PathLike[str]) -> list[accounting.Ledger]:
    """Returns the accounts in a ledger's file, in the order of their first charges.

    A ledger whose charges name no data set has a single account. Raises `InvalidValue` if there is no file.
    """
    rule = "a ledger that runs are charged to, found no file"
    in_outputs = (
        Path(path).parent / "outputs" / "ledger.db"
    )  # where runs without output_dir= are charged
    if in_outputs.is_file():
        rule += f"; there is {in_outputs}"
    require(os.path.lexists(path), "ledger", path, rule)
    shared = accounting.SharedLedger.stored(path)
    return [shared.account(data) for data in shared.data] or [accounting.Ledger.stored(path)]


def _largest_target(
    ledger: accounting.Ledger, release: PricedRelease, budget: Budget, max_epsilon: float
) -> float:
    """Returns the largest epsilon at which a release fits under a cap, to 1%.

    The search halves the interval of log epsilon between a thousandth of the cap and the cap. At each epsilon the noise
    is solved for by the Renyi accountant, and the filter of the ledger decides whether the event fits. The budget's
    accountant prices the result once.

    Args:
        ledger: the account with its charges.
        release: the planned release.
        budget: the budget that it was planned for.
        max_epsilon: the cap of the account.
    """

    def event_if_it_fits(
        target_epsilon: float, make_accountant: Callable[[], Accountant] = RdpAccountant
    ) -> Event | None:
        """Returns the event with noise that meets a target epsilon.

        None if there is no noise or the event does not fit.

        Args:
            target_epsilon: the epsilon to meet.
            make_accountant: a function without arguments that returns an empty accountant.
        """
        target_budget = Budget(
            delta=budget.delta, epsilon=target_epsilon, accountant=make_accountant
        )
        planned = planned_or_none(release.aggregator, release.shape, target_budget)
        if planned is None or ledger.affords(planned.event) < 1:
            return None
        return planned.event

    if event_if_it_fits(max_epsilon, budget.accountant):
        return max_epsilon
    low_log = math.log(_SMALLEST_SHARE * max_epsilon)
    high_log = math.log(max_epsilon)
    fitting_event = event_if_it_fits(target_epsilon=math.exp(low_log))
    for _ in range(_NUM_HALVINGS if fitting_event else 0):
        middle_log = (low_log + high_log) / 2
        event = event_if_it_fits(target_epsilon=math.exp(middle_log))
        if event is None:
            high_log = middle_log
        else:
            low_log = middle_log
            fitting_event = event
    if fitting_event is None:
        return 0.0
    return min(max_epsilon, budget.epsilon_of(fitting_event) * _SAFE_SHARE)

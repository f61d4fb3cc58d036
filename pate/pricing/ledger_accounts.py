"""The accounts of a ledger: their charges, and the room under their caps for a planned release.

A ledger records the charges of releases. It has an account for each data set. An account may have a cap, an epsilon
that all of its charges together do not exceed (`pate.accounting.Ledger`).
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pate import accounting
from pate.accounting import (
    Budget,
    Event,
    RdpAccountant,
)
from pate.pricing.priced_release import PricedRelease, plan_or_none
from pate.validation import InvalidValue

if TYPE_CHECKING:  # few quotes read a ledger, whose modules take long to load
    from pate.accounting import Ledger

# The search for the largest epsilon that fits starts at this share of the cap.
_SMALLEST_SHARE = 1e-3
# The number of halvings in that search.
_NUM_HALVINGS = 12
# Noise is solved for to a relative 1e-4, so an epsilon that is smaller by this factor surely fits.
_SAFE_SHARE = 1 - 2e-4


def account_values(ledger: Ledger) -> dict[str, Any]:
    """Returns a ledger's account as plain values that JSON has: its charges, total, cap and unit of privacy."""
    epsilon_of = cache(ledger.price)
    json_charges = []
    for entry in ledger.entries:
        json_charge = {
            "time": entry.time,
            "user": entry.user,
            "command": entry.command,
            "mechanism": entry.description,
            "draw": entry.draw,
            "epsilon": epsilon_of(entry.event),
        }
        json_charges.append(json_charge)
    unit_words = None
    unit_columns: list[str] = []
    if ledger.unit is not None:
        unit_words = ledger.unit.protected_under(ledger.adjacency, num_releases=len(json_charges))
        unit_columns = list(ledger.unit.columns)
    return {
        "data": ledger.data,
        "spent_epsilon": ledger.spent_epsilon,
        "delta": ledger.target_delta,
        "cap": ledger.max_epsilon,
        "unit": unit_words,
        "unit_columns": unit_columns,
        "charges_without_unit": ledger.num_without_unit,
        "accountant": ledger.accountant_name,
        "accountant_epsilon": ledger.epsilon,
        "charges": json_charges,
    }


@dataclass(frozen=True)
class AccountLeft:
    """The account of one data set in a ledger, and the room under its cap for a planned release.

    Attributes:
        data: the digest of the private records; empty for a ledger whose charges name no records.
        num_releases: the number of charges.
        epsilon: the total of all charges, or the cap if that is smaller (`Ledger.spent_epsilon`); a valid bound if the
            prices were chosen before the first release.
        max_epsilon: the cap; None without a cap.
        more_releases: the number of releases like the planned one that still fit, possibly infinity; None without a
            cap.
        target_epsilon: the largest epsilon, to 1%, at which the planned release fits once its noise is solved for; 0 if
            none is found, None without a cap.
        accountant: the name of the ledger's accountant.
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
        InvalidValue: the ledger has another adjacency or delta than the release, or cannot price the release, or there
            is no ledger at the path.
    """
    accounts = []
    adjacency = release.aggregator.adjacency
    for ledger in ledgers_in(ledger_path=path):
        if ledger.adjacency != adjacency:
            rule = f"{ledger.adjacency}, as ledger={path} counts"
            raise InvalidValue("adjacency", adjacency, rule=rule)
        if ledger.target_delta != budget.delta:
            rule = f"{ledger.target_delta}, as ledger={path} counts"
            raise InvalidValue("target_delta", budget.delta, rule=rule)
        data_digest = ledger.data
        account = AccountLeft(
            data=data_digest,
            num_releases=len(ledger.entries),
            epsilon=ledger.spent_epsilon,
            max_epsilon=ledger.max_epsilon,
            accountant=ledger.accountant_name,
        )
        if account.max_epsilon is not None:
            account = replace(
                account,
                more_releases=ledger.affords(release.event),
                target_epsilon=_largest_target_epsilon(
                    ledger, priced_release=release, budget=budget, max_epsilon=account.max_epsilon
                ),
            )
        accounts.append(account)
    return tuple(accounts)


def ledgers_in(ledger_path: str | os.PathLike[str]) -> list[Ledger]:
    """Returns the accounts in a ledger's file, in the order of their first charges.

    A ledger whose charges name no data set has a single account. Raises `InvalidValue` if there is no file.
    """
    if not os.path.lexists(ledger_path):
        rule = "a ledger that runs are charged to, found no file"
        # Runs without `output_dir=` are charged to this ledger.
        default_ledger = Path(ledger_path).parent / "outputs" / "ledger.db"
        if default_ledger.is_file():
            rule += f"; there is {default_ledger}"
        raise InvalidValue("ledger", ledger_path, rule=rule)
    shared_ledger = accounting.SharedLedger.stored(ledger_path)
    accounts = [shared_ledger.account(data_digest) for data_digest in shared_ledger.data]
    return accounts or [accounting.Ledger.stored(ledger_path)]


def _largest_target_epsilon(
    ledger: Ledger, *, priced_release: PricedRelease, budget: Budget, max_epsilon: float
) -> float:
    """Returns the largest epsilon at which a release fits under the cap of an account, to 1%; 0 if none is found.

    The cap itself is tried first. Otherwise the search halves the interval of log epsilon between a thousandth of the
    cap and the cap. At each epsilon the noise is solved for by the Renyi accountant, and the ledger decides whether the
    release fits. The result is the price of the last release that fits by the budget's accountant, less 0.02%.

    Args:
        ledger: the account with its charges.
        priced_release: the planned release.
        budget: the budget that it was planned for.
        max_epsilon: the cap of the account.
    """
    make_accountant = budget.accountant
    budget_at_cap = Budget(delta=budget.delta, epsilon=max_epsilon, accountant=make_accountant)
    if _event_within_cap(ledger, priced_release=priced_release, budget=budget_at_cap) is not None:
        return max_epsilon
    budget_with_renyi_accountant = replace(budget_at_cap, accountant=RdpAccountant)
    low_log = math.log(_SMALLEST_SHARE * max_epsilon)
    high_log = math.log(max_epsilon)
    lowest_tried_budget = replace(budget_with_renyi_accountant, epsilon=math.exp(low_log))
    fitting_event = _event_within_cap(
        ledger, priced_release=priced_release, budget=lowest_tried_budget
    )
    if fitting_event is None:
        return 0.0
    for _ in range(_NUM_HALVINGS):
        middle_log = (low_log + high_log) / 2
        middle_budget = replace(budget_with_renyi_accountant, epsilon=math.exp(middle_log))
        event = _event_within_cap(ledger, priced_release=priced_release, budget=middle_budget)
        if event is None:
            high_log = middle_log
        else:
            low_log = middle_log
            fitting_event = event
    return min(max_epsilon, budget.epsilon_of(fitting_event) * _SAFE_SHARE)


def _event_within_cap(
    ledger: Ledger, *, priced_release: PricedRelease, budget: Budget
) -> Event | None:
    """Returns the event of a release whose noise is solved for a budget, if the ledger can pay for it.

    Returns None if no noise meets the budget, or if the event does not fit under the cap of the ledger.
    """
    planned_release = plan_or_none(
        priced_release.aggregator, vote_shape=priced_release.shape, budget=budget
    )
    if planned_release is None or not ledger.has_room(planned_release.event):
        return None
    return planned_release.event

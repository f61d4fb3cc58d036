"""The account of a run's records in words: the cost of earlier releases, and what a cap leaves for later ones."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from pate.accounting import Event
from pate.accounting.ledger import Ledger
from pate.accounting.ledger_entry import AccountStatement
from pate.report import format_delta, format_epsilon
from pate.run.ledger_place import LEDGER_NAME, CountedTerms, OtherLedger
from pate.validation import rounded_up


def other_ledger_lines(
    account: Ledger, path: Path, terms: CountedTerms, others: Iterable[OtherLedger]
) -> Iterator[str]:
    """Yields a line for each ledger beside that of the run whose prices cannot be added to it.

    A ledger of other terms without a charge for these records is left out, unless the run is charged to a ledger that
    is named by its terms.
    """
    for other in others:
        if other.num_charges or path.name != LEDGER_NAME:
            yield (
                f"ledger={account.path} counts for {terms.words}, and {other.path} "
                f"for {other.terms.words}: the two cannot be added up"
            )


def account_lines(
    account: Ledger, event: Event, *, run: str, counting_accountant: str
) -> Iterator[str]:
    """Yields the total of earlier releases of the records, and how many releases like this one a cap has room for.

    Args:
        account: the records' account.
        event: the price of the release that comes next.
        run: what keys of the run's own charges begin with; the total counts as that of earlier releases without them.
        counting_accountant: a remark on the accountant that the total is by; it may be empty.
    """
    statement = account.statement()
    num_earlier = statement.num_charges - len(account.charges_of(run))
    if num_earlier:
        releases = f"{num_earlier} earlier release{'s' if num_earlier > 1 else ''}"
        total = total_in_words(account, statement)
        yield f"ledger={account.path}: {releases} of these records, together {total}{counting_accountant}"
    if account.max_epsilon is not None:
        count = account.affords(event)
        yield f"max_total_epsilon={account.max_epsilon:g}: {fitting_in_words(count)}"


def fitting_in_words(count: float) -> str:
    """Returns in words how many releases of one price still fit under a cap, the present one included."""
    room = "what is left for these records"
    if count < 1:
        return f"this release does not fit into {room}"
    if count == 1:
        return f"this release fits into {room}, and no second one like it"
    number = "any number of" if math.isinf(count) else f"{count:.0f}"
    return f"{number} releases like this one fit into {room}, this one included"


def total_in_words(account: Ledger, statement: AccountStatement) -> str:
    """Returns the total of an account in words.

    A sum of several prices holds if all of them were fixed beforehand. A cap holds however they were chosen.
    """
    is_one_price = statement.num_charges < 2
    # One release costs what its privacy card states.
    spent = statement.epsilon if is_one_price else statement.spent_epsilon
    total = f"epsilon {format_epsilon(spent)} at delta {format_delta(account.target_delta)}, {account.adjacency}"
    if statement.unit is not None:
        num_releases = statement.num_charges
        changed = statement.unit.protected_under(account.adjacency, num_releases=num_releases)
        total += f", for {changed}"
    if statement.noise_is_shared:
        return f"{total}; no epsilon covers all of them: two share their noise"
    if not is_one_price:
        total += ", if all prices were fixed beforehand"
    cap = account.guaranteed_epsilon
    if cap is not None and not is_one_price:
        total += f"; however prices were chosen, at most the cap {rounded_up(cap)}"
    elif cap is not None and spent > cap:
        total += f", by accountant={account.accountant_name}; by a tighter one at most the cap {rounded_up(cap)}"
    num_unknown = statement.num_without_unit
    if num_unknown:
        charges = "1 charge that names no unit is"
        if num_unknown > 1:
            charges = f"{num_unknown} charges that name no unit are"
        total += f", provided that the {charges} for the same"
    return total

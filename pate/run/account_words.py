"""The total of a run's account in words: what earlier releases of the records have cost, and what is left for them."""

import math

from pate.accounting.ledger import Ledger
from pate.accounting.ledger_entry import AccountStatement
from pate.report import format_delta, format_epsilon
from pate.validation import rounded_up


def fitting_in_words(count: float) -> str:
    """Says how many releases of one price, the one at hand included, still fit under a cap."""
    left = "what is left for these records"
    if count < 1:
        return f"this release does not fit into {left}"
    if count == 1:
        return f"this release fits into {left}, and no second one like it"
    number = "any number of" if math.isinf(count) else f"{count:.0f}"
    return f"{number} releases like this one fit into {left}, this one included"


def total_in_words(account: Ledger, statement: AccountStatement) -> str:
    """Returns the total of an account in words: one price, or a sum that holds if nobody chose prices by looking."""
    is_one_price = statement.num_charges < 2
    # of one release what its card says
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
    if unknown := statement.num_without_unit:
        charges = "1 charge that names no unit is"
        if unknown > 1:
            charges = f"{unknown} charges that name no unit are"
        total += f", provided that the {charges} for the same"
    return total

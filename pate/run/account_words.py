"""Sentences about the ledger account of a run's private records, which the command shows.

The sentences state what earlier releases of the records have cost, and how many later releases a cap leaves room for.
"""

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
    ledger_file: Path, *, terms: CountedTerms, other_ledgers: Iterable[OtherLedger]
) -> Iterator[str]:
    """Yields a warning for each ledger in the same folder that counts for another adjacency or another delta.

    Prices in such a ledger cannot be added to those in the run's ledger. If the run's ledger is the usual `ledger.db`,
    a ledger without a charge for these records gets no warning.

    Args:
        ledger_file: the file of the run's ledger.
        terms: the adjacency and the delta of the run.
        other_ledgers: the ledgers in the same folder that count for other terms.
    """
    for other in other_ledgers:
        if other.num_charges or ledger_file.name != LEDGER_NAME:
            yield (
                f"ledger={ledger_file} counts for {terms.words}, and {other.path} "
                f"for {other.terms.words}: the two cannot be added up"
            )


def account_lines(
    account: Ledger, *, event: Event, run_key: str, accountant_remark: str
) -> Iterator[str]:
    """Yields sentences on the total cost of earlier releases of the records, and on the room that a cap leaves.

    Args:
        account: the account of the private records in the ledger.
        event: the price of the next release. The last sentence counts how many releases of this price fit under the
            cap.
        run_key: the prefix of the keys of this run's own charges. Charges with this prefix are not counted as earlier
            releases.
        accountant_remark: the remark after the total, such as ", by accountant=rdp"; empty for no remark.
    """
    statement = account.statement()
    num_earlier = statement.num_charges - len(account.charges_of(run_key))
    if num_earlier:
        releases = f"{num_earlier} earlier release{'s' if num_earlier > 1 else ''}"
        total = total_in_words(account, statement=statement)
        yield f"ledger={account.path}: {releases} of these records, together {total}{accountant_remark}"
    if account.max_epsilon is not None:
        num_fitting = account.affords(event)
        yield f"max_total_epsilon={account.max_epsilon:g}: {fitting_in_words(num_fitting)}"


def fitting_in_words(num_fitting: float) -> str:
    """Returns a sentence that states how many more releases of one price fit under a cap.

    Args:
        num_fitting: the number of releases that fit, the present release included; infinity if there is no limit.
    """
    room = "what is left for these records"
    if num_fitting < 1:
        return f"this release does not fit into {room}"
    if num_fitting == 1:
        return f"this release fits into {room}, and no second one like it"
    number = "any number of" if math.isinf(num_fitting) else f"{num_fitting:.0f}"
    return f"{number} releases like this one fit into {room}, this one included"


def total_in_words(account: Ledger, *, statement: AccountStatement) -> str:
    """Returns the total epsilon of an account as a phrase.

    A sum of several prices is a guarantee only if all prices were fixed before the first release. A cap is a guarantee
    even if later prices were chosen after earlier releases were seen.

    Args:
        account: the account in the ledger.
        statement: the total of the account, as its accountant computes it.
    """
    # One release costs what its privacy card states, which no cap makes smaller.
    is_one_price = statement.num_charges < 2
    epsilon = statement.epsilon if is_one_price else statement.spent_epsilon
    total = f"epsilon {format_epsilon(epsilon)} at delta {format_delta(account.target_delta)}, {account.adjacency}"
    if statement.unit is not None:
        num_releases = statement.num_charges
        changed = statement.unit.protected_under(account.adjacency, num_releases=num_releases)
        total += f", for {changed}"
    if statement.noise_is_shared:
        return f"{total}; no epsilon covers all of them: two share their noise"
    cap_words = _cap_of_one_price(account, epsilon) if is_one_price else _cap_of_sum(account)
    return f"{total}{cap_words}{_words_on_charges_without_unit(statement)}"


def _cap_of_one_price(account: Ledger, epsilon: float) -> str:
    """Returns the remark that the price of a single release, at most the cap, is smaller by another accountant.

    The remark is empty without a cap, and for a price that the account's own accountant finds to be within the cap.

    Args:
        account: the account in the ledger.
        epsilon: the price, as the account's accountant computes it.
    """
    cap = account.guaranteed_epsilon
    if cap is None or epsilon <= cap:
        return ""
    return f", by accountant={account.accountant_name}; by a tighter one at most the cap {rounded_up(cap)}"


def _cap_of_sum(account: Ledger) -> str:
    """Returns the remark that says when the sum of several prices is a guarantee, and when only the cap is one."""
    cap = account.guaranteed_epsilon
    condition = ", if all prices were fixed beforehand"
    if cap is None:
        return condition
    return f"{condition}; however prices were chosen, at most the cap {rounded_up(cap)}"


def _words_on_charges_without_unit(statement: AccountStatement) -> str:
    """Returns the remark that charges without a unit count as charges for the account's unit; empty without such."""
    num_unknown = statement.num_without_unit
    if num_unknown == 0:
        return ""
    charges = "1 charge that names no unit is"
    if num_unknown > 1:
        charges = f"{num_unknown} charges that name no unit are"
    return f", provided that the {charges} for the same"

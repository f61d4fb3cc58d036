"""Sentences about the ledger account of a run's private records, which the command shows.

The sentences warn of other ledgers, of shared noise and of people in several accounts. They state what earlier releases
of the records have cost, and how many releases a cap leaves room for.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

from pate.accounting import Accountant, Event
from pate.accounting.event_tree import failure_probability
from pate.accounting.ledger import Ledger
from pate.accounting.ledger_entry import AccountStatement
from pate.accounting.rounding import ceil_to_digits
from pate.accounting.shared_ledger import SharedLedger
from pate.report import format_delta, format_epsilon
from pate.run.ledger_place import LEDGER_NAME, AdjacencyAndDelta, OtherLedger
from pate.run.random_streams import readable_seed_name


def other_ledger_lines(
    ledger_file: Path,
    *,
    adjacency_and_delta: AdjacencyAndDelta,
    other_ledgers: Iterable[OtherLedger],
) -> Iterator[str]:
    """Yields a warning for each ledger in the same folder that counts for another adjacency or another delta.

    Prices in such a ledger cannot be added to those in the run's ledger. If the run's ledger is the usual `ledger.db`,
    a ledger without a charge for these records gets no warning.

    Args:
        ledger_file: the file of the run's ledger.
        adjacency_and_delta: the adjacency and the delta of the run.
        other_ledgers: the ledgers in the same folder that count for other terms.
    """
    for other in other_ledgers:
        if other.num_charges or ledger_file.name != LEDGER_NAME:
            yield (
                f"ledger={ledger_file} counts for {adjacency_and_delta.words}, and {other.ledger_file} "
                f"for {other.adjacency_and_delta.words}: the two cannot be added up"
            )


def shared_noise_lines(
    ledger_file: Path,
    *,
    account: Ledger,
    release_event: Event,
    run_key_prefix: str,
    seed: int | None,
    other_ledgers: Sequence[OtherLedger],
) -> Iterator[str]:
    """Yields a warning for each ledger in which an earlier release has the same noise as a run.

    If there is no such ledger, but a release in the run's ledger may have the same noise, one warning says so.

    Args:
        ledger_file: the file of the run's ledger.
        account: the account of the private records in the ledger.
        release_event: the price of the run's release. A release of the same records at this price may be the same
            release, so its warning says that the noise may be shared.
        run_key_prefix: the prefix of the keys of the run's own charges, which are left out.
        seed: the seed of the run; None for noise from the operating system, which gives no warning.
        other_ledgers: the ledgers in the same folder that count for other terms.
    """
    seed_text = readable_seed_name(seed)
    if not seed_text:
        return
    consequence = "no epsilon covers both; leave seed= out, or take another one"
    ledger_files = [other.ledger_file for other in other_ledgers if seed_text in other.seed_names]
    if account.is_seed_used(seed_text, except_release=run_key_prefix, own_price=release_event):
        ledger_files.append(ledger_file)
    for used_file in ledger_files:
        yield f"seed={seed}: this release shares its noise with an earlier one in ledger={used_file}: {consequence}"
    if not ledger_files and account.is_seed_used(seed_text, except_release=run_key_prefix):
        yield (
            f"seed={seed}: an earlier release in ledger={ledger_file} drew its noise from this seed: "
            f"unless this one is the same to the last byte, {consequence}"
        )


def shared_owner_lines(
    ledger_file: Path,
    *,
    shared_ledger: SharedLedger,
    account: Ledger,
    release_event: Event,
    draw_key: str,
    owners_by_kind: Mapping[str, Set[bytes]],
    delta: float,
) -> Iterator[str]:
    """Yields a line with the total price for the people of an account who are in other accounts of the ledger too.

    The total is that of all releases in these accounts; it is infinite if their failure probabilities use up `delta`.
    Nothing is yielded if no other account has any of these people.

    Args:
        ledger_file: the file of the run's ledger.
        shared_ledger: the ledger with all accounts.
        account: the account of the private records in the ledger.
        release_event: the price of the run's release, which is added unless it is charged already.
        draw_key: the key of the present draw of the release.
        owners_by_kind: the names of the records ("id") and of the people whose records these are ("group"), by kind.
        delta: the delta of the total.
    """
    own_account_name = account.data
    num_shared_owners_by_account = shared_ledger.store.num_shared_owners(
        owners_by_kind, except_account=own_account_name
    )
    if not num_shared_owners_by_account:
        return
    charge_entries = [*account.entries]
    for data_digest in num_shared_owners_by_account:
        charge_entries += shared_ledger.account(data_digest).entries
    composed_events = [entry.event for entry in charge_entries]
    if not account.charges_of(draw_key):
        composed_events.append(release_event)
    accountant = account.accountant()
    for composed_event in composed_events:
        accountant.compose(composed_event)
    is_delta_left = math.fsum(map(failure_probability, composed_events)) < delta
    epsilon = accountant.get_epsilon(delta) if is_delta_left else math.inf
    account_names = ", ".join(data_digest[:12] for data_digest in num_shared_owners_by_account)
    yield (
        f"ledger={ledger_file}: {max(num_shared_owners_by_account.values())} or more ids and groups are in account "
        f"{account_names} too; whoever is in all of them has paid epsilon {format_epsilon(epsilon)} with this release"
    )


def accountant_remark(account: Ledger, *, make_accountant: Callable[[], Accountant]) -> str:
    """Returns a remark such as ", by accountant=rdp" that names the accountant of a ledger.

    The remark is empty if the run is priced by the same accountant. It is also empty if releases in the account share
    noise, as no epsilon covers them then.

    Args:
        account: the account of the private records in the ledger.
        make_accountant: makes an accountant of the kind that prices the run.
    """
    name = account.accountant_name
    if name == make_accountant().name or account.noise_is_shared:
        return ""
    return f", by accountant={name}"


def account_lines(
    account: Ledger,
    *,
    release_event: Event,
    run_key_prefix: str,
    draw_key: str,
    accountant_remark: str,
) -> Iterator[str]:
    """Yields sentences on the total cost of earlier releases of the records, and on the room that a cap leaves.

    The total has the charges of a continued run itself, too, and its sentence then says so. Without releases of other
    runs there is no total, and without a cap nothing on room.

    Args:
        account: the account of the private records in the ledger.
        release_event: the price of the run's release. The last sentence counts how many releases of this price fit
            under the cap.
        run_key_prefix: the prefix of the keys of this run's own charges, which are no earlier releases.
        draw_key: the key of the present draw of the run's release, which may be charged already.
        accountant_remark: the remark after the total, such as ", by accountant=rdp"; empty for no remark.
    """
    account_totals = account.statement()
    num_own = len(account.charges_of(run_key_prefix))
    num_earlier = account_totals.num_charges - num_own
    if num_earlier:
        releases = f"{num_earlier} earlier release{'s' if num_earlier > 1 else ''} of these records"
        if num_own:
            releases += " and this one" if num_own == 1 else f" and {num_own} draws of this one"
        total = total_in_words(account, account_totals=account_totals)
        yield f"ledger={account.path}: {releases}, together {total}{accountant_remark}"
    if account.max_epsilon is not None:
        room_in_words = fitting_in_words(
            account.affords(release_event), is_charged=bool(account.charges_of(draw_key))
        )
        yield f"max_total_epsilon={account.max_epsilon:g}: {room_in_words}"


def fitting_in_words(num_fitting_releases: float, *, is_charged: bool = False) -> str:
    """Returns a clause that states how many releases like the present one fit into what a cap leaves.

    Args:
        num_fitting_releases: the number of releases that still fit; infinity if there is no limit. The present one is
            among them unless it is charged already: below 1, it does not fit then.
        is_charged: whether the present release is charged already, as that of a continued run.
    """
    room = "what is left for these records"
    if is_charged:
        num_more = (
            "any number" if math.isinf(num_fitting_releases) else f"{num_fitting_releases:.0f}"
        )
        return f"this release is charged already, and {num_more} more like it fit into {room}"
    if num_fitting_releases < 1:
        return f"this release does not fit into {room}"
    if num_fitting_releases == 1:
        return f"this release fits into {room}, and no second one like it"
    number = "any number of" if math.isinf(num_fitting_releases) else f"{num_fitting_releases:.0f}"
    return f"{number} releases like this one fit into {room}, this one included"


def total_in_words(account: Ledger, *, account_totals: AccountStatement) -> str:
    """Returns the total epsilon of an account as a phrase.

    A sum of several prices is a guarantee only if all prices were fixed before the first release. A cap is a guarantee
    even if later prices were chosen after earlier releases were seen.

    Args:
        account: the account in the ledger.
        account_totals: the total of the account, as its accountant computes it.
    """
    # One release costs what its privacy card states, which no cap makes smaller.
    is_one_price = account_totals.num_charges < 2
    epsilon = account_totals.epsilon if is_one_price else account_totals.spent_epsilon
    total = f"epsilon {format_epsilon(epsilon)} at delta {format_delta(account.target_delta)}, {account.adjacency}"
    if account_totals.unit is not None:
        num_releases = account_totals.num_charges
        changed = account_totals.unit.protected_under(account.adjacency, num_releases=num_releases)
        total += f", for {changed}"
    if account_totals.noise_is_shared:
        return f"{total}; no epsilon covers all of them: two share their noise"
    cap_words = _cap_of_one_price(account, epsilon) if is_one_price else _cap_of_sum(account)
    return f"{total}{cap_words}{_words_on_charges_without_unit(account_totals)}"


def _cap_of_one_price(account: Ledger, epsilon: float) -> str:
    """Returns a remark for the price of a release that exceeds the account's cap; empty for other prices.

    The account's own accountant computed the price. The cap has admitted the release by a lower price, that of a
    tighter accountant. The remark is also empty if the account has no cap.

    Args:
        account: the account in the ledger.
        epsilon: the price of the release, as the account's own accountant computes it.
    """
    cap = account.guaranteed_epsilon
    if cap is None or epsilon <= cap:
        return ""
    return f", by accountant={account.accountant_name}; by a tighter one at most the cap {ceil_to_digits(cap)}"


def _cap_of_sum(account: Ledger) -> str:
    """Returns the remark that a sum of several prices is a guarantee only if all were fixed beforehand.

    If the account has a cap, the remark adds that the cap is a guarantee however the prices were chosen.
    """
    cap = account.guaranteed_epsilon
    condition = ", if all prices were fixed beforehand"
    if cap is None:
        return condition
    return f"{condition}; however prices were chosen, at most the cap {ceil_to_digits(cap)}"


def _words_on_charges_without_unit(account_totals: AccountStatement) -> str:
    """Returns the remark that a total holds if charges that name no unit of privacy are for the account's unit.

    It is empty if every charge of the account names its unit.
    """
    num_unknown = account_totals.num_without_unit
    if num_unknown == 0:
        return ""
    charges = "1 charge that names no unit is"
    if num_unknown > 1:
        charges = f"{num_unknown} charges that name no unit are"
    return f", provided that the {charges} for the same"

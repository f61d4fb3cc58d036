"""Total prices of the releases of several runs, such as a sweep.

There is one total for each data set, adjacency and unit of privacy. Two releases that drew the same noise have no
total: the difference of their results has no noise at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter
from pathlib import Path

from pate.accounting import Accountant, Adjacency, AutoAccountant, Event, PrivacyUnit
from pate.accounting.ledger import Ledger
from pate.accounting.total import total_price
from pate.files.reading import FROM_BACKUP, read_text
from pate.run.folder import RunFolder
from pate.run.ledger_keys import LedgerKeys
from pate.run.ledger_place import LedgerPlace

# The number of hexadecimal digits in the name of a run, with which the keys of its charges begin.
_NUM_NAME_DIGITS = 32


@dataclass(frozen=True)
class LedgerTotal:
    """The total of all releases of some records in one ledger, as a run prints it when its release is drawn.

    Attributes:
        path: the file of the ledger.
        num_releases: the number of releases of these records in the ledger, whichever runs drew them.
        epsilon: the total of these releases at the ledger's delta; at most the ledger's cap if it has one.
    """

    path: Path
    num_releases: int
    epsilon: float


@dataclass(frozen=True)
class PaidRelease:
    """A release that was drawn and charged to a ledger, by a run that may or may not be finished.

    Attributes:
        charge_key: the key of the charge in the ledger.
        run_key: the name of the run that drew the release.
        data_digest: the digest of the private records.
        event: the price of the release.
        adjacency: the adjacency that the ledger counts for.
        target_delta: the delta that the ledger counts for.
        unit: the unit of privacy; None if the ledger is of an earlier version of pate, which stored no unit.
        seed_name: the name of the seed of the noise; "" for noise from the operating system, which nobody can repeat.
        shares_noise_in_ledger: whether another release in the same ledger was drawn from the same seed.
        make_accountant: makes an accountant of the ledger's kind.
        ledger_total: the number and total epsilon of all releases of the same records in the ledger; None if unknown.
    """

    charge_key: str
    run_key: str
    data_digest: str
    event: Event
    adjacency: Adjacency
    target_delta: float
    unit: PrivacyUnit | None
    seed_name: str
    shares_noise_in_ledger: bool
    make_accountant: Callable[[], Accountant]
    ledger_total: LedgerTotal | None = None

    def shares_noise_with(self, other: PaidRelease) -> bool:
        """Returns True if this release and `other` drew their noise from the same seed, whatever their records are.

        Two runs of one name are copies that hold one and the same release, so they do not count as sharing noise.
        """
        has_same_seed = self.seed_name != "" and self.seed_name == other.seed_name
        return has_same_seed and self.run_key != other.run_key


@dataclass(frozen=True)
class Total:
    """The total price of several releases of the same records, under one adjacency and for one unit of privacy.

    Attributes:
        num_releases: the number of releases.
        adjacency: the adjacency that all prices are for.
        unit: the unit of privacy.
        epsilon: the total at `delta`.
        delta: the delta of the total.
        in_ledger: the total of the ledger in which these releases and others of the same records are counted; None if
            it counts no others, or if the releases are in several ledgers.
    """

    num_releases: int
    adjacency: Adjacency
    unit: PrivacyUnit
    epsilon: float
    delta: float
    in_ledger: LedgerTotal | None = None

    @property
    def words(self) -> str:
        """The adjacency and the unit of the total in words."""
        return f"{self.adjacency}, for {self.unit.protected_under(self.adjacency, num_releases=self.num_releases)}"


def releases_of(folder: Path) -> list[PaidRelease]:
    """Returns the releases that the run in `folder` has paid for; an empty list if there is no run or no ledger.

    Raises:
        InvalidValue: a file is damaged.
        OSError: a file cannot be read.
    """
    run_folder = RunFolder(folder)
    place = LedgerPlace.read(run_folder)
    ledger_file = run_folder.own_ledger if place is None else place.ledger_file
    if not ledger_file.is_file() or not run_folder.private_digest.is_file():
        return []
    data_digest = read_text(
        run_folder.private_digest, rule="the digest of the private records", remedy=FROM_BACKUP
    ).strip()
    ledger = Ledger.stored(path=ledger_file, data=data_digest)
    account_statement = ledger.statement()
    ledger_total = LedgerTotal(
        ledger_file,
        num_releases=account_statement.num_charges,
        epsilon=account_statement.spent_epsilon,
    )
    return [
        PaidRelease(
            charge_key=charge_entry.key,
            # The charge may be that of a twin, an equal release of another run, so the name is read from its key.
            run_key=charge_entry.key[:_NUM_NAME_DIGITS],
            data_digest=data_digest,
            event=charge_entry.event,
            adjacency=ledger.adjacency,
            target_delta=ledger.target_delta,
            unit=charge_entry.unit,
            seed_name=charge_entry.seed_name,
            shares_noise_in_ledger=ledger.is_seed_used(
                charge_entry.seed_name, except_release=charge_entry.key
            ),
            make_accountant=ledger.accountant,
            ledger_total=ledger_total,
        )
        for charge_entry in ledger.charges_of(LedgerKeys.read(run_folder).run_key_prefix)
    ]


def any_share_noise(releases: Iterable[PaidRelease]) -> bool:
    """Returns True if any two of the releases drew their noise from one seed, so that they have no total price."""
    return any(
        first_release.shares_noise_with(second_release)
        for first_release, second_release in combinations(releases, 2)
    )


def totals_of(releases: Iterable[PaidRelease]) -> list[Total]:
    """Returns the total prices of several releases: one for each data set, adjacency and unit of privacy.

    A total is a guarantee if all prices were fixed beforehand and no release shares its noise with another one. This
    function does not look at shared noise: the caller first asks `any_share_noise`, and `shares_noise_in_ledger` of
    each release.

    Prices under two adjacencies, or for two units, cannot be added. Releases of earlier versions of pate name no unit
    and are in no total. The delta of a total is the largest delta of its releases, or the sum of their deltas if their
    failure probabilities sum to the largest delta or more.

    If one ledger counts all releases of the data set, the total is at most the total of that ledger, which every run
    prints: a bound on all releases bounds some of them.
    """
    # The releases by their terms (data, adjacency and unit); releases with equal terms belong to one total.
    releases_by_group: defaultdict[tuple[str, str, str], list[PaidRelease]] = defaultdict(list)
    unit_of_words: dict[str, PrivacyUnit] = {}
    for release in releases:
        if release.unit is not None:
            unit = unit_of_words.setdefault(release.unit.words, release.unit)
            releases_by_group[release.data_digest, str(release.adjacency), unit.words].append(
                release
            )
    return [
        _total_of(releases=releases_of_group, unit=unit_of_words[unit_words])
        for (_, _, unit_words), releases_of_group in sorted(
            releases_by_group.items(), key=itemgetter(0)
        )
    ]


def _total_of(releases: Sequence[PaidRelease], *, unit: PrivacyUnit) -> Total:
    """Returns the total price of releases of the same records, under one adjacency and for one unit of privacy."""
    accountant_names = {release.make_accountant().name for release in releases}
    make_accountant = releases[0].make_accountant if len(accountant_names) == 1 else AutoAccountant
    epsilon, delta = total_price(
        events=[release.event for release in releases],
        deltas_of_releases=[release.target_delta for release in releases],
        accountant=make_accountant,
    )
    ledger_totals = {release.ledger_total for release in releases}
    ledger_total = ledger_totals.pop() if len(ledger_totals) == 1 else None
    if ledger_total is not None:
        # The ledger's epsilon holds at the ledger's delta, and so at `delta`, which is at least as large.
        epsilon = min(epsilon, ledger_total.epsilon)
    counts_others = ledger_total is not None and ledger_total.num_releases > len(releases)
    return Total(
        num_releases=len(releases),
        adjacency=releases[0].adjacency,
        unit=unit,
        epsilon=epsilon,
        delta=delta,
        in_ledger=ledger_total if counts_others else None,
    )

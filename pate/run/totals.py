"""Total prices of the releases of several runs, such as a sweep.

There is one total for each data set, adjacency and unit of privacy. Two releases that drew the same noise have no
total: the difference of their results has no noise at all.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations, groupby
from pathlib import Path

from pate.accounting import Accountant, Adjacency, AutoAccountant, Event, PrivacyUnit
from pate.accounting.ledger import Ledger
from pate.accounting.total import total_epsilon
from pate.files.disk import read_text
from pate.run.draw_keys import DrawKeys
from pate.run.folder import RunFolder
from pate.run.ledger_place import LedgerPlace
from pate.validation import InvalidValue

# The keys of a run's charges begin with the name of the run: so many hexadecimal digits.
_NUM_NAME_DIGITS = 32


@dataclass(frozen=True)
class PaidRelease:
    """A release that was drawn and charged to a ledger, by a run that may or may not be finished.

    Attributes:
        key: the key of the charge in the ledger.
        run: the name of the run that drew the release.
        data: the digest of the private records.
        event: the price of the release.
        adjacency: the adjacency that the ledger counts for.
        target_delta: the delta that the ledger counts for.
        unit: the unit of privacy; None if the ledger is of an earlier version of pate, which stored no unit.
        noise: the name of the seed of the noise; "" for noise from the operating system, which nobody can repeat.
        shares_noise_in_ledger: true if another release in the same ledger was drawn from the same seed.
        accountant: makes an accountant of the ledger's kind.
    """

    key: str
    run: str
    data: str
    event: Event
    adjacency: Adjacency
    target_delta: float
    unit: PrivacyUnit | None
    noise: str
    shares_noise_in_ledger: bool
    accountant: Callable[[], Accountant]

    def shares_noise_with(self, other: "PaidRelease") -> bool:
        """Returns true if this release and `other` drew their noise from one seed, whatever their records.

        Two runs of one name are copies that hold one and the same release, so they do not count as sharing noise.
        """
        return self.noise != "" and self.noise == other.noise and self.run != other.run


@dataclass(frozen=True)
class Total:
    """The total price of several releases of the same records, under one adjacency and for one unit of privacy."""

    count: int
    adjacency: Adjacency
    unit: PrivacyUnit | None
    epsilon: float
    delta: float

    @property
    def words(self) -> str:
        """Returns the adjacency and the unit of the total in words."""
        if self.unit is None:
            return str(self.adjacency)
        return f"{self.adjacency}, for {self.unit.protected_under(self.adjacency, num_releases=self.count)}"


def releases_of(folder: Path) -> list[PaidRelease]:
    """Returns the releases that the run in `folder` has paid for; an empty list if there is no run or no ledger.

    Raises:
        InvalidValue: a file is damaged.
        OSError: a file cannot be read.
    """
    run = RunFolder(folder)
    place = LedgerPlace.read(run)
    path = run.own_ledger if place is None else place.path
    if not path.is_file() or not run.private_digest.is_file():
        return []
    data = read_text(
        run.private_digest, rule="the digest of the private records", remedy="none"
    ).strip()
    ledger = Ledger.stored(path, data=data)
    return [
        PaidRelease(
            key=entry.key,
            run=entry.key[:_NUM_NAME_DIGITS],
            data=data,
            event=entry.event,
            adjacency=ledger.adjacency,
            target_delta=ledger.target_delta,
            unit=entry.unit,
            noise=entry.noise,
            shares_noise_in_ledger=ledger.has_noise(entry.noise, but=entry.key),
            accountant=ledger.accountant,
        )
        for entry in ledger.charges_of(DrawKeys.read(run).run)
    ]


def share_noise(releases: Iterable[PaidRelease]) -> bool:
    """Returns true if any two of the releases drew their noise from one seed, so that they have no total price."""
    return any(first.shares_noise_with(second) for first, second in combinations(releases, 2))


def totals_of(releases: Iterable[PaidRelease]) -> list[Total]:
    """Returns the total prices of several releases: one for each data set, adjacency and unit of privacy.

    A total is a guarantee if all prices were fixed beforehand and no two releases share noise. Prices under two
    adjacencies, or for two units, cannot be added. Releases of earlier versions of pate name no unit and are in no
    total. The delta of a total is the largest delta of its releases. If the failure probabilities exceed that delta,
    the total epsilon is the sum of the epsilons, and the total delta is the sum of the deltas (basic composition).
    """

    def terms(release: PaidRelease) -> tuple[str, str, str]:
        """Returns the data, adjacency and unit of a release; releases with equal terms belong to one total."""
        return (
            release.data,
            str(release.adjacency),
            "" if release.unit is None else release.unit.words,
        )

    totals = []
    with_unit = [release for release in releases if release.unit is not None]
    for _, group in groupby(sorted(with_unit, key=terms), key=terms):
        members = list(group)
        names = {member.accountant().name for member in members}
        accountant = members[0].accountant if len(names) == 1 else AutoAccountant
        events = [member.event for member in members]
        delta = max(member.target_delta for member in members)
        try:
            epsilon = total_epsilon(events, target_delta=delta, accountant=accountant)
        except InvalidValue:  # the failure probabilities use up delta
            prices = [
                total_epsilon([member.event], member.target_delta, accountant=member.accountant)
                for member in members
            ]
            epsilon = sum(prices)
            delta = sum(member.target_delta for member in members)
        totals.append(
            Total(
                count=len(members),
                adjacency=members[0].adjacency,
                unit=members[0].unit,
                epsilon=epsilon,
                delta=delta,
            )
        )
    return totals

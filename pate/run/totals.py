"""What the releases of several runs cost together: one sum for each adjacency, and none for shared noise."""

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

_NAME = 32  # hexadecimal digits of a run's name, with which its charges' keys begin


@dataclass(frozen=True)
class PaidRelease:
    """A release that a run's ledger holds: drawn and paid for, whether the run finished or not."""

    key: str  # of its charge
    run: str  # the name of the run that drew it
    data: str  # the digest of the private records
    event: Event
    adjacency: Adjacency
    target_delta: float
    unit: PrivacyUnit | None  # None where the ledger does not say it, as those of earlier versions
    noise: str  # names the seed of the noise; empty for noise that nothing repeats
    shares_noise_in_ledger: bool  # with another charge of its ledger, maybe one of an earlier run
    accountant: Callable[[], Accountant]

    def shares_noise_with(self, other: "PaidRelease") -> bool:
        """Returns whether both drew their noise from one source, of whichever records they are.

        A copy of a run's folder holds the same release, which is no other one.
        """
        return self.noise != "" and self.noise == other.noise and self.run != other.run


@dataclass(frozen=True)
class Total:
    """The price of several releases of the same records, under one adjacency and for one unit of privacy."""

    count: int
    adjacency: Adjacency
    unit: PrivacyUnit | None
    epsilon: float
    delta: float

    @property
    def words(self) -> str:
        """What the total is for, in words."""
        if self.unit is None:
            return str(self.adjacency)
        return f"{self.adjacency}, for {self.unit.protected_under(self.adjacency, num_releases=self.count)}"


def releases_of(folder: Path) -> list[PaidRelease]:
    """Returns the releases that a run paid for in its ledger; none where there is no run or no ledger.

    Raises `InvalidValue` or `OSError` for files that cannot be read.
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
            run=entry.key[:_NAME],
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
    """Returns whether any two releases drew their noise from one source: then no sum of prices covers both.

    The difference of two sums with the same noise has none.
    """
    return any(one.shares_noise_with(other) for one, other in combinations(releases, 2))


def totals_of(releases: Iterable[PaidRelease]) -> list[Total]:
    """Returns the totals of several releases, one for each data set, adjacency and unit of privacy.

    Prices under two adjacencies, or for two units, have no sum. Releases of earlier versions name no unit and are in no
    total. The prices must have been fixed beforehand, and no two releases may share noise. Each total is at the largest
    delta, or, where failures use that up, the sum of the prices at the sum of the deltas.
    """

    def terms(release: PaidRelease) -> tuple[str, str, str]:
        return (
            release.data,
            str(release.adjacency),
            "" if release.unit is None else release.unit.words,
        )

    totals = []
    named = (release for release in releases if release.unit is not None)
    for _, group in groupby(sorted(named, key=terms), key=terms):
        members = list(group)
        names = {member.accountant().name for member in members}
        accountant = members[0].accountant if len(names) == 1 else AutoAccountant
        events = [member.event for member in members]
        delta = max(member.target_delta for member in members)
        try:
            epsilon = total_epsilon(events, delta, accountant=accountant)
        except InvalidValue:  # failures use up delta
            prices = [
                total_epsilon([each.event], each.target_delta, accountant=each.accountant)
                for each in members
            ]
            epsilon = sum(prices)
            delta = sum(member.target_delta for member in members)
        totals.append(Total(len(members), members[0].adjacency, members[0].unit, epsilon, delta))
    return totals

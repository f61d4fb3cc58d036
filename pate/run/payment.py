"""What a run pays, and what it drew for it: committed together, in its own ledger and in that of all runs."""

import hashlib
import math
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pate.accounting import (
    Accountant,
    AutoAccountant,
    Budget,
    Event,
    PrivacyUnit,
    SelfComposedEvent,
)
from pate.accounting.events import failure_probability
from pate.accounting.ledger import BudgetExceeded, ChargeNote, Ledger, SharedLedger
from pate.accounting.total import total_epsilon
from pate.aggregators import Aggregator, Release
from pate.aggregators.record import Arrays
from pate.aggregators.release import PublicNames
from pate.errors import Remedy
from pate.files.arrays import arrays_of_npz, npz_bytes
from pate.files.disk import (
    FROM_BACKUP,
    damaged,
    file_digest,
    make_folder,
    read_text,
    replacing,
    write_text,
)
from pate.pricing import PricedRelease
from pate.report import format_delta, format_epsilon
from pate.run.folder import RunFolder
from pate.run.progress import Monitor
from pate.run.totals import PaidRelease, releases_of, share_noise
from pate.validation import InvalidValue, require, rounded_down, rounded_up

Owners = Mapping[str, frozenset[bytes]]
_MOST = 1000  # folders that are looked at
_NAMES = re.compile(r"(?:[0-9a-f]{32}\n)+")
_NAMES_RULE = "the names of the run and of its draws, 32 hexadecimal digits a line"
_WRITTEN = ":written"  # the key of the digest of a release's file
_SAME_NOISE = "drew their noise from one seed"
_LATER_FAILURES = 0.5  # of the failures that a ledger has left, so that later releases have some
_GONE = (
    "restore it from a backup, or begin anew in another output_dir: what was charged stays charged"
)


def epsilon_of_all(events: Collection[Event], target_delta: float) -> float:
    """Returns a bound on all events, in whatever order they were released: folders do not tell, nor do clocks.

    It is infinity where failures use up delta.
    """
    try:
        return total_epsilon(events, target_delta)
    except InvalidValue:
        return math.inf


@dataclass(frozen=True, kw_only=True)
class ReleaseTerms:
    """What a release is, may cost and is charged to, wherever its votes come from."""

    aggregator: Aggregator  # how votes become labels
    target_delta: float  # in (0, 1)
    target_epsilon: float | None = None  # that noise is solved for; None takes the noise as it is
    accountant: Callable[[], Accountant] = AutoAccountant  # makes an empty accountant
    # whether what tells nothing, or a delta that allows all, is said and not refused
    allow_useless: bool = False
    # whether a release whose file is gone is drawn again, with fresh noise and at its price
    redraw: bool = False
    # of all releases of the same private records, charged beside the run's own
    ledger: Path | str | None = None
    # what all of them may cost together; None for what the ledger has stored
    max_total_epsilon: float | None = None
    # whether records get one there although another account knows some of them
    new_account: bool = False
    seed: int | None = None  # None draws secrets from the operating system
    # plain values; a folder of others is refused
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def budget(self) -> Budget:
        return Budget(
            delta=self.target_delta, epsilon=self.target_epsilon, accountant=self.accountant
        )


class Payment:
    """What one run was charged and drew: its first part is committed with the price of the whole release.

    A part that was committed is read back, whoever asks: the same run after a kill, or a copy of its folder that is
    charged to the same ledger. What was drawn and not committed was shown to nobody, and is drawn afresh.

    `data`, a `Dataset.private_digest`, names the account; `unit` is what the price is for; `owners`, ids and groups of
    the records as bytes by kind, are people, known again in another table. Raises where the ledger of all runs has no
    room for the run, counts for another unit of privacy, or is none.
    """

    def __init__(
        self,
        priced: PricedRelease,
        plan: ReleaseTerms,
        folder: RunFolder,
        *,
        data: str,
        unit: PrivacyUnit,
        owners: Owners | None = None,
    ) -> None:
        self._parts: dict[str, Arrays] = {}
        self.unit = unit
        self.priced = priced
        self.budget = plan.budget
        self.folder = folder
        self.data = data
        self.owners = owners or {}
        self.seed = plan.seed
        self.new_account = plan.new_account
        self._id_path = folder.path / "run.id"
        self.release = folder.release / "release.npz"
        terms = {"adjacency": priced.aggregator.adjacency, "target_delta": plan.target_delta}
        self._terms: dict[str, Any] = {**terms, "accountant": plan.accountant}
        self._shared_names: dict[str, str] = {}
        self.shared: Ledger | None = None  # the account of these records in the ledger of all runs
        if (ledger := plan.ledger) is None:
            return
        path = Path(os.path.realpath(ledger))
        rule = "another file than the run's own, for all runs on these records"
        require(path != Path(os.path.realpath(folder.ledger)), "ledger", ledger, rule)
        make_folder(Path(ledger).parent)
        accounts = SharedLedger(ledger, **self._terms, max_epsilon=plan.max_total_epsilon)
        shared = accounts.account(data, unit=unit)
        self.shared = shared
        name = _draws(folder)[0] if os.path.lexists(self._id_path) else "new"
        rule = "another seed, as an earlier release drew its noise from this one; or the output_dir of that run"
        require(not shared.has_noise(seed_name(plan.seed), but=name), "ledger", shared.path, rule)
        if not any(entry.key.startswith(name) for entry in shared.entries):
            beside = RunFolder(path.parent)
            other = beside.is_claimed and path == Path(os.path.realpath(beside.ledger))
            rule = "another file than a run's own, which holds that run alone; to charge that run too, remove its"
            require(
                not other,
                "ledger",
                ledger,
                f"{rule} report.json and call it again with the ledger= of all",
            )
            require_room(shared, priced)  # for what this run has yet to charge

    @cached_property
    def own(self) -> Ledger:
        """The run's own ledger; `begin` makes it."""
        rule = f"the run's ledger, which is gone; {_GONE}"
        require(os.path.lexists(self.folder.ledger), "ledger", self.folder.ledger, rule)
        return Ledger(self.folder.ledger, **self._terms, data=self.data, unit=self.unit)

    @property
    def epsilon(self) -> float:
        """What all draws cost: the plan's price, or the ledger's total where that is larger."""
        return max(self._price(self.draws), self.own.epsilon)

    @property
    def draws(self) -> int:
        """How often the release is drawn with fresh noise, this time included."""
        return len(_draws(self.folder))

    def begin(self, monitor: Monitor, *, redraw: bool) -> None:
        """Makes the run's ledger, or opens it.

        With `redraw` a release that was written and is gone is drawn again, with fresh noise and at its price. Raises
        `InvalidValue` where the ledger does not hold what was drawn, or the cap has no room for another draw.
        """
        if not os.path.lexists(self._id_path) and not os.path.lexists(self.release):
            # first the ledger, so that a folder with a name and without a ledger has lost it
            Ledger(self.folder.ledger, **self._terms, data=self.data, unit=self.unit)
            write_text(self._id_path, secrets.token_hex(16) + "\n")
        self.require_paid()
        if (shared := self.shared) is not None:
            for other, count in shared.introduce(self.owners, anyway=self.new_account).items():
                total = sum(map(len, self.owners.values()))
                rule = f"the data of account {other[:12]}, which knows {count} of these {total} ids and groups"
                rest = "; or new_account=true, whose epsilons do not count what these people have spent there"
                raise InvalidValue("ledger", shared.path, rule=f"{rule}{rest}")
            for name in _draws(self.folder):  # what was drawn without that ledger
                for part, content in self._parts_of(name).items():
                    self._committed(
                        shared, self._shared_name(shared, name), part, partial(bytes, content)
                    )
        draws = self.draws
        if (
            redraw
            and self.seed is None
            and self._written is not None
            and not os.path.lexists(self.release)
        ):
            both = self._price(draws + 1)
            rule = f"a price that stays finite; another draw costs epsilon {format_epsilon(both)} with those before"
            require(math.isfinite(both), "redraw", "true", rule)
            if shared is not None:
                require_room(shared, self.priced)
            write_text(self._id_path, self._id_path.read_text() + secrets.token_hex(16) + "\n")
            draws += 1
        if draws > 1:
            price = format_epsilon(self._price(draws))
            monitor.say(
                f"redraw=true: draw {draws} of this release; together they cost epsilon {price}"
            )
        for line in self._lines():
            monitor.say(line)

    def part(self, name: str, draw: Callable[[], Arrays]) -> Arrays:
        """See `ReleaseRecord.part`; committed in the ledger of all runs first, then in the run's own."""
        if name not in self._parts:
            release = _draws(self.folder)[-1]
            shared = self.shared

            def packed() -> bytes:
                return npz_bytes(**draw())

            first = packed  # or what the ledger of all runs has of it, or is given
            if shared is not None:
                first = partial(
                    self._committed, shared, self._shared_name(shared, release), name, packed
                )
            self._parts[name] = arrays_of_npz(self._committed(self.own, release, name, first))
        return self._parts[name]

    def committed(self, name: str) -> Arrays | None:
        """See `ReleaseRecord.committed`."""
        is_there = self.own.read(f"{_draws(self.folder)[-1]}:{name}") is not None
        return self.part(name, dict) if is_there else None

    def _lines(self) -> Iterator[str]:
        """What is known of earlier releases of the same records, in the ledger of all runs and in folders beside."""
        known = set[str]()
        shared = self.shared
        if shared is not None:
            entries = shared.entries
            name = _draws(self.folder)[0]
            known = {entry.key[:32] for entry in entries}
            if earlier := sum(not entry.key.startswith(name) for entry in entries):
                count = f"{earlier} earlier release{'s' if earlier > 1 else ''}"
                yield f"ledger={shared.path}: {count} of these records, together {_spent(shared)}"
            if shared.max_epsilon is not None:
                more = shared.affords(self.priced.event)
                yield f"max_total_epsilon={shared.max_epsilon:g}: {_fitting(more)}"
        yield from self._lines_of_folders(known)

    def _lines_of_folders(self, known: set[str]) -> Iterator[str]:
        """Says what the folders beside this run have released of its records, but for runs whose names are `known`.

        A sum is made of releases under this run's adjacency, delta and unit alone, and only where no two of them, this
        one included, share their noise. Noise that this run shares with a release of other records is said too.
        """
        own = PaidRelease(
            run=_draws(self.folder)[0],
            data=self.data,
            event=self.priced.event,
            adjacency=self.priced.aggregator.adjacency,
            target_delta=self.budget.delta,
            unit=self.unit,
            noise=seed_name(self.seed),
            accountant=self.budget.accountant,
        )
        added = list[PaidRelease]()
        of_same_records = list[PaidRelease]()
        of_others = list[PaidRelease]()
        num_runs = 0
        num_apart = 0  # runs that cannot be added up with this one
        path = self.folder.path.resolve()
        for folder in sorted(path.parent.iterdir())[:_MOST]:
            try:
                data = read_text(folder / "private.sha256", rule="a digest", remedy="none").strip()
            except (OSError, InvalidValue):
                continue  # no run's
            if folder == path:
                continue
            try:
                releases = releases_of(folder)
            except (InvalidValue, OSError):
                num_apart += data == self.data
                continue
            if data != self.data:
                of_others += releases
                continue
            of_same_records += releases
            if not all(own.adds_up_with(release) for release in releases):
                num_apart += 1
                continue
            fresh = [release for release in releases if release.run not in known]
            num_runs += bool(fresh)
            added += fresh
        beside = "output_dir: {} other run{} beside this one"
        if added:
            delta = self.budget.delta
            of_this_run = [own.event] * self.draws
            total = epsilon_of_all([*of_this_run, *(release.event for release in added)], delta)
            bound = (
                f"epsilon {format_epsilon(total)}"
                if math.isfinite(total)
                else "too much for any epsilon"
            )
            price = (
                f"together with this one {bound} at delta {format_delta(delta)}, if all "
                "prices were fixed beforehand"
            )
            if share_noise([own, *of_same_records]):
                price = f"and no epsilon covers all of them: two {_SAME_NOISE}"
            folders = beside.format(num_runs, "s" * (num_runs > 1))
            yield f"{folders} released something of these records, {price}"
        elif share_noise([own, *of_same_records]):
            yield f"{beside.format('some', 's')} released something of these records, and two {_SAME_NOISE}"
        if self._written is None and any(own.shares_noise_with(release) for release in of_others):
            another = "output_dir: another run beside this one, on other records"
            yield f"{another}, and this one {_SAME_NOISE}: no epsilon covers both"
        if num_apart:
            rule = "cannot be added up with this one: their adjacency, delta or unit of privacy differs or is not named"
            rule += ", or their ledger is unreadable"
            yield f"{beside.format(num_apart, 's' * (num_apart > 1))} on these records {rule}"

    def save(self, release: Release, names: PublicNames, monitor: Monitor) -> None:
        """Commits the digest of the release's file, writes the file where it is missing, and says the total.

        In this order, a file that is there was committed: a ledger that does not know of it is an older copy. Raises
        where nothing of it was committed, so nothing of it was paid for, or the file is not that of the draw.
        """
        name = _draws(self.folder)[-1]
        kind = type(self.priced.aggregator).__name__
        charge = _charge_of(self.own, name)
        require(
            charge != "",
            "aggregator",
            kind,
            "one that draws within `record.part`, which pays for it",
        )
        content = npz_bytes(**release.arrays(), **names.arrays())
        if self._written is None:
            self.own.commit(
                f"{name}{_WRITTEN}",
                self.priced.event,
                hashlib.sha256(content).hexdigest().encode(),
                adjacency=self.priced.aggregator.adjacency,
                release=name,
            )
        if not os.path.lexists(self.release):
            make_folder(self.release.parent, within=self.folder.path)
            with replacing(self.release) as file:
                file.write(content)
        self.require_paid()
        if self.shared is not None:
            count = len(self.shared.entries)
            said = (
                f"all {count} releases of these records cost"
                if count > 1
                else "this first release costs"
            )
            monitor.say(f"ledger={self.shared.path}: {said} {_spent(self.shared)}")

    def require_paid(self) -> None:
        """Raises unless the ledger holds the charges of all draws, each at the price, and the release is as it was."""
        charges = self.own.entries
        draws = _draws(self.folder)
        path = self.folder.ledger
        good = all(
            entry.event == self.priced.event and entry.key.startswith(draws[0]) for entry in charges
        )
        rule = f"exactly the charges of this run, each at its price; {_GONE}"
        require(good and len(charges) in (len(draws), len(draws) - 1), "ledger", path, rule)
        if os.path.lexists(self.release):
            written = self._written
            rule = f"the one that {self.release} came from; {_GONE}"
            require(written is not None, "ledger", path, rule)
            rule = "the file as it was when the release was drawn; remove it, and the same command writes it again"
            require(
                written == file_digest(self.release, remedy=_GONE), "release", self.release, rule
            )

    def _committed(self, ledger: Ledger, name: str, part: str, make: Callable[[], bytes]) -> bytes:
        """The bytes of a part: with the charge where it is the first of its draw, else under that charge."""
        key = f"{name}:{part}"
        if (known := ledger.read(key)) is not None:
            return known
        content = make()  # which may commit parts of its own; the first of them carries the charge
        of_each = [f"{each.name} {format_epsilon(each.epsilon)}" for each in self.priced.classes]
        # the charge is that of the largest budget
        classes = f", epsilon {', '.join(of_each)}" if of_each else ""
        note = ChargeNote(
            description=f"{self.folder.path}: {type(self.priced.aggregator).__name__}{classes}",
            run=_draws(self.folder)[0],
            noise=seed_name(self.seed),
        )
        try:
            return ledger.commit(
                key,
                self.priced.event,
                content,
                note,
                adjacency=self.priced.aggregator.adjacency,
                release=name,
            )
        except BudgetExceeded as error:
            raise refusal(ledger, self.priced) from error

    def _shared_name(self, shared: Ledger, name: str) -> str:
        """A draw's name in the ledger of all runs; another one where that has another release under it.

        Of two copies of a folder, each of which drew before it was given the ledger, each has released something.
        """
        if name not in self._shared_names:
            own = self._parts_of(name)
            found = name
            while others := [
                mine
                for part, mine in own.items()
                if shared.read(f"{found}:{part}") not in (None, mine)
            ]:
                rule = "another seed: a copy of this run drew something else from this one, and no price covers both"
                require(self.seed is None, "ledger", shared.path, rule)
                found = f"{found}-{hashlib.sha256(others[0]).hexdigest()[:32]}"
            self._shared_names[name] = found
        return self._shared_names[name]

    def _parts_of(self, name: str) -> dict[str, bytes]:
        """All that the run's own ledger holds of a draw, the charge first."""
        keys = [
            key
            for key in self.own.keys
            if key.startswith(f"{name}:") and not key.endswith(_WRITTEN)
        ]
        return {key.partition(":")[2]: self.own.read(key) or b"" for key in keys}

    @property
    def _written(self) -> str | None:
        return (self.own.read(f"{_draws(self.folder)[-1]}{_WRITTEN}") or b"").decode() or None

    def _price(self, draws: int) -> float:
        """The plan's price of so many draws; infinity where their failure probabilities use up delta."""
        if draws == 1:
            return self.priced.epsilon
        try:
            return self.budget.epsilon_of(SelfComposedEvent(self.priced.event, draws))
        except InvalidValue:
            return math.inf


def _charge_of(ledger: Ledger, name: str) -> str:
    """The key of a draw's charge in a ledger; empty where it was not charged."""
    return next((entry.key for entry in ledger.entries if entry.key.startswith(f"{name}:")), "")


def _fitting(count: float) -> str:
    """Says how many releases of one price, the one at hand included, still fit under a cap."""
    left = "what is left for these records"
    if count < 1:
        return f"this release does not fit into {left}"
    if count == 1:
        return f"this release fits into {left}, and no second one like it"
    number = "any number of" if math.isinf(count) else f"{count:.0f}"
    return f"{number} releases like this one fit into {left}, this one included"


def _spent(account: Ledger) -> str:
    """Returns the total of an account in words: one price, or a sum that holds if nobody chose prices by looking."""
    is_one_price = len(account.entries) < 2
    # of one release what its card says
    spent = account.epsilon if is_one_price else account.spent_epsilon
    total = f"epsilon {format_epsilon(spent)} at delta {format_delta(account.target_delta)}, {account.adjacency}"
    if account.unit is not None:
        changed = account.unit.protected_under(account.adjacency, num_releases=len(account.entries))
        total += f", for {changed}"
    if not is_one_price:
        total += ", if all prices were fixed beforehand"
    cap = account.guaranteed_epsilon
    if cap is not None and not is_one_price:
        total += f"; however prices were chosen, at most the cap {rounded_up(cap)}"
    elif cap is not None and spent > cap:
        total += f", by accountant={account.accountant_name}; by a tighter one at most the cap {rounded_up(cap)}"
    if unknown := account.num_without_unit:
        charges = (
            f"{unknown} charges that name no unit are"
            if unknown > 1
            else "1 charge that names no unit is"
        )
        total += f", provided that the {charges} for the same"
    return total


def _draws(folder: RunFolder) -> list[str]:
    """The name of each draw, from the operating system: the run's, for a redraw the run's and one of its own."""
    path = folder.path / "run.id"
    text = read_text(path, rule=_NAMES_RULE, remedy=FROM_BACKUP)
    if _NAMES.fullmatch(text) is None:
        raise damaged(path, _NAMES_RULE, "others", FROM_BACKUP)
    run, *others = text.split()
    return [run, *(f"{run}-{name}" for name in others)]


def require_entered(path: Path | str, folder: RunFolder) -> None:
    """Raises unless a finished run is charged to a ledger of several runs."""
    data = read_text(
        folder.path / "private.sha256", rule="the digest of the private records", remedy=FROM_BACKUP
    )
    charged = Ledger.stored(path, data=data.strip()).entries if os.path.exists(path) else []
    rule = (
        "the ledger that this finished run is charged to; or remove "
        "report.json and run again, to charge it there too"
    )
    name = _draws(folder)[0]
    require(any(entry.key.startswith(name) for entry in charged), "ledger", path, rule)


def require_room(account: Ledger, priced: PricedRelease) -> None:
    """Raises where the cap of a ledger has no room for a release; nothing is charged."""
    if account.affords(priced.event) < 1:
        raise refusal(account, priced)


def refusal(account: Ledger, priced: PricedRelease) -> InvalidValue:
    """What is said of a release that the cap of a ledger does not allow: what is spent, the price, and the cap."""
    failures = failure_probability(priced.event)
    if failures > account.failures_left:
        left = account.failures_left
        rule = f"failures of at most {rounded_down(left, 3)} of delta in all, which ledger={account.path} has left for"
        aggregator = priced.aggregator
        tests = aggregator.num_tests(priced.shape.num_queries)
        fitting = float(rounded_down(left * _LATER_FAILURES / max(tests, 1), 2))
        setting = vars(aggregator).get("failure_prob")
        rule = f"{rule} these records; nothing is spent"
        if setting is None:
            return InvalidValue("failure_prob", rule=rule)
        remedies = (Remedy("failure_prob", fitting, owner="aggregator"),) if fitting > 0 else ()
        return InvalidValue(
            "failure_prob", setting, rule=rule, remedies=remedies, owner="aggregator"
        )
    price = format_epsilon(priced.epsilon)
    spent = format_epsilon(account.spent_epsilon)
    rule = (
        f"room for this release of epsilon {price} beside epsilon {spent}, which these records "
        f"have cost by ledger={account.path}; nothing is spent"
    )
    return BudgetExceeded("max_epsilon", account.max_epsilon, rule=rule, owner="ledger")


def seed_name(seed: int | None) -> str:
    """What a ledger says of a seed, which no two releases may have; nothing of noise that nothing repeats."""
    return "" if seed is None else f"seed {seed}"

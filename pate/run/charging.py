"""The charge of a run: the account in a ledger, the record of what was drawn, and the totals of the account in words.

A run has one ledger. It is the file that `ledger=` names; unset, it is the file that the run began with, and of a new
run `ledger.db` in the folder that the run's folder lies in. So runs beside each other add up by themselves.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pate.accounting import PrivacyUnit, SelfComposedEvent
from pate.accounting.events import failure_probability
from pate.accounting.ledger import (
    AccountStatement,
    BudgetExceeded,
    ChargeNote,
    Ledger,
    SharedLedger,
)
from pate.aggregators import Release
from pate.aggregators.record import Arrays
from pate.aggregators.release import PublicNames
from pate.errors import Remedy
from pate.files.arrays import arrays_of_npz, npz_bytes
from pate.files.disk import (
    FROM_BACKUP,
    damaged,
    file_digest,
    make_folder,
    read_json,
    read_text,
    replacing,
    write_text,
)
from pate.pricing import PricedRelease
from pate.report import format_delta, format_epsilon
from pate.run.folder import RunFolder
from pate.run.progress import Monitor
from pate.run.release_terms import ReleaseTerms
from pate.store import Store
from pate.validation import InvalidValue, require, rounded_down, rounded_up

Owners = Mapping[str, frozenset[bytes]]
LEDGER_NAME = "ledger.db"
_KEY = re.compile(r"(?:[0-9a-f]{32}\n)+")
_KEYS_RULE = "the names of the run and of its draws, 32 hexadecimal digits a line"
_PLACE_RULE = "the place of the run's ledger, as JSON"
_WRITTEN = "written"  # the part that is the digest of the release's file
_LATER_FAILURES = 0.5  # of the failures that a ledger has left, so that later releases have some
_GONE = (
    "restore it from a backup, or begin anew in another output_dir: what was charged stays charged"
)
_OTHER_SEED = (
    "another seed, as an earlier release drew its noise from this one; or none, seed=null; "
    "or the output_dir of that run"
)


@dataclass(frozen=True)
class DrawKeys:
    """The keys of a run's draws in a ledger: one for each time that its release was drawn with fresh noise.

    They are random, and belong to the folder: a copy of it has the same keys, and so the same release.
    """

    run: str  # 32 hexadecimal digits; the key of the first draw
    redraws: tuple[str, ...] = ()  # 32 hexadecimal digits for each later draw

    @property
    def all(self) -> tuple[str, ...]:
        """Returns the keys of all draws in their order."""
        return (self.run, *(f"{self.run}-{name}" for name in self.redraws))

    @property
    def last(self) -> str:
        """Returns the key of the draw that the run's release is of."""
        return self.all[-1]

    def with_redraw(self) -> DrawKeys:
        """Returns the keys with one more draw."""
        return DrawKeys(self.run, (*self.redraws, secrets.token_hex(16)))

    def of_copy(self, content: bytes) -> DrawKeys:
        """Returns the keys of a copy of the run that drew something else, the same whenever they are asked for."""
        run = hashlib.sha256(self.run.encode() + content).hexdigest()[: len(self.run)]
        return DrawKeys(run, self.redraws)

    @classmethod
    def new(cls) -> Self:
        """Returns the key of a run that has not drawn yet."""
        return cls(secrets.token_hex(16))

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """Returns the keys that a run's folder holds; raises where they are gone or no keys."""
        path = folder.run_id
        text = read_text(path, rule=_KEYS_RULE, remedy=FROM_BACKUP)
        if _KEY.fullmatch(text) is None:
            raise damaged(path, _KEYS_RULE, "others", FROM_BACKUP)
        run, *redraws = text.split()
        return cls(run, tuple(redraws))

    def write(self, folder: RunFolder) -> None:
        """Writes the keys into a run's folder."""
        write_text(folder.run_id, "".join(f"{name}\n" for name in (self.run, *self.redraws)))


@dataclass(frozen=True)
class LedgerPlace:
    """The place of the ledger that a run was charged to last. It tells a moved ledger from another one."""

    path: Path
    identity: str  # `SharedLedger.identity`

    @classmethod
    def read(cls, folder: RunFolder) -> Self | None:
        """Returns the place that a run's folder names; None for a new run, or one of a version without it."""
        path = folder.ledger_place
        if not os.path.lexists(path):
            return None
        content = read_json(path, rule=_PLACE_RULE, remedy=FROM_BACKUP)
        names = ("path", "identity")
        if not isinstance(content, dict) or not all(
            isinstance(content.get(name), str) for name in names
        ):
            raise damaged(path, _PLACE_RULE, "something else", FROM_BACKUP)
        return cls(Path(content["path"]), content["identity"])

    def write(self, folder: RunFolder) -> None:
        """Writes the place into a run's folder."""
        content = {"path": str(self.path), "identity": self.identity}
        write_text(folder.ledger_place, json.dumps(content) + "\n")

    @property
    def is_there(self) -> bool:
        """Returns whether the ledger still lies there."""
        return self.path.exists() and Store(self.path, None).identity == self.identity


class LedgerRecord:
    """The record of one release in a ledger: its first part is committed in one transaction with the charge.

    A part that was committed is read back, whoever asks: the same run after a kill, or a copy of its folder. What was
    drawn and not committed was shown to nobody, and is drawn afresh.

    `key` names the draw: keys of its parts begin with it.
    """

    def __init__(
        self, account: Ledger, priced: PricedRelease, *, key: str, note: ChargeNote | None = None
    ) -> None:
        self.account = account
        self.priced = priced
        self.key = key
        self.note = note or ChargeNote(run=key)
        self._parts: dict[str, Arrays] = {}

    def part(self, name: str, draw: Callable[[], Arrays]) -> Arrays:
        """Returns the arrays of a part once they, and the charge, are on disk; drawn unless they were there before.

        Raises where the ledger's cap has no room for the release; nothing is charged then.
        """
        arrays = self.committed(name)
        if arrays is None:
            # what is drawn may have parts of its own; the first of them carries the charge
            content = npz_bytes(**draw())
            arrays = self._parts[name] = arrays_of_npz(self.commit(name, content))
        return arrays

    def committed(self, name: str) -> Arrays | None:
        """Returns the arrays of a part that was committed before, or None."""
        if name not in self._parts:
            content = self.account.read(f"{self.key}:{name}")
            if content is None:
                return None
            self._parts[name] = arrays_of_npz(content)
        return self._parts[name]

    def commit(self, name: str, content: bytes) -> bytes:
        """Commits the bytes of a part; returns what the ledger has of it. Errors are those of `part`."""
        try:
            return self.account.commit(
                f"{self.key}:{name}",
                self.priced.event,
                content,
                self.note,
                adjacency=self.priced.aggregator.adjacency,
                release=self.key,
            )
        except BudgetExceeded as error:
            raise refusal(self.account, self.priced) from error


class RunCharge:
    """The charge of one run: its account, the keys of its draws, and the price of all of them.

    `open` comes before the folder is claimed, and spends nothing. `begin` comes after it. Then the `record` is charged
    with its first part, and `publish` writes what was drawn. `require_paid` is asked before anything is said of it.
    """

    def __init__(
        self,
        terms: ReleaseTerms,
        priced: PricedRelease,
        folder: RunFolder,
        *,
        path: Path,
        ledger: SharedLedger,
        account: Ledger,
        unit: PrivacyUnit,
        owners: Owners,
    ) -> None:
        self.priced = priced
        self.budget = terms.budget
        self.folder = folder
        self.account = account
        self.unit = unit
        self.seed = terms.seed
        self._terms = terms
        self._path = path
        self._ledger = ledger
        self._owners = owners
        self._place = LedgerPlace.read(folder)
        self._release_file = folder.release / "release.npz"
        self._keys = DrawKeys.read(folder) if os.path.lexists(folder.run_id) else None

    @classmethod
    def open(
        cls,
        terms: ReleaseTerms,
        priced: PricedRelease,
        folder: RunFolder,
        *,
        data: str,
        unit: PrivacyUnit,
        owners: Owners | None = None,
    ) -> Self:
        """Opens the account of a run, and spends nothing; a ledger that is to be made is not made yet.

        Args:
            terms: which ledger, and what all releases of the records may cost together.
            priced: the release.
            folder: the run's; it may be new.
            data: `Dataset.private_digest`, which names the account.
            unit: what the price is for.
            owners: ids and groups of the records as bytes by kind: people, known again in another table.

        Raises:
            InvalidValue: the ledger has no room for the run, or is none. It counts for another adjacency, delta or unit
                of privacy. Another release drew from the seed. The ledger that the run was charged to is gone.
        """
        path = ledger_path(terms.ledger, folder)
        is_there = os.path.lexists(path)
        ledger = _opened(terms, priced, path if is_there else None)
        account = ledger.account(data, unit=unit)
        charge = cls(
            terms,
            priced,
            folder,
            path=path,
            ledger=ledger,
            account=account,
            unit=unit,
            owners=owners or {},
        )
        charge._require_ledger_of_run()
        if not is_there and terms.ledger is None:
            rule = "a folder that can be written, for the ledger of all runs in it; ledger=PATH names another file"
            require(os.access(path.parent, os.W_OK), "ledger", path, rule)
        run = "new" if charge._keys is None else charge._keys.run
        shares_noise = account.has_noise(seed_name(terms.seed), but=run, unlike=priced.event)
        require(not shares_noise, "ledger", path, _OTHER_SEED)
        if not account.charges_of(run):
            require_room(account, priced)  # for what this run has yet to charge
        return charge

    @property
    def keys(self) -> DrawKeys:
        """Returns the keys of the run's draws, which `begin` has made or read."""
        assert self._keys is not None
        return self._keys

    def record(self) -> LedgerRecord:
        """Returns the record of the last draw, which is charged with its first part."""
        return LedgerRecord(self.account, self.priced, key=self.keys.last, note=self._note)

    @property
    def _note(self) -> ChargeNote:
        """Returns the note of a charge of this run."""
        of_each = [f"{each.name} {format_epsilon(each.epsilon)}" for each in self.priced.classes]
        # the charge is that of the largest budget
        classes = f", epsilon {', '.join(of_each)}" if of_each else ""
        return ChargeNote(
            description=f"{self.folder.path}: {type(self.priced.aggregator).__name__}{classes}",
            run=self.keys.run,
            noise=seed_name(self.seed),
        )

    @property
    def num_draws(self) -> int:
        """Returns how often the release is drawn with fresh noise, this time included."""
        return len(self.keys.all)

    @property
    def epsilon(self) -> float:
        """Returns what all draws cost; infinity where their failure probabilities use up delta."""
        return self._price(self.num_draws)

    def begin(self, monitor: Monitor, *, redraw: bool) -> None:
        """Makes or opens the ledger, introduces the records, and says what they have cost.

        With `redraw` a release that was written and is gone is drawn again, with fresh noise and at its price. Raises
        `InvalidValue` where the ledger does not hold what was drawn, or the cap has no room for another draw.
        """
        if self.account.path is None:
            make_folder(self._path.parent)
            self._ledger = _opened(self._terms, self.priced, self._path)
            self.account = self._ledger.account(self.account.data, unit=self.unit)
        self._introduce()
        if self._keys is None:
            self._enter_place()  # before the key: a folder with a key and no ledger has lost it
            self._keys = DrawKeys.new()
            self._keys.write(self.folder)
        else:
            self._take_over()
            self._enter_place()
        parts = self.account.parts(self.keys.last)
        self._require_parts(parts)
        is_lost = _WRITTEN in parts and not os.path.lexists(self._release_file)
        if redraw and is_lost and self.seed is None:
            self._add_redraw()
        if self.num_draws > 1:
            price = format_epsilon(self.epsilon)
            monitor.say(
                f"redraw=true: draw {self.num_draws} of this release; together they cost epsilon {price}"
            )
        for line in self._lines():
            monitor.say(line)

    def publish(self, release: Release, names: PublicNames, monitor: Monitor) -> None:
        """Commits the digest of the release's file, writes the file where it is missing, and says the total.

        In this order, a file that is there was committed: a ledger that does not know of it is an older copy. Raises
        where nothing of it was committed, so nothing of it was paid for, or the file is not that of the draw.
        """
        key = self.keys.last
        parts = self.account.parts(key)
        kind = type(self.priced.aggregator).__name__
        rule = "one that draws by its `ReleaseRecord`, which pays for it"
        require(bool(parts), "aggregator", kind, rule)
        content = npz_bytes(**release.arrays(), **names.arrays())
        if _WRITTEN not in parts:
            digest = hashlib.sha256(content).hexdigest()
            self.record().commit(_WRITTEN, digest.encode())
        if not os.path.lexists(self._release_file):
            make_folder(self._release_file.parent, within=self.folder.path)
            with replacing(self._release_file) as file:
                file.write(content)
        self._require_parts(self.account.parts(key))
        statement = self.account.statement()
        cost = "this first release costs"
        if statement.num_charges > 1:
            cost = f"all {statement.num_charges} releases of these records cost"
        total = _total_in_words(self.account, statement)
        monitor.say(f"ledger={self.account.path}: {cost} {total}{self._counted_by}")

    def require_paid(self) -> None:
        """Raises unless the ledger holds the charge at its price, and the release is as it was when it was drawn.

        The file is read anew: one that was changed meanwhile is noticed.
        """
        self._ledger = _opened(self._terms, self.priced, self._path)
        self.account = self._ledger.account(self.account.data, unit=self.unit)
        parts = self.account.parts(self.keys.last)
        rule = f"the charge of this release at its price; {_GONE}"
        require(bool(parts), "ledger", self.account.path, rule)
        self._require_parts(parts)

    def _require_parts(self, parts: Mapping[str, str]) -> None:
        """Raises unless the draws are charged, the last one if it has parts, and the release's file is of that one."""
        keys = self.keys.all
        for key in keys if parts else keys[:-1]:
            self.account.require_charged(self.priced.event, key, remedy=_GONE)
        if not os.path.lexists(self._release_file):
            return
        rule = f"the one that {self._release_file} came from; {_GONE}"
        require(_WRITTEN in parts, "ledger", self.account.path, rule)
        digest = file_digest(self._release_file, remedy=_GONE)
        rule = "the file as it was when the release was drawn; remove it, and the same command writes it again"
        is_same = parts[_WRITTEN] == hashlib.sha256(digest.encode()).hexdigest()
        require(is_same, "release", self._release_file, rule)

    def _introduce(self) -> None:
        """Makes the owners of the records known; raises where another account knows some of them."""
        if not self._owners:
            return
        known = self.account.introduce(self._owners, anyway=self._terms.new_account)
        for other, count in known.items():
            total = sum(map(len, self._owners.values()))
            rule = f"the data of account {other[:12]}, which knows {count} of these {total} ids and groups"
            rule += "; or new_account=true, whose epsilons do not count what these people have spent there"
            raise InvalidValue("ledger", self.account.path, rule=rule)

    def _require_ledger_of_run(self) -> None:
        """Raises where the run has begun, and neither its ledger nor an earlier one is there."""
        is_same = self._place is not None and self._place.identity == self._ledger.identity
        if self._keys is None or is_same or self._earlier_ledgers():
            return
        shown = self._path if self._place is None else self._place.path
        rule = f"the run's ledger, which is gone; {_GONE}"
        require(bool(self.account.charges_of(self._keys.run)), "ledger", shown, rule)

    def _earlier_ledgers(self) -> list[Path]:
        """Returns the ledgers that the run was charged to before, as far as they are there, but for its present one.

        That is the run's own ledger, of a version before, or the one that it began with before `ledger=` named another.
        """
        place = self._place
        if place is None:
            return [self.folder.own_ledger] if os.path.lexists(self.folder.own_ledger) else []
        is_other = place.identity != self._ledger.identity
        return [place.path] if is_other and place.is_there else []

    def _take_over(self) -> None:
        """Enters what this run drew and was charged for in another ledger, which stays as it is.

        Of two copies of a folder that drew in two ledgers, the second one gets keys of its own.
        """
        for path in self._earlier_ledgers():
            earlier = self._opened_earlier(path)
            keys = self.keys
            charges = earlier.charges_of(keys.run)
            if path == self.folder.own_ledger and not self.account.charges_of(keys.run):
                good = len(charges) == len(earlier.entries) >= len(keys.all) - 1
                good = good and all(entry.event == self.priced.event for entry in charges)
                rule = f"exactly the charges of this run, each at its price; {_GONE}"
                require(good, "ledger", path, rule)
            if not charges:
                continue
            parts = [_parts_in(earlier, key) for key in keys.all]
            if self._has_other_parts(parts):
                rule = "another seed: a copy of this run drew something else from this one, and no price covers both"
                require(self.seed is None, "ledger", self.account.path, rule)
                self._keys = keys.of_copy(next(iter(parts[0].values())))
            for key, contents in zip(self.keys.all, parts, strict=True):
                self._enter_parts(contents, key)
            self.keys.write(self.folder)

    def _opened_earlier(self, path: Path) -> Ledger:
        """Returns the account of the records in an earlier ledger; that of the run alone counts as the run does."""
        is_own = path == self.folder.own_ledger
        ledger = SharedLedger(
            path,
            adjacency=self.priced.aggregator.adjacency,
            target_delta=self._terms.target_delta,
            accountant=self._terms.accountant if is_own else None,
        )
        return ledger.account(self.account.data)

    def _has_other_parts(self, parts: Iterable[Mapping[str, bytes]]) -> bool:
        """Returns whether the account has something else under the keys of the run's draws: a copy of it drew that."""
        for key, contents in zip(self.keys.all, parts, strict=True):
            digests = self.account.parts(key)
            for name, content in contents.items():
                if digests.get(name) not in (None, hashlib.sha256(content).hexdigest()):
                    return True
        return False

    def _enter_parts(self, contents: Mapping[str, bytes], key: str) -> None:
        """Commits parts of a draw that are in an earlier ledger, unless they are there."""
        record = LedgerRecord(self.account, self.priced, key=key, note=self._note)
        digests = self.account.parts(key)
        for name, content in contents.items():
            if name not in digests:
                record.commit(name, content)

    def _enter_place(self) -> None:
        place = LedgerPlace(self._path, self._ledger.identity)
        if place != self._place:
            place.write(self.folder)

    def _add_redraw(self) -> None:
        """Adds a draw, whose charge the cap has to allow."""
        both = self._price(self.num_draws + 1)
        rule = f"a price that stays finite; another draw costs epsilon {format_epsilon(both)} with those before"
        require(math.isfinite(both), "redraw", "true", rule)
        require_room(self.account, self.priced)
        self._keys = self.keys.with_redraw()
        self._keys.write(self.folder)

    def _price(self, draws: int) -> float:
        """Returns the price of so many draws; infinity where their failure probabilities use up delta."""
        if draws == 1:
            return self.priced.epsilon
        try:
            return self.budget.epsilon_of(SelfComposedEvent(self.priced.event, draws))
        except InvalidValue:
            return math.inf

    @property
    def _counted_by(self) -> str:
        """Returns which accountant the total is by, where the price of the run is by another."""
        name = self.account.accountant_name
        return "" if name == self.budget.accountant().name else f", by accountant={name}"

    def _lines(self) -> Iterator[str]:
        """Says what earlier releases of the same records have cost, and what is left for them."""
        account = self.account
        statement = account.statement()
        earlier = statement.num_charges - len(account.charges_of(self.keys.run))
        if earlier:
            count = f"{earlier} earlier release{'s' if earlier > 1 else ''}"
            total = _total_in_words(account, statement)
            yield f"ledger={account.path}: {count} of these records, together {total}{self._counted_by}"
        if account.max_epsilon is not None:
            more = account.affords(self.priced.event)
            yield f"max_total_epsilon={account.max_epsilon:g}: {_fitting(more)}"


def ledger_path(ledger: Path | str | None, folder: RunFolder) -> Path:
    """Returns the file that a run is charged to.

    It is the named one, or else the one that the run began with, and of a new run `ledger.db` in the folder that the
    run's folder lies in. There, too, is a ledger that was moved together with the run. Raises for a file in a run's
    folder.
    """
    beside = Path(os.path.realpath(folder.path)).parent / LEDGER_NAME
    path = beside
    if ledger is not None:
        path = Path(os.path.abspath(Path(ledger).expanduser()))
    else:
        place = LedgerPlace.read(folder)
        if place is not None and place.is_there:
            path = place.path
    within = RunFolder(Path(os.path.realpath(path)).parent)
    rule = "a file outside of runs' folders, for all runs on these records; ledger=PATH names one"
    require(not within.is_claimed, "ledger", path, rule)
    return path


def require_entered(ledger: Path | str | None, folder: RunFolder) -> None:
    """Raises unless a finished run is charged to its ledger, or is of a version that charged a ledger of its own."""
    if ledger is None and LedgerPlace.read(folder) is None and folder.own_ledger.exists():
        return  # which the manifest of the run has looked at
    path = ledger_path(ledger, folder)
    data = read_text(
        folder.private_digest, rule="the digest of the private records", remedy=FROM_BACKUP
    )
    is_charged = False
    if path.exists():
        account = Ledger.stored(path, data=data.strip())
        is_charged = bool(account.charges_of(DrawKeys.read(folder).run))
    place = LedgerPlace.read(folder)
    other = f", {place.path}" if place is not None and place.path != path else ""
    rule = f"the ledger that this finished run is charged to{other}; or remove "
    rule += "report.json and run again, to charge it there too"
    require(is_charged, "ledger", path, rule)


def _opened(terms: ReleaseTerms, priced: PricedRelease, path: Path | None) -> SharedLedger:
    """Opens a ledger with a run's terms, or makes it; None is one in memory.

    A ledger that is there counts by its own accountant: runs beside each other may have others. A new one counts by the
    run's where it is named, and by `AutoAccountant` where it is that of all runs in a folder.
    """
    file: Store | Path | None = path
    accountant = None if terms.ledger is None else terms.accountant
    if path is not None and os.path.lexists(path):
        file = Store(path, None)
        stored = file.settings.get("accountant")
        name = stored.get("name") if isinstance(stored, dict) else None
        # one of the user's own is not found by its name
        accountant = terms.accountant if name == terms.accountant().name else None
    return SharedLedger(
        file,
        adjacency=priced.aggregator.adjacency,
        target_delta=terms.target_delta,
        accountant=accountant,
        max_epsilon=terms.max_total_epsilon,
    )


def _parts_in(ledger: Ledger, key: str) -> dict[str, bytes]:
    """Returns all that a ledger has of a draw, by the names of its parts, the first one first."""
    return {name: ledger.read(f"{key}:{name}") or b"" for name in ledger.parts(key)}


def _fitting(count: float) -> str:
    """Says how many releases of one price, the one at hand included, still fit under a cap."""
    left = "what is left for these records"
    if count < 1:
        return f"this release does not fit into {left}"
    if count == 1:
        return f"this release fits into {left}, and no second one like it"
    number = "any number of" if math.isinf(count) else f"{count:.0f}"
    return f"{number} releases like this one fit into {left}, this one included"


def _total_in_words(account: Ledger, statement: AccountStatement) -> str:
    """Returns the total of an account in words: one price, or a sum that holds if nobody chose prices by looking."""
    is_one_price = statement.num_charges < 2
    # of one release what its card says
    spent = statement.epsilon if is_one_price else statement.spent_epsilon
    total = f"epsilon {format_epsilon(spent)} at delta {format_delta(account.target_delta)}, {account.adjacency}"
    if statement.unit is not None:
        num_releases = statement.num_charges
        changed = statement.unit.protected_under(account.adjacency, num_releases=num_releases)
        total += f", for {changed}"
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

"""The charge of a run: its account in a ledger, and the record of what was drawn.

`ledger_place.py` says where the ledger lies. `LedgerRecord.commit` hands what was drawn and its price to the ledger,
which writes both in one transaction; its `COMMIT` in `pate/accounting/store.py` is the charge. A kill before it has
shown and charged nothing; after it, the same call reads back what was drawn.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

from pate.accounting import PrivacyUnit, SelfComposedEvent
from pate.accounting.ledger import Ledger
from pate.accounting.ledger_entry import ChargeNote
from pate.accounting.shared_ledger import SharedLedger
from pate.accounting.store import Store
from pate.aggregators import Release
from pate.aggregators.release import PublicNames
from pate.files.arrays import npz_bytes
from pate.files.disk import (
    FROM_BACKUP,
    file_digest,
    make_folder,
    read_text,
    replacing,
)
from pate.pricing import PricedRelease
from pate.progress import Monitor
from pate.report import format_epsilon
from pate.run.account_words import fitting_in_words, total_in_words
from pate.run.draw_keys import DrawKeys
from pate.run.folder import RunFolder
from pate.run.ledger_place import (
    LEDGER_NAME,
    CountedTerms,
    LedgerPlace,
    is_usual,
    ledger_path,
    other_ledgers,
)
from pate.run.ledger_record import LedgerRecord, require_room
from pate.run.random_streams import seed_name
from pate.run.release_terms import ReleaseTerms
from pate.validation import InvalidValue, require

Owners = Mapping[str, frozenset[bytes]]
_WRITTEN = "written"  # the part that is the digest of the release's file
_GONE = (
    "restore it from a backup, or begin anew in another output_dir: what was charged stays charged"
)
_OTHER_SEED = (
    "another seed, as an earlier release drew its noise from this one; or none, seed=null; "
    "or the output_dir of that run"
)


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
        self._is_usual = is_usual(terms.ledger, path)
        self._others = other_ledgers(path, data=account.data) if self._is_usual else []
        self._place = LedgerPlace.read(folder)
        self._release_file = folder.release / "release.npz"
        # without its keys a run that has begun would draw again, so it is refused
        has_keys = folder.has_begun or os.path.lexists(folder.run_id)
        self._keys = DrawKeys.read(folder) if has_keys else None

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
        path = ledger_path(terms.ledger, folder, terms)
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
        if not account.charges_of(charge._run):
            charge._require_one_sum()
            may_share_noise = charge._is_usual and account.max_epsilon is None
            require(may_share_noise or not charge._shares_noise(), "ledger", path, _OTHER_SEED)
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
    def _run(self) -> str:
        """Returns what keys of this run begin with; a word that begins none for a run that has no keys yet."""
        return "new" if self._keys is None else self._keys.run

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
            may_share_noise=self._is_usual,
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
            self._make_ledger()
        self._introduce(monitor)
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
        where nothing of it was committed, so nothing of it was paid for, where its price is not the one that was
        charged, or the file is not that of the draw.
        """
        key = self.keys.last
        parts = self.account.parts(key)
        kind = type(self.priced.aggregator).__name__
        rule = "one that draws by its `ReleaseRecord`, which pays for it"
        require(bool(parts), "aggregator", kind, rule)
        rule = "one whose release has the price that was charged for it"
        require(release.event == self.priced.event, "aggregator", kind, rule)
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
        total = total_in_words(self.account, statement)
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

    def _make_ledger(self) -> None:
        """Makes the ledger, or opens the one that another run has made meanwhile."""
        try:
            self._ledger = _opened(self._terms, self.priced, self._path)
        except InvalidValue:
            path = ledger_path(self._terms.ledger, self.folder, self._terms)
            if path == self._path:
                raise
            self._path = path  # that other run has other terms
            self._ledger = _opened(self._terms, self.priced, path)
        self.account = self._ledger.account(self.account.data, unit=self.unit)
        if self._is_usual:
            self._others = other_ledgers(self._path, data=self.account.data)
            self._require_one_sum()

    def _require_one_sum(self) -> None:
        """Raises where there is a cap, and releases of the records in a ledger beside, which it would not count."""
        if self.account.max_epsilon is None:
            return
        for other in self._others:
            count = f"{other.num_charges} charge{'s' if other.num_charges > 1 else ''}"
            rule = (
                f"no cap, which would not count {count} for these records under {other.terms.words}"
            )
            rule += f" in {other.path}; ledger=PATH names another ledger"
            require(
                other.num_charges == 0,
                "max_epsilon",
                self.account.max_epsilon,
                rule,
                owner="ledger",
            )

    def _shares_noise(self) -> bool:
        """Returns whether it is known before the draw that another release has drawn from the run's seed.

        One of the same records at the same price may be the same release.
        """
        noise = seed_name(self.seed)
        return self.account.has_noise(noise, but=self._run, unlike=self.priced.event)

    def _introduce(self, monitor: Monitor) -> None:
        """Makes the owners of the records known; raises where another account knows some of them.

        In the usual ledger, without a cap, that is said in a line: all runs of a folder of outputs share it, and two
        unrelated tables may both number their rows from 1.
        """
        if not self._owners:
            return
        is_introduced = self._ledger.store.is_introduced(self.account.data)
        if not (is_introduced or self._terms.new_account):
            for other in self._others:
                num_known = other.accounts_that_know(self._owners, but=self.account.data)
                self._judge_acquaintance(num_known, other.path, monitor)
        num_known = self.account.introduce(self._owners, anyway=self._terms.new_account)
        if num_known:
            self._judge_acquaintance(num_known, self.account.path, monitor)
            self.account.introduce(self._owners, anyway=True)

    def _judge_acquaintance(
        self, num_known: Mapping[str, int], path: Path | None, monitor: Monitor
    ) -> None:
        """Says, or raises with a named ledger or a cap, that other accounts know some of the owners of the records."""
        total = sum(map(len, self._owners.values()))
        for other, count in num_known.items():
            knows = f"which knows {count} of these {total} ids and groups"
            if self._is_usual and self.account.max_epsilon is None:
                monitor.say(
                    f"ledger={path}: these are not the data of account {other[:12]}, {knows}: if they are the same "
                    "people, no total counts what both have cost them; ledger=PATH refuses such records"
                )
                continue
            rule = f"the data of account {other[:12]}, {knows}"
            rule += "; or new_account=true, whose epsilons do not count what these people have spent there"
            raise InvalidValue("ledger", path, rule=rule)

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
        self._require_one_sum()
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
        if name == self.budget.accountant().name or self.account.noise_is_shared:
            return ""
        return f", by accountant={name}"

    def _lines(self) -> Iterator[str]:
        """Says what earlier releases of the same records have cost, and what is left for them."""
        account = self.account
        for other in self._others:
            if other.num_charges or self._path.name != LEDGER_NAME:
                yield (
                    f"ledger={account.path} counts for {CountedTerms.of_run(self._terms).words}, and {other.path} "
                    f"for {other.terms.words}: the two cannot be added up"
                )
        yield from self._noise_lines()
        statement = account.statement()
        earlier = statement.num_charges - len(account.charges_of(self.keys.run))
        if earlier:
            count = f"{earlier} earlier release{'s' if earlier > 1 else ''}"
            total = total_in_words(account, statement)
            yield f"ledger={account.path}: {count} of these records, together {total}{self._counted_by}"
        if account.max_epsilon is not None:
            more = account.affords(self.priced.event)
            yield f"max_total_epsilon={account.max_epsilon:g}: {fitting_in_words(more)}"

    def _noise_lines(self) -> Iterator[str]:
        """Says that the noise of the run is that of an earlier release, or may be."""
        noise = seed_name(self.seed)
        if not noise:
            return
        end = "no epsilon covers both; leave seed= out, or take another one"
        shared_in = [other.path for other in self._others if noise in other.noises]
        if self._shares_noise():
            shared_in.append(self._path)
        for path in shared_in:
            yield f"seed={self.seed}: this release shares its noise with an earlier one in ledger={path}: {end}"
        if not shared_in and self.account.has_noise(noise, but=self._run):
            yield (
                f"seed={self.seed}: an earlier release in ledger={self._path} drew its noise from this seed: "
                f"unless this one is the same to the last byte, {end}"
            )


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

"""The charge of a run: its account in a ledger, the keys of its draws, and the price of all draws together.

A run calls `RunCharge.open`, `begin`, `record`, `publish` and `require_paid`, in this order. The charge is made by
`LedgerRecord.commit`, which hands the first drawn part and its price to the ledger in one transaction.

The order of writes makes a kill harmless at any moment. The place of the ledger is written before the keys, so a folder
that has keys and finds no ledger knows that the ledger was lost. The digest of the release's file is committed before
the file is written, so a file without a committed digest means that the ledger is an older copy.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
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
from pate.files.disk import FROM_BACKUP, file_digest, make_folder, read_text, replacing
from pate.pricing import PricedRelease
from pate.progress import Monitor
from pate.report import format_epsilon
from pate.run.account_words import account_lines, other_ledger_lines, total_in_words
from pate.run.draw_keys import DrawKeys
from pate.run.earlier_ledgers import CHARGES_STAY, ChargeTransfer, earlier_ledgers
from pate.run.folder import RunFolder
from pate.run.ledger_place import (
    CountedTerms,
    LedgerPlace,
    is_usual,
    ledger_path,
    other_ledgers,
)
from pate.run.ledger_record import LedgerRecord, require_room
from pate.run.owners import Owners, OwnersOfRun
from pate.run.random_streams import seed_name
from pate.run.release_terms import ReleaseTerms
from pate.validation import InvalidValue, require

# the part of a draw that holds the digest of the release's file
_FILE_DIGEST = "written"
_OTHER_SEED = (
    "another seed, as an earlier release drew its noise from this one; or none, seed=null; "
    "or the output_dir of that run"
)


class RunCharge:
    """The charge of one run in a ledger, from the check that it fits to the proof that it was made.

    Attributes:
        priced: the release, with the price of one draw.
        budget: what the release may cost, and by which accountant.
        folder: the run's.
        account: the account of the private records in the ledger.
        unit: what one change replaces, which the price protects.
        seed: the seed of the run; None for noise that nothing repeats.
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
        self._is_usual = is_usual(terms.ledger, path)
        self._owners = OwnersOfRun(
            owners=owners, is_allowed=terms.new_account, is_usual_ledger=self._is_usual
        )
        self._others = other_ledgers(path, data=account.data) if self._is_usual else []
        self._place = LedgerPlace.read(folder)
        self._release_file = folder.release / "release.npz"
        # A run that has begun and lost its keys is refused here: with new keys it would draw a second time.
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
        """Opens the account of a run, and checks that the release fits. Nothing is spent, and no file is made.

        Args:
            terms: which ledger, and what all releases of the records may cost together.
            priced: the release.
            folder: the run's; it may be new.
            data: `Dataset.private_digest`, which names the account.
            unit: what the price is for.
            owners: the people whose records these are, as `pate.run.owners` describes them.

        Raises:
            InvalidValue: the ledger has no room for the release, or is no ledger. It counts for another adjacency,
                delta or unit of privacy. Another release drew from the seed. The run's own ledger is gone.
        """
        path = ledger_path(terms.ledger, folder, terms)
        is_there = os.path.lexists(path)
        ledger = _open_ledger(terms, priced, path if is_there else None)
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
        is_charged = bool(account.charges_of(charge._key_prefix))
        if not is_charged:
            charge._require_one_sum()
            may_share_noise = charge._is_usual and account.max_epsilon is None
            require(may_share_noise or not charge._shares_noise(), "ledger", path, _OTHER_SEED)
            require_room(account, priced)
        return charge

    @property
    def keys(self) -> DrawKeys:
        """Returns the keys of the run's draws, which `begin` has made or read."""
        assert self._keys is not None
        return self._keys

    @property
    def num_draws(self) -> int:
        """Returns how often the release is drawn with fresh noise, the present draw included."""
        return len(self.keys.all)

    @property
    def epsilon(self) -> float:
        """Returns the price of all draws together; infinity where their failure probabilities use up delta."""
        return self._price(self.num_draws)

    def record(self) -> LedgerRecord:
        """Returns the record of the present draw, which is charged together with its first part."""
        return LedgerRecord(self.account, self.priced, key=self.keys.last, note=self._note)

    def begin(self, monitor: Monitor, *, redraw: bool) -> None:
        """Makes or opens the ledger, enters the owners of the records, and says what the records have cost so far.

        The folder has been claimed by then. Still nothing is charged.

        Args:
            monitor: is told the total of the account.
            redraw: draws a lost release again, with fresh noise and for its price. The release counts as lost where
                it was written once and its file is gone.

        Raises:
            InvalidValue: the ledger does not hold what the run drew, or its cap has no room for another draw.
        """
        if self.account.path is None:
            make_folder(self._path.parent)
            self._make_ledger()
        self._owners.introduce(self._ledger, self.account, self._others, monitor)
        if self._keys is None:
            self._write_place()  # before the keys, as the head of this file explains
            self._keys = DrawKeys.new()
            self._keys.write(self.folder)
        else:
            self._transfer_charges()
            self._write_place()
        parts = self.account.parts(self.keys.last)
        self._require_parts(parts)
        is_lost = _FILE_DIGEST in parts and not os.path.lexists(self._release_file)
        if redraw and is_lost and self.seed is None:
            self._add_draw()
        if self.num_draws > 1:
            price = format_epsilon(self.epsilon)
            monitor.say(
                f"redraw=true: draw {self.num_draws} of this release; together they cost epsilon {price}"
            )
        for line in self._lines():
            monitor.say(line)

    def publish(self, release: Release, names: PublicNames, monitor: Monitor) -> None:
        """Commits the digest of the release's file, writes the file unless it is there, and says the total.

        Raises:
            InvalidValue: no part of the release was committed, so nothing was paid; its price is not the one that was
                charged; or the file that is there is not that of the draw.
        """
        key = self.keys.last
        parts = self.account.parts(key)
        aggregator_name = type(self.priced.aggregator).__name__
        rule = "one that draws by its `ReleaseRecord`, which pays for it"
        require(bool(parts), "aggregator", aggregator_name, rule)
        rule = "one whose release has the price that was charged for it"
        require(release.event == self.priced.event, "aggregator", aggregator_name, rule)
        content = npz_bytes(**release.arrays(), **names.arrays())
        if _FILE_DIGEST not in parts:
            digest = hashlib.sha256(content).hexdigest()
            self.record().commit(_FILE_DIGEST, digest.encode())
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
        monitor.say(f"ledger={self.account.path}: {cost} {total}{self._counting_accountant}")

    def require_paid(self) -> None:
        """Raises unless the ledger holds the charge at its price, and the release is as it was when it was drawn.

        The ledger's file is read anew, so a change since `begin` is noticed.
        """
        self._ledger = _open_ledger(self._terms, self.priced, self._path)
        self.account = self._ledger.account(self.account.data, unit=self.unit)
        parts = self.account.parts(self.keys.last)
        rule = f"the charge of this release at its price; {CHARGES_STAY}"
        require(bool(parts), "ledger", self.account.path, rule)
        self._require_parts(parts)

    @property
    def _key_prefix(self) -> str:
        """Returns what all keys of this run begin with; a run without keys has a word that no key begins with."""
        return "new" if self._keys is None else self._keys.run

    @property
    def _note(self) -> ChargeNote:
        """Returns the note of a charge of this run, for whoever reads the ledger."""
        class_prices = [
            f"{budget_class.name} {format_epsilon(budget_class.epsilon)}"
            for budget_class in self.priced.classes
        ]
        # The charge itself is the price of the largest budget.
        classes = f", epsilon {', '.join(class_prices)}" if class_prices else ""
        return ChargeNote(
            description=f"{self.folder.path}: {type(self.priced.aggregator).__name__}{classes}",
            run=self.keys.run,
            noise=seed_name(self.seed),
            may_share_noise=self._is_usual,
        )

    @property
    def _counting_accountant(self) -> str:
        """Returns a remark on the accountant of the total; empty where the run is priced by the same one."""
        name = self.account.accountant_name
        if name == self.budget.accountant().name or self.account.noise_is_shared:
            return ""
        return f", by accountant={name}"

    def _price(self, num_draws: int) -> float:
        """Returns the price of several draws; infinity where their failure probabilities use up delta."""
        if num_draws == 1:
            return self.priced.epsilon
        try:
            return self.budget.epsilon_of(SelfComposedEvent(self.priced.event, num_draws))
        except InvalidValue:
            return math.inf

    def _make_ledger(self) -> None:
        """Makes the ledger, or opens the one that another run has made since `open`."""
        try:
            self._ledger = _open_ledger(self._terms, self.priced, self._path)
        except InvalidValue:
            path = ledger_path(self._terms.ledger, self.folder, self._terms)
            if path == self._path:
                raise
            self._path = path  # the other run made the usual ledger for other terms
            self._ledger = _open_ledger(self._terms, self.priced, path)
        self.account = self._ledger.account(self.account.data, unit=self.unit)
        if self._is_usual:
            self._others = other_ledgers(self._path, data=self.account.data)
            self._require_one_sum()

    def _write_place(self) -> None:
        """Writes the place of the ledger into the run's folder, unless the folder names the same place already."""
        place = LedgerPlace(self._path, self._ledger.identity)
        if place != self._place:
            place.write(self.folder)

    def _transfer_charges(self) -> None:
        """Enters in the present ledger what this run drew and was charged for in an earlier one."""
        for path in earlier_ledgers(self.folder, self._ledger.identity):
            transfer = ChargeTransfer(
                account=self.account,
                priced=self.priced,
                folder=self.folder,
                terms=self._terms,
                note=self._note,
            )
            self._keys = transfer.transfer(path, self.keys)

    def _add_draw(self) -> None:
        """Adds the key of another draw; raises where the cap of the ledger has no room for its charge."""
        price = self._price(self.num_draws + 1)
        rule = f"a price that stays finite; another draw costs epsilon {format_epsilon(price)} with those before"
        require(math.isfinite(price), "redraw", "true", rule)
        self._require_one_sum()
        require_room(self.account, self.priced)
        self._keys = self.keys.with_redraw()
        self._keys.write(self.folder)

    def _require_ledger_of_run(self) -> None:
        """Raises where the run has begun, and neither its ledger nor an earlier one is there."""
        is_same = self._place is not None and self._place.identity == self._ledger.identity
        if self._keys is None or is_same or earlier_ledgers(self.folder, self._ledger.identity):
            return
        shown_path = self._path if self._place is None else self._place.path
        rule = f"the run's ledger, which is gone; {CHARGES_STAY}"
        require(bool(self.account.charges_of(self._keys.run)), "ledger", shown_path, rule)

    def _require_one_sum(self) -> None:
        """Raises where a cap would not count releases of the records that a ledger beside has charged."""
        if self.account.max_epsilon is None:
            return
        for other in self._others:
            charges = f"{other.num_charges} charge{'s' if other.num_charges > 1 else ''}"
            rule = (
                f"no cap, which would not count {charges} for these records under {other.terms.words}"
                f" in {other.path}; ledger=PATH names another ledger"
            )
            require(
                other.num_charges == 0,
                "max_epsilon",
                self.account.max_epsilon,
                rule,
                owner="ledger",
            )

    def _require_parts(self, parts: Mapping[str, str]) -> None:
        """Raises unless every draw is charged, and the release's file, where it is there, is that of the last draw.

        `parts` are the digests of the last draw's parts by name. Without parts that draw has not been charged yet.
        """
        keys = self.keys.all
        for key in keys if parts else keys[:-1]:
            self.account.require_charged(self.priced.event, key, remedy=CHARGES_STAY)
        if not os.path.lexists(self._release_file):
            return
        rule = f"the one that {self._release_file} came from; {CHARGES_STAY}"
        require(_FILE_DIGEST in parts, "ledger", self.account.path, rule)
        digest = file_digest(self._release_file, remedy=CHARGES_STAY)
        rule = "the file as it was when the release was drawn; remove it, and the same command writes it again"
        is_same = parts[_FILE_DIGEST] == hashlib.sha256(digest.encode()).hexdigest()
        require(is_same, "release", self._release_file, rule)

    def _shares_noise(self) -> bool:
        """Returns whether another release is known, before the draw, to have drawn from the run's seed.

        A release of the same records at the same price is left out: it may be the very same release.
        """
        noise = seed_name(self.seed)
        return self.account.has_noise(noise, but=self._key_prefix, unlike=self.priced.event)

    def _lines(self) -> Iterator[str]:
        """Yields the lines about earlier releases of the records: what they cost, and what is left for this one."""
        terms = CountedTerms.of_run(self._terms)
        yield from other_ledger_lines(self.account, self._path, terms, self._others)
        yield from self._noise_lines()
        yield from account_lines(
            self.account,
            self.priced.event,
            run=self.keys.run,
            counting_accountant=self._counting_accountant,
        )

    def _noise_lines(self) -> Iterator[str]:
        """Yields a line for each ledger where an earlier release has, or may have, the noise of this run."""
        noise = seed_name(self.seed)
        if not noise:
            return
        consequence = "no epsilon covers both; leave seed= out, or take another one"
        paths = [other.path for other in self._others if noise in other.noises]
        if self._shares_noise():
            paths.append(self._path)
        for path in paths:
            yield (
                f"seed={self.seed}: this release shares its noise with an earlier one in ledger={path}: {consequence}"
            )
        if not paths and self.account.has_noise(noise, but=self._key_prefix):
            yield (
                f"seed={self.seed}: an earlier release in ledger={self._path} drew its noise from this seed: "
                f"unless this one is the same to the last byte, {consequence}"
            )


def require_entered(ledger: Path | str | None, folder: RunFolder) -> None:
    """Raises unless a finished run is charged to its ledger.

    A run of an earlier version has a ledger of its own, which the manifest of the run vouches for.

    Args:
        ledger: the setting `ledger=`; None for the ledger that the run began with.
        folder: the run's.
    """
    if ledger is None and LedgerPlace.read(folder) is None and folder.own_ledger.exists():
        return
    path = ledger_path(ledger, folder)
    data = read_text(
        folder.private_digest, rule="the digest of the private records", remedy=FROM_BACKUP
    )
    is_charged = False
    if path.exists():
        account = Ledger.stored(path, data=data.strip())
        is_charged = bool(account.charges_of(DrawKeys.read(folder).run))
    place = LedgerPlace.read(folder)
    other_place = f", {place.path}" if place is not None and place.path != path else ""
    rule = (
        f"the ledger that this finished run is charged to{other_place}; or remove "
        "report.json and run again, to charge it there too"
    )
    require(is_charged, "ledger", path, rule)


def _open_ledger(terms: ReleaseTerms, priced: PricedRelease, path: Path | None) -> SharedLedger:
    """Opens the ledger at a path with a run's terms, or makes it; None is a ledger in memory.

    A ledger that is there counts by its own accountant, whichever the run is priced by. A new ledger counts by the
    run's accountant where `ledger=` names it, and by `AutoAccountant` where it is the usual one of a folder.
    """
    file: Store | Path | None = path
    accountant = None if terms.ledger is None else terms.accountant
    if path is not None and os.path.lexists(path):
        file = Store(path, None)
        stored = file.settings.get("accountant")
        name = stored.get("name") if isinstance(stored, dict) else None
        # An accountant that the user has written cannot be made from its name, so the run has to bring it.
        accountant = terms.accountant if name == terms.accountant().name else None
    return SharedLedger(
        file,
        adjacency=priced.aggregator.adjacency,
        target_delta=terms.target_delta,
        accountant=accountant,
        max_epsilon=terms.max_total_epsilon,
    )

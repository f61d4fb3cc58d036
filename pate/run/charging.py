"""The charge of a run: its account in a ledger, the keys of its draws, and the total price of the draws.

A *draw* is one sample of the release's noise; it is stored in named *parts*, such as rounds of queries. A *ledger* is a
file with an *account* for each set of private records (`pate.accounting.ledger`). The *usual* ledger of a folder of
runs is `ledger.db` in that folder, or a file there whose name has its adjacency and delta (`pate.run.ledger_place`).

A run calls `RunCharge.open`, `begin`, `record`, `publish` and `require_paid`, in this order. `LedgerRecord.commit`
makes the charge: it stores the first drawn part and its price in the ledger, in one transaction.

The order of writes makes a kill harmless at any moment. The place of the ledger is written before the keys. So a folder
that has keys but finds no ledger proves that the ledger was lost. The digest of the release's file is committed to the
ledger before the file is written. So a file without a committed digest proves that the ledger is an older copy.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from pate.accounting import Event, PrivacyUnit, SelfComposedEvent
from pate.accounting.ledger import Ledger
from pate.accounting.ledger_entry import ChargeNote
from pate.accounting.shared_ledger import SharedLedger
from pate.accounting.store import Store
from pate.aggregators import Release
from pate.aggregators.release import PublicNames
from pate.files.arrays import npz_bytes
from pate.files.atomic import atomic_write
from pate.files.digests import file_digest
from pate.files.paths import make_folder
from pate.files.reading import FROM_BACKUP, read_text
from pate.pricing import PricedRelease
from pate.progress import Monitor
from pate.report import format_epsilon
from pate.run.account_words import (
    account_lines,
    accountant_remark,
    other_ledger_lines,
    shared_noise_lines,
    shared_owner_lines,
    total_in_words,
)
from pate.run.earlier_ledgers import CHARGES_STAY, ChargeTransfer, earlier_ledgers
from pate.run.folder import RunFolder
from pate.run.ledger_keys import LedgerKeys
from pate.run.ledger_place import (
    AdjacencyAndDelta,
    LedgerPlace,
    has_usual_name,
    ledger_path,
    other_ledgers,
)
from pate.run.ledger_record import LedgerRecord, require_room
from pate.run.owners import Owners, OwnersOfRun
from pate.run.random_streams import readable_seed_name
from pate.run.release_terms import ReleaseTerms
from pate.run.score_release import ScoreCharge, ScorePrice
from pate.run.tuned_runs import TunedRuns
from pate.validation import InvalidValue

# The name of the part of a draw that holds the digest of the release's file.
_FILE_DIGEST_PART = "written"
# The rule for a seed from which an earlier release drew its noise.
_OTHER_SEED = (
    "another seed, as an earlier release drew its noise from this one; or none, seed=null; "
    "or the output_dir of that run"
)


class RunCharge:
    """The charge of one run in a ledger, from the check that it fits to the proof that it was made.

    States:
        * After `open`: the ledger is in memory if its file does not exist yet. A run has keys, under which the ledger
          stores its draws, only if it has begun before.
        * After `begin`: the ledger is a file, and the run has keys. The release may be drawn with the record that
          `record` returns.
        * After `publish`: the ledger holds the charge and the digest of the release's file, and the file exists.

    Attributes:
        priced_release: the release, with the price of one draw of its noise.
        budget: the epsilon and delta that the release may cost, and the accountant that computes the price.
        run_folder: the folder of the run.
        account: the account of the private records in the ledger.
        unit: the unit of privacy: what two neighboring data sets differ in, such as one group of records.
        seed: the seed of the run; None for noise from the operating system, which nobody can repeat.
    """

    def __init__(
        self,
        *,
        release_terms: ReleaseTerms,
        priced_release: PricedRelease,
        run_folder: RunFolder,
        ledger_file: Path,
        shared_ledger: SharedLedger,
        account: Ledger,
        unit: PrivacyUnit,
        owners_by_kind: Owners,
    ) -> None:
        self.priced_release = priced_release
        self.budget = release_terms.budget
        self.run_folder = run_folder
        self.account = account
        self.unit = unit
        self.seed = release_terms.seed
        self._release_terms = release_terms
        self._ledger_file = ledger_file
        self._ledger = shared_ledger
        self._is_usual_ledger = release_terms.ledger is None and has_usual_name(ledger_file)
        self._owners = OwnersOfRun(
            owners_by_kind=owners_by_kind,
            allow_shared=release_terms.new_account,
            # An owner that another account lists is then a warning, not a refusal, unless there is a cap. A run that
            # starts from an earlier release must have other people, whichever ledger lists them.
            may_be_known=self._is_usual_ledger and release_terms.start is None,
        )
        self._other_ledgers = (
            other_ledgers(ledger_file, data_digest=account.data) if self._is_usual_ledger else []
        )
        self._place = LedgerPlace.read(run_folder)
        self._release_file = run_folder.release_file
        # `LedgerKeys.read` refuses a run that has begun and lost its keys: with new keys it would draw a second time.
        has_keys = run_folder.has_begun or os.path.lexists(run_folder.run_id)
        self._ledger_keys = LedgerKeys.read(run_folder) if has_keys else None

    @classmethod
    def open(
        cls,
        *,
        release_terms: ReleaseTerms,
        priced_release: PricedRelease,
        run_folder: RunFolder,
        data_digest: str,
        unit: PrivacyUnit,
        owners_by_kind: Owners | None = None,
    ) -> Self:
        """Opens the account of a run and checks that the release fits. Nothing is spent, and no file is made.

        Args:
            release_terms: the terms of the release: which ledger is charged, the cap on all releases of the records
                together, the budget, and the seed.
            priced_release: the release and its price.
            run_folder: the folder of the run; it may not exist yet.
            data_digest: the digest of the private records (`Dataset.private_digest`), the name of their account.
            unit: the unit of privacy that the price protects.
            owners_by_kind: the people whose records these are, as `pate.run.owners` describes them; None if nobody
                knows them.

        Raises:
            InvalidValue: the ledger has no room for the release, or the file is no ledger, or cannot be made. The
                ledger counts for another adjacency, delta or unit of privacy. There is a cap, and another ledger of the
                folder has charges for the records. Another release drew its noise from the same seed, and a ledger
                that the user named, or a cap, forbids that. The ledger that this run has charged is gone.
        """
        ledger_file = ledger_path(
            release_terms.ledger, run_folder=run_folder, release_terms=release_terms
        )
        is_there = os.path.lexists(ledger_file)
        shared_ledger = _open_ledger(
            ledger_file if is_there else None,
            release_terms=release_terms,
            priced_release=priced_release,
        )
        account = shared_ledger.account(data_digest, unit=unit)
        run_charge = cls(
            release_terms=release_terms,
            priced_release=priced_release,
            run_folder=run_folder,
            ledger_file=ledger_file,
            shared_ledger=shared_ledger,
            account=account,
            unit=unit,
            owners_by_kind=owners_by_kind or {},
        )
        run_charge._require_ledger_of_run()
        if (
            not is_there
            and release_terms.ledger is None
            and not os.access(ledger_file.parent, os.W_OK)
        ):
            rule = "a folder that can be written, for the ledger of all runs in it; ledger=PATH names another file"
            raise InvalidValue("ledger", ledger_file, rule=rule)
        if not run_charge._is_charged():
            run_charge._require_no_charges_elsewhere()
            run_charge._require_fresh_noise()
            require_room(account, priced_release=priced_release)
        return run_charge

    @property
    def ledger_keys(self) -> LedgerKeys:
        """The keys under which the ledger stores the run's draws. `begin` must have been called before."""
        assert self._ledger_keys is not None
        return self._ledger_keys

    @property
    def num_draws(self) -> int:
        """The number of times that the release was drawn with fresh noise, the present draw included."""
        return len(self.ledger_keys.all)

    @property
    def epsilon(self) -> float:
        """The epsilon of all draws together, or of the best run of a tuning, at the budget's delta.

        It is infinity if the failure probabilities in this price sum to delta or more.
        """
        if self.tuned is not None:
            return self.budget.epsilon_of(self.published_event)
        return self._epsilon_of_draws(self.num_draws)

    @property
    def tuned(self) -> TunedRuns | None:
        """The public facts on the tuning, if the release is the best run of one; None otherwise."""
        return self._release_terms.tuned

    @property
    def published_event(self) -> Event:
        """The price of what is published, as an event: that of all draws, or of the best run of a tuning."""
        if self.tuned is not None:
            return self.tuned.event
        return SelfComposedEvent(self.priced_release.event, count=self.num_draws)

    def score_charge(self, *, score_price: ScorePrice) -> ScoreCharge:
        """Returns the charge of the run's scores, in the account of the test records; `begin` must have been called.

        Args:
            score_price: the price of the scores.
        """
        *earlier_draw_keys, last_draw_key = self.ledger_keys.all
        return replace(
            self._score_charge_of(last_draw_key, score_price=score_price),
            earlier_release_keys=tuple(_score_key_of(draw_key) for draw_key in earlier_draw_keys),
        )

    def _score_charge_of(self, draw_key: str, *, score_price: ScorePrice) -> ScoreCharge:
        """Returns the charge of the scores of the student of one draw.

        Args:
            draw_key: the key of the draw.
            score_price: the price of the scores.
        """
        seed = readable_seed_name(self.seed)
        return ScoreCharge(
            score_price=score_price,
            account=self._ledger.account(score_price.account_name, unit=score_price.unit),
            release_key=_score_key_of(draw_key),
            charge_note=ChargeNote(
                description=f"{self.run_folder.path}: scores of the student on the test records",
                run_key=self.ledger_keys.run_key_prefix,
                seed_name=f"{seed}, scores" if seed else "",
                may_share_noise=self._is_usual_ledger,
            ),
        )

    def record(self) -> LedgerRecord:
        """Returns the record of the present draw, which commits its first part and its charge together."""
        return LedgerRecord(
            self.account,
            priced_release=self.priced_release,
            release_key=self.ledger_keys.last_draw,
            charge_note=self._note,
        )

    def begin(
        self, monitor: Monitor, *, redraw: bool, score_price: ScorePrice | None = None
    ) -> None:
        """Makes or opens the ledger, enters the owners of the records, and shows what the records have cost so far.

        The run must have claimed its folder before. Nothing new is drawn or charged here. If the run was charged to
        another ledger before, because `ledger=` has changed or an earlier version of pate began the run, its charges
        are copied from there.

        Args:
            monitor: receives the lines about the account.
            redraw: true replaces a lost release by a new draw, with fresh noise and a second charge. A release is lost
                if its file was written and is gone. If this is false, or if the run has a seed, the lost file is
                written again from the ledger.
            score_price: the price of the run's scores, whose charge is copied too; None where none are released.

        Raises:
            InvalidValue: the ledger lacks what the run has drawn, or its cap has no room for another draw; or another
                account lists an owner of the records, and a warning is not enough (`OwnersOfRun`).
        """
        if self.account.path is None:
            make_folder(self._ledger_file.parent)
            self._make_ledger()
        self._owners.introduce(
            shared_ledger=self._ledger,
            account=self.account,
            other_ledgers=self._other_ledgers,
            monitor=monitor,
        )
        if self._ledger_keys is None:
            self._write_place()  # before the keys, as the docstring of this module explains
            self._ledger_keys = LedgerKeys.new()
            self._ledger_keys.write(self.run_folder)
        else:
            keys_before_transfer = self._ledger_keys
            self._transfer_charges()
            if score_price is not None:
                self._transfer_scores(score_price, earlier_keys=keys_before_transfer)
            self._write_place()
        digests_of_draw_parts = self.account.parts(release_key=self.ledger_keys.last_draw)
        self._require_parts(digests_of_draw_parts)
        is_lost = _FILE_DIGEST_PART in digests_of_draw_parts and not os.path.lexists(
            self._release_file
        )
        if redraw and is_lost and self.seed is None:
            self._add_draw()
        if self.num_draws > 1:
            epsilon = format_epsilon(self.epsilon)
            monitor.say(
                f"redraw=true: draw {self.num_draws} of this release; together they cost epsilon {epsilon}"
            )
        for line_on_costs_so_far in self._lines_on_costs_so_far():
            monitor.say(line_on_costs_so_far)

    def publish(self, release: Release, *, public_names: PublicNames, monitor: Monitor) -> None:
        """Commits the digest of the release's file to the ledger, and writes the file if it is missing.

        The total cost of all releases of the records is shown at the end.

        Args:
            release: the drawn release.
            public_names: the names of the queries and labels, which are written with the release.
            monitor: receives the line about the total.

        Raises:
            InvalidValue: no part of the release was committed, so nothing was paid; or the price differs from the
                charged price; or the existing file is not the file of this draw.
        """
        digests_of_draw_parts = self.account.parts(release_key=self.ledger_keys.last_draw)
        aggregator_name = type(self.priced_release.aggregator).__name__
        if not digests_of_draw_parts:
            rule = "one that draws by its `ReleaseRecord`, which pays for it"
            raise InvalidValue("aggregator", aggregator_name, rule=rule)
        if release.event != self.priced_release.event:
            rule = "one whose release has the price that was charged for it"
            raise InvalidValue("aggregator", aggregator_name, rule=rule)
        release_file_content = npz_bytes(release.arrays() | public_names.arrays())
        if _FILE_DIGEST_PART not in digests_of_draw_parts:
            release_file_digest = hashlib.sha256(release_file_content).hexdigest()
            self.record().commit(_FILE_DIGEST_PART, part_content=release_file_digest.encode())
        if not os.path.lexists(self._release_file):
            make_folder(self._release_file.parent, existing_parent=self.run_folder.path)
            with atomic_write(self._release_file) as file:
                file.write(release_file_content)
        self._require_parts(self.account.parts(release_key=self.ledger_keys.last_draw))
        account_totals = self.account.statement()
        cost = "this first release costs"
        if account_totals.num_charges > 1:
            cost = f"all {account_totals.num_charges} releases of these records cost"
        total = total_in_words(self.account, account_totals=account_totals)
        remark = accountant_remark(self.account, make_accountant=self.budget.accountant)
        monitor.say(f"ledger={self.account.path}: {cost} {total}{remark}")

    def require_paid(self) -> None:
        """Raises `InvalidValue` unless the ledger holds the charge at its price and the release's file is unchanged.

        A file that is gone is accepted, as the ledger can write it again. The method reads the ledger's file again, so
        it notices a change that was made after `begin`.
        """
        self._ledger = _open_ledger(
            self._ledger_file, release_terms=self._release_terms, priced_release=self.priced_release
        )
        self.account = self._ledger.account(self.account.data, unit=self.unit)
        digests_of_draw_parts = self.account.parts(release_key=self.ledger_keys.last_draw)
        if not digests_of_draw_parts:
            rule = f"the charge of this release at its price; {CHARGES_STAY}"
            raise InvalidValue("ledger", self.account.path, rule=rule)
        self._require_parts(digests_of_draw_parts)

    @property
    def _note(self) -> ChargeNote:
        """The note of a charge of this run: a description for people, and the run and seed for the ledger's checks."""
        class_prices = [
            f"{budget_class.name} {format_epsilon(budget_class.epsilon)}"
            for budget_class in self.priced_release.classes
        ]
        # The charge itself is the price of the class with the largest budget.
        classes = f", epsilon {', '.join(class_prices)}" if class_prices else ""
        return ChargeNote(
            description=f"{self.run_folder.path}: {type(self.priced_release.aggregator).__name__}{classes}",
            run_key=self.ledger_keys.run_key_prefix,
            seed_name=readable_seed_name(self.seed),
            may_share_noise=self._is_usual_ledger,
        )

    def _epsilon_of_draws(self, num_draws: int) -> float:
        """Returns the epsilon of `num_draws` draws; infinity if their failure probabilities sum to delta or more."""
        if num_draws == 1:
            return self.priced_release.epsilon
        try:
            return self.budget.epsilon_of(
                SelfComposedEvent(self.priced_release.event, count=num_draws)
            )
        except InvalidValue:
            return math.inf

    def _make_ledger(self) -> None:
        """Makes the file of the ledger, or opens it if another run has made it since `open`.

        If that other run has made it for other terms, this run gets a ledger of its own terms in the same folder. A
        ledger that `ledger=` names, or that has a cap, is refused then.
        """
        try:
            self._ledger = _open_ledger(
                self._ledger_file,
                release_terms=self._release_terms,
                priced_release=self.priced_release,
            )
        except InvalidValue:
            ledger_file = ledger_path(
                self._release_terms.ledger,
                run_folder=self.run_folder,
                release_terms=self._release_terms,
            )
            if ledger_file == self._ledger_file:
                raise
            # Another run has made the usual ledger for other terms, so this run has a ledger of its own terms.
            self._ledger_file = ledger_file
            self._ledger = _open_ledger(
                ledger_file, release_terms=self._release_terms, priced_release=self.priced_release
            )
        self.account = self._ledger.account(self.account.data, unit=self.unit)
        if self._is_usual_ledger:
            self._other_ledgers = other_ledgers(self._ledger_file, data_digest=self.account.data)
            self._require_no_charges_elsewhere()

    def _write_place(self) -> None:
        """Writes the place of the ledger into the run's folder, unless that place is written there already."""
        ledger_place = LedgerPlace(
            ledger_file=self._ledger_file, ledger_identity=self._ledger.identity
        )
        if ledger_place != self._place:
            ledger_place.write(self.run_folder)

    def _transfer_charges(self) -> None:
        """Copies this run's draws and charges into the present ledger from the one that the run was charged to before.

        Nothing is copied if the present ledger is that one.
        """
        for earlier_ledger_file in earlier_ledgers(
            self.run_folder, ledger_identity=self._ledger.identity
        ):
            transfer = ChargeTransfer(
                account=self.account,
                priced_release=self.priced_release,
                run_folder=self.run_folder,
                release_terms=self._release_terms,
                charge_note=self._note,
            )
            self._ledger_keys = transfer.transfer(
                earlier_ledger_file=earlier_ledger_file, ledger_keys=self.ledger_keys
            )

    def _transfer_scores(self, score_price: ScorePrice, *, earlier_keys: LedgerKeys) -> None:
        """Copies the noisy sums of the scores of all draws, and their charges, from an earlier ledger that has them.

        Args:
            score_price: the price of the scores of one draw.
            earlier_keys: the keys of the draws in the earlier ledger. They differ from the present ones if
                `_transfer_charges` has given new keys to a copy of a run.
        """
        for earlier_ledger_file in earlier_ledgers(
            self.run_folder, ledger_identity=self._ledger.identity
        ):
            earlier_account = SharedLedger.stored(path=earlier_ledger_file).account(
                score_price.account_name
            )
            for earlier_key, draw_key in zip(earlier_keys.all, self.ledger_keys.all, strict=True):
                score_charge = self._score_charge_of(earlier_key, score_price=score_price)
                score_sums_content = earlier_account.read(score_charge.release_key)
                if score_sums_content is not None:
                    score_charge = self._score_charge_of(draw_key, score_price=score_price)
                    score_charge.commit(score_sums_content)

    def _add_draw(self) -> None:
        """Adds a key for another draw of the release with fresh noise, and writes the keys into the run's folder.

        Raises:
            InvalidValue: the cap has no room for another charge; or the price of all draws would be infinite; or, under
                a cap, a ledger of the folder for another adjacency or delta charges the records.
        """
        epsilon = self._epsilon_of_draws(self.num_draws + 1)
        if not math.isfinite(epsilon):
            rule = f"a price that stays finite; another draw costs epsilon {format_epsilon(epsilon)} with those before"
            raise InvalidValue("redraw", "true", rule=rule)
        self._require_no_charges_elsewhere()
        require_room(self.account, priced_release=self.priced_release)
        self._ledger_keys = self.ledger_keys.with_redraw()
        self._ledger_keys.write(self.run_folder)

    def _lines_on_costs_so_far(self) -> Iterator[str]:
        """Yields lines for the user on what the records have cost so far.

        They are warnings of other ledgers and of shared noise, the total of people who are in several accounts, the
        cost of earlier releases, and the room under a cap.
        """
        adjacency_and_delta = AdjacencyAndDelta.of_release(self._release_terms)
        yield from other_ledger_lines(
            ledger_file=self._ledger_file,
            adjacency_and_delta=adjacency_and_delta,
            other_ledgers=self._other_ledgers,
        )
        yield from shared_noise_lines(
            ledger_file=self._ledger_file,
            account=self.account,
            release_event=self.priced_release.event,
            run_key_prefix=self.ledger_keys.run_key_prefix,
            seed=self.seed,
            other_ledgers=self._other_ledgers,
        )
        if self._release_terms.new_account:
            yield from shared_owner_lines(
                ledger_file=self._ledger_file,
                shared_ledger=self._ledger,
                account=self.account,
                release_event=self.priced_release.event,
                draw_key=self.ledger_keys.last_draw,
                owners_by_kind=self._owners.owners_by_kind,
                delta=self.budget.delta,
            )
        yield from account_lines(
            self.account,
            release_event=self.priced_release.event,
            run_key_prefix=self.ledger_keys.run_key_prefix,
            draw_key=self.ledger_keys.last_draw,
            accountant_remark=accountant_remark(
                self.account, make_accountant=self.budget.accountant
            ),
        )

    def _require_ledger_of_run(self) -> None:
        """Raises `InvalidValue` if the run has begun and its ledger is gone.

        The ledger is not gone if it is the one that the run was last charged to, or if an earlier ledger of the run
        exists. It may also be a copy with another identity that holds charges of the run.
        """
        if self._ledger_keys is None:
            return
        ledger_identity = self._ledger.identity
        is_same = self._place is not None and self._place.ledger_identity == ledger_identity
        if is_same or earlier_ledgers(self.run_folder, ledger_identity=ledger_identity):
            return
        if not self._is_charged():
            ledger_file = self._ledger_file if self._place is None else self._place.ledger_file
            rule = f"the run's ledger, which is gone; {CHARGES_STAY}"
            raise InvalidValue("ledger", ledger_file, rule=rule)

    def _require_no_charges_elsewhere(self) -> None:
        """Raises `InvalidValue` if there is a cap, and another ledger of the folder has charges for the records.

        The cap would not count those charges, as prices in ledgers of different terms cannot be added up.
        """
        if self.account.max_epsilon is None:
            return
        for other in self._other_ledgers:
            if other.num_charges == 0:
                continue
            charges = f"{other.num_charges} charge{'s' if other.num_charges > 1 else ''}"
            rule = (
                f"no cap, which would not count {charges} for these records under {other.adjacency_and_delta.words}"
                f" in {other.ledger_file}; ledger=PATH names another ledger"
            )
            raise InvalidValue("max_epsilon", self.account.max_epsilon, rule=rule, owner="ledger")

    def _require_parts(self, digests_of_draw_parts: Mapping[str, str]) -> None:
        """Raises `InvalidValue` unless the ledger's charges and digests fit the draws and the file in the run's folder.

        The ledger must hold a charge for each earlier draw, and for the last one if it was drawn. The release's file
        may be missing. If it exists, the ledger must hold its digest, and it must be the file of the last draw.

        Args:
            digests_of_draw_parts: the digests of the parts of the last draw, by name; empty if it has not been charged
                yet.
        """
        keys_of_draws = self.ledger_keys.all
        for draw_key in keys_of_draws if digests_of_draw_parts else keys_of_draws[:-1]:
            self.account.require_charged(
                self.priced_release.event, release_key=draw_key, remedy=CHARGES_STAY
            )
        if not os.path.lexists(self._release_file):
            return
        if _FILE_DIGEST_PART not in digests_of_draw_parts:
            rule = f"the one that {self._release_file} came from; {CHARGES_STAY}"
            raise InvalidValue("ledger", self.account.path, rule=rule)
        digest = file_digest(self._release_file, remedy=CHARGES_STAY)
        # The part holds the file's digest as text, and `digests_of_draw_parts` has the digest of that text.
        if digests_of_draw_parts[_FILE_DIGEST_PART] != hashlib.sha256(digest.encode()).hexdigest():
            rule = "the file as it was when the release was drawn; remove it, and the same command writes it again"
            raise InvalidValue("release", self._release_file, rule=rule)

    def _is_charged(self) -> bool:
        """Returns whether the ledger holds a charge of this run."""
        return self._ledger_keys is not None and bool(
            self.account.charges_of(self._ledger_keys.run_key_prefix)
        )

    def _require_fresh_noise(self) -> None:
        """Raises `InvalidValue` if another release in the ledger is known to have drawn its noise from the run's seed.

        A release of the same records at the same price does not count: it may be this very release. A usual ledger
        without a cap accepts shared noise; `begin` then warns of it (`shared_noise_lines`).
        """
        accepts_shared_noise = self._is_usual_ledger and self.account.max_epsilon is None
        if accepts_shared_noise:
            return
        is_seed_used = self.account.is_seed_used(
            readable_seed_name(self.seed),
            except_release="" if self._ledger_keys is None else self._ledger_keys.run_key_prefix,
            own_price=self.priced_release.event,
        )
        if is_seed_used:
            raise InvalidValue("ledger", self._ledger_file, rule=_OTHER_SEED)


def require_entered(ledger_setting: Path | str | None, *, run_folder: RunFolder) -> None:
    """Raises `InvalidValue` unless the ledger of a finished run holds the run's charge.

    A run of an earlier version of pate that has a ledger in its own folder is accepted, as its manifest lists the
    digest of that ledger.

    Args:
        ledger_setting: the setting `ledger=`; None for the ledger that the run was last charged to.
        run_folder: the folder of the run.
    """
    if (
        ledger_setting is None
        and LedgerPlace.read(run_folder) is None
        and run_folder.own_ledger.exists()
    ):
        return
    ledger_file = ledger_path(ledger_setting, run_folder=run_folder)
    data_digest = read_text(
        run_folder.private_digest, rule="the digest of the private records", remedy=FROM_BACKUP
    ).strip()
    if ledger_file.exists():
        account = Ledger.stored(path=ledger_file, data=data_digest)
        if account.charges_of(LedgerKeys.read(run_folder).run_key_prefix):
            return
    ledger_place = LedgerPlace.read(run_folder)
    other_place = (
        f", {ledger_place.ledger_file}"
        if ledger_place is not None and ledger_place.ledger_file != ledger_file
        else ""
    )
    rule = (
        f"the ledger that this finished run is charged to{other_place}; or remove "
        "report.json and run again, to charge it there too"
    )
    raise InvalidValue("ledger", ledger_file, rule=rule)


def _open_ledger(
    ledger_file: Path | None, *, release_terms: ReleaseTerms, priced_release: PricedRelease
) -> SharedLedger:
    """Returns the ledger at `ledger_file`, opened or made with a run's terms.

    An existing ledger keeps its own accountant, even if the run is priced by another accountant. A new ledger that
    `ledger=` names gets the run's accountant. A new usual ledger of a folder gets `AutoAccountant`.

    Args:
        ledger_file: the file of the ledger; None makes a ledger in memory, which is not written to a file.
        release_terms: the terms of the run: the cap, the delta and the accountant.
        priced_release: the release, whose aggregator has the adjacency.
    """
    store_or_path: Store | Path | None
    if ledger_file is not None and os.path.lexists(ledger_file):
        store_or_path = Store(ledger_file, settings_if_new=None)
        stored_accountant = store_or_path.settings.get("accountant")
        accountant_name = (
            stored_accountant.get("name") if isinstance(stored_accountant, dict) else None
        )
        # An accountant that the user has written cannot be made from its name, so the run has to bring it.
        brings_accountant = accountant_name == release_terms.accountant().name
    else:
        store_or_path = ledger_file
        brings_accountant = release_terms.ledger is not None
    make_accountant = release_terms.accountant if brings_accountant else None
    return SharedLedger(
        store_or_path,
        adjacency=priced_release.aggregator.adjacency,
        target_delta=release_terms.target_delta,
        accountant=make_accountant,
        max_epsilon=release_terms.max_total_epsilon,
    )


def _score_key_of(draw_key: str) -> str:
    """Returns the key of the scores of one draw's student; each draw of a release has a student of its own."""
    return f"{draw_key}:scores"

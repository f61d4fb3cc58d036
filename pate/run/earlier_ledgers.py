"""The ledgers that a run was charged to before its present ledger, and the transfer of its charges.

A run has an earlier ledger if `ledger=` now names another file than when it was last charged. A run that began with an
earlier version of pate has one too, as that version made a ledger in the folder of each run. The draws and charges
in the earlier ledger are copied into the present ledger. The earlier file does not change, since a charge is never
taken back.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pate.accounting.ledger import Ledger
from pate.accounting.ledger_entry import ChargeNote
from pate.accounting.shared_ledger import SharedLedger
from pate.pricing import PricedRelease
from pate.run.folder import RunFolder
from pate.run.ledger_keys import LedgerKeys
from pate.run.ledger_place import LedgerPlace
from pate.run.ledger_record import LedgerRecord
from pate.run.release_terms import ReleaseTerms
from pate.validation import InvalidValue

CHARGES_STAY = (
    "restore it from a backup, or begin anew in another output_dir: what was charged stays charged"
)
"""The remedy for a ledger that is gone, or lacks a charge of the run."""


def earlier_ledgers(run_folder: RunFolder, *, ledger_identity: str) -> list[Path]:
    """Returns the file of the ledger that a run was charged to before its present one; an empty list if there is none.

    The list has at most one file: the one that the run's folder names as its ledger, or else the ledger in the folder
    of a run of an earlier version of pate. A file that does not exist, or is the present ledger, is left out.

    Args:
        run_folder: the folder of the run.
        ledger_identity: the identity of the present ledger.
    """
    place = LedgerPlace.read(run_folder)
    if place is None:
        return [run_folder.own_ledger] if os.path.lexists(run_folder.own_ledger) else []
    is_other = place.ledger_identity != ledger_identity
    return [place.ledger_file] if is_other and place.is_there else []


@dataclass(frozen=True, kw_only=True)
class ChargeTransfer:
    """The transfer of a run's charges from an earlier ledger into the account of its records in the present ledger.

    Attributes:
        account: the account of the private records in the present ledger.
        priced_release: the release of the run; each charge is for one draw of this release.
        run_folder: the folder of the run.
        release_terms: the delta, the accountant and the seed of the run.
        charge_note: the note that the present ledger stores with each charge.
    """

    account: Ledger
    priced_release: PricedRelease
    run_folder: RunFolder
    release_terms: ReleaseTerms
    charge_note: ChargeNote

    def transfer(self, *, earlier_ledger_file: Path, ledger_keys: LedgerKeys) -> LedgerKeys:
        """Copies the run's draws and charges from an earlier ledger, and returns the keys of the draws.

        Two copies of a run's folder may have drawn in two ledgers. Their keys are equal but their draws differ, so the
        second copy that is transferred gets new keys.

        Args:
            earlier_ledger_file: the file of the earlier ledger.
            ledger_keys: the keys of the run's draws.

        Raises:
            InvalidValue: the earlier ledger is incomplete or has other prices; or two copies drew different releases
                from one seed, which no price covers.
        """
        earlier_account = self._open(earlier_ledger_file)
        charges = earlier_account.charges_of(ledger_keys.run_key_prefix)
        if earlier_ledger_file == self.run_folder.own_ledger and not self.account.charges_of(
            ledger_keys.run_key_prefix
        ):
            # The last draw may not have been charged yet.
            is_complete = len(charges) == len(earlier_account.entries) >= len(ledger_keys.all) - 1
            has_prices = all(entry.event == self.priced_release.event for entry in charges)
            if not (is_complete and has_prices):
                rule = f"exactly the charges of this run, each at its price; {CHARGES_STAY}"
                raise InvalidValue("ledger", earlier_ledger_file, rule=rule)
        if not charges:
            return ledger_keys
        part_contents_of_draws = [
            _parts_in(earlier_account, draw_key=draw_key) for draw_key in ledger_keys.all
        ]
        if self._has_other_parts(ledger_keys, part_contents_of_draws=part_contents_of_draws):
            if self.release_terms.seed is not None:
                rule = "another seed: a copy of this run drew something else from this one, and no price covers both"
                raise InvalidValue("ledger", self.account.path, rule=rule)
            first_part_content = next(iter(part_contents_of_draws[0].values()))
            ledger_keys = ledger_keys.of_copy(first_part_content)
        for draw_key, content_by_part in zip(ledger_keys.all, part_contents_of_draws, strict=True):
            self._enter(
                content_by_part,
                draw_key=draw_key,
                charge_note=replace(self.charge_note, run_key=ledger_keys.run_key_prefix),
            )
        ledger_keys.write(self.run_folder)
        return ledger_keys

    def _open(self, earlier_ledger_file: Path) -> Ledger:
        """Opens the earlier ledger at `earlier_ledger_file` and returns the account of the run's private records in it.

        A ledger in the run's own folder, as earlier versions of pate made one, is counted by the accountant of the run.
        Any other ledger names its accountant itself.
        """
        is_own = earlier_ledger_file == self.run_folder.own_ledger
        make_accountant = self.release_terms.accountant if is_own else None
        earlier_ledger = SharedLedger(
            earlier_ledger_file,
            adjacency=self.priced_release.aggregator.adjacency,
            target_delta=self.release_terms.target_delta,
            accountant=make_accountant,
        )
        return earlier_ledger.account(self.account.data)

    def _has_other_parts(
        self, ledger_keys: LedgerKeys, *, part_contents_of_draws: list[dict[str, bytes]]
    ) -> bool:
        """Returns True if both ledgers hold a part under the same key of a draw, and its contents differ.

        A part that the present ledger lacks makes no difference. Contents differ if a copy of the run's folder drew
        another release under the same keys.

        Args:
            ledger_keys: the keys of the run's draws.
            part_contents_of_draws: for each draw, the content of its parts in the earlier ledger, by name.
        """
        for draw_key, content_by_part in zip(ledger_keys.all, part_contents_of_draws, strict=True):
            part_digests = self.account.parts(release_key=draw_key)
            for part_name, part_content in content_by_part.items():
                if part_digests.get(part_name) not in (
                    None,
                    hashlib.sha256(part_content).hexdigest(),
                ):
                    return True
        return False

    def _enter(
        self, content_by_part: Mapping[str, bytes], *, draw_key: str, charge_note: ChargeNote
    ) -> None:
        """Commits to the present ledger those parts of a draw that it lacks.

        The charge of the draw is made with its first part in that ledger, so a ledger with a part charges nothing more.

        Args:
            content_by_part: the content of each part of the draw, by name.
            draw_key: the key of the draw.
            charge_note: the note that is stored with the charge.
        """
        record = LedgerRecord(
            self.account,
            priced_release=self.priced_release,
            release_key=draw_key,
            charge_note=charge_note,
        )
        part_digests = self.account.parts(release_key=draw_key)
        for part_name, part_content in content_by_part.items():
            if part_name not in part_digests:
                record.commit(part_name, part_content=part_content)


def _parts_in(ledger: Ledger, *, draw_key: str) -> dict[str, bytes]:
    """Returns the contents of a draw's parts in a ledger, by name, in the order in which they were committed."""
    return {
        part_name: ledger.read(f"{draw_key}:{part_name}") or b""
        for part_name in ledger.parts(release_key=draw_key)
    }

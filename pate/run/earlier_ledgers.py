"""The ledgers that a run was charged to before its present one, and the transfer of its charges.

A run has an earlier ledger where `ledger=` names another file than the run began with. A run that began with an earlier
version of pate has one, too: that version made a ledger for each run in its folder. What was drawn and charged in the
earlier file is entered in the present ledger. The earlier file stays as it is, since a charge is never taken back.
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
from pate.run.draw_keys import DrawKeys
from pate.run.folder import RunFolder
from pate.run.ledger_place import LedgerPlace
from pate.run.ledger_record import LedgerRecord
from pate.run.release_terms import ReleaseTerms
from pate.validation import require

CHARGES_STAY = (
    "restore it from a backup, or begin anew in another output_dir: what was charged stays charged"
)
"""The remedy for a ledger that is gone, or lacks a charge of the run."""


def earlier_ledgers(folder: RunFolder, identity: str) -> list[Path]:
    """Returns the ledgers that a run was charged to before the one of this identity, as far as the files are there."""
    place = LedgerPlace.read(folder)
    if place is None:
        return [folder.own_ledger] if os.path.lexists(folder.own_ledger) else []
    is_other = place.identity != identity
    return [place.path] if is_other and place.is_there else []


@dataclass(frozen=True, kw_only=True)
class ChargeTransfer:
    """The transfer of a run's charges from an earlier ledger into its account in the present one.

    Attributes:
        account: the account of the records in the present ledger.
        priced: the run's release, which each of the charges is for.
        folder: the run's.
        terms: the adjacency, the delta and the accountant of the run.
        note: what the present ledger notes of the charge.
    """

    account: Ledger
    priced: PricedRelease
    folder: RunFolder
    terms: ReleaseTerms
    note: ChargeNote

    def transfer(self, path: Path, keys: DrawKeys) -> DrawKeys:
        """Enters the charges and parts of a run's draws that the ledger at `path` has; returns the keys of the draws.

        Two copies of a run's folder may have drawn in two ledgers. Their keys are equal and their draws differ, so the
        copy that comes second gets new keys. Raises `InvalidValue` where both drew with one seed: no price covers that.
        """
        earlier = self._open(path)
        charges = earlier.charges_of(keys.run)
        if path == self.folder.own_ledger and not self.account.charges_of(keys.run):
            is_complete = len(charges) == len(earlier.entries) >= len(keys.all) - 1
            has_prices = all(entry.event == self.priced.event for entry in charges)
            rule = f"exactly the charges of this run, each at its price; {CHARGES_STAY}"
            require(is_complete and has_prices, "ledger", path, rule)
        if not charges:
            return keys
        parts_of_draws = [_parts_in(earlier, key) for key in keys.all]
        if self._has_other_parts(keys, parts_of_draws):
            rule = "another seed: a copy of this run drew something else from this one, and no price covers both"
            require(self.terms.seed is None, "ledger", self.account.path, rule)
            first_content = next(iter(parts_of_draws[0].values()))
            keys = keys.of_copy(first_content)
        for key, parts in zip(keys.all, parts_of_draws, strict=True):
            self._enter(parts, key, replace(self.note, run=keys.run))
        keys.write(self.folder)
        return keys

    def _open(self, path: Path) -> Ledger:
        """Opens the account of the records in an earlier ledger; a ledger of the run alone counts as the run does."""
        is_own = path == self.folder.own_ledger
        ledger = SharedLedger(
            path,
            adjacency=self.priced.aggregator.adjacency,
            target_delta=self.terms.target_delta,
            accountant=self.terms.accountant if is_own else None,
        )
        return ledger.account(self.account.data)

    def _has_other_parts(self, keys: DrawKeys, parts_of_draws: list[dict[str, bytes]]) -> bool:
        """Returns whether the present ledger has other content under the same keys: a copy of the run drew that."""
        for key, parts in zip(keys.all, parts_of_draws, strict=True):
            digests = self.account.parts(key)
            for name, content in parts.items():
                if digests.get(name) not in (None, hashlib.sha256(content).hexdigest()):
                    return True
        return False

    def _enter(self, parts: Mapping[str, bytes], key: str, note: ChargeNote) -> None:
        """Commits the parts of a draw that the present ledger lacks."""
        record = LedgerRecord(self.account, self.priced, key=key, note=note)
        digests = self.account.parts(key)
        for name, content in parts.items():
            if name not in digests:
                record.commit(name, content)


def _parts_in(ledger: Ledger, key: str) -> dict[str, bytes]:
    """Returns the contents of a draw's parts in a ledger, by name, the first committed part first."""
    return {name: ledger.read(f"{key}:{name}") or b"" for name in ledger.parts(key)}

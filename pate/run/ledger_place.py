"""The place of a run's ledger, and the ledgers in the same folder that count for another adjacency or delta.

The setting `ledger=` names the file of the ledger. Without that setting a run keeps the file that it was last charged
to. A new run uses `ledger.db` in the parent of its own folder. So all runs in one folder of outputs share a ledger.

A ledger counts for one adjacency and one delta, its terms. A run under other terms is charged to a second file in the
same folder, such as `ledger-add_remove-1e-05.db`, or is refused if there is a cap. Prices in the two files cannot be
added up.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pate.accounting import Adjacency
from pate.accounting.store import Store
from pate.files.atomic import write_text
from pate.files.reading import FROM_BACKUP, damaged, read_json
from pate.run.folder import RunFolder
from pate.run.release_terms import ReleaseTerms
from pate.validation import InvalidValue

LEDGER_NAME = "ledger.db"
"""The name of the usual ledger in a folder of runs."""

# The names of usual ledgers for other terms, as `AdjacencyAndDelta.ledger_name` forms them.
_LEDGER_NAME_WITH_TERMS = re.compile(rf"ledger-({'|'.join(Adjacency)})-[0-9.e-]+\.db")
_PLACE_RULE = "the place of the run's ledger, as JSON"


@dataclass(frozen=True)
class AdjacencyAndDelta:
    """The terms that one ledger counts for: the adjacency and the delta of all its prices.

    Attributes:
        adjacency: the name of the adjacency.
        target_delta: the delta.
    """

    adjacency: str
    target_delta: float

    @classmethod
    def read(cls, ledger_file: Path) -> Self:
        """Reads the terms that a ledger was made with from its file."""
        settings = Store(ledger_file, settings_if_new=None).settings
        return cls(adjacency=settings["adjacency"], target_delta=settings["target_delta"])

    @classmethod
    def of_release(cls, release_terms: ReleaseTerms) -> Self:
        """Returns the adjacency and the delta that a run is priced for."""
        return cls(
            adjacency=str(release_terms.aggregator.adjacency),
            target_delta=release_terms.target_delta,
        )

    @property
    def ledger_name(self) -> str:
        """The name of a ledger for these terms in a folder whose `ledger.db` counts for other terms.

        It states the terms, such as `ledger-add_remove-1e-05.db`.
        """
        return f"ledger-{self.adjacency}-{self.target_delta}.db"

    @property
    def words(self) -> str:
        """The terms as text, such as "adjacency=add_remove at target_delta=1e-05"."""
        return f"adjacency={self.adjacency} at target_delta={self.target_delta}"


@dataclass(frozen=True)
class LedgerPlace:
    """The file of the ledger that a run was last charged to, and the identity of that ledger.

    A ledger keeps its identity when its file is moved or copied.

    Attributes:
        ledger_file: the file of the ledger.
        ledger_identity: the identity of the ledger, as `SharedLedger.identity` returns it.
    """

    ledger_file: Path
    ledger_identity: str

    @classmethod
    def read(cls, run_folder: RunFolder) -> Self | None:
        """Reads the place of a run's ledger from the run's folder.

        The result is None for a new run, and for a run of an earlier version of pate that wrote no place.
        """
        place_file = run_folder.pointer_to_ledger
        if not os.path.lexists(place_file):
            return None
        place_in_json = read_json(place_file, rule=_PLACE_RULE, remedy=FROM_BACKUP)
        required_keys = ("path", "identity")
        if not isinstance(place_in_json, dict) or not all(
            isinstance(place_in_json.get(key), str) for key in required_keys
        ):
            raise damaged(
                place_file, rule=_PLACE_RULE, finding="something else", remedy=FROM_BACKUP
            )
        return cls(
            ledger_file=Path(place_in_json["path"]), ledger_identity=place_in_json["identity"]
        )

    def write(self, run_folder: RunFolder) -> None:
        """Writes this place of a run's ledger into the run's folder."""
        place_in_json = {"path": str(self.ledger_file), "identity": self.ledger_identity}
        write_text(run_folder.pointer_to_ledger, text=json.dumps(place_in_json) + "\n")

    @property
    def is_there(self) -> bool:
        """Whether the file at `ledger_file` exists and is still the ledger with this identity."""
        return self.is_this_ledger(self.ledger_file)

    def is_this_ledger(self, file: Path) -> bool:
        """Returns True if the file at the given path is the ledger with this identity, for example after a move."""
        return file.exists() and Store(file, settings_if_new=None).identity == self.ledger_identity


@dataclass(frozen=True)
class OtherLedger:
    """A ledger in the same folder as the run's ledger that counts for another adjacency or delta.

    Prices in the two ledgers cannot be added up.

    Attributes:
        ledger_file: the file of the ledger.
        adjacency_and_delta: the adjacency and delta of the ledger.
        num_charges: the number of charges for the records of the run; a charge that names no records counts for all.
        seed_names: the names of the seeds that releases in the ledger drew their noise from; "" for fresh noise.
    """

    ledger_file: Path
    adjacency_and_delta: AdjacencyAndDelta
    num_charges: int
    seed_names: frozenset[str]

    @classmethod
    def read(cls, ledger_file: Path, *, data_digest: str) -> Self:
        """Reads a ledger from its file.

        Args:
            ledger_file: the file of the ledger.
            data_digest: the digest of the run's private records, which is the name of their account.
        """
        store = Store(ledger_file, settings_if_new=None)
        charge_lines = [line for line in store.lines if not line.charge_key]
        num_charges_for_records = sum(
            line.data_digest in ("", data_digest) for line in charge_lines
        )
        charge_notes = [json.loads(line.charge_details_json) for line in charge_lines]
        return cls(
            ledger_file=ledger_file,
            adjacency_and_delta=AdjacencyAndDelta.read(ledger_file),
            num_charges=num_charges_for_records,
            seed_names=frozenset(note.get("noise", "") for note in charge_notes),
        )

    def num_shared_owners(
        self, owners_by_kind: Mapping[str, Set[bytes]], *, except_account: str
    ) -> dict[str, int]:
        """Returns how many of these owners an account has records of, for each account of the ledger that has some.

        Args:
            owners_by_kind: the ids and groups of private records, by kind.
            except_account: the name of the account that is left out.
        """
        return Store(self.ledger_file, settings_if_new=None).num_shared_owners(
            owners_by_kind, except_account=except_account
        )


def ledger_path(
    ledger_setting: Path | str | None,
    *,
    run_folder: RunFolder,
    release_terms: ReleaseTerms | None = None,
) -> Path:
    """Returns the file of the ledger that a run is charged to; the file may not exist yet.

    It is the file that `ledger=` names. Without that setting, it is the file that the run was last charged to, and for
    a new run a ledger in the parent of its folder. That is `ledger.db`, or a file such as `ledger-add_remove-1e-05.db`
    if `ledger.db` counts for another adjacency or delta and there is no cap, or if there is such a file of the run's
    terms and no `ledger.db`. A ledger that was moved together with its run is found in the parent of the run's folder.

    Args:
        ledger_setting: the setting `ledger=`; None if it is not set.
        run_folder: the folder of the run.
        release_terms: the adjacency and delta of the run. They are needed for a new run only; None for a run that has
            begun.

    Raises:
        InvalidValue: the file would be in the folder of a run.
    """
    ledger_file = (
        _usual_path(run_folder, release_terms=release_terms)
        if ledger_setting is None
        else _named_path(ledger_setting)
    )
    parent = RunFolder(Path(os.path.realpath(ledger_file)).parent)
    if parent.is_claimed:
        rule = (
            "a file outside of runs' folders, for all runs on these records; ledger=PATH names one"
        )
        raise InvalidValue("ledger", ledger_file, rule=rule)
    return ledger_file


def has_usual_name(ledger_file: Path) -> bool:
    """Returns True for a file with a name that pate itself gives to a ledger.

    These names are `ledger.db`, and names with terms such as `ledger-add_remove-1e-05.db`.
    """
    name = ledger_file.name
    return name == LEDGER_NAME or _LEDGER_NAME_WITH_TERMS.fullmatch(name) is not None


def other_ledgers(ledger_file: Path, *, data_digest: str) -> list[OtherLedger]:
    """Returns the other ledgers in the folder of a ledger, which count for another adjacency or delta.

    Only files with names that pate itself gives are read, such as `ledger.db` or `ledger-add_remove-1e-05.db`. Pate
    gives two ledgers of one folder different terms; the terms are not compared here.

    Args:
        ledger_file: the file of the ledger, which is left out.
        data_digest: the digest of the run's private records, which is the name of their account.
    """
    other_ledger_files = [
        other_ledger_file
        for other_ledger_file in _ledgers_in(ledger_file.parent)
        if other_ledger_file != ledger_file
    ]
    return [
        OtherLedger.read(other_ledger_file, data_digest=data_digest)
        for other_ledger_file in other_ledger_files
    ]


def _named_path(ledger_setting: Path | str) -> Path:
    """Returns the absolute path of the file that `ledger=` names."""
    return Path(os.path.abspath(Path(ledger_setting).expanduser()))


def _usual_path(run_folder: RunFolder, *, release_terms: ReleaseTerms | None) -> Path:
    """Returns the file of the ledger that a run is charged to if `ledger=` is not set, as `ledger_path` explains.

    Args:
        run_folder: the folder of the run.
        release_terms: the adjacency and delta of a new run; None for a run that has begun.
    """
    outputs_folder = run_folder.real_parent
    ledger_place = LedgerPlace.read(run_folder)
    if ledger_place is not None:
        if ledger_place.is_there:
            return ledger_place.ledger_file
        for ledger_file in _ledgers_in(outputs_folder):
            if ledger_place.is_this_ledger(ledger_file):
                return ledger_file
    usual_file = outputs_folder / LEDGER_NAME
    if release_terms is None:
        return usual_file
    run_terms = AdjacencyAndDelta.of_release(release_terms)
    ledger_for_run_terms = outputs_folder / run_terms.ledger_name
    if not os.path.lexists(usual_file):
        return ledger_for_run_terms if os.path.lexists(ledger_for_run_terms) else usual_file
    if AdjacencyAndDelta.read(usual_file) == run_terms:
        return usual_file
    # A cap is for all releases together, so no release may be counted elsewhere: `Ledger` refuses the other terms.
    has_cap = Store(usual_file, settings_if_new=None).settings.get("max_epsilon") is not None
    if has_cap or release_terms.max_total_epsilon is not None:
        return usual_file
    return ledger_for_run_terms


def _ledgers_in(outputs_folder: Path) -> list[Path]:
    """Returns the files in a folder that have a name which pate gives to a ledger.

    They are `ledger.db`, and files whose names state an adjacency and a delta, such as `ledger-add_remove-1e-05.db`.
    """
    usual = [
        ledger_file for ledger_file in (outputs_folder / LEDGER_NAME,) if ledger_file.is_file()
    ]
    ledgers_with_terms_in_name = [
        ledger_file
        for ledger_file in outputs_folder.glob("ledger-*.db")
        if _LEDGER_NAME_WITH_TERMS.fullmatch(ledger_file.name)
    ]
    return usual + sorted(ledgers_with_terms_in_name)

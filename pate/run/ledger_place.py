"""The file that a run is charged to: where it lies, and which ledgers of other terms lie beside it.

It is the file that `ledger=` names; unset, it is the file that the run began with, and of a new run `ledger.db` in the
folder that the run's folder lies in. A ledger counts for one adjacency and delta. A run under others is charged to one
of its own terms there, such as `ledger-add_remove-1e-05.db`; what the two say cannot be added up.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pate.accounting import Adjacency
from pate.accounting.store import Store
from pate.files.disk import FROM_BACKUP, damaged, read_json, write_text
from pate.run.folder import RunFolder
from pate.run.release_terms import ReleaseTerms
from pate.validation import require

LEDGER_NAME = "ledger.db"
_NAME_OF_TERMS = re.compile(rf"ledger-({'|'.join(Adjacency)})-[0-9.e-]+\.db")
_PLACE_RULE = "the place of the run's ledger, as JSON"


@dataclass(frozen=True)
class CountedTerms:
    """The adjacency and the delta that all prices of one ledger are for."""

    adjacency: str
    target_delta: float

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Returns the terms that a ledger's file was made with."""
        settings = Store(path, None).settings
        return cls(settings["adjacency"], settings["target_delta"])

    @classmethod
    def of_run(cls, terms: ReleaseTerms) -> Self:
        """Returns the terms that a run is priced for."""
        return cls(str(terms.aggregator.adjacency), terms.target_delta)

    @property
    def ledger_name(self) -> str:
        """Returns the name of a ledger of these terms that lies beside one of other terms."""
        return f"ledger-{self.adjacency}-{self.target_delta}.db"

    @property
    def words(self) -> str:
        """Returns the terms as settings."""
        return f"adjacency={self.adjacency} at target_delta={self.target_delta}"


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
        return self.is_of(self.path)

    def is_of(self, path: Path) -> bool:
        """Returns whether a file is the ledger, which may have been moved there."""
        return path.exists() and Store(path, None).identity == self.identity


@dataclass(frozen=True)
class OtherLedger:
    """A ledger beside that of a run, which counts for other terms: what the two say cannot be added up."""

    path: Path
    terms: CountedTerms
    num_charges: int  # to the records of the run; one that names no records counts for all
    noises: frozenset[str]  # names of the seeds that releases in it drew their noise from

    @classmethod
    def read(cls, path: Path, *, data: str) -> Self:
        """Reads the ledger in a file; `data` is the account of the run's records."""
        store = Store(path, None)
        charges = [line for line in store.lines if not line.under]
        return cls(
            path,
            CountedTerms.of_file(path),
            num_charges=sum(line.data in ("", data) for line in charges),
            noises=frozenset(json.loads(line.about).get("noise", "") for line in charges),
        )

    def accounts_that_know(
        self, owners: Mapping[str, frozenset[bytes]], *, but: str
    ) -> dict[str, int]:
        """Returns how many of the owners of records each account in it has, but for that of the same records."""
        return Store(self.path, None).accounts_that_know(owners, but=but)


def ledger_path(
    ledger: Path | str | None, folder: RunFolder, terms: ReleaseTerms | None = None
) -> Path:
    """Returns the file that a run is charged to, and reads ledgers that are there; see the head of this file.

    A ledger that was moved together with its run is found beside it. `terms` are those of a run that may be new; one
    that has begun needs none. Raises for a file in a run's folder.
    """
    path = _usual_path(folder, terms) if ledger is None else _named_path(ledger)
    within = RunFolder(Path(os.path.realpath(path)).parent)
    rule = "a file outside of runs' folders, for all runs on these records; ledger=PATH names one"
    require(not within.is_claimed, "ledger", path, rule)
    return path


def is_usual(ledger: Path | str | None, path: Path) -> bool:
    """Returns whether a run is charged to a file that nobody has named, now or when the run began."""
    has_usual_name = path.name == LEDGER_NAME or _NAME_OF_TERMS.fullmatch(path.name) is not None
    return ledger is None and has_usual_name


def other_ledgers(path: Path, *, data: str) -> list[OtherLedger]:
    """Returns the ledgers in the folder of a file that runs without `ledger=` are charged to, but for that one."""
    others = [other for other in _ledgers_in(path.parent) if other != path]
    return [OtherLedger.read(other, data=data) for other in others]


def _named_path(ledger: Path | str) -> Path:
    return Path(os.path.abspath(Path(ledger).expanduser()))


def _usual_path(folder: RunFolder, terms: ReleaseTerms | None) -> Path:
    """Returns the file that a run is charged to unless `ledger=` names one."""
    parent = Path(os.path.realpath(folder.path)).parent
    place = LedgerPlace.read(folder)
    if place is not None:
        if place.is_there:
            return place.path
        for path in _ledgers_in(parent):
            if place.is_of(path):
                return path
    usual = parent / LEDGER_NAME
    if terms is None:
        return usual
    own_terms = CountedTerms.of_run(terms)
    of_own_terms = parent / own_terms.ledger_name
    if not os.path.lexists(usual):
        return of_own_terms if os.path.lexists(of_own_terms) else usual
    if CountedTerms.of_file(usual) == own_terms:
        return usual
    # A cap is one for all releases, so none of them may be counted elsewhere. `Ledger` refuses the other terms.
    has_cap = Store(usual, None).settings.get("max_epsilon") is not None
    return usual if has_cap or terms.max_total_epsilon is not None else of_own_terms


def _ledgers_in(folder: Path) -> list[Path]:
    """Returns the ledgers in a folder that runs without `ledger=` are charged to, the usual one first."""
    usual = [path for path in (folder / LEDGER_NAME,) if path.is_file()]
    of_terms = [path for path in folder.glob("ledger-*.db") if _NAME_OF_TERMS.fullmatch(path.name)]
    return usual + sorted(of_terms)

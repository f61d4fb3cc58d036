"""One ledger file for several data sets, each with a budget of its own."""

from __future__ import annotations

import os
from collections.abc import Callable

from pate.accounting.accountant import Accountant
from pate.accounting.events import Adjacency
from pate.accounting.filters import FilterMaker
from pate.accounting.ledger.entry import LedgerEntry
from pate.accounting.ledger.file import LedgerFile
from pate.accounting.ledger.ledger import Ledger
from pate.accounting.ledger.settings import LedgerSettings
from pate.accounting.rdp import RdpAccountant
from pate.validation import InvalidValue, require


class SharedLedger:
    """A ledger file that counts for several data sets, safe for processes at once.

    The cap holds for each data set by itself. Which records two data sets share is not known here: whoever is in both
    is protected at what both cost together.

    Args:
        path: the file, made if missing.
        adjacency: as in `Ledger`, and so are the others.
        target_delta: the delta of every total and of the cap.
        accountant: makes an empty accountant.
        max_epsilon: the cap of each data set; stored in a new file.
        filter: makes what decides for the cap.

    Raises:
        InvalidValue: as `Ledger` does; a ledger of an earlier version, which counts for one data set.

    Attributes:
        path: of the file, links followed.

    >>> import tempfile
    >>> from pate.accounting import GaussianEvent
    >>> folder = tempfile.TemporaryDirectory()
    >>> shared = SharedLedger(f"{folder.name}/ledger.jsonl", target_delta=1e-6, max_epsilon=4.0)
    >>> shared.account("digest of the first").affords(GaussianEvent(30.0))
    559
    >>> _ = shared.account("digest of the first").charge(GaussianEvent(2.0), adjacency="replace_one", key="a release")
    >>> [shared.account(data).affords(GaussianEvent(30.0)) for data in ("digest of the first", "of the second")]
    [334, 559]
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        target_delta: float,
        accountant: Callable[[], Accountant] = RdpAccountant,
        max_epsilon: float | None = None,
        filter: FilterMaker | None = None,
    ) -> None:
        self._open(LedgerSettings(adjacency, target_delta, accountant, max_epsilon, filter), path)

    @classmethod
    def stored(cls, path: str | os.PathLike[str]) -> SharedLedger:
        """The ledger of a file that exists, under the settings that its first line names.

        Raises:
            InvalidValue: no ledger, or one that counts by an accountant of somebody's own.
        """
        made = cls.__new__(cls)
        made._open(LedgerSettings.stored(path), path)
        return made

    def _open(self, settings: LedgerSettings, path: str | os.PathLike[str]) -> None:
        self._settings, self._file = settings, LedgerFile(path, settings.header())
        self.path = self._file.path
        settings.rules(self._file.header, place=f"ledger={self.path}")
        if not self._file.header.is_chained:
            raise InvalidValue(f"ledger={self.path}: expected a new file, this one is of an earlier version")

    @property
    def entries(self) -> list[LedgerEntry]:
        """All charges, of whichever data set, in their order."""
        with self._file.opened():
            return self._file.entries.copy()

    @property
    def data(self) -> list[str]:
        """The digests of all data sets that something was charged to, in the order of their first charges."""
        return list(dict.fromkeys(entry.data for entry in self.entries if entry.data))

    def account(self, data: str) -> Ledger:
        """The ledger of one data set.

        Args:
            data: a digest of the private records, the same in every run; not of features that were computed from them.
        """
        require(isinstance(data, str) and data != "", "data", type(data).__name__, "a digest that is not empty")
        return Ledger(self.path, data=data, **vars(self._settings))

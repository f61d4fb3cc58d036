"""A ledger file that holds one account for each of several data sets."""

from __future__ import annotations

from pate.accounting.ledger import Ledger
from pate.accounting.ledger_entry import LedgerEntry
from pate.accounting.ledger_file import LedgerFile
from pate.accounting.unit import PrivacyUnit
from pate.validation import require


class SharedLedger(LedgerFile):
    """A ledger file that holds one account for each of several data sets.

    Several processes may use the file at the same time. The cap holds for each data set separately. The guarantee for a
    person in two of the data sets is the sum of the totals of both accounts.

    `Ledger` explains the arguments and the errors, which have the same names there.

    >>> from pate.accounting import GaussianEvent
    >>> shared = SharedLedger(None, target_delta=1e-6, max_epsilon=4.0)  # in memory, without a file
    >>> shared.account("digest of the first").affords(GaussianEvent(30.0))
    559
    >>> _ = shared.account("digest of the first").charge(GaussianEvent(2.0), adjacency="replace_one", key="a release")
    >>> [shared.account(data).affords(GaussianEvent(30.0)) for data in ("digest of the first", "of the second")]
    [334, 559]
    """

    @property
    def entries(self) -> list[LedgerEntry]:
        """The charges on all data sets, in the order of their commits."""
        self.store.read()
        return [
            LedgerEntry.from_line(line, ledger_path=self.path)
            for line in self.store.lines
            if not line.charge_key
        ]

    @property
    def data(self) -> list[str]:
        """The digests of all data sets with a charge, in the order of the first charge of each data set."""
        return list(dict.fromkeys(entry.data for entry in self.entries if entry.data))

    def account(self, data: str, *, unit: PrivacyUnit | None = None) -> Ledger:
        """Returns the ledger of one data set, which reads and writes this file.

        Args:
            data: a digest of the private records, which must be the same in every run. A digest of computed features
                may differ between runs.
            unit: the unit of privacy of all prices of the account. None takes the unit of the earlier charges; if no
                charge has a unit, the account has none.

        Raises:
            InvalidValue: `data` is no text or is empty, or `unit` differs from that of an earlier charge.
        """
        is_digest = isinstance(data, str) and data != ""
        require(is_digest, "data", type(data).__name__, "a digest that is not empty")
        return Ledger.from_file(self, data=data, unit=unit)

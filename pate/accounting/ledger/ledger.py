"""The ledger: what has been spent on one private data set, on disk before anything is released."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pate.accounting.accountant import Accountant
from pate.accounting.events import Adjacency, Event, SampledGaussianEvent, count_leaves
from pate.accounting.filters import FilterMaker, PrivacyFilter
from pate.accounting.ledger.account import Account
from pate.accounting.ledger.cap import Cap
from pate.accounting.ledger.entry import LedgerEntry
from pate.accounting.ledger.file import LedgerFile
from pate.accounting.ledger.memory import LedgerMemory
from pate.accounting.ledger.origin import Origin
from pate.accounting.ledger.settings import LedgerSettings
from pate.accounting.rdp import RdpAccountant
from pate.validation import InvalidValue, require


class Ledger:
    """An append-only record of charges, in memory or in a file.

    A line of the file is one charge, appended and synchronized to disk before `charge` returns, so that a crash at any
    moment leaves every release priced. Lines are chained by digests, and a small file beside it, `.NAME.head`, names
    the last one: a file that was edited, shortened, reordered or exchanged is refused. Both belong into one backup.

    What the figures bound: with prices fixed before the first release, `epsilon`. With prices chosen on the way, the
    cap, `max_epsilon`, which a privacy filter decides (docs/proofs/filters.md); `epsilon` is then the accountant's
    figure for these events and no more.

    A ledger of an earlier version is read and continued in its own form; it is not chained, and stores no cap.

    Args:
        path: the file, made if missing; None keeps the ledger in memory, and in this process.
        adjacency: what all events are priced for.
        target_delta: in (0, 1).
        accountant: makes an empty accountant.
        max_epsilon: a charge that would exceed it is refused; None for no limit but the file's own. A new file stores
            it. In a file that exists it may be tighter than what is stored, for this object alone; that is a
            guarantee only where it was fixed before the first release.
        filter: makes what decides for the cap, from (max_epsilon, target_delta): `RenyiFilter`, `ZCdpFilter`,
            `GaussianFilter` or a partial of one; None for what goes with the accountant, or what the file has stored.
        data: the digest of the private data, in a file that counts for several data sets; see `SharedLedger`.

    Raises:
        InvalidValue: the file was written for another adjacency, delta, accountant or filter, has a tighter cap, or
            is not a ledger.
        DamagedLedger: it was changed.

    Attributes:
        path: of the file, links followed.
        max_epsilon: the cap that applies, or None.
        data: as given.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        target_delta: float,
        accountant: Callable[[], Accountant] = RdpAccountant,
        max_epsilon: float | None = None,
        filter: FilterMaker | None = None,
        data: str = "",
    ) -> None:
        self._open(LedgerSettings(adjacency, target_delta, accountant, max_epsilon, filter), path, data)

    @classmethod
    def stored(cls, path: str | os.PathLike[str], *, data: str = "") -> Ledger:
        """The ledger of a file that exists, under the settings that its first line names.

        Raises:
            InvalidValue: no ledger, or one that counts by an accountant of somebody's own.
        """
        made = cls.__new__(cls)
        made._open(LedgerSettings.stored(path), path, data)
        return made

    def _open(self, settings: LedgerSettings, path: str | os.PathLike[str] | None, data: str) -> None:
        require(isinstance(data, str), "data", type(data).__name__, "the digest of a data set, as a string")
        asked = settings.header()
        self.adjacency, self.target_delta, self.data = settings.adjacency, settings.target_delta, data
        self._book: LedgerFile | LedgerMemory = LedgerMemory(asked) if path is None else LedgerFile(path, asked)
        self.path: Path | None = self._book.path
        self._account = Account(self._book.entries, data, settings.accountant, self.target_delta)
        rules = settings.rules(self._book.header, place=f"ledger={self.path}")
        self._caps = [Cap(rule, self._account.entries) for rule in sorted(rules, key=lambda rule: rule.max_epsilon)]
        self.max_epsilon = self._caps[0].max_epsilon if rules else None
        with self._book.opened():
            self._account.read()
        for entry in self._account.entries:
            self._require_same_adjacency(entry.event)

    def __getstate__(self) -> dict[str, Any]:
        """Refuses to be copied or pickled without a file: what the copy charges would be missing here."""
        self._require_shared(self.path is not None)
        return vars(self)

    @property
    def is_chained(self) -> bool:
        """Whether the file's lines are chained; those of an earlier version are not, and are as good as their disk."""
        return self._book.header.is_chained

    @property
    def entries(self) -> list[LedgerEntry]:
        """All charges on this data set, in their order, those of other processes included."""
        with self._book.opened():
            self._account.read()
            return self._account.entries.copy()

    @property
    def epsilon(self) -> float:
        """The accountant's total at `target_delta`, a bound where prices were fixed before the first release."""
        with self._book.opened():
            self._account.read()
            return self._account.total.epsilon()

    @property
    def spent_epsilon(self) -> float:
        """What the charges have cost: with a cap by its filter, which bounds choices on the way too; else `epsilon`."""
        with self._book.opened():
            self._account.read()
            return self._caps[0].epsilon() if self._caps else self._account.total.epsilon()

    @property
    def filter(self) -> PrivacyFilter | None:
        """What decides for the cap; None without a cap, and before the first charge."""
        with self._book.opened():
            self._account.read()
            return self._caps[0].filter() if self._caps else None

    @property
    def left(self) -> float | None:
        """What the cap leaves, in `filter.unit`; None without a cap, and before the first charge."""
        with self._book.opened():
            self._account.read()
            return self._caps[0].left() if self._caps else None

    def affords(self, event: Event) -> float:
        """How many times an event still fits under the cap, a whole number; infinity where nothing stops it.

        Raises:
            InvalidValue: an event that accountant or filter cannot price.
        """
        with self._book.opened():
            self._account.read()
            total = self._account.total.epsilon(event)
            return min((cap.affords(event, total=total) for cap in self._caps), default=math.inf)

    def charge(
        self, event: Event, *, adjacency: Adjacency, key: str, description: str = "", noise: str = ""
    ) -> LedgerEntry:
        """Writes a charge and returns it; only after this may anything be drawn.

        Raises:
            BudgetExceeded: the cap does not allow it.
            InvalidValue: the event was made for another adjacency, the key stands for another event, or another
                release used the same noise: prices add up for fresh noise only.
        """
        if adjacency != self.adjacency:
            raise InvalidValue(f"adjacency={adjacency}: expected {self.adjacency}, as this ledger counts")
        self._require_same_adjacency(event)
        book, account = self._book, self._account
        self._require_shared(not isinstance(book, LedgerMemory) or os.getpid() == book.process)
        with book.opened():  # another process may have charged meanwhile
            account.read()
            known = account.find(event, key, noise)
            if known is not None:
                return known
            total = account.total.epsilon(event)
            for cap in self._caps:
                cap.require_room(event, total=total)
            entry = LedgerEntry(key, event, description, total, noise, account.data, Origin.now())
            book.append(entry)
        return entry

    def _require_same_adjacency(self, event: Event) -> None:
        """Of a sampled Gaussian, the one event whose price is not the same for both."""
        for sampled in count_leaves(event).get(SampledGaussianEvent, ([], []))[0]:
            made_for = getattr(sampled, "adjacency", self.adjacency)
            if made_for != self.adjacency:
                raise InvalidValue(f"event.adjacency={made_for}: expected {self.adjacency}, as this ledger counts")

    def _require_shared(self, shared: bool) -> None:
        if not shared:
            raise InvalidValue("ledger.path=None: expected a file, through which copies know of each other's charges")


def require_ledger(ledger: Any) -> Ledger:
    """Returns the ledger, or raises: a path alone names neither adjacency nor delta."""
    if not isinstance(ledger, Ledger):
        raise InvalidValue(f"ledger={ledger}: expected a pate.accounting.Ledger, such as Ledger(PATH, target_delta=…)")
    return ledger

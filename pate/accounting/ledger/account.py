"""The account of one data set among the charges of a ledger: found by key and by noise, and what they come to."""

from __future__ import annotations

from collections.abc import Callable

from pate.accounting.accountant import Accountant
from pate.accounting.events import Event
from pate.accounting.ledger.entry import LedgerEntry
from pate.accounting.ledger.running_total import RunningTotal
from pate.validation import InvalidValue


class Account:
    """The charges on one data set, in their order.

    Args:
        charges: all charges of the ledger, the list itself; it grows and nothing is taken away.
        data: the digest of the data; empty for a ledger that counts for one data set, whose digest need not be known.
        accountant: makes an empty accountant.
        target_delta: in (0, 1).

    Attributes:
        entries: those on this data set. A charge that names no data counts for every data set.
        data: the digest that a charge is written with.
        total: of them.
    """

    def __init__(
        self, charges: list[LedgerEntry], data: str, accountant: Callable[[], Accountant], target_delta: float
    ) -> None:
        self.entries: list[LedgerEntry] = []
        self.data = data
        self.total = RunningTotal(self.entries, accountant, target_delta)
        self._charges, self._for_one = charges, not data
        self._taken = 0, 0  # how many charges were looked at, and how many of them are on this data set
        self._of_key: dict[str, int] = {}  # the place of the first such charge among all
        self._of_noise: dict[str, int] = {}

    def read(self) -> None:
        """Takes over what the ledger has grown by.

        Raises:
            InvalidValue: charges on several data sets, of which none was named.
        """
        looked, number = self._taken
        mine = []
        for place in range(looked, len(self._charges)):
            entry = self._charges[place]
            self._of_noise.setdefault(entry.noise, place)
            if self._for_one and entry.data != self.data and entry.data:
                if self.data:
                    raise InvalidValue("data='': expected the digest of one data set, this ledger counts for several")
                self.data = entry.data
            if entry.data in ("", self.data):
                self._of_key.setdefault(entry.key, place)
                mine.append(entry)
        self.entries[number:] = mine  # what an interrupted reading left behind is written over
        self._taken = len(self._charges), number + len(mine)

    def find(self, event: Event, key: str, noise: str) -> LedgerEntry | None:
        """The entry of the same release, if there is one; raises where key or noise stand for another.

        No two releases may use the same noise, of different data sets neither.
        """
        known, used = self._of_key.get(key), self._of_noise.get(noise) if noise else None
        if used is not None and (known is None or used < known):
            raise InvalidValue(f"noise={noise}: expected fresh noise, another release used this generator's numbers")
        if known is None:
            return None
        if self._charges[known].event != event:
            raise InvalidValue(f"key={key}: expected a new key, this one stands for another price")
        return self._charges[known]

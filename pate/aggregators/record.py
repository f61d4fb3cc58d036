"""The record of a release: it stores the release in parts, and charges the price with the first part.

A part is a group of arrays under a name, such as the noisy sum of a round.

A process may be killed after a draw. If it drew again around the same votes, the release would cost twice. So an
aggregator draws each part inside `ReleaseRecord.part`. This method stores ("commits") the part before it returns it,
and later calls return the stored part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self

from numpy.typing import NDArray

from pate.accounting import Adjacency, Event

if TYPE_CHECKING:
    from pate.accounting import Ledger

Arrays = Mapping[str, NDArray[Any]]


class ReleaseRecord(Protocol):
    """A store of the parts of one release, which charges the price together with the first part.

    A stored part is never drawn again, since later parts depend on its values. `pate.run.ledger_record.LedgerRecord`
    keeps the parts on disk and survives a crash. It writes the first part and the charge together. `MemoryRecord` keeps
    the parts in memory, and charges before the first draw.
    """

    def part(self, name: str, draw: Callable[[], Arrays]) -> Arrays:
        """Returns the arrays of a part: the stored ones, or those that `draw` returns, which are stored first.

        Args:
            name: the name of the part.
            draw: a function that draws the arrays of the part.
        """
        ...

    def committed(self, name: str) -> Arrays | None:
        """Returns the stored arrays of a part; None if the part is not stored."""
        ...


class MemoryRecord:
    """A record in memory, which calls `charge` once, before the first part of the release is drawn.

    Where `charge` raises, nothing is drawn. A charge to a ledger with a file is on disk before `charge` returns.

    Attributes:
        parts: the arrays of each part that was drawn, by its name.

    >>> import numpy as np
    >>> record = MemoryRecord(charge=lambda: print("charged"))
    >>> for seed in (1, 2):
    ...     print(record.part("release", lambda: {"labels": np.array([seed])}))
    charged
    {'labels': array([1])}
    {'labels': array([1])}
    """

    def __init__(self, charge: Callable[[], object] = lambda: None) -> None:
        self._charge = charge
        self._is_charged = False
        self.parts: dict[str, Arrays] = {}

    @classmethod
    def for_ledger(
        cls, ledger: Ledger, event: Event, *, adjacency: Adjacency, description: str
    ) -> Self:
        """Returns a record that charges the price of a release to a ledger before the first part is drawn.

        Args:
            ledger: the ledger to charge.
            event: the price of the release.
            adjacency: the adjacency that the price is for.
            description: the text that the ledger keeps with the charge.
        """
        from pate.accounting.ledger import require_ledger  # loads sqlite3

        charge = require_ledger(ledger).charge
        return cls(charge=partial(charge, event, adjacency=adjacency, description=description))

    def part(self, name: str, draw: Callable[[], Arrays]) -> Arrays:
        """Returns the arrays of a part; see `ReleaseRecord.part`.

        The price is charged before the first part is drawn.
        """
        if name not in self.parts:
            if not self._is_charged:
                self._charge()
                self._is_charged = True
            self.parts[name] = draw()
        return self.parts[name]

    def committed(self, name: str) -> Arrays | None:
        """Returns the stored arrays of a part; None if the part is not stored."""
        return self.parts.get(name)

"""The record of a release: its parts, each committed before anybody sees it, and the first part with the charge.

A release that is killed between draw and commit must not be drawn a second time: two draws around the same votes would
cost twice. So an aggregator draws each part inside `ReleaseRecord.part`, which commits the part before it is returned
and reads it back ever after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


class ReleaseRecord(Protocol):
    """The parts that one release has committed so far.

    The first part is committed together with the charge for the whole release. A part that was committed is read back,
    and never drawn again: later parts depend on its values.

    `pate.run.ledger_record.LedgerRecord` survives a crash; `MemoryRecord` is for tests, and for callers who keep none.
    """

    def part(self, name: str, draw: Callable[[], Arrays]) -> Arrays:
        """Returns the arrays of a part, drawn by `draw` unless they were committed before.

        The arrays are committed before they are returned: nobody may see them earlier.
        """
        ...

    def committed(self, name: str) -> Arrays | None:
        """Returns the arrays of a part that was committed before, or None."""
        ...


class MemoryRecord:
    """A record in memory, which calls `charge` once, before the first part is drawn.

    Where `charge` raises, nothing is drawn. A charge to a ledger is on disk before `charge` returns.

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

    def part(self, name: str, draw: Callable[[], Arrays]) -> Arrays:
        """Returns the arrays of a part; the first call for any part charges before it draws."""
        if name not in self.parts:
            if not self._is_charged:
                self._charge()
                self._is_charged = True
            self.parts[name] = draw()
        return self.parts[name]

    def committed(self, name: str) -> Arrays | None:
        """Returns the arrays of a part that was drawn before, or None."""
        return self.parts.get(name)

"""What a release is made with, beside the votes: its noise, its ledger, and what was drawn before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pate.accounting import Ledger

Bits = NDArray[np.bool_]

Arrays = dict[str, NDArray[Any]]

Watch = Callable[[int, int, int], None]
"""Told how far a session is: queries asked, hits among them, hits that are left."""


@runtime_checkable
class PriorRule(Protocol):
    """Predicts the next answers before each round, from earlier rounds."""

    def __call__(self, labels: Bits, answered: Bits, num_queries: int) -> Bits:
        """The expected labels of the queries that follow, `[num_queries, L]`; a row without a label expects nothing.

        Args:
            labels: `[start, L]` released in the rounds before.
            answered: `[start]`.
            num_queries: of the next round.
        """


class Drawn:
    """What was drawn for one release, part after part, in memory; `pate.run.payment` has one that a crash outlives.

    The first part is charged, and that charge covers all parts. A part that is there is read back, and never drawn
    again: later parts were drawn for what it says.

    Args:
        charge: called before the first part is drawn; may raise.
    """

    def __init__(self, charge: Callable[[], object] | None = None) -> None:
        self._charge, self._parts = charge, dict[str, Arrays]()

    def once(self, part: str, draw: Callable[[], Arrays]) -> Arrays:
        """The arrays of a part: read back, or drawn and kept. Nobody may be shown them before this returns."""
        if part not in self._parts:
            if self._charge is not None:
                self._charge()
                self._charge = None
            self._parts[part] = draw()
        return self._parts[part]

    def read(self, part: str) -> Arrays | None:
        """The arrays of a part that was drawn, or None."""
        return self._parts.get(part)


@dataclass(frozen=True, eq=False)
class ReleaseContext:
    """What `Aggregator.release_from` gets besides the votes.

    Attributes:
        rng: fresh noise comes from it.
        ledger: charged once, and on disk, before any noise is drawn; None charges nothing.
        drawn: what was drawn before, and pays for what is drawn now; None keeps it in memory, and charges the ledger.
        prior: what a student expects; for aggregators that `expects_prior`.
        watch: told how far a session is.
    """

    rng: np.random.Generator
    ledger: Ledger | None = None
    drawn: Drawn | None = None
    prior: PriorRule | None = None
    watch: Watch | None = None

"""The rounds of a session: what each gave, and where a session that was stopped finds them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.release_context import Watch
from pate.files.arrays import ArrayForm
from pate.files.kept_arrays import KeptArrays

Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class Round:
    """The outcomes of some consecutive queries of a session.

    Attributes:
        labels: bool `[q, L]`.
        answered: bool `[q]`.
        hits: bool `[q]`; a session that halts within the round asks nothing after its last hit.
    """

    labels: Bits
    answered: Bits
    hits: Bits


_FORMS = {
    "labels": ArrayForm("b", (None, None)),
    "answered": ArrayForm("b", (None,)),
    "hits": ArrayForm("b", (None,)),
}


@dataclass
class KeptRounds:
    """One file per round: what a killed run has released is read back, never drawn again.

    Attributes:
        kept: where they lie.
        target_hits: hits after which the session halts.
        watch: told of every round, those that are read back included.
        asked: queries of the rounds so far.
        hits: hits of the rounds so far.
    """

    kept: KeptArrays
    target_hits: int
    watch: Watch | None = None
    asked: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)

    def done(self) -> list[Round]:
        """The first rounds, up to the first that is missing."""
        rounds: list[Round] = []
        while (arrays := self.kept.read(_name(len(rounds)), _FORMS)) is not None:
            rounds.append(Round(**arrays))
        for outcome in rounds:
            self._tell(outcome)
        return rounds

    def add(self, index: int, outcome: Round) -> None:
        """Keeps a new round."""
        self.kept.write(_name(index), labels=outcome.labels, answered=outcome.answered, hits=outcome.hits)
        self._tell(outcome)

    def _tell(self, outcome: Round) -> None:
        self.asked, self.hits = self.asked + len(outcome.hits), self.hits + int(outcome.hits.sum())
        if self.watch is not None:
            self.watch(self.asked, self.hits, self.target_hits - self.hits)


def _name(index: int) -> str:
    return f"rounds/round-{index:05d}"

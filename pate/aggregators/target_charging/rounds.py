"""The rounds of a session: what each gave, and where a session that was stopped finds them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.release_context import Drawn, Watch

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


@dataclass
class DrawnRounds:
    """The rounds of one session: what was committed is read back, never drawn again.

    Attributes:
        drawn: where they are committed.
        target_hits: hits after which the session halts.
        watch: told of every round once it is committed, those that are read back included.
        asked: queries of the rounds so far.
        hits: hits of the rounds so far.
    """

    drawn: Drawn
    target_hits: int
    watch: Watch | None = None
    asked: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)

    def done(self) -> list[Round]:
        """The first rounds, up to the first that is missing."""
        rounds: list[Round] = []
        while (arrays := self.drawn.read(_name(len(rounds)))) is not None:
            rounds.append(Round(**arrays))
        for outcome in rounds:
            self._tell(outcome)
        return rounds

    def add(self, index: int, outcome: Round) -> Round:
        """Commits a new round; returns the one that counts, which another process may have drawn."""
        counts = Round(**self.drawn.once(_name(index), lambda: dict(vars(outcome))))
        self._tell(counts)
        return counts

    def _tell(self, outcome: Round) -> None:
        self.asked, self.hits = self.asked + len(outcome.hits), self.hits + int(outcome.hits.sum())
        if self.watch is not None:
            self.watch(self.asked, self.hits, self.target_hits - self.hits)


def _name(index: int) -> str:
    return f"round-{index}"

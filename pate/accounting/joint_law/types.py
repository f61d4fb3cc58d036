"""What a candidate of a gap selection can be, and what all candidates of one histogram share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.accounting.joint_law.event import SelectThenTestEvent
from pate.accounting.special import expit

Array = NDArray[np.float64]

_ROUNDING = 2.0**-50  # of a log, and of each of about eight steps to a ratio


@dataclass(frozen=True, eq=False)
class CandidateTypes:
    """The types of candidates, `[K]`: a gap in 0..T, and by how many votes it moves between neighbors.

    A query's law is a distribution over types, and whether the test of the chosen one passes. The distribution is
    limited by what n gaps share: they sum up to at most T, and their moves to at most what one gap moves.

    Attributes:
        largest: log of the most by which a move changes a candidate's weight.
        rounding: at most this is the log of a ratio, of masses before and after a move, off.
        moved: the factor on the weight.
        passes: the probability of passing, and `moved_passes` that after the move.
        fails: 1 - passes, and `moved_fails`, to their last digits.
        limits: `[3, K]`; the mean of each row is at most 0 in every law.
    """

    largest: float
    rounding: float
    moved: Array
    passes: Array
    moved_passes: Array
    fails: Array
    moved_fails: Array
    limits: Array

    @classmethod
    def of(cls, event: SelectThenTestEvent) -> CandidateTypes:
        """All types of gaps within the event's T votes."""
        logits, reach = np.array(event.bit.logits), event.bit.reach
        num_teachers, largest = event.num_teachers, event.selection.epsilon / 2
        gaps, moves = _gaps_and_moves(num_teachers, reach)
        before, after = logits[gaps], logits[gaps + moves]
        finite = np.isfinite(before) & np.isfinite(after)
        furthest = float(np.abs(after[finite] - before[finite]).max(initial=0.0))
        other_set = (gaps <= reach) & (gaps + moves <= reach)  # the test's good part refuses where the sets differ
        before, after = (np.append(side, np.full(other_set.sum(), -np.inf)) for side in (before, after))
        gaps, moves = np.append(gaps, gaps[other_set]), np.append(moves, moves[other_set])
        cancel = reach / event.num_candidates
        rows = np.stack([gaps * event.num_candidates / num_teachers - 1, moves - cancel, -moves - cancel])
        limits = np.exp(-largest / reach * gaps) * rows
        return cls(
            largest=largest,
            rounding=_ROUNDING * (8 + 2 * largest + furthest),
            moved=np.exp(largest / reach * moves),
            passes=expit(before),
            moved_passes=expit(after),
            fails=expit(-before),
            moved_fails=expit(-after),
            limits=limits / np.abs(limits).max(axis=1, keepdims=True),
        )


@lru_cache(maxsize=32)
def types_of(event: SelectThenTestEvent) -> CandidateTypes:
    """See `CandidateTypes.of`; made once for many questions."""
    return CandidateTypes.of(event)


def _gaps_and_moves(num_teachers: int, reach: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All gaps in 0..T with all moves of at most `reach` that stay there."""
    gaps, moves = np.meshgrid(np.arange(num_teachers + 1), np.arange(-reach, reach + 1))
    inside = (gaps + moves >= 0) & (gaps + moves <= num_teachers)
    return gaps[inside], moves[inside]

"""Repeated draws of one contender from one histogram, scored."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from reproductions.contender import Contender
from reproductions.score import Scores, scores

_NUMBERS_AT_ONCE = 1 << 22


def repeated(
    contender: Contender,
    counts: NDArray[np.int64],
    *,
    k: int,
    ordered: bool,
    repeats: int,
    rng: np.random.Generator,
) -> Scores:
    """Scores of `repeats` independent draws from counts `[d]`: `[repeats]` each."""
    rows = max(1, _NUMBERS_AT_ONCE // len(counts))
    parts = []
    for start in range(0, repeats, rows):
        tiled = np.tile(counts, (min(rows, repeats - start), 1))
        parts.append(scores(counts, contender.pick(tiled, rng), k=k, ordered=ordered))
    return joined(parts)


def joined(parts: list[Scores]) -> Scores:
    """Scores one after the other."""
    names = [field.name for field in fields(Scores)]
    return Scores(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

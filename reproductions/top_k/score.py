"""Scores of picked items against the true top k."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from pate.array_types import FloatArray, IntArray
from reproductions.top_k.contender import Contender

_NUMBERS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class SelectionScores:
    """The scores of draws by each measure, `[Q]` each.

    An unfilled place counts as a pick of count 0 in the errors.
    """

    # the part of the true top k that was picked. An item is true if it has a count and is not below the k-th; of more
    # such items than k, by ties, any k will do.
    recall: FloatArray
    precision: FloatArray  # the part of what was picked that is true; 1 where nothing was
    l_inf: (
        FloatArray  # the largest difference between the i-th count and the count of the i-th pick
    )
    l_1: FloatArray  # the sum of these differences
    k_relative: FloatArray  # by how much the worst pick falls short of the k-th count


def scores(counts: IntArray, picks: IntArray, *, k: int, ordered: bool) -> SelectionScores:
    """Compares picks `[Q, n]` from one histogram `[d]` with its true top k.

    Args:
        counts: `[d]`.
        picks: indices, -1 where a place was not filled.
        k: how many were asked for.
        ordered: whether the order of the picks was released; if not, errors take them in their best order.
    """
    best = -np.sort(-counts)[:k]
    filled = picks >= 0
    values = np.where(filled, counts[picks], 0)
    due = int((best > 0).sum())
    correct = np.minimum((filled & (values >= max(int(best[-1]), 1))).sum(axis=1), due)
    number = filled.sum(axis=1)
    if not ordered:
        values = -np.sort(-values, axis=1)
    values = np.pad(values, ((0, 0), (0, max(0, k - values.shape[1]))))[:, :k]
    differences = np.abs(best - values)
    return SelectionScores(
        recall=correct / max(due, 1),
        precision=np.where(number > 0, correct / np.maximum(number, 1), 1.0),
        l_inf=differences.max(axis=1).astype(np.float64),
        l_1=differences.sum(axis=1).astype(np.float64),
        k_relative=(best[-1] - values).max(axis=1).astype(np.float64),
    )


def repeated(
    contender: Contender,
    counts: IntArray,
    *,
    k: int,
    ordered: bool,
    repeats: int,
    rng: np.random.Generator,
) -> SelectionScores:
    """Returns scores of `repeats` independent draws from counts `[d]`: `[repeats]` each."""
    rows = max(1, _NUMBERS_AT_ONCE // len(counts))
    parts = []
    for start in range(0, repeats, rows):
        tiled = np.tile(counts, (min(rows, repeats - start), 1))
        parts.append(scores(counts, picks=contender.pick(tiled, rng), k=k, ordered=ordered))
    names = [field.name for field in fields(SelectionScores)]
    return SelectionScores(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    )

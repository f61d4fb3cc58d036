"""What a cell of a comparison comes to, as rows of a table: recall, or quartiles of errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reproductions.counts import CountData
from reproductions.top_k.grid import Cell, SelectionGrid

NOT_STATED = "not stated"
MEASURES = ("l_inf", "l_1", "k_relative")
QUARTILES = (25, 50, 75)


@dataclass(frozen=True)
class RecallRow:
    """One cell; the order of the fields is that of the columns.

    Attributes:
        data: name of the counts.
        kind: "real" or "synthetic".
        k: how many items were asked for.
        adjacency: what one change means.
        mechanism: the contender's label.
        epsilon: what was allowed for all histograms together.
        sound_epsilon: what is spent, at most that.
        delta: for both.
        releases: how many histograms.
        repeats: independent draws.
        recall_mean: mean of the part of the true top k that was returned, over repeats and histograms.
        recall_std: standard deviation between repeats.
        precision_mean: mean of the part of the returned that is true.
        precision_std: its standard deviation.
        paper_recall: the paper's figure, where we know it.
    """

    data: str
    kind: str
    k: int
    adjacency: str
    mechanism: str
    epsilon: float
    sound_epsilon: float
    delta: float
    releases: int
    repeats: int
    recall_mean: float
    recall_std: float
    precision_mean: float
    precision_std: float
    paper_recall: str = NOT_STATED


@dataclass(frozen=True)
class ErrorRow:
    """One cell by one measure; the order of the fields is that of the columns.

    Attributes:
        data: name of the counts.
        kind: "real" or "synthetic".
        adjacency: what one change means.
        mechanism: the contender's label.
        epsilon: what was allowed.
        sound_epsilon: what is spent.
        delta: for both.
        k: how many items were asked for.
        measure: "l_inf", "l_1" or "k_relative".
        lower: its 25th percentile over the repeats.
        median: its 50th.
        upper: its 75th.
    """

    data: str
    kind: str
    adjacency: str
    mechanism: str
    epsilon: float
    sound_epsilon: float
    delta: float
    k: int
    measure: str
    lower: float
    median: float
    upper: float


def recall_row(data: CountData, grid: SelectionGrid, cell: Cell) -> RecallRow:
    """Recall and precision of each repeat, averaged over its histograms; then over the repeats."""
    recall = np.mean([scores.recall for scores in cell.scores], axis=0)  # [repeats]
    precision = np.mean([scores.precision for scores in cell.scores], axis=0)
    return RecallRow(
        data=data.name,
        kind=data.kind,
        k=cell.k,
        adjacency=str(cell.adjacency),
        mechanism=cell.family.label,
        epsilon=cell.epsilon,
        sound_epsilon=cell.sound_epsilon,
        delta=grid.delta,
        releases=len(cell.scores),
        repeats=grid.repeats,
        recall_mean=float(recall.mean()),
        recall_std=float(recall.std()),
        precision_mean=float(precision.mean()),
        precision_std=float(precision.std()),
    )


def error_rows(data: CountData, grid: SelectionGrid, cell: Cell) -> list[ErrorRow]:
    """A row for each measure of a cell with one histogram."""
    (scores,) = cell.scores
    spent = (cell.epsilon, cell.sound_epsilon, grid.delta)
    where = (data.name, data.kind, str(cell.adjacency), cell.family.label, *spent, cell.k)
    return [
        ErrorRow(*where, measure, *np.percentile(getattr(scores, measure), QUARTILES).tolist()) for measure in MEASURES
    ]

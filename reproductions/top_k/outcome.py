"""What a cell of a comparison comes to, as rows of a table: recall, or quartiles of errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reproductions.top_k.grid import Cell
from reproductions.top_k.score import SelectionScores

MEASURES = ("l_inf", "l_1", "k_relative")
QUARTILES = (25, 50, 75)


@dataclass(frozen=True)
class RecallRow(Cell):
    """How many of a cell's picks are right.

    Attributes:
        recall_mean: mean of the part of the true top k that was returned, over repeats and histograms.
        recall_std: standard deviation between repeats.
        precision_mean: mean of the part of the returned that is true.
        precision_std: its standard deviation.
    """

    recall_mean: float
    recall_std: float
    precision_mean: float
    precision_std: float

    @classmethod
    def of(cls, cell: Cell, scores: Sequence[SelectionScores]) -> RecallRow:
        """Each repeat averaged over its histograms, then mean and spread over the repeats."""
        recall = np.mean([each.recall for each in scores], axis=0)  # [repeats]
        precision = np.mean([each.precision for each in scores], axis=0)
        return cls(
            **vars(cell),
            recall_mean=float(recall.mean()),
            recall_std=float(recall.std()),
            precision_mean=float(precision.mean()),
            precision_std=float(precision.std()),
        )


@dataclass(frozen=True)
class ErrorRow(Cell):
    """How far a cell's picks fall short by one measure.

    Attributes:
        measure: "l_inf", "l_1" or "k_relative".
        lower: its 25th percentile over the repeats.
        median: its 50th.
        upper: its 75th.
    """

    measure: str
    lower: float
    median: float
    upper: float

    @classmethod
    def of(cls, cell: Cell, scores: SelectionScores) -> list[ErrorRow]:
        """A row for each measure, of one histogram."""
        rows = []
        for measure in MEASURES:
            lower, median, upper = np.percentile(getattr(scores, measure), QUARTILES).tolist()
            rows.append(cls(**vars(cell), measure=measure, lower=lower, median=median, upper=upper))
        return rows

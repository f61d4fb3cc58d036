"""Prevalence bands: the labels in three parts, head, middle and tail, and how well models predict each part.

The mean average precision over all of many labels says little: rare labels, which are most of them, have low average
precision whatever the model. Each band shows its own mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pate.array_types import FloatArray
from pate.report.metrics import mean_of_defined

BANDS = ("head", "middle", "tail")
"""The names of the bands, from frequent to rare labels."""


@dataclass(frozen=True)
class PrevalenceBand:
    """A third of the labels, of similar prevalence, and the scores of models on them. No epsilon covers it."""

    name: str  # one of `BANDS`
    num_labels: int
    highest: float  # prevalence of the band's labels among the private records
    lowest: float
    # the mean over the band's labels of their average precision, by model; None if no label has a positive sample
    mean_average_precision: Mapping[str, float | None]


def prevalence_bands(
    prevalence: FloatArray, average_precisions: Mapping[str, FloatArray]
) -> tuple[PrevalenceBand, ...]:
    """Returns the bands of labels, which are sorted by prevalence; of fewer than three labels there are none.

    Args:
        prevalence: the share of private records with each label, `[num_labels]`.
        average_precisions: the average precision of each label, `[num_labels]`, by model; NaN where undefined.
    """
    if len(prevalence) < len(BANDS):
        return ()
    order = np.argsort(-prevalence, kind="stable")
    bands = []
    for name, labels in zip(BANDS, np.array_split(order, len(BANDS)), strict=True):
        means = {
            model: mean_of_defined(values[labels]) for model, values in average_precisions.items()
        }
        band = PrevalenceBand(
            name=name,
            num_labels=len(labels),
            highest=float(prevalence[labels[0]]),
            lowest=float(prevalence[labels[-1]]),
            mean_average_precision=means,
        )
        bands.append(band)
    return tuple(bands)

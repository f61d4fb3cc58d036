"""Prevalence bands: the labels in three parts, head, middle and tail, and the scores of models on each part.

The mean average precision over many labels says little. Most labels are rare, and rare labels have a low average
precision with any model. So each band shows its own mean.
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
    """A third of the labels, of similar prevalence, and the scores of models on them. No epsilon covers it.

    Attributes:
        name: the name of the band, one of `BANDS`.
        num_labels: the number of labels in the band.
        highest: the largest prevalence of a label of the band among the private records.
        lowest: the smallest prevalence of a label of the band among the private records.
        mean_average_precision: the mean of the average precisions of the band's labels, by model; None if no label of
            the band has a positive sample.
    """

    name: str
    num_labels: int
    highest: float
    lowest: float
    mean_average_precision: Mapping[str, float | None]


def prevalence_bands(
    prevalence: FloatArray, average_precisions: Mapping[str, FloatArray]
) -> tuple[PrevalenceBand, ...]:
    """Returns three bands, each a third of the labels, from frequent to rare; fewer than three labels have no bands.

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

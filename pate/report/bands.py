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

BAND_NAMES = ("head", "middle", "tail")
"""The names of the bands, from frequent to rare labels."""


@dataclass(frozen=True)
class PrevalenceBand:
    """About a third of the labels, of similar prevalence, and the scores of models on them. No epsilon covers it.

    Attributes:
        name: the name of the band, one of `BAND_NAMES`.
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
    prevalence_of_labels: FloatArray, precisions_by_model: Mapping[str, FloatArray]
) -> tuple[PrevalenceBand, ...]:
    """Returns three bands of about equally many labels, from frequent to rare; fewer than three labels have no bands.

    Args:
        prevalence_of_labels: the share of private records with each label, `[num_labels]`.
        precisions_by_model: the average precision of each label, `[num_labels]`, by model; NaN where undefined.
    """
    if len(prevalence_of_labels) < len(BAND_NAMES):
        return ()
    labels_by_prevalence = np.argsort(-prevalence_of_labels, kind="stable")
    bands = []
    for band_name, label_indices in zip(
        BAND_NAMES, np.array_split(labels_by_prevalence, len(BAND_NAMES)), strict=True
    ):
        mean_precision_by_model = {
            model_name: mean_of_defined(precision_of_labels[label_indices])
            for model_name, precision_of_labels in precisions_by_model.items()
        }
        prevalence_band = PrevalenceBand(
            name=band_name,
            num_labels=len(label_indices),
            highest=float(prevalence_of_labels[label_indices[0]]),
            lowest=float(prevalence_of_labels[label_indices[-1]]),
            mean_average_precision=mean_precision_by_model,
        )
        bands.append(prevalence_band)
    return tuple(bands)

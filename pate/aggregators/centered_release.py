"""A release of centered votes: real numbers, and the noise that they carry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.release import NoisyScores, Release, TrainingSet
from pate.files.arrays import ArrayForm

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CenteredRelease(Release):
    """A release of real numbers; all of it may be published.

    Attributes:
        scores: float64 `[Q, L]`, the center plus the noisy mean of clipped votes: on a grid, with independent noise.
        noise_std: of each score.
        center: float64 `[Q, L]`.
        num_directions: of the public basis that the votes lie in; None where they may be anything.
    """

    scores: Array
    noise_std: float
    center: Array
    num_directions: int | None = None

    _FORMS: ClassVar[dict[str, ArrayForm]] = Release._FORMS | {
        "scores": ArrayForm("f", (None, None)),
        "center": ArrayForm("f", (None, None)),
        "noise_std": ArrayForm("f", ()),
    }

    def training_set(self, inputs: NDArray[np.float32]) -> TrainingSet:
        """See `Release.training_set`; with the scores."""
        values, prevalence = self.scores - self.center, self.center.mean(axis=0)
        scores = NoisyScores(values, self.noise_std, prevalence, self.num_directions)
        return replace(super().training_set(inputs), scores=scores)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """See `Release.arrays`."""
        names = {"scores": self.scores, "center": self.center, "noise_std": np.array(self.noise_std)}
        return super().arrays() | names


def matched_labels(
    scores: NDArray[np.float64], residual: NDArray[np.float64], center: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """The highest scores `[Q, L]` of each label, as many as the center expects; among equals the residual decides."""
    labels = np.zeros(scores.shape, dtype=np.bool_)
    expected = np.rint(center.clip(0, 1).sum(axis=0)).astype(np.int64)
    order = np.lexsort((-residual, -scores), axis=0)
    chosen = np.arange(len(scores))[:, None] < expected
    np.put_along_axis(labels, order, chosen, axis=0)
    return labels

"""Releases of centered votes: scores of all queries in one part, or a student's weights in rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.release import NoisyScores, Release, TrainingSet
from pate.files.arrays import ArrayForm
from pate.votes.recipe import DEFAULT_RECIPE, Recipe

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class CenteredRelease(Release):
    """A release of real numbers; all of it may be published.

    Attributes:
        scores: float64 `[Q, L]`, the center plus the noisy mean of clipped votes: on a grid, with independent noise.
        noise_std: of each score.
        center: float64 `[Q, L]`.
        num_directions: of the public basis that the votes lie in; None where they may be anything.
        recipe: the constants of the aggregator, by which a student reads the scores.
    """

    scores: Array
    noise_std: float
    center: Array
    num_directions: int | None = None
    recipe: Recipe = DEFAULT_RECIPE

    _FORMS: ClassVar[dict[str, ArrayForm]] = Release._FORMS | {
        "scores": ArrayForm("f", (None, None)),
        "center": ArrayForm("f", (None, None)),
        "noise_std": ArrayForm("f", ()),
    }

    def training_set(self, inputs: NDArray[np.float32]) -> TrainingSet:
        """Returns the data that a student learns from: the scores beside the labels."""
        scores = NoisyScores(
            values=self.scores - self.center,
            noise_std=self.noise_std,
            prevalence=self.center.mean(axis=0),
            num_directions=self.num_directions,
        )
        return replace(super().training_set(inputs), scores=scores, recipe=self.recipe)


@dataclass(frozen=True, repr=False)
class RoundsRelease(Release):
    """A release in rounds; all of it may be published.

    Attributes:
        scores: float64 `[Q, L]`, the student's probabilities on the queries.
        student: float64 `[D, L]`, the student's weights: logits on `PublicPCA.with_constant` of directions of the pool.
        recipe: the constants of the aggregator, by which the features are made again.
    """

    scores: Array
    student: Array
    recipe: Recipe = DEFAULT_RECIPE

    _FORMS: ClassVar[dict[str, ArrayForm]] = Release._FORMS | {
        "scores": ArrayForm("f", (None, None)),
        "student": ArrayForm("f", (None, None)),
    }

    def training_set(self, inputs: NDArray[np.float32]) -> TrainingSet:
        """Returns the data that a student learns from: the weights that were released."""
        training_set = super().training_set(inputs)
        return replace(training_set, weights=self.student, recipe=self.recipe)

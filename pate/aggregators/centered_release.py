"""Releases of `CenteredVotes`: noisy scores of all queries, or the weights of a student after several rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from pate.aggregators.release import Release
from pate.aggregators.training_set import NoisyScores, TrainingSet
from pate.array_types import Float32Array, FloatArray
from pate.files.arrays import ArrayForm
from pate.votes.recipe import DEFAULT_RECIPE, Recipe


@dataclass(frozen=True, repr=False)
class CenteredRelease(Release):
    """A release of noisy scores for all queries; every field may be published.

    Attributes:
        scores: float64 `[num_queries, num_labels]`, the center plus the noisy mean of the clipped differences between
            votes and center. The noise in each score is independent of the noise in all others, and lies on a grid.
        noise_std: standard deviation of the noise in each score.
        center: float64 `[num_queries, num_labels]`, the public or released center of the votes.
        num_directions: dimension of the public span of vectors over queries in which the votes on each label lie; None
            where they are not confined to one.
        recipe: the constants of the aggregator, which a student that learns from the scores uses too.
        known_shares: float64 `[num_labels]`, the released share of records for which each label is known; None if
            labels have no gaps, or the center is public.
        probabilities: float64 `[num_queries, num_labels]`, the center plus the low-rank estimate of the mean vote minus
            the center, cut to [0, 1]; None unless the center is a public answer to each query.
    """

    scores: FloatArray
    noise_std: float
    center: FloatArray
    num_directions: int | None = None
    recipe: Recipe = DEFAULT_RECIPE
    known_shares: FloatArray | None = None
    probabilities: FloatArray | None = None

    _OPTIONAL_FORMS: ClassVar[dict[str, ArrayForm]] = {
        "known_shares": ArrayForm(dtype_kinds="f", shape=(None,)),
        "probabilities": ArrayForm(dtype_kinds="f", shape=(None, None)),
    }
    _FORMS: ClassVar[dict[str, ArrayForm]] = Release._FORMS | {
        "scores": ArrayForm(dtype_kinds="f", shape=(None, None)),
        "center": ArrayForm(dtype_kinds="f", shape=(None, None)),
        "noise_std": ArrayForm(dtype_kinds="f", shape=()),
    }

    def training_set(self, inputs: Float32Array) -> TrainingSet:
        """Returns the data that a student learns from: inputs, labels, and scores with their noise.

        Args:
            inputs: the public inputs of the queries, `[num_queries, ...]`.
        """
        noisy_scores = NoisyScores(
            values=self.scores - self.center,
            noise_std=self.noise_std,
            prevalence=self.center.mean(axis=0),
            num_directions=self.num_directions,  # of the span in which all votes lie
            center=None if self.probabilities is None else self.center,
        )
        return replace(super().training_set(inputs), scores=noisy_scores, recipe=self.recipe)


@dataclass(frozen=True, repr=False)
class RoundsRelease(Release):
    """A release of the weights of a student after several rounds; every field may be published.

    Attributes:
        scores: float64 `[num_queries, num_labels]`, the student's probabilities of the labels.
        student: float64 `[num_features, num_labels]`, the student's weights. A query's features times these weights are
            logits; the features are `PublicPCA.with_constant` of the directions of the public pool.
        recipe: the constants of the aggregator, which are needed to compute the features of inputs again.
        known_shares: float64 `[num_labels]`, the released share of records for which each label is known; None if
            labels have no gaps, or the prevalence is public.
        moments: float64 `[num_features - 1, num_labels]`, the noisy means of feature times label over the records, less
            the feature's mean over public rows times the label's prevalence (`NoisyMoments.values`). A later release of
            other people's records may start from them. None in releases of earlier versions, which published none.
        moment_variances: float64 of the same shape, the variance of each moment.
    """

    scores: FloatArray
    student: FloatArray
    recipe: Recipe = DEFAULT_RECIPE
    known_shares: FloatArray | None = None
    moments: FloatArray | None = None
    moment_variances: FloatArray | None = None

    _OPTIONAL_FORMS: ClassVar[dict[str, ArrayForm]] = {
        "known_shares": ArrayForm(dtype_kinds="f", shape=(None,)),
        "moments": ArrayForm(dtype_kinds="f", shape=(None, None)),
        "moment_variances": ArrayForm(dtype_kinds="f", shape=(None, None)),
    }
    _FORMS: ClassVar[dict[str, ArrayForm]] = Release._FORMS | {
        "scores": ArrayForm(dtype_kinds="f", shape=(None, None)),
        "student": ArrayForm(dtype_kinds="f", shape=(None, None)),  # weights of features and labels
    }

    def training_set(self, inputs: Float32Array) -> TrainingSet:
        """Returns the data that a student learns from: inputs and labels of answered queries, and a student's weights.

        These weights are the field `student`, with one number for each feature and label. Samples have no weights.

        Args:
            inputs: the public inputs of the queries, `[num_queries, ...]`.
        """
        training_set = super().training_set(inputs)
        return replace(training_set, weights=self.student, recipe=self.recipe)

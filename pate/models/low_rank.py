"""The student for releases of `CenteredVotes`. It learns from noisy scores of queries, noisy weights or label bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pate.aggregators.training_set import NoisyScores, TrainingSet
from pate.array_types import BoolArray, Float32Array
from pate.models.hyperparameters import require_settings
from pate.models.linear_model import LinearModel
from pate.models.logistic import LogisticStudent
from pate.models.released_model import ReleasedModel
from pate.models.student import OnEpoch, Student, require_rows
from pate.models.student_model import FlatModel, StudentModel
from pate.validation import require, require_non_negative
from pate.votes.public_pca import PublicPCA
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.shrinkage import shrink_singular_values

# Singular values below this share of the largest one count as 0 in a regression.
_RELATIVE_CUT_OFF = 1e-6
# Scores of a label whose spread is at most this share of the largest spread count as equal.
_RELATIVE_FLATNESS = 1e-12


class LowRankModel(FlatModel):
    """A trained student with linear scores of features of length 1, and a threshold of the score for each label.

    The probability of a label is the logistic function of the score minus the label's threshold, divided by the spread
    of the label's scores. These numbers are not calibrated: only their order is meaningful, and whether they reach 0.5.
    """

    kind: ClassVar[str] = "low_rank"
    array_axes: ClassVar[Mapping[str, str]] = {
        "center": "d",
        "projection": "dk",
        "weights": "kL",
        "thresholds": "L",
        "spreads": "L",
    }

    @staticmethod
    def formula(inputs: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """Returns the probabilities `[num_rows, num_labels]` of flat inputs, as `FlatModel.formula` describes."""
        features = (inputs - arrays["center"]) @ arrays["projection"]
        feature_lengths = xp.linalg.norm(features, axis=1, keepdims=True)
        scores = features / xp.where(feature_lengths > 0, feature_lengths, 1) @ arrays["weights"]
        return 0.5 + 0.5 * xp.tanh((scores - arrays["thresholds"]) / arrays["spreads"] / 2)


@dataclass(frozen=True)
class LowRankStudent(Student):
    """A recipe for a student with linear scores of low rank, in the principal directions of the public pool.

    Rule: regress the released scores, from which their center was subtracted, on the features of the queries. Shrink
    the singular values according to the known noise (`shrink_singular_values`). Place the threshold of a label so that
    the share of public samples above it equals the prevalence of the label. Nothing is tuned on released labels, and
    nothing is random. If weights were released, they are the student (`ReleasedModel`).

    If only label bits are released (`fit`), three quantities are replaced by estimates. The share of a label among the
    rows replaces its prevalence, the rows replace the pool, and the spread of the bits replaces the known noise.

    Attributes:
        num_directions: the greatest number of principal directions of the pool, >= 1. Released weights, and scores
            that were released along directions, have their own number instead.
    """

    num_directions: int = 128

    def __post_init__(self) -> None:
        require_settings(self)

    @property
    def ceiling(self) -> LogisticStudent:
        """The student for true labels of all private records: a logistic one, as true labels have no noise."""
        return LogisticStudent()

    def fit(
        self, inputs: Float32Array, labels: BoolArray, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Fits a model to label bits, whose noise it estimates; reports once the share that it predicts wrong."""
        return self.fit_known(TrainingSet(inputs, labels), seed=seed, on_epoch=on_epoch)

    def fit_known(
        self, training: TrainingSet, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Fits the model as `fit` does, to the known bits alone.

        A bit minus the prevalence of its label is divided by the share of rows for which the label is known, and is 0
        where it is unknown. With fewer than two different rows, nothing is fitted or reported: the model predicts, for
        every input, each label whose known bits are 1 in at least half of the rows that know it.
        """
        inputs = training.inputs
        known_label_mask = training.known
        input_rows, labels = require_rows(inputs=inputs, labels=training.labels, seed=seed)
        label_prevalence = labels.mean(axis=0) if len(labels) else np.zeros(labels.shape[1])
        known_shares = np.ones(labels.shape[1])
        if known_label_mask is not None and len(labels):
            known_shares = known_label_mask.mean(axis=0).clip(1 / len(known_label_mask))
            label_prevalence = label_prevalence / known_shares
        # Equal rows, or no rows, determine nothing but a constant.
        if len(np.unique(input_rows, axis=0)) < 2:
            return LinearModel.constant(predicted_labels=label_prevalence >= 0.5, inputs=inputs)
        noise_std = float(
            np.sqrt((label_prevalence * (1 - label_prevalence) / known_shares).mean())
        )
        residuals = labels - label_prevalence
        if known_label_mask is not None:
            residuals = residuals * known_label_mask / known_shares
        fitted_student = self.fit_scores(
            inputs=input_rows,
            released=NoisyScores(
                values=residuals, noise_std=noise_std, prevalence=label_prevalence
            ),
            pool=input_rows,
        )
        threshold_shifts = np.where(labels.any(axis=0), 0, np.inf).astype(np.float32)
        arrays = dict(fitted_student.arrays)
        arrays["thresholds"] = arrays["thresholds"] + threshold_shifts
        if on_epoch is not None:
            is_wrong = labels != fitted_student.predict(input_rows)
            is_wrong_known_label = (
                is_wrong if known_label_mask is None else is_wrong[known_label_mask]
            )
            on_epoch(0, {"loss": float(is_wrong_known_label.mean())})
        return LowRankModel(
            arrays=arrays,
            threshold=0.5,
            input_shape=np.shape(inputs)[1:],
            num_rows=len(input_rows),
            choices=fitted_student.choices,
        )

    def learn(
        self,
        training: TrainingSet,
        *,
        pool: Float32Array,
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> StudentModel:
        """Returns the model of the released weights, if there are any.

        Otherwise fits a model to the released scores or, if there are none, to the released labels.
        """
        if training.weights is None and training.scores is None:
            return super().learn(training, pool=pool, seed=seed, on_epoch=on_epoch)
        query_inputs = np.asarray(training.inputs, dtype=np.float32)
        public_inputs = np.concatenate([query_inputs, np.asarray(pool, dtype=np.float32)])
        if training.scores is None or training.weights is not None:
            return ReleasedModel.from_weights(
                weights=np.asarray(training.weights),
                public_inputs=public_inputs,
                num_rows=len(query_inputs),
                recipe=training.recipe,
            )
        return self.fit_scores(
            query_inputs, released=training.scores, pool=public_inputs, recipe=training.recipe
        )

    def fit_scores(
        self,
        inputs: Float32Array,
        *,
        released: NoisyScores,
        pool: Float32Array,
        recipe: Recipe = DEFAULT_RECIPE,
    ) -> LowRankModel:
        """Fits a model to noisy scores of queries.

        If the scores were released in `PublicPCA.span` of the queries, they come with the number of directions of that
        span. Otherwise the scores are numbers for each query, and a regression on the inputs finds the model.

        Args:
            inputs: the inputs of the queries, one entry for each query.
            released: the scores `[num_queries, num_labels]`, their noise, and the prevalence of each label. If each
                query has a center of its own, the model adds the regression of the center on the inputs.
            pool: public inputs that determine directions and thresholds, one entry for each sample.
            recipe: the constants of the method.

        Raises:
            InvalidValue: the scores have a wrong shape or are not finite.
        """
        noise_std = released.noise_std
        require_non_negative("noise_std", noise_std)
        noisy_scores = np.asarray(released.values, dtype=np.float64)
        prevalence = np.asarray(released.prevalence, dtype=np.float64)
        is_score_matrix = (
            noisy_scores.ndim == 2
            and len(noisy_scores) == len(inputs)
            and bool(np.isfinite(noisy_scores).all())
        )
        rule = f"finite numbers [{len(inputs)}, num_labels]"
        require(is_score_matrix, "scores.shape", noisy_scores.shape, rule)
        has_same_labels = prevalence.shape == noisy_scores.shape[1:]
        require(has_same_labels, "prevalence.shape", prevalence.shape, f"{noisy_scores.shape[1:]}")
        num_directions = min(released.num_directions or self.num_directions, len(inputs))
        public_pca = PublicPCA.fit(pool, max_directions=num_directions, recipe=recipe)
        span_basis = public_pca.span(inputs)
        # The scores in coordinates of the span, [num_directions, num_labels].
        coefficients = shrink_singular_values(
            noisy_matrix=span_basis.T @ noisy_scores, noise_std=noise_std
        )
        if released.center is not None:
            # The center has no noise, so it is not shrunk.
            coefficients = coefficients + span_basis.T @ (
                released.center - released.center.mean(axis=0)
            )
        rank = int(np.linalg.matrix_rank(coefficients)) if coefficients.any() else 0
        if released.num_directions is None:
            # Regress the shrunk scores, U V^T times the coefficients, on the features U S V^T of the queries. The
            # weights are V S^-1 V^T times the coefficients (`PublicPCA.span`).
            _, singular_values, right_vectors = np.linalg.svd(
                public_pca.features(inputs), full_matrices=False
            )
            is_large_singular_value = singular_values > _RELATIVE_CUT_OFF * singular_values[0]
            inverse_singular_values = np.divide(
                1,
                singular_values,
                out=np.zeros_like(singular_values),
                where=is_large_singular_value,
            )
            coefficients = np.asarray(
                (right_vectors.T * inverse_singular_values) @ (right_vectors @ coefficients)
            )
        pool_scores = public_pca.features(pool) @ coefficients  # [n, num_labels]
        label_shares = prevalence.clip(recipe.prevalence_floor, 1 - recipe.prevalence_floor)
        thresholds = np.array(
            [
                np.quantile(label_scores, 1 - label_share)
                for label_scores, label_share in zip(pool_scores.T, label_shares, strict=True)
            ]
        )
        spreads = pool_scores.std(axis=0)
        # If the scores of a label are equal for the whole pool, the label is predicted always or never.
        has_flat_scores = spreads <= _RELATIVE_FLATNESS * (spreads.max() or 1.0)
        arrays = {
            "center": public_pca.center,
            "projection": public_pca.projection,
            "weights": coefficients,
            "thresholds": np.where(has_flat_scores & (label_shares < 0.5), np.inf, thresholds),
            "spreads": np.where(has_flat_scores, 1, spreads),
        }
        return LowRankModel(
            arrays={name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()},
            threshold=0.5,
            input_shape=np.asarray(inputs).shape[1:],
            num_rows=len(inputs),
            choices={"directions": float(len(coefficients)), "rank": float(rank)},
        )

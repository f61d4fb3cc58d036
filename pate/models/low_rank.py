"""The student that learns from a release of `CenteredVotes`: from noisy scores of queries, or from noisy weights."""

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
    of the label's scores. These numbers are not calibrated: only their order is meaningful.
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
        lengths = xp.linalg.norm(features, axis=1, keepdims=True)
        scores = features / xp.where(lengths > 0, lengths, 1) @ arrays["weights"]
        return 0.5 + 0.5 * xp.tanh((scores - arrays["thresholds"]) / arrays["spreads"] / 2)


@dataclass(frozen=True)
class LowRankStudent(Student):
    """A recipe for a student with linear scores of low rank, in the principal directions of the public pool.

    Rule: subtract the center from the released scores, and regress them on the features of the queries. Shrink the
    singular values of the result according to the known noise (`shrink_singular_values`). Place the threshold of a
    label so that the share of public samples above it equals the prevalence of the label. Nothing is tuned on released
    labels, and nothing is random.

    If only label bits are released (`fit`), three quantities are replaced by estimates. The share of a label among the
    rows replaces its prevalence, the rows replace the pool, and the spread of the bits replaces the known noise.

    Attributes:
        num_directions: the greatest number of principal directions of the pool, >= 1.
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
        where it is unknown. With fewer than two different rows, nothing is fitted or reported: the model predicts the
        labels that at least half of the rows have, for every input.
        """
        inputs = training.inputs
        known = training.known
        rows, labels = require_rows(inputs=inputs, labels=training.labels, seed=seed)
        prevalence = labels.mean(axis=0) if len(labels) else np.zeros(labels.shape[1])
        known_shares = np.ones(labels.shape[1])
        if known is not None and len(labels):
            known_shares = known.mean(axis=0).clip(1 / len(known))
            prevalence = prevalence / known_shares
        # Equal rows, or no rows, determine nothing but a constant.
        if len(np.unique(rows, axis=0)) < 2:
            return LinearModel.constant(predicted=prevalence >= 0.5, inputs=inputs)
        noise_std = float(np.sqrt((prevalence * (1 - prevalence) / known_shares).mean()))
        residuals = labels - prevalence
        if known is not None:
            residuals = residuals * known / known_shares
        model = self.fit_scores(
            inputs=rows,
            released=NoisyScores(values=residuals, noise_std=noise_std, prevalence=prevalence),
            pool=rows,
        )
        never_held = np.where(labels.any(axis=0), 0, np.inf).astype(np.float32)
        arrays = dict(model.arrays)
        arrays["thresholds"] = arrays["thresholds"] + never_held
        if on_epoch is not None:
            is_wrong = labels != model.predict(rows)
            known_errors = is_wrong if known is None else is_wrong[known]
            on_epoch(0, {"loss": float(known_errors.mean())})
        return LowRankModel(
            arrays=arrays,
            threshold=0.5,
            input_shape=np.shape(inputs)[1:],
            num_rows=len(rows),
            choices=model.choices,
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
        inputs = np.asarray(training.inputs, dtype=np.float32)
        public_inputs = np.concatenate([inputs, np.asarray(pool, dtype=np.float32)])
        if training.scores is None or training.weights is not None:
            return ReleasedModel.from_weights(
                weights=np.asarray(training.weights),
                public_inputs=public_inputs,
                num_rows=len(inputs),
                recipe=training.recipe,
            )
        return self.fit_scores(
            inputs, released=training.scores, pool=public_inputs, recipe=training.recipe
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
        in_span = released.num_directions is not None
        require_non_negative("noise_std", noise_std)
        scores = np.asarray(released.values, dtype=np.float64)
        prevalence = np.asarray(released.prevalence, dtype=np.float64)
        fits = scores.ndim == 2 and len(scores) == len(inputs) and bool(np.isfinite(scores).all())
        require(fits, "scores.shape", scores.shape, f"finite numbers [{len(inputs)}, num_labels]")
        same_labels = prevalence.shape == scores.shape[1:]
        require(same_labels, "prevalence.shape", prevalence.shape, f"{scores.shape[1:]}")
        num_directions = min(released.num_directions or self.num_directions, len(inputs))
        directions = PublicPCA.fit(pool, max_directions=num_directions, recipe=recipe)
        span = directions.span(inputs)
        # The scores in coordinates of the span, [num_directions, num_labels].
        coefficients = shrink_singular_values(noisy_matrix=span.T @ scores, noise_std=noise_std)
        if released.center is not None:  # The center has no noise, so it is not shrunk.
            coefficients = coefficients + span.T @ (released.center - released.center.mean(axis=0))
        rank = int(np.linalg.matrix_rank(coefficients)) if coefficients.any() else 0
        if not in_span:
            # These are the weights with which the features have the projection of the scores on their span as values.
            _, singular, right = np.linalg.svd(directions.features(inputs), full_matrices=False)
            is_large = singular > _RELATIVE_CUT_OFF * singular[0]
            inverse = np.divide(1, singular, out=np.zeros_like(singular), where=is_large)
            coefficients = np.asarray((right.T * inverse) @ (right @ coefficients))
        pool_scores = directions.features(pool) @ coefficients  # [n, num_labels]
        share = prevalence.clip(recipe.prevalence_floor, 1 - recipe.prevalence_floor)
        thresholds = np.array(
            [
                np.quantile(label_scores, 1 - label_share)
                for label_scores, label_share in zip(pool_scores.T, share, strict=True)
            ]
        )
        spreads = pool_scores.std(axis=0)
        # If the scores of a label are equal for the whole pool, the label is predicted always or never.
        is_flat = spreads <= _RELATIVE_FLATNESS * (spreads.max() or 1.0)
        arrays = {
            "center": directions.center,
            "projection": directions.projection,
            "weights": coefficients,
            "thresholds": np.where(is_flat & (share < 0.5), np.inf, thresholds),
            "spreads": np.where(is_flat, 1, spreads),
        }
        return LowRankModel(
            arrays={name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()},
            threshold=0.5,
            input_shape=np.asarray(inputs).shape[1:],
            num_rows=len(inputs),
            choices={"directions": float(len(coefficients)), "rank": float(rank)},
        )

"""Linear students of what was released with known noise: trained on scores, or the released weights themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.aggregators.release import TrainingSet
from pate.student.linear import LogisticStudent
from pate.student.student import Labels, OnEpoch, Rows, Student, StudentModel, require_rows
from pate.validation import require, require_count, require_non_negative
from pate.votes.denoising import shrink_singular_values
from pate.votes.moment_fit import expected_f1_threshold
from pate.votes.public_pca import PublicPCA

Array = NDArray[np.float64]

_RAREST = 0.005


class LowRankModel(StudentModel):
    """Features of length 1, linear scores, and for each label the score from which it is predicted.

    A probability is the logistic function of the score's distance to its label's threshold, in spreads of the scores:
    its order is what counts.
    """

    kind = "low_rank"
    forms: ClassVar[Mapping[str, str]] = {
        "center": "d",
        "projection": "dk",
        "weights": "kL",
        "thresholds": "L",
        "spreads": "L",
    }

    def _probabilities(self, rows: Rows) -> Rows:
        scores = self._features(rows) @ self.arrays["weights"]
        distance = (scores - self.arrays["thresholds"]) / self.arrays["spreads"]
        return np.asarray(0.5 + 0.5 * np.tanh(distance / 2), dtype=np.float32)

    def _features(self, rows: Rows) -> Rows:
        features = (rows - self.arrays["center"]) @ self.arrays["projection"]
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        return np.asarray(features / np.where(lengths > 0, lengths, 1), dtype=np.float32)


@dataclass(frozen=True)
class LowRankStudent(Student):
    """Linear scores in the directions of a public pool, of low rank, with thresholds matched to a prevalence.

    Rule: project what was released beyond the center on the features of the queries. Shrink singular values as the
    known noise demands (`shrink_singular_values`). Place a label's threshold so that a share of the public pool equal
    to its prevalence exceeds it. Nothing is tuned on released labels, nothing is random.

    From bits alone (`fit`) a label's share among the rows stands for the prevalence, the rows for the pool, and the
    spread of the bits for the noise.

    Attributes:
        num_directions: at most that many principal directions of the pool, >= 1.
    """

    num_directions: int = 128

    def __post_init__(self) -> None:
        require_count("num_directions", self.num_directions)

    @property
    def ceiling(self) -> LogisticStudent:
        """As linear, by the loss that suits true labels."""
        return LogisticStudent()

    def fit(self, inputs: Rows, labels: Labels, *, seed: int, on_epoch: OnEpoch | None = None) -> LowRankModel:
        rows, labels = require_rows(inputs, labels, seed)
        shape = np.asarray(inputs).shape[1:]
        prevalence = labels.mean(axis=0) if len(labels) else np.zeros(labels.shape[1])
        if len(np.unique(rows, axis=0)) < 2:
            return _constant(rows.shape[1], labels, shape)
        noise_std = float(np.sqrt((prevalence * (1 - prevalence)).mean()))
        scores = labels - prevalence
        model = self.fit_scores(rows, scores, noise_std=noise_std, prevalence=prevalence, public_inputs=rows)
        never = np.where(labels.any(axis=0), 0, np.inf).astype(np.float32)
        arrays = dict(model.arrays) | {"thresholds": model.arrays["thresholds"] + never}
        if on_epoch is not None:
            on_epoch(0, {"loss": float((labels != model.predict(rows)).mean())})
        return LowRankModel(arrays, 0.5, shape, len(rows), model.choices)

    def learn(self, training: TrainingSet, *, pool: Rows, seed: int, on_epoch: OnEpoch | None = None) -> StudentModel:
        """The released weights themselves, or from the scores, where there are some."""
        if training.weights is not None:
            public = np.concatenate([training.inputs, np.asarray(pool, dtype=np.float32)])
            return ReleasedModel.of(training.weights, public, len(training.inputs))
        if (scores := training.scores) is None:
            return super().learn(training, pool=pool, seed=seed, on_epoch=on_epoch)
        student = self if scores.num_directions is None else replace(self, num_directions=scores.num_directions)
        return student.fit_scores(
            np.asarray(training.inputs, dtype=np.float32),
            scores.values,
            noise_std=scores.noise_std,
            prevalence=scores.prevalence,
            public_inputs=np.concatenate([training.inputs, np.asarray(pool, dtype=np.float32)]),
            in_span=scores.num_directions is not None,
        )

    def fit_scores(
        self,
        inputs: Rows,
        scores: Array,
        *,
        noise_std: float,
        prevalence: Array,
        public_inputs: Rows,
        in_span: bool = False,
    ) -> LowRankModel:
        """Trains on released scores.

        Args:
            inputs: float32 `[Q, …]`, the queries.
            scores: `[Q, L]`, what was released minus the center.
            noise_std: of each score.
            prevalence: `[L]`, public or released.
            public_inputs: float32 `[n, …]`, for the directions and the thresholds.
            in_span: whether the votes were cast in `PublicPCA.span` of the queries, with `num_directions` as
                here; else they are functions on the queries, and weights are found by regression.

        Raises:
            InvalidValue: shapes that do not match, numbers that are not finite.
        """
        require_non_negative("noise_std", noise_std)
        scores, prevalence = np.asarray(scores, dtype=np.float64), np.asarray(prevalence, dtype=np.float64)
        good = scores.ndim == 2 and len(scores) == len(inputs) and bool(np.isfinite(scores).all())
        require(good, "scores.shape", scores.shape, f"finite numbers [{len(inputs)}, num_labels]")
        require(prevalence.shape == scores.shape[1:], "prevalence.shape", prevalence.shape, f"{scores.shape[1:]}")
        directions = PublicPCA.of(public_inputs, min(self.num_directions, len(inputs)))
        found = shrink_singular_values(directions.span(inputs).T @ scores, noise_std=noise_std)  # [k, L]
        rank = int(np.linalg.matrix_rank(found)) if found.any() else 0
        if not in_span:
            found = _regressed(directions.features(inputs), found)
        of_pool = directions.features(public_inputs) @ found  # [n, L]
        share = prevalence.clip(_RAREST, 1 - _RAREST)
        thresholds = np.array([np.quantile(column, 1 - p) for column, p in zip(of_pool.T, share, strict=True)])
        spreads = of_pool.std(axis=0)
        flat = spreads <= 1e-12 * (spreads.max() or 1.0)
        arrays: dict[str, Any] = {
            "center": directions.center,
            "projection": directions.projection,
            "weights": found,
            "thresholds": np.where(flat & (share < 0.5), np.inf, thresholds),
            "spreads": np.where(flat, 1, spreads),
        }
        return LowRankModel(
            {name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()},
            0.5,
            np.asarray(inputs).shape[1:],
            len(inputs),
            {"directions": float(len(found)), "rank": float(rank)},
        )


def _regressed(features: Array, projected: Array) -> Array:
    """Weights that give, on the features `[Q, k]`, what its projection on their span is: `[k, L]`."""
    _, singular, right = np.linalg.svd(features, full_matrices=False)
    kept = singular > 1e-6 * singular[0]
    inverse = np.divide(1, singular, out=np.zeros_like(singular), where=kept)
    return np.asarray((right.T * inverse) @ (right @ projected))


def _constant(num_inputs: int, labels: Labels, shape: tuple[int, ...]) -> LowRankModel:
    """Predicts the labels of rows that are all alike, or none."""
    held = labels.mean(axis=0) >= 0.5 if len(labels) else np.zeros(labels.shape[1], dtype=np.bool_)
    arrays = {
        "center": np.zeros(num_inputs, np.float32),
        "projection": np.zeros((num_inputs, 1), np.float32),
        "weights": np.zeros((1, len(held)), np.float32),
        "thresholds": np.where(held, -np.inf, np.inf).astype(np.float32),
        "spreads": np.ones(len(held), np.float32),
    }
    return LowRankModel(arrays, 0.5, shape, len(labels), {})


class ReleasedModel(StudentModel):
    """Calibrated probabilities: the logistic function of linear scores on features of one length.

    Where there is a weight more than directions, features have a height (`PublicPCA.with_constant`).
    """

    kind = "released"
    forms: ClassVar[Mapping[str, str]] = {"center": "d", "projection": "dk", "weights": "wL", "bias": "L"}

    @classmethod
    def of(cls, weights: Array, public_inputs: Rows, num_rows: int) -> ReleasedModel:
        """That of released weights, its threshold the best expected micro-F1 on public inputs.

        Args:
            weights: `[D, L]`, on `PublicPCA.with_constant` of directions of the public inputs.
            public_inputs: float32 `[m, …]`, all of them.
            num_rows: how many queries were answered.
        """
        directions = PublicPCA.of(public_inputs, len(weights) - 1)
        width = directions.projection.shape[1]
        arrays = {
            "center": directions.center,
            "projection": directions.projection,
            "weights": weights[:-1] * np.sqrt(len(weights) - 1),
            "bias": weights[-1],
        }
        floats = {name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()}
        shape = np.asarray(public_inputs).shape[1:]
        model = cls(floats, 0.5, shape, num_rows, {"directions": float(width)})
        threshold = expected_f1_threshold(model.predict_proba(public_inputs))
        return cls(floats, threshold, shape, num_rows, model.choices)

    def _probabilities(self, rows: Rows) -> Rows:
        features = (rows - self.arrays["center"]) @ self.arrays["projection"]
        lengths, weights = np.linalg.norm(features, axis=1, keepdims=True), self.arrays["weights"]
        if len(weights) == features.shape[1]:
            scores = (features @ weights) / np.where(lengths > 0, lengths, 1)
        else:
            scores = (features @ weights[:-1] + weights[-1]) / np.hypot(lengths, 1)
        return np.asarray(scipy.special.expit(scores + self.arrays["bias"]), dtype=np.float32)

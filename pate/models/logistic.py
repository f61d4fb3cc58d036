"""Logistic regression for all labels at once, fitted in coordinates in which the optimizer needs few steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.aggregators.training_set import TrainingSet
from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.models.hyperparameters import require_penalties
from pate.models.linear_model import LinearModel
from pate.models.student import OnEpoch, require_rows
from pate.models.student_model import FlatModel
from pate.models.thresholds import ThresholdedStudent
from pate.pool import in_order
from pate.validation import require, require_positive

# The usual candidate penalties.
_PENALTIES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
# With fewer rows, a constant model is returned.
_MIN_ROWS = 10
# Directions whose variance is a smaller share of the largest variance are left out.
_MIN_RELATIVE_VARIANCE = 1e-9
# The smallest frequency of a label at which the search for its weights begins.
_MIN_FREQUENCY = 1e-4
# The options of L-BFGS-B.
_SEARCH_OPTIONS = {"maxiter": 100, "ftol": 1e-6}
# The number of rows that are centered or whitened at a time.
_BLOCK_ROWS = 2**14
# The largest number of rows that choose the penalty, and of rows in one product of a loss.
_MAX_ROWS = 2**16


class LogisticModel(FlatModel):
    """A trained student with the probabilities `expit(inputs @ weights + bias)`; 0 for a label that no row had."""

    kind: ClassVar[str] = "logistic"
    array_axes: ClassVar[Mapping[str, str]] = {"weights": "dL", "bias": "L"}

    @staticmethod
    def formula(inputs: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """Returns the probabilities `[num_rows, num_labels]` of flat inputs, as `FlatModel.formula` describes."""
        return FlatModel.logistic(inputs @ arrays["weights"] + arrays["bias"])


@dataclass(frozen=True)
class LogisticStudent(ThresholdedStudent):
    """A recipe for a student that is a logistic regression; a fifth of the rows choose its penalty and threshold.

    Rule: L-BFGS minimizes the mean logistic loss plus `penalty / 2` times the squared weights. The weights are measured
    relative to the spread of the inputs. The search takes place in white coordinates, in which the inputs have variance
    1 in every direction, as it needs few steps there. Penalties are tried from the largest to the smallest until the
    held-out loss no longer falls. The best penalty is then fitted to all rows. By default the threshold, one number for
    all labels, maximizes the held-out micro-F1 (`ThresholdedStudent`). If there are more than 65,536 rows, a random
    65,536 of them take part in the choice.

    Edge case: with fewer than 10 rows, the model predicts the labels of more than half of the rows for every input.

    Attributes:
        penalties: the candidate penalties, each > 0.
        held_out: the share of the rows that choose the penalty and the threshold, in (0, 1).
    """

    penalties: tuple[float, ...] = field(default=_PENALTIES, metadata={"public": True})
    held_out: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        require_penalties(self.penalties)
        share = require_positive("held_out", self.held_out)
        require(share < 1, "held_out", self.held_out, "a number in (0, 1)")

    def fit(
        self, inputs: Float32Array, labels: BoolArray, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> FlatModel:
        """Fits the model by L-BFGS, and reports the held-out loss once; the seed draws the held-out rows."""
        return self.fit_known(TrainingSet(inputs, labels), seed=seed, on_epoch=on_epoch)

    def fit_known(
        self, training: TrainingSet, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> FlatModel:
        """Fits the model as `fit` does, by the loss on known labels alone."""
        inputs = training.inputs
        rows, labels = require_rows(inputs=inputs, labels=training.labels, seed=seed)
        known = training.known
        if len(rows) < _MIN_ROWS:
            # The model predicts the labels that more than half of the rows have.
            has_majority = 2 * labels.sum(axis=0) > len(rows)
            return LinearModel.constant(predicted=has_majority, inputs=inputs)
        order = np.random.default_rng(seed).permutation(len(rows))
        white_coordinates = WhiteCoordinates(rows)
        features = white_coordinates.features(rows, row_order=order)
        labels = labels[order]
        known = None if known is None else known[order]
        choice = self._choose(
            white_coordinates=white_coordinates,
            features=features[:_MAX_ROWS],
            labels=labels[:_MAX_ROWS],
            known=None if known is None else known[:_MAX_ROWS],
        )
        num_held_out = len(choice.probabilities)
        probabilities = choice.probabilities
        if known is not None:  # A label that is unknown counts as not predicted.
            probabilities = probabilities * known[:num_held_out]
        threshold = self._choose_threshold(probabilities, labels=labels[:num_held_out])
        weights = white_coordinates.fit(
            features,
            labels=labels,
            penalty=choice.penalty,
            initial_weights=choice.weights,
            known=known,
        )
        if on_epoch is not None:
            on_epoch(0, {"loss": choice.loss})
        input_weights = white_coordinates.directions @ weights[:-1]
        # The log-odds of a label that no row has are minus infinity.
        never_predicted = np.where(labels.any(axis=0), 0.0, -np.inf)
        bias = weights[-1] - white_coordinates.center @ input_weights + never_predicted
        return LogisticModel(
            arrays={"weights": input_weights.astype(np.float32), "bias": bias.astype(np.float32)},
            threshold=threshold,
            input_shape=np.shape(inputs)[1:],
            num_rows=len(rows),
            choices={"penalty": float(choice.penalty)},
        )

    def _choose(
        self,
        *,
        white_coordinates: WhiteCoordinates,
        features: Float32Array,
        labels: BoolArray,
        known: BoolArray | None,
    ) -> _Choice:
        """Returns the chosen penalty, and the model that was fitted with it to the rows that are not held out.

        Penalties are tried from the largest on, until the mean loss on held-out rows no longer falls.

        Args:
            white_coordinates: the white coordinates of all rows.
            features: the rows in white coordinates, with a constant, `[num_rows, r + 1]`; the held-out rows come first.
            labels: the labels of these rows, bool `[num_rows, num_labels]`.
            known: which of these labels are known, bool `[num_rows, num_labels]`; None where all are.
        """
        num_held_out = max(1, round(self.held_out * len(features)))
        held_features = features[:num_held_out]
        held_labels = labels[:num_held_out]
        frequency = _frequencies(labels, known=known)
        held_known = None if known is None else known[:num_held_out]
        other_known = None if known is None else known[num_held_out:]
        weights = np.zeros((features.shape[1], labels.shape[1]))
        weights[-1] = np.log(frequency / (1 - frequency))
        least_loss = math.inf
        for penalty in sorted(self.penalties, reverse=True):
            weights = white_coordinates.fit(
                features[num_held_out:],
                labels=labels[num_held_out:],
                penalty=penalty,
                initial_weights=weights,
                known=other_known,
            )
            scores = held_features @ weights.astype(np.float32)
            losses = np.logaddexp(0, scores) - scores * held_labels
            known_losses = losses if held_known is None else losses * held_known
            loss = float(known_losses.mean())
            if loss >= least_loss and math.isfinite(least_loss):
                break
            least_loss = loss
            probabilities = FlatModel.logistic(scores)
            choice = _Choice(
                penalty=penalty, weights=weights, probabilities=probabilities, loss=loss
            )
        return choice


def _frequencies(labels: BoolArray, *, known: BoolArray | None) -> FloatArray:
    """Returns the share of rows with each label among those for which it is known, `[num_labels]`.

    Shares of 0 and 1 are moved a little into (0, 1), so that their log-odds are finite.
    """
    shares = labels.mean(axis=0)
    if known is not None:
        shares = shares / np.maximum(known.mean(axis=0), 1 / len(known))
    return np.asarray(shares.clip(_MIN_FREQUENCY, 1 - _MIN_FREQUENCY))


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class _Choice:
    """A penalty that was chosen by the loss on held-out rows, and its model, which was fitted to the other rows.

    Attributes:
        penalty: the penalty.
        weights: the weights of the model in white coordinates, `[r + 1, num_labels]`.
        probabilities: the predictions for the held-out rows, `[num_held_out, num_labels]`.
        loss: the mean loss on the held-out rows.
    """

    penalty: float
    weights: FloatArray
    probabilities: Float32Array
    loss: float


class WhiteCoordinates:
    """Coordinates in which the rows have variance 1 in every direction, and a constant coordinate.

    n is the number of rows, d the number of features, and r the number of directions in which the rows vary.

    Attributes:
        center: the mean of the rows, `[d]`.
        directions: the matrix from centered rows to white coordinates, `[d, r]`.
        penalized: the factor of each squared weight in the penalty; 0 for the constant; `[r + 1, 1]`.
    """

    def __init__(self, rows: Float32Array) -> None:
        self.center = rows.mean(axis=0, dtype=np.float64)
        # X X^T and X^T X have the same eigenvalues > 0, so the smaller matrix is decomposed.
        is_wide = rows.shape[1] > len(rows)
        squares = self._row_products(rows) if is_wide else self._column_products(rows)
        variances, directions = np.linalg.eigh(squares / len(rows))
        tiny = np.finfo(np.float64).tiny
        has_variance = variances > _MIN_RELATIVE_VARIANCE * max(variances[-1], tiny)
        spread = variances[has_variance]
        directions = directions[:, has_variance]
        if is_wide:
            # If u is an eigenvector of X X^T, then X^T u / |X^T u| is one of X^T X.
            centered = rows - self.center
            directions = centered.T @ directions / np.sqrt(len(rows) * spread)
        self.directions = np.asarray(directions / np.sqrt(spread))
        self.penalized = np.append(spread.sum() / spread, 0.0)[:, None]

    def _row_products(self, rows: Float32Array) -> FloatArray:
        """Returns X X^T, `[n, n]`, where X has the rows minus `center`, `[n, d]`."""
        centered = rows - self.center
        return np.asarray(centered @ centered.T)

    def _column_products(self, rows: Float32Array) -> FloatArray:
        """Returns X^T X, `[d, d]`, where X has the rows minus `center`, `[n, d]`, which are processed in blocks."""

        def block_products(block: Float32Array) -> FloatArray:
            centered = block - self.center
            return np.asarray(centered.T @ centered)

        blocks = np.split(rows, range(_BLOCK_ROWS, len(rows), _BLOCK_ROWS))
        return np.asarray(sum(in_order(block_products, items=blocks)))

    def features(self, rows: Float32Array, *, row_order: NDArray[np.intp]) -> Float32Array:
        """Returns the white coordinates of rows and the constant 1, `[n, r + 1]`.

        There is never a second copy of all rows in memory.

        Args:
            rows: the rows, `[n, d]`.
            row_order: the order of the rows in the result, as indices `[n]`.
        """
        features = np.ones((len(rows), len(self.penalized)), np.float32)
        center = self.center.astype(np.float32)
        directions = self.directions.astype(np.float32)

        def fill(block: slice) -> None:
            features[block, :-1] = (rows[row_order[block]] - center) @ directions

        blocks = (slice(start, start + _BLOCK_ROWS) for start in range(0, len(rows), _BLOCK_ROWS))
        for _ in in_order(fill, items=blocks):
            pass
        return features

    def fit(
        self,
        features: Float32Array,
        *,
        labels: BoolArray,
        penalty: float,
        initial_weights: FloatArray,
        known: BoolArray | None = None,
    ) -> FloatArray:
        """Returns the weights with the least penalized logistic loss, `[r + 1, num_labels]`.

        Args:
            features: the rows in white coordinates, with the constant, `[n, r + 1]`.
            labels: the labels of the rows, bool `[n, num_labels]`.
            penalty: the factor of the penalty: penalty / 2 times `penalized` times the squared weights is added to the
                loss.
            initial_weights: the weights at which the search begins, `[r + 1, num_labels]`.
            known: which labels are known, bool `[n, num_labels]`; the mean loss of a label is over these rows. None
                where all are.
        """
        from scipy.optimize import minimize  # loads slowly

        penalties = penalty * self.penalized
        frequency = _frequencies(labels, known=known)
        # The weight of each row in the mean loss of each label; None for 1.
        row_weights = None
        if known is not None:
            shares = np.maximum(known.mean(axis=0), 1 / len(known))
            row_weights = np.where(known, 1 / shares, 0.0).astype(np.float32)
        # White inputs have the second moment 1, so the loss has about the curvature f (1 - f) + penalty in a label's
        # weights. In units of one over the root of the curvature all weights are alike, and the search takes a fifth of
        # the steps.
        units = 1 / np.sqrt(frequency * (1 - frequency) + penalties)
        bits = labels.astype(np.float32)

        def penalized_loss(flat_weights: FloatArray) -> tuple[float, FloatArray]:
            """Returns the penalized mean loss and its gradient, for flattened weights that are divided by `units`."""
            weights = flat_weights.reshape(units.shape) * units
            float32_weights = weights.astype(np.float32)

            def block_loss(first_row: int) -> tuple[float, Float32Array]:
                """Returns the loss and its gradient, summed over the block of rows that begins at index `first_row`."""
                block = slice(first_row, first_row + _MAX_ROWS)
                true_bits = bits[block]
                scores = features[block] @ float32_weights
                exponential = np.exp(-np.abs(scores))
                # log(1 + e^z) = max(z, 0) + log(1 + e^-|z|) does not overflow; its derivative is expit(z).
                losses = np.maximum(scores, 0) + np.log1p(exponential) - scores * true_bits
                slopes = np.where(scores >= 0, 1, exponential) / (1 + exponential) - true_bits
                if row_weights is not None:
                    losses = losses * row_weights[block]
                    slopes = slopes * row_weights[block]
                return float(losses.sum(dtype=np.float64)), np.asarray(features[block].T @ slopes)

            loss = 0.0
            gradient = np.zeros(weights.shape, np.float32)
            first_rows = range(0, len(bits), _MAX_ROWS)  # Working copies of a block are small.
            for loss_of_block, gradient_of_block in in_order(block_loss, items=first_rows):
                loss += loss_of_block
                gradient += gradient_of_block
            total = loss / len(bits) + (penalties * weights**2).sum() / 2
            total_gradient = gradient / len(bits) + penalties * weights
            return float(total), np.asarray(total_gradient * units, dtype=np.float64).ravel()

        first_point = (initial_weights / units).ravel()
        optimum = minimize(
            penalized_loss, x0=first_point, jac=True, method="L-BFGS-B", options=_SEARCH_OPTIONS
        )
        return np.asarray(optimum.x.reshape(initial_weights.shape) * units)

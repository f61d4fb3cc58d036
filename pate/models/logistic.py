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
    """A recipe for a student that is a logistic regression; held-out rows choose its penalty and threshold.

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
        held_out_share = require_positive("held_out", self.held_out)
        require(held_out_share < 1, "held_out", self.held_out, "a number in (0, 1)")

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
        input_rows, labels = require_rows(inputs=inputs, labels=training.labels, seed=seed)
        known_label_mask = training.known
        if len(input_rows) < _MIN_ROWS:
            # The model predicts the labels that more than half of the rows have.
            has_majority = 2 * labels.sum(axis=0) > len(input_rows)
            return LinearModel.constant(predicted_labels=has_majority, inputs=inputs)
        row_order = np.random.default_rng(seed).permutation(len(input_rows))
        whitening = WhiteCoordinates(input_rows)
        features = whitening.features(input_rows, row_order=row_order)
        labels = labels[row_order]
        known_label_mask = None if known_label_mask is None else known_label_mask[row_order]
        choice = self._choose(
            whitening=whitening,
            features=features[:_MAX_ROWS],
            labels=labels[:_MAX_ROWS],
            known_label_mask=None if known_label_mask is None else known_label_mask[:_MAX_ROWS],
        )
        num_held_out = len(choice.held_out_probabilities)
        held_out_probabilities = choice.held_out_probabilities
        if known_label_mask is not None:  # A label that is unknown counts as not predicted.
            held_out_probabilities = held_out_probabilities * known_label_mask[:num_held_out]
        threshold = self._choose_threshold(held_out_probabilities, labels=labels[:num_held_out])
        white_weights = whitening.fit_weights(
            features,
            labels=labels,
            penalty=choice.penalty,
            initial_weights=choice.white_weights,
            known_label_mask=known_label_mask,
        )
        if on_epoch is not None:
            on_epoch(0, {"loss": choice.held_out_loss})
        input_weights = whitening.directions @ white_weights[:-1]
        bias = white_weights[-1] - whitening.center @ input_weights
        # The log-odds of a label that no row has are minus infinity.
        bias[~labels.any(axis=0)] = -np.inf
        return LogisticModel(
            arrays={"weights": input_weights.astype(np.float32), "bias": bias.astype(np.float32)},
            threshold=threshold,
            input_shape=np.shape(inputs)[1:],
            num_rows=len(input_rows),
            choices={"penalty": float(choice.penalty)},
        )

    def _choose(
        self,
        *,
        whitening: WhiteCoordinates,
        features: Float32Array,
        labels: BoolArray,
        known_label_mask: BoolArray | None,
    ) -> _Choice:
        """Returns the chosen penalty, and the model that was fitted with it to the rows that are not held out.

        Penalties are tried from the largest on, until the mean loss on held-out rows no longer falls.

        Args:
            whitening: the white coordinates of all rows.
            features: the rows in white coordinates, with a constant, `[num_rows, r + 1]`; the held-out rows come first.
            labels: the labels of these rows, bool `[num_rows, num_labels]`.
            known_label_mask: which of these labels are known, bool `[num_rows, num_labels]`; None where all are.
        """
        num_held_out = max(1, round(self.held_out * len(features)))
        held_out_features = features[:num_held_out]
        held_out_labels = labels[:num_held_out]
        label_frequencies = _frequencies(labels, known_label_mask=known_label_mask)
        held_out_known_mask = None if known_label_mask is None else known_label_mask[:num_held_out]
        fitted_known_mask = None if known_label_mask is None else known_label_mask[num_held_out:]
        white_weights = np.zeros((features.shape[1], labels.shape[1]))
        white_weights[-1] = np.log(label_frequencies / (1 - label_frequencies))
        least_held_out_loss = math.inf
        for penalty in sorted(self.penalties, reverse=True):
            white_weights = whitening.fit_weights(
                features[num_held_out:],
                labels=labels[num_held_out:],
                penalty=penalty,
                initial_weights=white_weights,
                known_label_mask=fitted_known_mask,
            )
            held_out_scores = held_out_features @ white_weights.astype(np.float32)
            losses = np.logaddexp(0, held_out_scores) - held_out_scores * held_out_labels
            known_losses = losses if held_out_known_mask is None else losses * held_out_known_mask
            held_out_loss = float(known_losses.mean())
            if held_out_loss >= least_held_out_loss and math.isfinite(least_held_out_loss):
                break
            least_held_out_loss = held_out_loss
            held_out_probabilities = FlatModel.logistic(held_out_scores)
            choice = _Choice(
                penalty=penalty,
                white_weights=white_weights,
                held_out_probabilities=held_out_probabilities,
                held_out_loss=held_out_loss,
            )
        return choice


def _frequencies(labels: BoolArray, *, known_label_mask: BoolArray | None) -> FloatArray:
    """Returns the share of rows with each label among those for which it is known, `[num_labels]`.

    Shares of 0 and 1 are moved a little into (0, 1), so that their log-odds are finite.
    """
    label_shares = labels.mean(axis=0)
    if known_label_mask is not None:
        label_shares = label_shares / np.maximum(
            known_label_mask.mean(axis=0), 1 / len(known_label_mask)
        )
    return np.asarray(label_shares.clip(_MIN_FREQUENCY, 1 - _MIN_FREQUENCY))


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class _Choice:
    """A penalty that was chosen by the loss on held-out rows, and its model, which was fitted to the other rows.

    Attributes:
        penalty: the penalty.
        white_weights: the weights of the model in white coordinates, `[r + 1, num_labels]`.
        held_out_probabilities: the predictions for the held-out rows, `[num_held_out, num_labels]`.
        held_out_loss: the mean loss on the held-out rows.
    """

    penalty: float
    white_weights: FloatArray
    held_out_probabilities: Float32Array
    held_out_loss: float


class WhiteCoordinates:
    """Coordinates in which the rows have variance 1 in every direction, and a constant coordinate.

    n is the number of rows, d the number of features, and r the number of directions in which the rows vary.

    Attributes:
        center: the mean of the rows, `[d]`.
        directions: the matrix from centered rows to white coordinates, `[d, r]`.
        penalty_factors: the factor of each squared weight in the penalty; 0 for the constant; `[r + 1, 1]`.
    """

    def __init__(self, input_rows: Float32Array) -> None:
        self.center = input_rows.mean(axis=0, dtype=np.float64)
        # X X^T and X^T X have the same eigenvalues > 0, so the smaller matrix is decomposed.
        is_wide = input_rows.shape[1] > len(input_rows)
        gram_matrix = (
            self._row_products(input_rows) if is_wide else self._column_products(input_rows)
        )
        variances, directions = np.linalg.eigh(gram_matrix / len(input_rows))
        smallest_positive = np.finfo(np.float64).tiny
        largest_variance = max(variances[-1], smallest_positive)
        has_variance = variances > _MIN_RELATIVE_VARIANCE * largest_variance
        kept_variances = variances[has_variance]
        directions = directions[:, has_variance]
        if is_wide:
            # If u is an eigenvector of X X^T, then X^T u / |X^T u| is one of X^T X.
            centered_rows = input_rows - self.center
            directions = centered_rows.T @ directions / np.sqrt(len(input_rows) * kept_variances)
        self.directions = np.asarray(directions / np.sqrt(kept_variances))
        # The squared weights of the inputs sum to the squared white weights, each divided by its variance. The total
        # variance as a factor makes their penalty independent of the scale of the inputs.
        self.penalty_factors = np.append(kept_variances.sum() / kept_variances, 0.0)[:, None]

    def _row_products(self, input_rows: Float32Array) -> FloatArray:
        """Returns X X^T, `[n, n]`, where X has the rows minus `center`, `[n, d]`."""
        centered_rows = input_rows - self.center
        return np.asarray(centered_rows @ centered_rows.T)

    def _column_products(self, input_rows: Float32Array) -> FloatArray:
        """Returns X^T X, `[d, d]`, where X has the rows minus `center`, `[n, d]`, which are processed in blocks."""

        def compute_block_products(row_block: Float32Array) -> FloatArray:
            centered_rows = row_block - self.center
            return np.asarray(centered_rows.T @ centered_rows)

        row_blocks = np.split(input_rows, range(_BLOCK_ROWS, len(input_rows), _BLOCK_ROWS))
        return np.asarray(sum(in_order(compute_block_products, items=row_blocks)))

    def features(self, input_rows: Float32Array, *, row_order: NDArray[np.intp]) -> Float32Array:
        """Returns the white coordinates of rows and the constant 1, `[n, r + 1]`.

        There is never a second copy of all rows in memory.

        Args:
            input_rows: the rows, `[n, d]`.
            row_order: the order of the rows in the result, as indices `[n]`.
        """
        features = np.ones((len(input_rows), len(self.penalty_factors)), np.float32)
        center = self.center.astype(np.float32)
        directions = self.directions.astype(np.float32)

        def fill_features(row_slice: slice) -> None:
            features[row_slice, :-1] = (input_rows[row_order[row_slice]] - center) @ directions

        row_slices = (
            slice(start, start + _BLOCK_ROWS) for start in range(0, len(input_rows), _BLOCK_ROWS)
        )
        for _ in in_order(fill_features, items=row_slices):
            pass
        return features

    def fit_weights(
        self,
        features: Float32Array,
        *,
        labels: BoolArray,
        penalty: float,
        initial_weights: FloatArray,
        known_label_mask: BoolArray | None = None,
    ) -> FloatArray:
        """Returns the weights with the least penalized logistic loss, `[r + 1, num_labels]`.

        Args:
            features: the rows in white coordinates, with the constant, `[n, r + 1]`.
            labels: the labels of the rows, bool `[n, num_labels]`.
            penalty: the factor of the penalty: penalty / 2 times `penalty_factors` times the squared weights is added
                to the loss.
            initial_weights: the weights at which the search begins, `[r + 1, num_labels]`.
            known_label_mask: which labels are known, bool `[n, num_labels]`; the mean loss of a label is over these
                rows. None where all are.
        """
        from scipy.optimize import minimize  # loads slowly

        penalties = penalty * self.penalty_factors
        label_frequencies = _frequencies(labels, known_label_mask=known_label_mask)
        # The weight of each row in the mean loss of each label; None for 1.
        row_weights = None
        if known_label_mask is not None:
            known_shares = np.maximum(known_label_mask.mean(axis=0), 1 / len(known_label_mask))
            row_weights = np.where(known_label_mask, 1 / known_shares, 0.0).astype(np.float32)
        # White inputs have the second moment 1, so the loss has about the curvature f (1 - f) + penalty in a label's
        # weights. In units of one over the root of the curvature all weights are alike, and the search takes a fifth of
        # the steps.
        weight_scales = 1 / np.sqrt(label_frequencies * (1 - label_frequencies) + penalties)
        label_bits = labels.astype(np.float32)
        num_rows = len(label_bits)

        def compute_penalized_loss(flat_weights: FloatArray) -> tuple[float, FloatArray]:
            """Returns the penalized mean loss and its gradient, for flat weights divided by `weight_scales`."""
            weights = flat_weights.reshape(weight_scales.shape) * weight_scales
            float32_weights = weights.astype(np.float32)

            def compute_block_loss(first_row: int) -> tuple[float, Float32Array]:
                """Returns the loss and its gradient, summed over the block of rows that begins at index `first_row`."""
                row_slice = slice(first_row, first_row + _MAX_ROWS)
                block_label_bits = label_bits[row_slice]
                scores = features[row_slice] @ float32_weights
                exp_of_minus_abs = np.exp(-np.abs(scores))
                # log(1 + e^z) = max(z, 0) + log(1 + e^-|z|) does not overflow; its derivative is expit(z).
                losses = (
                    np.maximum(scores, 0) + np.log1p(exp_of_minus_abs) - scores * block_label_bits
                )
                loss_slopes = (
                    np.where(scores >= 0, 1, exp_of_minus_abs) / (1 + exp_of_minus_abs)
                    - block_label_bits
                )
                if row_weights is not None:
                    losses = losses * row_weights[row_slice]
                    loss_slopes = loss_slopes * row_weights[row_slice]
                block_gradient = np.asarray(features[row_slice].T @ loss_slopes)
                return float(losses.sum(dtype=np.float64)), block_gradient

            loss = 0.0
            gradient = np.zeros(weights.shape, np.float32)
            # Working copies of a block are small.
            first_rows = range(0, num_rows, _MAX_ROWS)
            for loss_of_block, gradient_of_block in in_order(compute_block_loss, items=first_rows):
                loss += loss_of_block
                gradient += gradient_of_block
            penalized_loss = loss / num_rows + (penalties * weights**2).sum() / 2
            penalized_gradient = gradient / num_rows + penalties * weights
            scaled_gradient = np.asarray(penalized_gradient * weight_scales, dtype=np.float64)
            return float(penalized_loss), scaled_gradient.ravel()

        initial_point = (initial_weights / weight_scales).ravel()
        optimum = minimize(
            compute_penalized_loss,
            x0=initial_point,
            jac=True,
            method="L-BFGS-B",
            options=_SEARCH_OPTIONS,
        )
        return np.asarray(optimum.x.reshape(initial_weights.shape) * weight_scales)

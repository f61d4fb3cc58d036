"""A public start from public rows with labels: a logistic model of the features of the votes.

A *start* is the weights at which the descent of a student of rounds begins (`pate.votes.public_start`). The model is
fitted with a Gaussian prior on its weights. The scale of the prior is chosen by cross-validation on the public rows
alone, so labels that are mostly noise make weights near 0. Labels may have gaps. No private record is read.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from pate.accounting.special import expit
from pate.array_types import BoolArray, FloatArray
from pate.votes.label_gaps import UNKNOWN, GapLabels
from pate.votes.public_start import PublicStart, StartSource
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.round_votes import RoundVotes

# The candidate scales of the prior, as factors of the variance that a descent without a start expects.
_SCALES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_FIRST_SCALE_INDEX = _SCALES.index(1.0)
_NUM_FOLDS = 4
# The largest number of rows by which the scale is chosen, so that the choice takes seconds.
_MAX_CROSS_VALIDATED_ROWS = 4000
# The settings of L-BFGS: its iterations, and the corrections that it keeps.
_OPTIONS = {"maxiter": 60, "maxcor": 20}
# The precision of the prior of a label's constant in standard errors: nearly flat, but proper, as a label may have no
# row.
_CONSTANT_PRECISION = 1e-4
# The least mean square of a feature, in place of the 0 of a feature that no row has.
_MIN_MEAN_SQUARE = 1e-12
# The number of directions is the root of this number times the number of rows. With 16, the 1,000 labeled rows of the
# example in docs/how-to/labels-of-public-rows.md teach as much at epsilon 0.05 as alone.
_SQUARED_DIRECTIONS_PER_ROW = 16


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class LabeledRows(StartSource):
    """The labels of the first rows of the public pool.

    Attributes:
        labels: `[num_labeled, num_labels]`, of the first rows of the pool, public; bool, or int8 if they have gaps
            (`pate.votes.label_gaps`).
        recipe: the tuned constants of the release.
    """

    labels: GapLabels
    recipe: Recipe = DEFAULT_RECIPE

    @property
    def identity(self) -> str:
        """The digest of the labels, as text."""
        header = f"{self.labels.dtype.str} {self.labels.shape}"
        label_bytes = np.ascontiguousarray(self.labels).tobytes()
        return f"labels {hashlib.sha256(header.encode() + label_bytes).hexdigest()}"

    @property
    def least_directions(self) -> int:
        """The number of directions that the labels need: four times the root of the number of labeled rows.

        With few private records or a small epsilon, a release without these labels would use fewer directions. Along
        so few the public labels would teach too little.
        """
        return math.isqrt(_SQUARED_DIRECTIONS_PER_ROW * len(self.labels))

    def public_start(self, votes: RoundVotes) -> PublicStart:
        """Returns the logistic model of the labeled rows as a start, with the variance of each of its weights.

        The prior variance of the weights is the expected one times a scale that cross-validation chooses. The variance
        of a weight is the posterior one by Laplace's approximation. For a scale below 1, (1 - scale) times the expected
        variance is added: public labels that hardly depend on the inputs are no sign that private labels hardly do.

        Args:
            votes: the votes, of which the features of public rows are read. If the pool in the votes has fewer rows
                than have labels, the labels of the missing rows are not used.
        """
        features = votes.public_features[: len(self.labels), :-1].astype(np.float64)
        labeled_features = LabeledFeatures.from_labels(
            self.labels[: len(features)], features=features
        )
        # As in `Descent`: log-odds have a variance along a direction in proportion to the root of its variance.
        signal_variances = np.sqrt(votes.feature_variances)
        signal_variances *= self.recipe.signal_variance / signal_variances.sum()
        public_mean_squares = np.square(votes.public_features[:, :-1]).mean(
            axis=0, dtype=np.float64
        )
        expected_variances = signal_variances / public_mean_squares.clip(_MIN_MEAN_SQUARE)
        prior_scale = labeled_features.choose_scale(expected_variances)
        fit = labeled_features.fit(prior_scale * expected_variances)
        missing_share = max(0.0, 1 - prior_scale)
        posterior_variances = (
            fit.posterior_variances() + missing_share * expected_variances[:, None]
        )
        return PublicStart(weights=fit.weights, variances=posterior_variances)


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class LogisticFit:
    """A logistic model with a Gaussian prior on its weights, fitted to labeled rows.

    Attributes:
        labeled_features: the labeled rows.
        prior_variances: `[num_features]`, the variance of the prior of each weight.
        weights: `[num_features, num_labels]`.
        constants: `[num_labels]`.
    """

    labeled_features: LabeledFeatures
    prior_variances: FloatArray
    weights: FloatArray
    constants: FloatArray

    def posterior_variances(self) -> FloatArray:
        """Returns the posterior variance of each weight by Laplace's approximation, `[num_features, num_labels]`.

        In place of p (1 - p) of each row, its mean over all rows is used, with 0 where the label is unknown. So one
        decomposition of the features serves all labels.
        Source: Bishop 2006, section 4.5.1, but for that mean.
        """
        labeled_features = self.labeled_features
        probabilities = expit(labeled_features.features @ self.weights + self.constants)
        curvature = (probabilities * (1 - probabilities) * labeled_features.known_label_mask).sum(
            axis=0
        ) / len(labeled_features.known_label_mask)
        prior_std = np.sqrt(self.prior_variances)
        scaled_features = labeled_features.features * prior_std
        eigenvalues, eigenvectors = np.linalg.eigh(scaled_features.T @ scaled_features)
        # The posterior variance along each eigenvector as a share of the prior one, [num_features, num_labels].
        remaining_variance_shares = 1 / (1 + np.outer(eigenvalues.clip(0), curvature))
        return np.asarray(
            (eigenvectors**2 @ remaining_variance_shares) * self.prior_variances[:, None]
        )


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class LabeledFeatures:
    """The features and the labels of public rows.

    Attributes:
        features: `[n, num_features]`, without the constant.
        labels: float64 `[n, num_labels]`, 0 where they are unknown.
        known_label_mask: float64 `[n, num_labels]`, 1 where a label is known and 0 elsewhere.
    """

    features: FloatArray
    labels: FloatArray
    known_label_mask: FloatArray

    @classmethod
    def from_labels(cls, labels: GapLabels, *, features: FloatArray) -> LabeledFeatures:
        """Returns public rows with these features, and with labels that may have gaps.

        Args:
            labels: `[n, num_labels]`, bool, or int8 if they have gaps.
            features: `[n, num_features]`.
        """
        has_gaps = labels.dtype != np.bool_
        known_label_mask = labels != UNKNOWN if has_gaps else np.ones(labels.shape, np.bool_)
        return cls(
            features=features,
            labels=(labels * known_label_mask).astype(np.float64),
            known_label_mask=known_label_mask.astype(np.float64),
        )

    def choose_scale(self, expected_variances: FloatArray) -> float:
        """Returns a factor of the prior variances at which the cross-validated log-loss of known labels has a minimum.

        The factor is one of a fixed list. The search begins at 1, and goes on in the direction in which the loss falls
        as long as it falls, so the minimum may be a local one. Only the first 4,000 rows are read.

        Args:
            expected_variances: `[num_features]`, the variance of the prior of each weight that has the factor 1.
        """
        labeled_features = self.select(np.arange(len(self.labels)) < _MAX_CROSS_VALIDATED_ROWS)

        # The search compares each scale with its neighbors, and a loss takes a cross-validation.
        @cache
        def loss_at(scale_index: int) -> float:
            return labeled_features._cross_validated_loss(_SCALES[scale_index] * expected_variances)

        best_index = _FIRST_SCALE_INDEX
        for step in (-1, 1):
            next_index = best_index + step
            while 0 <= next_index < len(_SCALES) and loss_at(next_index) < loss_at(best_index):
                best_index = next_index
                next_index += step
        return _SCALES[best_index]

    def fit(self, prior_variances: FloatArray) -> LogisticFit:
        """Returns the logistic model with the largest posterior density, as near as L-BFGS comes in 60 iterations.

        Args:
            prior_variances: `[num_features]`, the variance of the Gaussian prior of each weight.
        """
        from scipy.optimize import minimize  # loads slowly

        num_features = self.features.shape[1]
        num_rows_with_label = self.labels.sum(axis=0)
        prior_log_odds = self._prior_log_odds
        scaled_features = self.features * np.sqrt(prior_variances)
        # Approximately the standard error of a constant, the unit in which the constant is fitted.
        constant_std_errors = np.maximum(num_rows_with_label, 1) ** -0.5

        def loss_and_gradient(flat_parameters: FloatArray) -> tuple[float, FloatArray]:
            parameter_matrix = flat_parameters.reshape(num_features + 1, -1)
            weights = parameter_matrix[:-1]
            constants = parameter_matrix[-1]
            logits = scaled_features @ weights + prior_log_odds + constants * constant_std_errors
            residuals = (expit(logits) - self.labels) * self.known_label_mask
            total_loss = (
                (np.logaddexp(0, logits) - self.labels * logits) * self.known_label_mask
            ).sum()
            total_loss += ((weights**2).sum() + _CONSTANT_PRECISION * (constants**2).sum()) / 2
            gradient = np.empty_like(parameter_matrix)
            gradient[:-1] = scaled_features.T @ residuals + weights
            gradient[-1] = (
                residuals.sum(axis=0) * constant_std_errors + _CONSTANT_PRECISION * constants
            )
            return float(total_loss), gradient.ravel()

        initial_parameters = np.zeros((num_features + 1) * self.labels.shape[1])
        optimum = minimize(
            loss_and_gradient, x0=initial_parameters, jac=True, method="L-BFGS-B", options=_OPTIONS
        )
        parameter_matrix = optimum.x.reshape(num_features + 1, -1)
        return LogisticFit(
            labeled_features=self,
            prior_variances=prior_variances,
            weights=parameter_matrix[:-1] * np.sqrt(prior_variances)[:, None],
            constants=prior_log_odds + parameter_matrix[-1] * constant_std_errors,
        )

    def select(self, is_chosen: BoolArray) -> LabeledFeatures:
        """Returns the chosen rows, with their features and labels.

        Args:
            is_chosen: bool `[n]`, which rows to keep.
        """
        return LabeledFeatures(
            features=self.features[is_chosen],
            labels=self.labels[is_chosen],
            known_label_mask=self.known_label_mask[is_chosen],
        )

    def _cross_validated_loss(self, prior_variances: FloatArray) -> float:
        """Returns the sum of the log-losses of all known labels, by cross-validation.

        Rows are dealt to folds in turn. The labels of a fold are predicted by a model fitted to the other folds.

        Args:
            prior_variances: `[num_features]`, the variance of the Gaussian prior of each weight.
        """
        num_rows = len(self.labels)
        fold_of_row = np.arange(num_rows) % _NUM_FOLDS
        total_loss = 0.0
        for fold in range(min(_NUM_FOLDS, num_rows)):
            fit = self.select(fold_of_row != fold).fit(prior_variances)
            held_out = self.select(fold_of_row == fold)
            logits = held_out.features @ fit.weights + fit.constants
            log_losses = np.logaddexp(0, logits) - held_out.labels * logits
            total_loss += float((log_losses * held_out.known_label_mask).sum())
        return total_loss

    @cached_property
    def _prior_log_odds(self) -> FloatArray:
        """The log-odds of each label among the rows for which it is known, `[num_labels]`.

        Half a row with the label and half a row without it are added, so that no log-odds are infinite.
        """
        num_rows_with_label = self.labels.sum(axis=0)
        num_known_without_label = self.known_label_mask.sum(axis=0) - num_rows_with_label
        return np.asarray(np.log((num_rows_with_label + 0.5) / (num_known_without_label + 0.5)))

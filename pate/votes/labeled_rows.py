"""Public rows with labels, as the start of a descent: a logistic model of the features of the votes.

The model is fitted with a Gaussian prior on its weights. The scale of the prior is chosen by cross-validation on the
public rows alone, so labels that are mostly noise make weights near 0. Labels may have gaps. No private record is read.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pate.accounting.special import expit
from pate.array_types import BoolArray, FloatArray
from pate.votes.label_gaps import UNKNOWN, GapLabels
from pate.votes.public_start import PublicStart, StartSource
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.round_votes import RoundVotes

# Scales of the prior, times the variance that a descent without a start expects.
_SCALES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_FIRST_SCALE = _SCALES.index(1.0)
_FOLDS = 4
_CROSS_VALIDATED_ROWS = 4000  # of which the scale is chosen
_ITERATIONS = 60
_CORRECTIONS = 20  # that L-BFGS keeps
_CONSTANT_PRECISION = 1e-4  # of the prior of a label's constant
_LEAST_SQUARE = 1e-12  # mean square of a feature that no row has
_SQUARE_PER_ROW = 16  # of the least number of directions


@dataclass(frozen=True, eq=False)
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
        content = np.ascontiguousarray(self.labels).tobytes()
        return f"labels {hashlib.sha256(header.encode() + content).hexdigest()}"

    @property
    def least_directions(self) -> int:
        """The number of directions that the labels need: four times the root of the number of labeled rows.

        Few private records or a small epsilon afford fewer, along which labels would teach too little.
        """
        return math.isqrt(_SQUARE_PER_ROW * len(self.labels))

    def public_start(self, votes: RoundVotes) -> PublicStart:
        """Returns the logistic model of the labeled rows, and the variance of each of its weights.

        The variance is that of Laplace's approximation. Where the scale of the prior is below 1, the missing part of
        the prior is added: public labels that say little are no sign that private labels do.

        Args:
            votes: the votes; rows of the pool that they hold no features of are left out.
        """
        features = votes.public[: len(self.labels), :-1].astype(np.float64)
        rows = LabeledFeatures.of(features, labels=self.labels[: len(features)])
        signal = np.sqrt(votes.variances)
        signal *= self.recipe.signal_variance / signal.sum()
        mean_squares = np.square(votes.public[:, :-1]).mean(axis=0, dtype=np.float64)
        expected = signal / mean_squares.clip(_LEAST_SQUARE)
        scale = rows.best_scale(expected)
        fit = rows.fit(scale * expected)
        variances = fit.posterior_variances() + max(0.0, 1 - scale) * expected[:, None]
        return PublicStart(weights=fit.weights, variances=variances)


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """A logistic model with a Gaussian prior on its weights, fitted to labeled rows.

    Attributes:
        rows: the labeled rows.
        prior_variances: `[num_features]`, the variance of the prior of each weight.
        weights: `[num_features, num_labels]`.
        constants: `[num_labels]`.
    """

    rows: LabeledFeatures
    prior_variances: FloatArray
    weights: FloatArray
    constants: FloatArray

    def posterior_variances(self) -> FloatArray:
        """Returns the posterior variance of each weight by Laplace's approximation, `[num_features, num_labels]`.

        All rows of a label count with the label's mean curvature, so one decomposition serves all labels.
        """
        rows = self.rows
        probabilities = expit(rows.features @ self.weights + self.constants)
        curvature = (probabilities * (1 - probabilities) * rows.known).sum(axis=0) / len(rows.known)
        std = np.sqrt(self.prior_variances)
        scaled = rows.features * std
        eigenvalues, vectors = np.linalg.eigh(scaled.T @ scaled)
        left = 1 / (1 + np.outer(eigenvalues.clip(0), curvature))  # [K, L], of the prior
        return np.asarray((vectors**2 @ left) * self.prior_variances[:, None])


@dataclass(frozen=True, eq=False)
class LabeledFeatures:
    """The features and the labels of public rows.

    Attributes:
        features: `[n, num_features]`, without the constant.
        labels: float64 `[n, num_labels]`, 0 where they are unknown.
        known: float64 `[n, num_labels]`, 1 where a label is known and 0 elsewhere.
    """

    features: FloatArray
    labels: FloatArray
    known: FloatArray

    @classmethod
    def of(cls, features: FloatArray, labels: GapLabels) -> LabeledFeatures:
        """Returns the rows of features and of labels that may have gaps.

        Args:
            features: `[n, num_features]`.
            labels: `[n, num_labels]`, bool, or int8 if they have gaps.
        """
        is_known = (
            np.ones(labels.shape, np.bool_) if labels.dtype == np.bool_ else labels != UNKNOWN
        )
        return cls(
            features=features,
            labels=(labels * is_known).astype(np.float64),
            known=is_known.astype(np.float64),
        )

    def best_scale(self, expected_variances: FloatArray) -> float:
        """Returns the scale of the prior with the least cross-validated log-loss of known labels.

        The search begins at 1 and goes on in the direction in which the loss falls.

        Args:
            expected_variances: `[num_features]`, the variance of the prior of each weight at scale 1.
        """
        rows = self.part(np.arange(len(self.labels)) < _CROSS_VALIDATED_ROWS)
        losses: dict[int, float] = {}

        def loss(place: int) -> float:
            if place not in losses:
                losses[place] = rows._cross_validated(_SCALES[place] * expected_variances)
            return losses[place]

        best = _FIRST_SCALE
        for step in (-1, 1):
            while 0 <= best + step < len(_SCALES) and loss(best + step) < loss(best):
                best += step
        return _SCALES[best]

    def fit(self, prior_variances: FloatArray) -> LogisticFit:
        """Returns the logistic model with the largest posterior density, to the precision of a few dozen iterations.

        Args:
            prior_variances: `[num_features]`, the variance of the Gaussian prior of each weight.
        """
        from scipy.optimize import minimize  # loads slowly

        num_features = self.features.shape[1]
        num_present = self.labels.sum(axis=0)
        usual = self._usual_log_odds
        scaled = self.features * np.sqrt(prior_variances)
        constant_scale = np.maximum(num_present, 1) ** -0.5  # near its standard error

        def loss(flat: FloatArray) -> tuple[float, FloatArray]:
            parameters = flat.reshape(num_features + 1, -1)
            weights = parameters[:-1]
            constants = parameters[-1]
            logits = scaled @ weights + usual + constants * constant_scale
            residuals = (expit(logits) - self.labels) * self.known
            total = ((np.logaddexp(0, logits) - self.labels * logits) * self.known).sum()
            total += ((weights**2).sum() + _CONSTANT_PRECISION * (constants**2).sum()) / 2
            gradient = np.empty_like(parameters)
            gradient[:-1] = scaled.T @ residuals + weights
            gradient[-1] = residuals.sum(axis=0) * constant_scale + _CONSTANT_PRECISION * constants
            return float(total), gradient.ravel()

        start = np.zeros((num_features + 1) * self.labels.shape[1])
        options = {"maxiter": _ITERATIONS, "maxcor": _CORRECTIONS}
        found = minimize(loss, x0=start, jac=True, method="L-BFGS-B", options=options)
        parameters = found.x.reshape(num_features + 1, -1)
        return LogisticFit(
            rows=self,
            prior_variances=prior_variances,
            weights=parameters[:-1] * np.sqrt(prior_variances)[:, None],
            constants=usual + parameters[-1] * constant_scale,
        )

    def part(self, is_chosen: BoolArray) -> LabeledFeatures:
        """Returns the chosen rows.

        Args:
            is_chosen: `[n]`.
        """
        return LabeledFeatures(
            features=self.features[is_chosen],
            labels=self.labels[is_chosen],
            known=self.known[is_chosen],
        )

    def _cross_validated(self, prior_variances: FloatArray) -> float:
        """Returns the sum of the log-losses of all known labels, each by a model of the other folds."""
        folds = np.arange(len(self.labels)) % _FOLDS
        total = 0.0
        for number in range(min(_FOLDS, len(self.labels))):
            fit = self.part(folds != number).fit(prior_variances)
            held_out = self.part(folds == number)
            logits = held_out.features @ fit.weights + fit.constants
            losses = np.logaddexp(0, logits) - held_out.labels * logits
            total += float((losses * held_out.known).sum())
        return total

    @cached_property
    def _usual_log_odds(self) -> FloatArray:
        """The log-odds of each label among the rows that know it, `[num_labels]`, with half a row of each kind more."""
        num_present = self.labels.sum(axis=0)
        num_absent = self.known.sum(axis=0) - num_present
        return np.asarray(np.log((num_present + 0.5) / (num_absent + 0.5)))

"""DP-LS: least squares by noisy sufficient statistics, which are X'Y and X'X for features X and labels Y."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from pate.array_types import FloatArray
from pate.comparison.alternatives.alternative import TrainingData
from pate.comparison.alternatives.covariance_method import CovarianceMethod
from pate.comparison.alternatives.noisy_model import NoisyModel

# Predicted probabilities are clipped to [_MIN_PROBABILITY, 1 - _MIN_PROBABILITY], so that log-odds are finite.
_MIN_PROBABILITY = 1e-3


@dataclass(frozen=True, kw_only=True)
class DpLeastSquares(CovarianceMethod):
    """Least squares by noisy sufficient statistics: one noisy X'Y, and a covariance X'X.

    Rule: the labels Y are centered by their noisy prevalence, and `Schedule.best` chooses the features X, each of
    length 1. A group contributes its mean of x y', clipped, for the features x and centered labels y of a record. The
    sum is released with noise once. X'X is that of the public pool, or noisy. The ridge along an axis of X'X follows
    from the known noise (`SignalPosterior`). Predicted probabilities are linear in the features. The threshold of
    predictions has the best expected micro-F1 on the public pool.

    Formal guarantees:
        * If one group is replaced, the sum of x y' moves by at most two clips, and a sum of products x x' by sqrt(2).
          Both together with the prevalence cost one Gaussian event.

    Source: Mehta, Krichene, Thakurta, Kurakin & Cutkosky 2023, Vu & Slavkovic 2009 for noisy sufficient statistics;
    docs/proofs/alternatives.md.
    """

    def train_model(
        self, noise_multiplier: float, training_data: TrainingData, *, seed: int
    ) -> NoisyModel:
        """Returns the linear model of least squares, from the noisy prevalence, a covariance and one noisy sum.

        A group adds to the sum its mean of x (y - prevalence)', clipped, for features x and labels y. All releases
        together cost one Gaussian event of `noise_multiplier`.
        """
        state = self.start_training(noise_multiplier, training_data, seed=seed)
        prevalence = state.released_shares.prevalence
        bias = scipy.special.logit(prevalence)
        curvature_of_labels = prevalence * (1 - prevalence)
        # With weights of 0 a gradient is the mean of x (y - prevalence)'.
        weight_posterior = state.observe_gradient(
            weight_posterior=state.weight_prior,
            bias=bias,
            model_weights=np.zeros((len(state.feature_axes.variances), len(bias))),
            curvature_of_labels=curvature_of_labels,
            num_steps=1,
        )
        # The posterior is of weights of log-odds. Times the curvature they are weights of probabilities.
        model_weights = state.feature_axes.axes @ weight_posterior.mean * curvature_of_labels

        def compute_log_odds(inputs_to_predict: Any) -> FloatArray:
            """Returns the log-odds of each label for n inputs, `[n, L]`."""
            features = training_data.public_feature_map.features(
                inputs_to_predict, ridge=state.ridge
            )
            probabilities = prevalence + features @ model_weights
            return np.asarray(
                scipy.special.logit(probabilities.clip(_MIN_PROBABILITY, 1 - _MIN_PROBABILITY))
            )

        return NoisyModel(
            compute_log_odds=compute_log_odds,
            bias=bias,
            log_odds_noise_variance=np.zeros(len(bias)),
            inputs_for_threshold=training_data.public_inputs,
        )

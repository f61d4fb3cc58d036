"""DP-FC: noisy gradients of logistic regression, scaled by the inverse covariance of the features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from pate.array_types import FloatArray
from pate.comparison.alternatives.alternative import TrainingData
from pate.comparison.alternatives.covariance_method import CovarianceMethod
from pate.comparison.alternatives.noisy_model import NoisyModel
from pate.validation import require_count


@dataclass(frozen=True, kw_only=True)
class DpFeatureCovariance(CovarianceMethod):
    """Logistic regression by a few noisy gradients, each scaled by the inverse covariance of the features.

    Rule: the noisy prevalence of the labels becomes the bias, and `Schedule.best` chooses the features. In each step
    the clipped gradients of all groups are summed with noise. Along a principal axis of the covariance, a gradient
    measures the distance of a weight from its best value, with noise of known variance. The weights are the posterior
    mean given all gradients so far (`SignalPosterior`), so learning rate and ridge follow from the noise. Clip and
    curvature follow the model on the public pool. The threshold of predictions has the best expected micro-F1 on the
    public pool.

    Formal guarantees:
        * If one group is replaced, each sum of gradients moves by at most two clips, and a sum of products x x^T by
          sqrt(2). All releases together cost one Gaussian event. A step depends on the data only through earlier
          releases.

    Attributes:
        num_steps: the number of gradients.

    Source: Mehta, Krichene, Thakurta, Kurakin & Cutkosky 2023; docs/proofs/alternatives.md.
    """

    num_steps: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("num_steps", self.num_steps)

    def train_model(
        self, noise_multiplier: float, training_data: TrainingData, *, seed: int
    ) -> NoisyModel:
        """Returns a linear model that learns from `num_steps` noisy sums of the gradients of all groups.

        Its weights are their posterior mean given all sums. The prevalence is released before, and so is the covariance
        unless that of the public pool is taken. All releases together cost one Gaussian event of `noise_multiplier`.
        """
        state = self.start_training(noise_multiplier, training_data, seed=seed)
        weight_posterior = state.weight_prior
        bias = scipy.special.logit(state.released_shares.prevalence)
        model_weights = np.zeros((len(state.feature_axes.variances), len(bias)))
        for _ in range(self.num_steps):
            probabilities = scipy.special.expit(state.public_features @ model_weights + bias)
            weight_posterior = state.observe_gradient(
                weight_posterior,
                bias=bias,
                model_weights=model_weights,
                curvature_of_labels=(probabilities * (1 - probabilities)).mean(axis=0),
                num_steps=self.num_steps,
            )
            model_weights = state.feature_axes.axes @ weight_posterior.mean

        def compute_log_odds(inputs_to_predict: Any) -> FloatArray:
            """Returns the log-odds of each label for n inputs, `[n, L]`."""
            features = training_data.public_feature_map.features(
                inputs_to_predict, ridge=state.ridge
            )
            return np.asarray(features @ model_weights + bias)

        return NoisyModel(
            compute_log_odds=compute_log_odds,
            bias=bias,
            log_odds_noise_variance=state.feature_axes.variances @ weight_posterior.variances,
            inputs_for_threshold=training_data.public_inputs,
        )

"""A model that was trained with noise, whose predicted probabilities are corrected for the noise in the weights."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.comparison.alternatives.group_gradients import ROWS_AT_ONCE
from pate.votes.f1_threshold import expected_f1_threshold


@dataclass(frozen=True, eq=False)
class NoisyModel:
    """A model whose log-odds are moved towards the prevalence of each label: the larger their noise, the farther.

    A label is predicted if its probability is at least a threshold. The threshold is the same for all labels and has
    the best expected micro-F1 on the public pool.

    Attributes:
        compute_log_odds: returns the log-odds of each label, `[n, L]`, for inputs `[n, …]`.
        bias: the log-odds of the prevalence of each label, `[L]`.
        log_odds_noise_variance: the variance of the noise in the log-odds of each label, `[L]`.
        inputs_for_threshold: the inputs of the public pool, on which the threshold is best, `[m, …]`.
    """

    compute_log_odds: Callable[[Any], FloatArray]
    bias: FloatArray
    log_odds_noise_variance: FloatArray
    inputs_for_threshold: Float32Array

    def predict(self, inputs: Any) -> BoolArray:
        """Returns the predicted labels, bool `[n, L]`."""
        return np.asarray(self.predict_proba(inputs) >= self.threshold)

    @cached_property
    def threshold(self) -> float:
        """The threshold of probabilities with the largest expected micro-F1 on the public pool."""
        return expected_f1_threshold(self.predict_proba(self.inputs_for_threshold))

    def predict_proba(self, inputs: Any) -> FloatArray:
        """Returns the probability of each label, `[n, L]`, moved towards the label's prevalence to correct for noise.

        The distance of the log-odds from `bias` is divided by sqrt(1 + pi s^2 / 8), where s^2 is
        `log_odds_noise_variance`. If the variance is 0, the log-odds stay as they are.
        """
        log_odds_blocks = [
            self.compute_log_odds(inputs[first_row : first_row + ROWS_AT_ONCE])
            for first_row in range(0, len(inputs), ROWS_AT_ONCE)
        ]
        # The mean of sigmoid(x + z) over z of variance s^2 is about sigmoid(x / sqrt(1 + pi s^2 / 8)) (MacKay 1992).
        shrinkage = 1 / np.sqrt(1 + math.pi / 8 * self.log_odds_noise_variance)
        corrected_log_odds = self.bias + (np.concatenate(log_odds_blocks) - self.bias) * shrinkage
        return np.asarray(scipy.special.expit(corrected_log_odds))

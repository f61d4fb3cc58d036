"""A model that was trained with noise: its log-odds, shrunk by the noise, and its threshold."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.comparison.alternatives.group_gradients import ROWS_AT_ONCE, Array
from pate.votes.descent import expected_f1_threshold


@dataclass(frozen=True, eq=False)
class NoisyModel:
    """A model whose log-odds lie around the prevalence of each label, shrunk by their noise.

    A label is predicted from a threshold of the probability on, the same for all labels: that of the best expected
    micro-F1 on the public pool.
    """

    log_odds: Callable[[Any], Array]  # returns `[m, L]` for inputs `[m, …]`
    bias: Array  # log-odds of the prevalence, `[L]`
    noise_variance: Array  # of the log-odds, `[L]`
    public_inputs: NDArray[np.float32]

    @cached_property
    def threshold(self) -> float:
        """The threshold of probabilities that is expected to have the largest F1."""
        return expected_f1_threshold(self.predict_proba(self.public_inputs))

    def predict_proba(self, inputs: Any) -> Array:
        """Predicts probabilities `[n, L]`, shrunk by the noise of the weights."""
        # The mean of sigmoid(x + z) over z of variance s^2 is about sigmoid(x / sqrt(1 + pi s^2 / 8)) (MacKay 1992).
        shrunk = 1 / np.sqrt(1 + math.pi / 8 * self.noise_variance)
        blocks = [
            self.log_odds(inputs[first : first + ROWS_AT_ONCE])
            for first in range(0, len(inputs), ROWS_AT_ONCE)
        ]
        return np.asarray(
            scipy.special.expit(self.bias + (np.concatenate(blocks) - self.bias) * shrunk)
        )

    def predict(self, inputs: Any) -> NDArray[np.bool_]:
        """Predicts labels, bool `[n, L]`."""
        return np.asarray(self.predict_proba(inputs) >= self.threshold)

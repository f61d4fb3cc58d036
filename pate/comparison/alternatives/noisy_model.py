"""What the alternatives give: probabilities that know their noise, and one threshold from unlabeled public samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]

_PROBIT = math.pi / 8
_LEAST, _MOST = 1e-3, 0.999
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class NoisyModel:
    """Log-odds around each label's prevalence, shrunk by their noise (MacKay 1992), and a threshold for all labels.

    Attributes:
        log_odds: of inputs `[m, …]`, `[m, L]`.
        bias: log-odds of the prevalence, `[L]`.
        noise_variance: of the log-odds, `[L]`.
        threshold: probability from which a label is predicted.
    """

    log_odds: Callable[[Any], Array]
    bias: Array
    noise_variance: Array
    threshold: float = 0.5

    def predict_proba(self, inputs: Any) -> Array:
        """The probability of each label, `[m, L]`."""
        shrunk = 1 / np.sqrt(1 + _PROBIT * self.noise_variance)
        blocks = [self.log_odds(inputs[first : first + _BLOCK]) for first in range(0, len(inputs), _BLOCK)]
        return np.asarray(scipy.special.expit(self.bias + (np.concatenate(blocks) - self.bias) * shrunk))

    def predict(self, inputs: Any) -> NDArray[np.bool_]:
        """The labels, `[m, L]`."""
        return np.asarray(self.predict_proba(inputs) >= self.threshold)


def expected_f1_threshold(probabilities: Array) -> float:
    """The threshold of the best micro-F1 to be expected, if the probabilities `[m, L]` are right: no labels needed."""
    falling = np.sort(probabilities, axis=None)[::-1]
    hits = np.cumsum(falling)
    expected = 2 * hits / (np.arange(1, len(falling) + 1) + hits[-1])
    return float(np.clip(falling[int(np.argmax(expected))], _LEAST, _MOST))

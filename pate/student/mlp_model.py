"""What a student with one hidden layer becomes: a few matrices, which need no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.student.model import StudentModel

_NAMES = ("hidden_weights", "hidden_bias", "weights", "bias")


class MLPModel(StudentModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    kind = "mlp"
    forms: ClassVar[Mapping[str, str]] = {
        "hidden_weights": "mdh",
        "hidden_bias": "m1h",
        "weights": "mhL",
        "bias": "m1L",
        "released": "L",
    }

    def _probabilities(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        hidden_weights, hidden_bias, weights, bias = (self.arrays[name] for name in _NAMES)
        total = np.zeros((len(rows), bias.shape[-1]), np.float32)
        for member in range(len(weights)):
            units = np.maximum(rows @ hidden_weights[member] + hidden_bias[member], 0)
            total += 0.5 + 0.5 * np.tanh((units @ weights[member] + bias[member]) / 2)
        return total / np.float32(len(weights)) * self.arrays["released"]

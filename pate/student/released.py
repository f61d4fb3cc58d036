"""A student that was released as it is: logits on public features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from pate.student.model import StudentModel
from pate.votes.expected_f1 import expected_f1_threshold
from pate.votes.public_pca import PublicPCA

Array = NDArray[np.float64]


class ReleasedModel(StudentModel):
    """Calibrated probabilities: the logistic function of linear scores on features of one length.

    Where there is a weight more than directions, features have a height (`PublicPCA.with_constant`).
    """

    kind = "released"
    forms: ClassVar[Mapping[str, str]] = {"center": "d", "projection": "dk", "weights": "wL", "bias": "L"}

    @classmethod
    def of(cls, weights: Array, public_inputs: NDArray[np.float32], num_rows: int) -> ReleasedModel:
        """That of released weights, its threshold the best expected micro-F1 on public inputs.

        Args:
            weights: `[D, L]`, on `PublicPCA.with_constant` of directions of the public inputs.
            public_inputs: float32 `[m, …]`, all of them.
            num_rows: how many queries were answered.
        """
        directions = PublicPCA.of(public_inputs, len(weights) - 1)
        width = directions.projection.shape[1]
        arrays = {
            "center": directions.center,
            "projection": directions.projection,
            "weights": weights[:-1] * np.sqrt(len(weights) - 1),
            "bias": weights[-1],
        }
        floats = {name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()}
        shape = np.asarray(public_inputs).shape[1:]
        model = cls(floats, 0.5, shape, num_rows, {"directions": float(width)})
        threshold = expected_f1_threshold(model.predict_proba(public_inputs))
        return cls(floats, threshold, shape, num_rows, model.choices)

    def _probabilities(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        features = (rows - self.arrays["center"]) @ self.arrays["projection"]
        lengths, weights = np.linalg.norm(features, axis=1, keepdims=True), self.arrays["weights"]
        if len(weights) == features.shape[1]:
            scores = (features @ weights) / np.where(lengths > 0, lengths, 1)
        else:
            scores = (features @ weights[:-1] + weights[-1]) / np.hypot(lengths, 1)
        return np.asarray(scipy.special.expit(scores + self.arrays["bias"]), dtype=np.float32)

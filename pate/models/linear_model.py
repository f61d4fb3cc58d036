"""The trained student with linear probabilities, which all recipes of students here return for too few rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pate.array_types import Float32Array
from pate.models.student_model import FlatModel


class LinearModel(FlatModel):
    """A trained student with the probabilities `inputs @ weights + bias`, clipped to [0, 1]."""

    kind: ClassVar[str] = "linear"
    array_axes: ClassVar[Mapping[str, str]] = {"weights": "dL", "bias": "L"}

    @classmethod
    def constant(cls, predicted_labels: ArrayLike, *, inputs: Float32Array) -> LinearModel:
        """Returns a model that predicts the same labels for every input.

        Args:
            predicted_labels: which labels are predicted, bool `[num_labels]`.
            inputs: the inputs of the training. The model takes the shape of one input and the number of rows from them.
        """
        input_shape = np.shape(inputs)[1:]
        bias = np.asarray(predicted_labels, np.float32)
        weights = np.zeros((math.prod(input_shape), len(bias)), np.float32)
        return cls(
            arrays={"weights": weights, "bias": bias},
            threshold=0.5,
            input_shape=input_shape,
            num_rows=len(inputs),
            choices={},
        )

    @staticmethod
    def formula(inputs: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """Returns the probabilities `[num_rows, num_labels]` of flat inputs, as `FlatModel.formula` describes."""
        scores = inputs @ arrays["weights"] + arrays["bias"]
        return scores.clip(0, 1)

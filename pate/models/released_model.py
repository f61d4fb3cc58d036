"""The student whose weights are the released numbers, up to public factors, in directions of the public pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from pate.array_types import Float32Array, FloatArray
from pate.models.student_model import FlatModel
from pate.pool import in_order
from pate.votes.f1_threshold import expected_f1_threshold
from pate.votes.public_kernel import of_length_1
from pate.votes.public_pca import PublicPCA
from pate.votes.recipe import DEFAULT_RECIPE, Recipe

_BLOCK_RECORDS = 4096  # the number of records whose components are computed at once


class ReleasedModel(FlatModel):
    """A trained student of released weights, with calibrated probabilities: logistic functions of linear scores.

    The features of an input have length 1. They are its coordinates along public directions. If the array `weights` has
    one row more than there are directions, the features also have a height, a coordinate that is 1 before the features
    are scaled to length 1 (`PublicPCA.with_constant`).
    """

    kind: ClassVar[str] = "released"
    array_axes: ClassVar[Mapping[str, str]] = {
        "center": "d",
        "projection": "dk",
        "weights": "wL",
        "bias": "L",
    }

    @staticmethod
    def from_weights(
        weights: FloatArray,
        *,
        public_inputs: Float32Array,
        num_rows: int,
        recipe: Recipe = DEFAULT_RECIPE,
    ) -> ReleasedModel:
        """Returns the model of released weights, with the threshold of the best expected micro-F1 on public inputs.

        Args:
            weights: the released weights, `[num_weights, num_labels]`, for `PublicPCA.with_constant` of directions of
                all public inputs. Weights beyond those of the directions, the height and the constant belong to
                components of a kernel.
            public_inputs: the inputs of the whole public pool, float32, one entry for each sample.
            num_rows: the number of answered queries.
            recipe: the constants of the method.
        """
        public_pca = PublicPCA.fit(
            public_inputs,
            max_directions=len(weights) - 1,
            ridge=recipe.ridge_in_rounds,
            kernel_from_multiple=1.0,
            recipe=recipe,
        )
        constant_feature = recipe.constant_feature
        arrays: dict[str, FloatArray] = {
            "center": public_pca.center,
            "projection": public_pca.projection,
            "weights": weights[:-1] * np.sqrt(1 - constant_feature**2),
            "bias": weights[-1] * constant_feature,
        }
        public_kernel = public_pca.kernel
        if public_kernel is not None:
            arrays["landmarks"] = public_kernel.landmarks
            arrays["components"] = public_kernel.component_weights
            arrays["linear"] = public_kernel.linear_weights
            arrays["reach"] = np.array([public_kernel.kernel_width])
        float32_arrays = {
            name: np.asarray(array, dtype=np.float32) for name, array in arrays.items()
        }
        input_shape = np.asarray(public_inputs).shape[1:]
        model_class = ReleasedModel if public_kernel is None else ReleasedKernelModel
        model = model_class(
            arrays=float32_arrays,
            threshold=0.5,
            input_shape=input_shape,
            num_rows=num_rows,
            choices={"directions": float(public_pca.width - public_pca.has_height)},
        )
        threshold = expected_f1_threshold(model.predict_proba(public_inputs))
        return replace(model, threshold=threshold)

    def features(self, inputs: Float32Array) -> FloatArray:
        """Returns the features of inputs, float64 `[num_rows, num_features]`, of length 1.

        Products of features and the array `weights`, `[num_features, num_labels]`, plus the array `bias`, are the
        log-odds of the labels.

        Args:
            inputs: one entry of the shape `input_shape` for each row.
        """
        flat_inputs = np.asarray(inputs, dtype=np.float64).reshape(len(inputs), -1)
        input_blocks = np.split(
            flat_inputs, range(_BLOCK_RECORDS, len(flat_inputs), _BLOCK_RECORDS)
        )
        float64_arrays = {name: array.astype(np.float64) for name, array in self.arrays.items()}
        features = np.concatenate(
            [
                self._unscaled_features(input_block, arrays=float64_arrays)
                for input_block in input_blocks
            ]
        )
        return of_length_1(features)

    def _unscaled_features(
        self, flat_inputs: FloatArray, *, arrays: Mapping[str, FloatArray]
    ) -> FloatArray:
        """Returns the features of inputs before they are scaled to length 1, `[num_rows, num_features]`.

        Args:
            flat_inputs: the inputs, flattened, `[num_rows, d]`.
            arrays: the learned arrays, by name.
        """
        projected = np.asarray((flat_inputs - arrays["center"]) @ arrays["projection"])
        has_height = len(arrays["weights"]) > projected.shape[1]
        return np.append(projected, np.ones((len(flat_inputs), int(has_height))), axis=1)

    @staticmethod
    def formula(inputs: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """Returns the probabilities `[num_rows, num_labels]` of flat inputs, as `FlatModel.formula` describes."""
        features = (inputs - arrays["center"]) @ arrays["projection"]
        weights = arrays["weights"]
        lengths = xp.linalg.norm(features, axis=1, keepdims=True)
        if len(weights) == arrays["projection"].shape[1]:
            scores = (features @ weights) / xp.where(lengths > 0, lengths, 1)
        else:
            # ONNX has no hypotenuse.
            lengths_with_height = np.hypot(lengths, 1) if xp is np else (lengths**2 + 1).sqrt()
            scores = (features @ weights[:-1] + weights[-1]) / lengths_with_height
        return FlatModel.logistic(scores + arrays["bias"])


class ReleasedKernelModel(ReleasedModel):
    """A trained student of released weights for directions, the height, and components of a kernel (`PublicKernel`)."""

    kind: ClassVar[str] = "released_kernel"
    array_axes: ClassVar[Mapping[str, str]] = {
        **ReleasedModel.array_axes,
        "landmarks": "mD",
        "components": "mK",
        "linear": "DK",
        "reach": "1",
    }

    def _unscaled_features(
        self, flat_inputs: FloatArray, *, arrays: Mapping[str, FloatArray]
    ) -> FloatArray:
        """Returns the features of inputs before they are scaled to length 1, `[num_rows, num_features]`.

        They are the coordinates along the public directions, the height 1, and the components of the kernel.
        """
        projected = (flat_inputs - arrays["center"]) @ arrays["projection"]
        linear_features = np.append(projected, np.ones((len(flat_inputs), 1)), axis=1)
        cosines = of_length_1(linear_features) @ arrays["landmarks"].T
        kernel_values = np.exp((cosines - 1) / arrays["reach"])
        kernel_components = (
            kernel_values @ arrays["components"] - linear_features @ arrays["linear"]
        )
        return np.append(linear_features, kernel_components, axis=1)

    def _probabilities(self, inputs: Float32Array) -> Float32Array:
        input_blocks = np.split(inputs, range(_BLOCK_RECORDS, len(inputs), _BLOCK_RECORDS))
        return np.concatenate(list(in_order(super()._probabilities, items=input_blocks)))

    @staticmethod
    def formula(inputs: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """Returns the probabilities `[num_rows, num_labels]` of flat inputs, as `FlatModel.formula` describes."""
        projected = (inputs - arrays["center"]) @ arrays["projection"]
        linear_features = xp.concatenate([projected, xp.ones_like(projected[:, :1])], axis=1)
        linear_lengths = xp.linalg.norm(linear_features, axis=1, keepdims=True)
        cosines = linear_features / linear_lengths @ arrays["landmarks"].T
        kernel_values = xp.exp((cosines - 1) / arrays["reach"])
        kernel_components = (
            kernel_values @ arrays["components"] - linear_features @ arrays["linear"]
        )
        features = xp.concatenate([linear_features, kernel_components], axis=1)
        lengths = xp.linalg.norm(features, axis=1, keepdims=True)
        scores = features @ arrays["weights"] / lengths
        return FlatModel.logistic(scores + arrays["bias"])

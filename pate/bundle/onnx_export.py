"""The export of a student as an ONNX model, by torch's own exporter."""

import io
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import torch

from pate.extras import VERSION
from pate.files.atomic import atomic_write
from pate.models.image_students import ImageModel
from pate.models.student_model import KINDS, FlatModel, StudentModel
from pate.validation import InvalidValue, require

# The version of ONNX's operators.
_OPSET = 17
# The names of the graph's input and output.
_INPUTS = "inputs"
_PROBABILITIES = "probabilities"


def write_onnx(
    student_model: StudentModel,
    onnx_file: Path,
    *,
    label_names: Sequence[str],
    feature_names: Sequence[str],
) -> None:
    """Writes a student as a graph from float32 `inputs` to float32 `probabilities`, `[num_samples, num_labels]`.

    The inputs are those that `Bundle.inputs` returns: the preprocessing of tables and pictures is not in the graph. The
    probabilities differ from those of `Bundle.predict_proba` only by rounding, by less than 1e-5.

    Args:
        student_model: the student.
        onnx_file: the file, in a folder that exists.
        label_names: the names of the labels, for the metadata.
        feature_names: the name of each number of an input, for the metadata.

    Raises:
        InvalidValue: the folder does not exist, or students of this kind cannot be written as a graph.
    """
    require(
        onnx_file.parent.is_dir(), "path", value=onnx_file, rule="a file in a folder that is there"
    )
    if isinstance(student_model, ImageModel):
        compute_probabilities = _function_of_images(student_model)
    elif isinstance(student_model, FlatModel):
        compute_probabilities = _function_of_flattened_inputs(student_model)
    else:
        raise InvalidValue("model", student_model.kind, rule=f"one of {', '.join(KINDS)}")
    onnx_model = onnx.load_model_from_string(
        _traced_graph(compute_probabilities, input_shape=student_model.input_shape)
    )
    onnx_model.producer_name = "pate-multilabel"
    onnx_model.producer_version = VERSION
    metadata_by_name = {
        "labels": "\n".join(label_names),
        "features": "\n".join(feature_names),
        "threshold": " ".join(map(str, np.ravel(student_model.threshold).tolist())),
    }
    onnx.helper.set_model_props(onnx_model, metadata_by_name)
    onnx.checker.check_model(onnx_model)
    with atomic_write(onnx_file) as output:
        output.write(onnx_model.SerializeToString(deterministic=True))


def _function_of_images(image_student: ImageModel) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a function from images in [0, 1] to probabilities, the mean over the networks of a student for images."""
    tensors_by_name = _tensors_of(image_student)
    released_label_mask = tensors_by_name.pop("released")
    network = image_student.network()
    num_members = len(next(iter(tensors_by_name.values())))
    student_logit_functions = [
        network.inference_function(
            {name: stacked_tensor[member_index] for name, stacked_tensor in tensors_by_name.items()}
        )
        for member_index in range(num_members)
    ]

    def mean_probabilities(inputs: torch.Tensor) -> torch.Tensor:
        """Returns the mean of the networks' probabilities, `[n, L]`; 0 for labels that were never released."""
        images = inputs * 2 - 1
        probabilities_by_network = torch.stack(
            [compute_logits(images).sigmoid() for compute_logits in student_logit_functions]
        )
        return probabilities_by_network.mean(dim=0) * released_label_mask

    return mean_probabilities


def _function_of_flattened_inputs(
    student_on_flattened_inputs: FlatModel,
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a function from inputs `[n, …]` to probabilities `[n, L]`; torch computes `FlatModel.formula`."""
    tensors_by_name = _tensors_of(student_on_flattened_inputs)

    def probabilities(inputs: torch.Tensor) -> torch.Tensor:
        """Returns the probabilities `[n, L]` of inputs `[n, …]`, each of which is flattened first."""
        result: torch.Tensor = student_on_flattened_inputs.formula(
            inputs.flatten(1), arrays=tensors_by_name, xp=torch
        )
        return result

    return probabilities


def _tensors_of(student_model: StudentModel) -> dict[str, torch.Tensor]:
    """Returns the arrays of a student, such as its weights, as tensors, by name."""
    return {
        name: torch.from_numpy(np.ascontiguousarray(array))
        for name, array in student_model.arrays.items()
    }


def _traced_graph(
    compute_probabilities: Callable[[torch.Tensor], torch.Tensor], *, input_shape: tuple[int, ...]
) -> bytes:
    """Returns the bytes of the ONNX graph of a function, for batches of any number of inputs.

    Args:
        compute_probabilities: returns the probabilities `[n, L]` of inputs `[n, *input_shape]`.
        input_shape: the shape of one input.
    """
    traced_module: Any = torch.nn.Module()
    traced_module.forward = compute_probabilities
    graph_buffer = io.BytesIO()
    export: Any = torch.onnx.export
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # tracing takes shapes for constants, as it should
        export(
            traced_module.eval(),
            args=(torch.zeros(2, *input_shape),),
            f=graph_buffer,
            dynamic_axes={_INPUTS: {0: "n"}, _PROBABILITIES: {0: "n"}},
            opset_version=_OPSET,
            dynamo=False,
            input_names=[_INPUTS],
            output_names=[_PROBABILITIES],
        )
    return graph_buffer.getvalue()

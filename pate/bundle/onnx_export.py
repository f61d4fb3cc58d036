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
    model: StudentModel, path: Path, *, label_names: Sequence[str], feature_names: Sequence[str]
) -> None:
    """Writes a student as a graph from float32 `inputs` to float32 `probabilities`, `[num_samples, num_labels]`.

    The inputs are those that `Bundle.inputs` returns: the preprocessing of tables and pictures is not in the graph. The
    probabilities differ from those of `Bundle.predict_proba` only by rounding, by less than 1e-5.

    Args:
        model: the student.
        path: the file, in a folder that exists.
        label_names: the names of the labels, for the metadata.
        feature_names: the name of each number of an input, for the metadata.

    Raises:
        InvalidValue: the folder does not exist, or students of this kind cannot be written as a graph.
    """
    require(path.parent.is_dir(), "path", value=path, rule="a file in a folder that is there")
    if isinstance(model, ImageModel):
        predict = _image_function(model)
    elif isinstance(model, FlatModel):
        predict = _flat_function(model)
    else:
        raise InvalidValue("model", model.kind, rule=f"one of {', '.join(KINDS)}")
    graph = onnx.load_model_from_string(_traced_graph(predict, input_shape=model.input_shape))
    graph.producer_name = "pate-multilabel"
    graph.producer_version = VERSION
    metadata = {
        "labels": "\n".join(label_names),
        "features": "\n".join(feature_names),
        "threshold": " ".join(map(str, np.ravel(model.threshold).tolist())),
    }
    onnx.helper.set_model_props(graph, metadata)
    onnx.checker.check_model(graph)
    with atomic_write(path) as output:
        output.write(graph.SerializeToString(deterministic=True))


def _image_function(model: ImageModel) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a function from images in [0, 1] to probabilities, the mean over the networks of a student for images."""
    arrays = _tensors_of(model)
    released = arrays.pop("released")
    network = model.network()
    num_members = len(next(iter(arrays.values())))
    members = [
        network.inference_function({name: array[member] for name, array in arrays.items()})
        for member in range(num_members)
    ]

    def mean_probabilities(inputs: torch.Tensor) -> torch.Tensor:
        """Returns the mean of the networks' probabilities, `[n, L]`; 0 for labels that were never released."""
        images = inputs * 2 - 1
        probabilities = torch.stack([logits(images).sigmoid() for logits in members])
        return probabilities.mean(dim=0) * released

    return mean_probabilities


def _flat_function(model: FlatModel) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a function from inputs `[n, …]` to probabilities `[n, L]`, by `FlatModel.formula`."""
    arrays = _tensors_of(model)

    def probabilities(inputs: torch.Tensor) -> torch.Tensor:
        """Returns the probabilities `[n, L]` of inputs `[n, …]`, each of which is flattened first."""
        result: torch.Tensor = model.formula(inputs.flatten(1), arrays, torch)
        return result

    return probabilities


def _tensors_of(model: StudentModel) -> dict[str, torch.Tensor]:
    """Returns the arrays of a student, such as its weights, as tensors, by name."""
    return {
        name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in model.arrays.items()
    }


def _traced_graph(
    predict: Callable[[torch.Tensor], torch.Tensor], *, input_shape: tuple[int, ...]
) -> bytes:
    """Returns the bytes of the ONNX graph of a function, for batches of any number of inputs.

    Args:
        predict: returns the probabilities `[n, L]` of inputs `[n, *input_shape]`.
        input_shape: the shape of one input.
    """
    module: Any = torch.nn.Module()
    module.forward = predict
    file = io.BytesIO()
    export: Any = torch.onnx.export
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # tracing takes shapes for constants, as it should
        export(
            module.eval(),
            args=(torch.zeros(2, *input_shape),),
            f=file,
            dynamic_axes={_INPUTS: {0: "n"}, _PROBABILITIES: {0: "n"}},
            opset_version=_OPSET,
            dynamo=False,
            input_names=[_INPUTS],
            output_names=[_PROBABILITIES],
        )
    return file.getvalue()

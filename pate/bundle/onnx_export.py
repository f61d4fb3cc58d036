"""The export of a student as an ONNX model, by torch's own exporter."""

import io
import warnings
from collections.abc import Sequence
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

_OPSET = 17
# the names of the graph's input and output
_INPUTS = "inputs"
_PROBABILITIES = "probabilities"


def write_onnx(
    model: StudentModel, path: Path, *, labels: Sequence[str], features: Sequence[str]
) -> None:
    """Writes a student as a graph from float32 `inputs` to float32 `probabilities`, `[num_samples, num_labels]`.

    The inputs are those that `Bundle.inputs` returns: the preprocessing of tables and pictures is not in the graph. The
    probabilities differ from those of `Bundle.predict_proba` only by rounding, by less than 1e-5.

    Args:
        model: the student.
        path: the file, in a folder that exists.
        labels: the names of the labels, for the metadata.
        features: the name of each number of an input, for the metadata.

    Raises:
        InvalidValue: the folder does not exist, or students of this kind cannot be written as a graph.
    """
    require(path.parent.is_dir(), "path", path, "a file in a folder that is there")
    arrays = {
        name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in model.arrays.items()
    }
    module: Any = torch.nn.Module()
    if isinstance(model, ImageModel):
        network = model.network()
        released = arrays.pop("released")
        num_members = len(next(iter(arrays.values())))
        members = [
            network.inference_function({name: array[member] for name, array in arrays.items()})
            for member in range(num_members)
        ]

        def mean_probabilities(inputs: torch.Tensor) -> torch.Tensor:
            """Returns the mean of the members' probabilities of images in [0, 1]."""
            images = inputs * 2 - 1
            probabilities = torch.stack([logits(images).sigmoid() for logits in members])
            return probabilities.mean(dim=0) * released

        module.forward = mean_probabilities
    elif isinstance(model, FlatModel):
        formula = model.formula
        module.forward = lambda inputs: formula(inputs.flatten(1), arrays, torch)
    else:
        raise InvalidValue("model", model.kind, rule=f"one of {', '.join(KINDS)}")
    file = io.BytesIO()
    export: Any = torch.onnx.export
    axes = {_INPUTS: {0: "n"}, _PROBABILITIES: {0: "n"}}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # tracing takes shapes for constants, as it should
        export(
            module.eval(),
            (torch.zeros(2, *model.input_shape),),
            file,
            dynamic_axes=axes,
            opset_version=_OPSET,
            dynamo=False,
            input_names=[_INPUTS],
            output_names=[_PROBABILITIES],
        )
    graph = onnx.load_model_from_string(file.getvalue())
    graph.producer_name = "pate-multilabel"
    graph.producer_version = VERSION
    metadata = {
        "labels": "\n".join(labels),
        "features": "\n".join(features),
        "threshold": " ".join(map(str, np.ravel(model.threshold).tolist())),
    }
    onnx.helper.set_model_props(graph, metadata)
    onnx.checker.check_model(graph)
    with atomic_write(path) as output:
        output.write(graph.SerializeToString(deterministic=True))

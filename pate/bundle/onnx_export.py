"""The student as an ONNX model, by torch's own exporter."""

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
from pate.files.disk import replacing
from pate.models.image_students import ImageModel
from pate.models.student_model import KINDS, FlatModel, StudentModel
from pate.validation import InvalidValue, require

_OPSET = 17
# the names of what goes in and what comes out
_INPUTS = "inputs"
_PROBABILITIES = "probabilities"


def write_onnx(
    model: StudentModel, path: Path, *, labels: Sequence[str], features: Sequence[str]
) -> None:
    """Writes the graph: float32 `inputs [n, …]` to float32 `probabilities [n, L]`, names in its metadata.

    Inputs are those of `Bundle.inputs`: what makes them of tables and pictures is no part of the graph. Probabilities
    differ from those of `Bundle.predict_proba` by rounding alone, less than 1e-5.
    """
    require(path.parent.is_dir(), "path", path, "a file in a folder that is there")
    arrays = {
        name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in model.arrays.items()
    }
    module: Any = torch.nn.Module()
    if isinstance(model, ImageModel):
        network = model.network()
        released = arrays.pop("released")
        count = len(next(iter(arrays.values())))
        members = [
            network.traceable({name: each[member] for name, each in arrays.items()})
            for member in range(count)
        ]

        def mean(inputs: torch.Tensor) -> torch.Tensor:
            """Of the members' probabilities of images in [0, 1]."""
            shown = inputs * 2 - 1
            return (
                torch.stack([logits(shown).sigmoid() for logits in members]).mean(dim=0) * released
            )

        module.forward = mean
    elif isinstance(model, FlatModel):
        formula = model.formula
        module.forward = lambda inputs: formula(inputs.flatten(1), arrays, torch)
    else:
        raise InvalidValue("model", model.kind, rule=f"one of {', '.join(KINDS)}")
    file = io.BytesIO()
    export: Any = torch.onnx.export
    axes = {_INPUTS: {0: "n"}, _PROBABILITIES: {0: "n"}}
    with warnings.catch_warnings(), torch.no_grad():
        # of tracing: shapes are constants here, and are meant to be
        warnings.simplefilter("ignore")
        asked = (torch.zeros(2, *model.input_shape),)
        export(
            module.eval(),
            asked,
            file,
            dynamic_axes=axes,
            opset_version=_OPSET,
            dynamo=False,
            input_names=[_INPUTS],
            output_names=[_PROBABILITIES],
        )
    made = onnx.load_model_from_string(file.getvalue())
    made.producer_name = "pate-multilabel"
    made.producer_version = VERSION
    threshold = " ".join(map(str, np.ravel(model.threshold).tolist()))
    named = {"labels": "\n".join(labels), "features": "\n".join(features), "threshold": threshold}
    onnx.helper.set_model_props(made, named)
    onnx.checker.check_model(made)
    with replacing(path) as file_there:
        file_there.write(made.SerializeToString(deterministic=True))

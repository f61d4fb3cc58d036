"""The student as an ONNX model."""

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import torch
from numpy.typing import NDArray

from pate.files.disk import replacing
from pate.models.image import ImageModel
from pate.models.student import StudentModel
from pate.networks.network import Network, Tensors
from pate.validation import require

_OPSET, _IR = 17, 8
_MAKER = "pate-multilabel"
INPUTS, PROBABILITIES = "inputs", "probabilities"  # the names of what goes in and what comes out
Arrays = Mapping[str, NDArray[np.float32]]


def write_onnx(model: StudentModel, path: Path, *, labels: Sequence[str], features: Sequence[str]) -> None:
    """Writes the graph: float32 `inputs [n, …]` to float32 `probabilities [n, L]`, names in its metadata.

    Inputs are those of `Bundle.inputs`: what makes them of tables and pictures is no part of the graph. Probabilities
    differ from those of `Bundle.predict_proba` by rounding alone, less than 1e-5.
    """
    require(path.parent.is_dir(), "path", path, "a file in a folder that is there")
    known = (*_GRAPHS, *_NETWORKS)
    require(model.kind in known, "model", model.kind, f"one of {', '.join(known)}")
    if isinstance(model, ImageModel):
        made = onnx.load_model_from_string(_exported(model))
        made.producer_name = _MAKER
    else:
        graph = _Graph()
        rows = graph.add("Flatten", INPUTS, axis=1) if len(model.input_shape) > 1 else INPUTS
        made = graph.made(model, _GRAPHS[model.kind](graph, rows, model.arrays), len(labels))
    named = {"labels": "\n".join(labels), "features": "\n".join(features)}
    named["threshold"] = " ".join(map(str, np.ravel(model.threshold).tolist()))
    onnx.helper.set_model_props(made, named)
    onnx.checker.check_model(made)
    with replacing(path) as file:
        file.write(made.SerializeToString(deterministic=True))


@dataclass
class _Graph:
    """Nodes and constants so far, for inputs `[n, d]`."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, array: Any) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    def add(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """The name of what an operation gives; arrays among its inputs become constants."""
        names = [given if isinstance(given, str) else self.constant(given) for given in inputs]
        name = f"value{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(kind, names, [name], **attributes))
        return name

    def made(self, model: StudentModel, last: str, num_labels: int) -> Any:
        self.nodes.append(onnx.helper.make_node("Identity", [last], [PROBABILITIES]))
        values = [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", *shape])
            for name, shape in ((INPUTS, model.input_shape), (PROBABILITIES, (num_labels,)))
        ]
        graph = onnx.helper.make_graph(self.nodes, model.kind, values[:1], values[1:], self.constants)
        opset = onnx.helper.make_opsetid("", _OPSET)
        return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=_IR, producer_name=_MAKER)


def _affine(graph: _Graph, rows: str, arrays: Arrays) -> str:
    return graph.add("Add", graph.add("MatMul", rows, arrays["weights"]), arrays["bias"])


def _linear(graph: _Graph, rows: str, arrays: Arrays) -> str:
    return graph.add("Clip", _affine(graph, rows, arrays), np.float32(0), np.float32(1))


def _logistic(graph: _Graph, rows: str, arrays: Arrays) -> str:
    return graph.add("Sigmoid", _affine(graph, rows, arrays))


def _scores(graph: _Graph, rows: str, arrays: Arrays) -> str:
    """Linear scores on features of one length, with or without their height; features of length 0 stay 0."""
    features = graph.add("MatMul", graph.add("Sub", rows, arrays["center"]), arrays["projection"])
    weights = arrays["weights"]
    if len(weights) > arrays["projection"].shape[1]:
        scores = graph.add("Add", graph.add("MatMul", features, weights[:-1]), weights[-1])
        squares = graph.add("ReduceSumSquare", features, axes=[1], keepdims=1)
        return graph.add("Div", scores, graph.add("Sqrt", graph.add("Add", squares, np.float32(1))))
    lengths = graph.add("ReduceL2", features, axes=[1], keepdims=1)
    flat = graph.add("Cast", graph.add("Equal", lengths, np.float32(0)), to=onnx.TensorProto.FLOAT)
    return graph.add("MatMul", graph.add("Div", features, graph.add("Add", lengths, flat)), weights)


def _released(graph: _Graph, rows: str, arrays: Arrays) -> str:
    return graph.add("Sigmoid", graph.add("Add", _scores(graph, rows, arrays), arrays["bias"]))


def _released_kernel(graph: _Graph, rows: str, arrays: Arrays) -> str:
    widened = np.pad(arrays["projection"], ((0, 0), (0, 1)))
    height = np.append(np.zeros((1, widened.shape[1] - 1)), [[1]], axis=1)
    linear = graph.add("Add", graph.add("MatMul", graph.add("Sub", rows, arrays["center"]), widened), height)
    cosines = graph.add("MatMul", _of_length_1(graph, linear), arrays["landmarks"].T)
    values = graph.add("Exp", graph.add("Div", graph.add("Sub", cosines, np.float32(1)), arrays["reach"]))
    explained = graph.add("MatMul", linear, arrays["linear"])
    beside = graph.add("Sub", graph.add("MatMul", values, arrays["components"]), explained)
    return _logistic(graph, _of_length_1(graph, graph.add("Concat", linear, beside, axis=1)), arrays)


def _of_length_1(graph: _Graph, rows: str) -> str:
    return graph.add("Div", rows, graph.add("ReduceL2", rows, axes=[1], keepdims=1))


def _low_rank(graph: _Graph, rows: str, arrays: Arrays) -> str:
    scores = _scores(graph, rows, arrays)
    distance = graph.add("Div", graph.add("Sub", scores, arrays["thresholds"]), arrays["spreads"])
    return graph.add("Sigmoid", distance)


def _mlp(graph: _Graph, rows: str, arrays: Arrays) -> str:
    members = []
    for member in range(len(arrays["weights"])):
        own = {name: array[member] for name, array in arrays.items() if name != "released"}
        hidden = {"weights": own["hidden_weights"], "bias": own["hidden_bias"]}
        members.append(_logistic(graph, graph.add("Relu", _affine(graph, rows, hidden)), own))
    return graph.add("Mul", graph.add("Mean", *members), arrays["released"])


class _Members(torch.nn.Module):
    """The mean of the members' probabilities of images in [0, 1], as `ImageModel` has it."""

    def __init__(self, network: Network, members: list[Tensors], released: torch.Tensor) -> None:
        super().__init__()
        self.members, self.released = [network.traceable(each) for each in members], released

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        shown = images * 2 - 1
        total = torch.stack([logits(shown).sigmoid() for logits in self.members])
        return total.mean(dim=0) * self.released


def _exported(model: ImageModel) -> bytes:
    """The bytes of an ONNX model, by torch's own exporter."""
    arrays = dict(model.arrays)
    released = torch.from_numpy(arrays.pop("released"))
    count = len(next(iter(arrays.values())))
    members = [
        {name: torch.from_numpy(np.ascontiguousarray(array[member])) for name, array in arrays.items()}
        for member in range(count)
    ]
    module, file = _Members(model.network(), members, released).eval(), io.BytesIO()
    export: Any = torch.onnx.export
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of tracing: shapes are constants here, and are meant to be
        export(
            module,
            (torch.zeros(2, *model.input_shape),),
            file,
            dynamic_axes={INPUTS: {0: "n"}, PROBABILITIES: {0: "n"}},
            input_names=[INPUTS],
            output_names=[PROBABILITIES],
            opset_version=_OPSET,
            dynamo=False,
        )
    return file.getvalue()


_NETWORKS = ("cnn", "resnet50")
_GRAPHS: dict[str, Callable[[_Graph, str, Arrays], str]] = {
    "linear": _linear,
    "logistic": _logistic,
    "low_rank": _low_rank,
    "mlp": _mlp,
    "released": _released,
    "released_kernel": _released_kernel,
}

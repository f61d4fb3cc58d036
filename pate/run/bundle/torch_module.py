"""The members of a student on images as one torch module, for torch's exporter."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import torch

from pate.networks.network import Network, Tensors
from pate.student.image import ImageModel


class Members(torch.nn.Module):
    """The mean of the members' probabilities of images in [0, 1], as `ImageModel` has it."""

    def __init__(self, network: Network, members: list[Tensors], released: torch.Tensor) -> None:
        super().__init__()
        self.members, self.released = [network.traceable(each) for each in members], released

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Probabilities `[n, L]`."""
        shown = images * 2 - 1
        total = torch.stack([logits(shown).sigmoid() for logits in self.members])
        return total.mean(dim=0) * self.released


def exported(model: ImageModel, inputs: str, outputs: str, opset: int) -> bytes:
    """The bytes of an ONNX model."""
    arrays = dict(model.arrays)
    released = torch.from_numpy(arrays.pop("released"))
    count = len(next(iter(arrays.values())))
    members = [
        {name: torch.from_numpy(np.ascontiguousarray(array[member])) for name, array in arrays.items()}
        for member in range(count)
    ]
    module, file = Members(model.network(), members, released).eval(), io.BytesIO()
    export: Any = torch.onnx.export
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of tracing: shapes are constants here, and are meant to be
        export(
            module,
            (torch.zeros(2, *model.input_shape),),
            file,
            dynamic_axes={inputs: {0: "n"}, outputs: {0: "n"}},
            input_names=[inputs],
            output_names=[outputs],
            opset_version=opset,
            dynamo=False,
        )
    return file.getvalue()

"""How a network is trained: the public settings that teachers and students share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from pate.validation import require_choice, require_count, require_non_negative, require_positive

if TYPE_CHECKING:
    import torch
else:
    from pate.networks.later import torch

PRECISIONS = ("auto", "float32", "bfloat16", "float16")
_LOSS_SCALE = 1024.0  # lifts gradients out of float16's denormals; a power of two, so that undoing it is exact


@dataclass(frozen=True)
class Recipe:
    """AdamW on cross-entropy, the learning rate falling linearly to zero.

    Attributes:
        epochs: passes over the records.
        batch_size: records per step, at most.
        learning_rate: of the first step, > 0.
        weight_decay: of AdamW, >= 0.
        flip: whether each image is mirrored with probability 1/2 each time it is shown.
        precision: of the products inside the network: "float32", "bfloat16", "float16", or "auto": bfloat16 on
            a GPU that has it, otherwise float32. Parameters and the optimizer are float32 throughout. With "float32"
            convolutions of recent GPUs still round what they multiply to TF32, as torch has it
            (`torch.backends.cudnn.allow_tf32`).

    Raises:
        InvalidValue: an attribute outside its range.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    flip: bool = False
    precision: str = "auto"

    def __post_init__(self) -> None:
        require_count("epochs", self.epochs)
        require_count("batch_size", self.batch_size)
        require_positive("learning_rate", self.learning_rate)
        require_non_negative("weight_decay", self.weight_decay)
        require_choice("precision", self.precision, PRECISIONS)

    @classmethod
    def of(cls, settings: Any) -> Recipe:
        """The recipe that a teacher or student has among its own settings, under the same names."""
        return cls(**{setting.name: getattr(settings, setting.name) for setting in fields(cls)})

    def dtype(self, device: torch.device) -> torch.dtype:
        """What products are computed in on this device."""
        if self.precision == "auto":
            return torch.bfloat16 if device.type == "cuda" and _has_bfloat16(device) else torch.float32
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[self.precision]

    def loss_scale(self, device: torch.device) -> float:
        """What losses are multiplied by before the backward pass, and gradients divided by after it."""
        return _LOSS_SCALE if self.dtype(device) == torch.float16 else 1.0

    @contextmanager
    def autocast(self, device: torch.device) -> Iterator[None]:
        """Runs its body in the precision for this device."""
        dtype = self.dtype(device)
        with torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32):
            yield


def _has_bfloat16(device: torch.device) -> bool:
    """Whether the GPU multiplies in bfloat16; torch's own question says yes to those that emulate it, slowly, too."""
    return torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)

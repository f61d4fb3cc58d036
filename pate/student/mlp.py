"""A student with one hidden layer: members, each trained without a part of the rows; the model needs no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.student.student import Labels, OnEpoch, Rows, StudentModel, ThresholdedStudent, require_rows
from pate.validation import require_count, require_non_negative, require_positive

if TYPE_CHECKING:
    import torch
else:
    from pate.networks.device import torch

_NAMES = ("hidden_weights", "hidden_bias", "weights", "bias")


class MLPModel(StudentModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    kind = "mlp"
    forms: ClassVar[Mapping[str, str]] = {
        "hidden_weights": "mdh",
        "hidden_bias": "m1h",
        "weights": "mhL",
        "bias": "m1L",
        "released": "L",
    }

    def _probabilities(self, rows: Rows) -> Rows:
        hidden_weights, hidden_bias, weights, bias = (self.arrays[name] for name in _NAMES)
        total = np.zeros((len(rows), bias.shape[-1]), np.float32)
        for member in range(len(weights)):
            units = np.maximum(rows @ hidden_weights[member] + hidden_bias[member], 0)
            total += 0.5 + 0.5 * np.tanh((units @ weights[member] + bias[member]) / 2)
        return total / np.float32(len(weights)) * self.arrays["released"]


@dataclass(frozen=True)
class MLPStudent(ThresholdedStudent):
    """One hidden layer of rectified units and a logistic output for each label, as an ensemble of folds.

    The rows are cut into folds at random; each member is trained without one of them, all side by side, by
    full-batch AdamW on cross-entropy. The epoch with the least held-out loss is kept, and the threshold, one
    for all labels, is that of the best micro-F1 of the held-out probabilities.

    Attributes:
        hidden: units of a member's hidden layer.
        folds: members, at least 2; fewer where there are fewer rows.
        epochs: at most.
        learning_rate: of AdamW, > 0.
        weight_decay: of AdamW, >= 0.

    Raises:
        InvalidValue: an attribute outside its range.
    """

    hidden: int = 64
    folds: int = 5
    epochs: int = 200
    learning_rate: float = 3e-3
    weight_decay: float = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("hidden", self.hidden)
        require_count("folds", self.folds, minimum=2)
        require_count("epochs", self.epochs)
        require_positive("learning_rate", self.learning_rate)
        require_non_negative("weight_decay", self.weight_decay)

    def fit(self, inputs: Rows, labels: Labels, *, seed: int, on_epoch: OnEpoch | None = None) -> MLPModel:
        """Losses reported: the members' mean `loss` and their `held_out_loss`."""
        rows, labels = require_rows(inputs, labels, seed)
        shape = np.asarray(inputs).shape[1:]
        if len(rows) < 2:
            return _constant(rows.shape[1], labels, shape)
        rng = np.random.default_rng(seed)
        fold_of = rng.permutation(len(rows)) % min(self.folds, len(rows))
        center = rows.mean(axis=0)
        spread = np.sqrt(np.square(rows - center).mean()) or np.float32(1)
        best = self._train((rows - center) / spread, labels, fold_of, rng, on_epoch)
        released = labels.any(axis=0)
        threshold = self._place(best.held_out * released, labels)
        hidden_weights, hidden_bias, weights, bias = best.parameters
        hidden_weights = hidden_weights / spread
        arrays = {
            "hidden_weights": hidden_weights,
            "hidden_bias": hidden_bias - center @ hidden_weights[:, None],
            "weights": weights,
            "bias": bias,
            "released": released.astype(np.float32),
        }
        choices = {"epochs": float(best.epoch)}
        return MLPModel(arrays, threshold, shape, len(rows), choices)

    def _train(
        self,
        rows: Rows,
        labels: Labels,
        fold_of: NDArray[np.int64],
        rng: np.random.Generator,
        on_epoch: OnEpoch | None,
    ) -> _Best:
        """Trains all members for all epochs and returns them as they were at their best."""
        held = torch.from_numpy(fold_of == np.arange(fold_of.max() + 1)[:, None])  # [members, n]
        shares = [mask / mask.sum(dim=1, keepdim=True) / len(held) for mask in (~held, held)]
        inputs, targets = torch.from_numpy(rows), torch.from_numpy(labels.astype(np.float32))
        parameters = _initial(rng, len(held), inputs.shape[1], self.hidden, targets)
        optimizer = torch.optim.AdamW(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
        best = _Best(math.inf, 0, [], np.empty(0, np.float32))
        for epoch in range(self.epochs + 1):  # the first without a step behind it
            logits = _logits(parameters, inputs)
            losses = (torch.nn.functional.softplus(logits) - logits * targets).sum(dim=2)  # [members, n]
            loss, held_out_loss = ((losses * share).sum() for share in shares)
            if on_epoch is not None:
                on_epoch(epoch, {"loss": loss.item(), "held_out_loss": held_out_loss.item()})
            if epoch == 0 or held_out_loss.item() < best.loss:
                held_out = (logits.sigmoid() * held[..., None]).sum(dim=0).detach().numpy()
                arrays = [parameter.detach().numpy().copy() for parameter in parameters]
                best = _Best(held_out_loss.item(), epoch, arrays, held_out)
            optimizer.zero_grad()
            torch.autograd.backward(loss * len(held))  # summed over members: each moves as it would alone
            optimizer.step()
        return best


@dataclass(frozen=True, eq=False)
class _Best:
    """The members after an epoch: their held-out loss, parameters, and held-out probabilities `[n, num_labels]`."""

    loss: float
    epoch: int
    parameters: list[Rows]
    held_out: Rows


def _initial(
    rng: np.random.Generator, members: int, num_inputs: int, hidden: int, targets: torch.Tensor
) -> list[torch.Tensor]:
    """Small random weights; the output starts at each label's log-odds."""
    shape = (members, num_inputs, hidden), (members, hidden, targets.shape[1])
    first = rng.standard_normal(shape[0], np.float32) * math.sqrt(2 / num_inputs)
    second = rng.standard_normal(shape[1], np.float32) * (0.1 / math.sqrt(hidden))
    prevalence = (targets.sum(dim=0) + 0.5) / (len(targets) + 1)
    bias = prevalence.logit().repeat(members, 1, 1)
    tensors = torch.from_numpy(first), torch.zeros(members, 1, hidden), torch.from_numpy(second), bias
    return [tensor.requires_grad_() for tensor in tensors]


def _logits(parameters: list[torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    """Log-odds of each member, `[members, n, num_labels]`."""
    hidden_weights, hidden_bias, weights, bias = parameters
    batch = inputs.expand(len(weights), -1, -1)
    return torch.baddbmm(bias, torch.baddbmm(hidden_bias, batch, hidden_weights).relu(), weights)


def _constant(num_inputs: int, labels: Labels, shape: tuple[int, ...]) -> MLPModel:
    """Predicts the one row's labels, or none."""
    num_labels = labels.shape[1]
    arrays = {
        "hidden_weights": np.zeros((1, num_inputs, 1), np.float32),
        "hidden_bias": np.zeros((1, 1, 1), np.float32),
        "weights": np.zeros((1, 1, num_labels), np.float32),
        "bias": np.full((1, 1, num_labels), 40, np.float32),  # a probability of 1 in float32
        "released": np.asarray(labels.any(axis=0), np.float32),
    }
    return MLPModel(arrays, 0.5, shape, len(labels), {})

"""A student with one hidden layer: several members, each trained without a part of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pate.student.model import StudentModel
from pate.student.student import OnEpoch, Student, require_rows
from pate.student.threshold import best_threshold
from pate.validation import InvalidValue, require_choice, require_count, require_non_negative, require_positive

_NAMES = ("hidden_weights", "hidden_bias", "weights", "bias")


class MLPModel(StudentModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    kind = "mlp"

    def _probabilities(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        hidden_weights, hidden_bias, weights, bias = (self.arrays[name] for name in _NAMES)
        total = np.zeros((len(rows), bias.shape[-1]), np.float32)
        for member in range(len(weights)):
            units = np.maximum(rows @ hidden_weights[member] + hidden_bias[member], 0)
            total += 0.5 + 0.5 * np.tanh((units @ weights[member] + bias[member]) / 2)
        return total / np.float32(len(weights)) * self.arrays["released"]


@dataclass(frozen=True)
class MLPStudent(Student):
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
        device: "auto" (the GPU where there is one), "cpu" or "cuda".

    Raises:
        InvalidValue: an attribute outside its range.
    """

    hidden: int = 64
    folds: int = 5
    epochs: int = 200
    learning_rate: float = 3e-3
    weight_decay: float = 3.0
    device: str = "auto"

    def __post_init__(self) -> None:
        require_count("hidden", self.hidden)
        require_count("folds", self.folds, minimum=2)
        require_count("epochs", self.epochs)
        require_positive("learning_rate", self.learning_rate)
        require_non_negative("weight_decay", self.weight_decay)
        require_choice("device", self.device, ("auto", "cpu", "cuda"))
        if self.device == "cuda" and not torch.cuda.is_available():
            raise InvalidValue("device=cuda: expected a GPU that torch can use (or device=auto)")

    def fit(
        self,
        inputs: NDArray[np.float32],
        labels: NDArray[np.bool_],
        *,
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> MLPModel:
        """See `Student.fit`. Losses reported: the members' mean `loss` and their `held_out_loss`."""
        rows, labels = require_rows(inputs, labels, seed)
        shape = np.asarray(inputs).shape[1:]
        if len(rows) < 2:
            return _constant(rows.shape[1], labels, shape)
        rng = np.random.default_rng(seed)
        folds = min(self.folds, len(rows))
        fold_of = rng.permutation(len(rows)) % folds
        centre = rows.mean(axis=0)
        spread = float(np.sqrt(np.square(rows - centre).mean())) or 1.0
        best = self._train((rows - centre) / spread, labels, fold_of, rng, on_epoch)
        threshold, micro_f1 = best_threshold(best.held_out * labels.any(axis=0), labels)
        arrays = dict(zip(_NAMES, best.parameters, strict=True))
        arrays["hidden_weights"] = arrays["hidden_weights"] / np.float32(spread)
        arrays["hidden_bias"] = arrays["hidden_bias"] - centre @ arrays["hidden_weights"]
        arrays["released"] = labels.any(axis=0).astype(np.float32)
        choices = {"epochs": float(best.epoch), "held_out_micro_f1": micro_f1}
        return MLPModel(arrays, threshold, shape, len(rows), choices)

    def _train(
        self,
        rows: NDArray[np.float32],
        labels: NDArray[np.bool_],
        fold_of: NDArray[np.int64],
        rng: np.random.Generator,
        on_epoch: OnEpoch | None,
    ) -> _Best:
        """Trains all members for all epochs and returns them as they were at their best."""
        use_gpu = self.device != "cpu" and torch.cuda.is_available()
        device = torch.device("cuda" if use_gpu else "cpu")
        members = int(fold_of.max()) + 1
        held = torch.from_numpy(fold_of == np.arange(members)[:, None]).to(device)  # [members, n]
        targets = torch.from_numpy(labels.astype(np.float32)).to(device).expand(members, -1, -1)
        inputs = torch.from_numpy(rows).to(device).expand(members, -1, -1)
        parameters = [tensor.to(device).requires_grad_() for tensor in _initial(rng, members, rows, labels, self.hidden)]
        optimiser = torch.optim.AdamW(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
        shares = [mask / mask.sum(dim=1, keepdim=True) for mask in (~held, held)]
        best: _Best | None = None
        for epoch in range(self.epochs + 1):
            logits = _logits(parameters, inputs)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(dim=2)
            train_loss, held_out_loss = ((loss * share).sum() for share in shares)
            mean = held_out_loss.item() / members
            if best is None or mean < best.loss:
                probabilities = (logits.sigmoid() * held[..., None]).sum(dim=0)
                best = _Best(mean, epoch, _arrays(parameters), probabilities.detach().cpu().numpy())
            if on_epoch is not None:
                on_epoch(epoch, {"loss": train_loss.item() / members, "held_out_loss": mean})
            optimiser.zero_grad()
            train_loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        return best

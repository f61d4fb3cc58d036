"""Teachers and a student with one hidden layer, trained side by side by batched matrix products."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.device import require_device, torch
from pate.models.linear import LinearModel
from pate.models.networks.network import Minibatches, StackedAdamW, require_settings
from pate.models.student import (
    FlatModel,
    Labels,
    OnEpoch,
    Rows,
    StudentModel,
    ThresholdedStudent,
    require_rows,
)
from pate.models.teacher import PaddedBatch, Shard, State, Teacher, as_rows, require_shards
from pate.threads import one_thread
from pate.validation import require_probability

_NAMES = ("hidden_weights", "hidden_bias", "weights", "bias")


@dataclass(frozen=True)
class MLPTeacher(Teacher):
    """One hidden layer of rectified units, a logistic output for each label, AdamW on cross-entropy.

    Inputs are centered and divided by their root mean square distance to the mean, both of the teacher's own records;
    the scaling is folded into the hidden layer. A minibatch's loss is its mean over records and its sum over labels.
    The threshold is public and the same for all teachers; below 0.5 it lets rare labels be voted for.

    Attributes:
        hidden: units of the hidden layer.
        epochs: passes over a teacher's records.
        batch_size: records per step, at most.
        learning_rate: of AdamW, > 0.
        weight_decay: of AdamW, >= 0.
        threshold: probability from which a label is voted for, in (0, 1).
        device: "auto" (the GPU where there is one), "cpu" or "cuda".
    """

    hidden: int = 64
    epochs: int = 20
    batch_size: int = 64
    learning_rate: float = 1e-2
    weight_decay: float = 1.0
    threshold: float = 0.25
    device: str = "auto"

    def __post_init__(self) -> None:
        require_settings(self)
        require_probability("threshold", self.threshold)

    def fit_many(self, shards: Sequence[Shard], seeds: Sequence[int]) -> list[State]:
        """Fits by minibatches whose order, like the initial weights, depends on a teacher's seed alone."""
        require_shards(shards, seeds)
        device = require_device(self.device)
        stack = PaddedBatch(shards, device, torch.float32)
        center = stack.mean(stack.inputs)
        inputs = (stack.inputs - center).mul_(stack.mask)
        square = stack.mean(inputs * inputs).mean(dim=2, keepdim=True)  # [num_shards, 1, 1]
        # 1 where all records are equal
        spread = torch.where(square > 0, square.sqrt(), torch.ones_like(square))
        rngs = [np.random.default_rng(seed) for seed in seeds]
        sizes = (inputs.shape[2], self.hidden, stack.labels.shape[2])
        parameters = list[torch.Tensor]()
        # He-scaled normal weights from each teacher's generator, one layer after the other
        initial = [
            [math.sqrt(2 / rows) * rng.standard_normal((rows, columns), np.float32) for rng in rngs]
            for rows, columns in pairwise(sizes)
        ]
        for layer in initial:
            weights = torch.from_numpy(np.stack(layer)).to(device)
            parameters += [weights, weights.new_zeros(len(rngs), 1, weights.shape[2])]
        parameters = [tensor.requires_grad_() for tensor in parameters]
        batches = Minibatches([len(shard) for shard in shards], self.batch_size, self.epochs, rngs)
        curve = self._train(parameters, inputs.div_(spread), stack.labels, batches)
        hidden_weights, hidden_bias, weights, bias = (
            parameter.detach() for parameter in parameters
        )
        hidden_weights.div_(spread)
        hidden_bias.sub_(center @ hidden_weights)
        bias.sub_(math.log(self.threshold / (1 - self.threshold)))
        tensors = zip(_NAMES, (hidden_weights, hidden_bias, weights, bias), strict=True)
        arrays = {name: tensor.cpu().numpy() for name, tensor in tensors}
        return [
            {name: array[row].copy() for name, array in arrays.items()}
            | {"loss_curve": losses[np.isfinite(losses)]}
            for row, losses in enumerate(curve)
        ]

    def predict_many(
        self, states: Sequence[State], inputs: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Probabilities, moved on the scale of log-odds so that the threshold is at 0.5."""
        device = require_device(self.device)
        stacked = (
            torch.from_numpy(np.stack([state[name] for state in states])).to(device)
            for name in _NAMES
        )
        hidden_weights, hidden_bias, weights, bias = stacked
        queries = torch.from_numpy(as_rows(inputs)).to(device)
        units = (queries @ hidden_weights).add_(hidden_bias).relu_()
        return np.asarray((units @ weights).add_(bias).sigmoid_().cpu().numpy())

    def _train(
        self,
        parameters: list[torch.Tensor],
        inputs: torch.Tensor,
        labels: torch.Tensor,
        batches: Minibatches,
    ) -> NDArray[np.float32]:
        """Moves the parameters; returns the losses `[num_shards, steps]`, NaN where one had finished."""
        moved = [parameter.detach() for parameter in parameters]
        optimizer = StackedAdamW(
            moved, learning_rate=self.learning_rate, weight_decay=self.weight_decay
        )
        starts = torch.arange(len(inputs), device=inputs.device)[:, None] * inputs.shape[1]
        curve = inputs.new_full((len(inputs), batches.num_steps), math.nan)
        flat = inputs.flatten(0, 1), labels.flatten(0, 1)
        for step, (rows, counts) in enumerate(batches):
            active = torch.from_numpy(counts > 0).to(inputs.device)
            valid = (np.arange(rows.shape[1]) < counts[:, None]) / np.maximum(counts, 1)[:, None]
            # of its teacher's mean, 0 for padding
            share = torch.from_numpy(valid.astype(np.float32)).to(inputs.device)
            places = (torch.from_numpy(rows).to(inputs.device) + starts).flatten()
            # rows numbered through all shards: taken whole, so twice as fast
            batch, wanted = (
                all_of.index_select(0, places).view(*rows.shape, -1) for all_of in flat
            )
            loss = (_losses(_logits(parameters, batch), wanted) * share).sum(dim=1)
            # summed over teachers, never averaged: each moves as it would alone
            optimizer.step(torch.autograd.grad(loss.sum(), parameters), active[:, None, None])
            curve[:, step] = torch.where(active, loss.detach(), math.nan)
        return curve.cpu().numpy()


def _logits(parameters: Sequence[torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    """Log-odds `[num_models, n, num_labels]` of inputs `[num_models, n, d]`, each model on its own."""
    hidden_weights, hidden_bias, weights, bias = parameters
    return torch.baddbmm(bias, torch.baddbmm(hidden_bias, inputs, hidden_weights).relu(), weights)


def _losses(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy summed over labels, `[num_models, n]`."""
    return (torch.nn.functional.softplus(logits) - logits * labels).sum(dim=2)


class MLPModel(FlatModel):
    """The mean of the members' probabilities. Labels that were never released have probability 0."""

    kind = "mlp"
    _axes = ("mdh", "m1h", "mhL", "m1L", "L")
    forms: ClassVar[Mapping[str, str]] = dict(zip((*_NAMES, "released"), _axes, strict=True))

    @staticmethod
    def formula(rows: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """The rule of prediction, in words for a model card."""
        members = list(zip(*(arrays[name] for name in _NAMES), strict=True))
        total = 0.0
        for hidden_weights, hidden_bias, weights, bias in members:
            units = (rows @ hidden_weights + hidden_bias).clip(0, None)
            total = total + (0.5 + 0.5 * xp.tanh((units @ weights + bias) / 2))
        return total / len(members) * arrays["released"]


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
    """

    hidden: int = 64
    folds: int = 5
    epochs: int = 200
    learning_rate: float = 3e-3
    weight_decay: float = 3.0

    def fit(
        self, inputs: Rows, labels: Labels, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Losses reported: the members' mean `loss` and their `held_out_loss`."""
        rows, labels = require_rows(inputs, labels, seed)
        if len(rows) < 2:  # the one row's labels, or none
            return LinearModel.constant(labels.any(axis=0), inputs)
        released = np.asarray(labels.any(axis=0), np.float32)
        rng = np.random.default_rng(seed)
        fold_of = rng.permutation(len(rows)) % min(self.folds, len(rows))
        center = rows.mean(axis=0)
        spread = np.sqrt(np.square(rows - center).mean()) or np.float32(1)
        with one_thread():
            parameters, held_out, epoch = self._train(
                (rows - center) / spread, labels, fold_of, rng, on_epoch
            )
        threshold = self._place(held_out * released, labels)
        parameters[0] = parameters[0] / spread
        parameters[1] = parameters[1] - center @ parameters[0][:, None]
        arrays = dict(zip(_NAMES, parameters, strict=True)) | {"released": released}
        return MLPModel(
            arrays, threshold, np.shape(inputs)[1:], len(rows), {"epochs": float(epoch)}
        )

    def _train(
        self,
        rows: Rows,
        labels: Labels,
        fold_of: NDArray[np.int64],
        rng: np.random.Generator,
        on_epoch: OnEpoch | None,
    ) -> tuple[list[Rows], Rows, int]:
        """Trains all members; their parameters and held-out probabilities `[n, num_labels]` at the best epoch."""
        held = torch.from_numpy(fold_of == np.arange(fold_of.max() + 1)[:, None])  # [members, n]
        shares = [mask / mask.sum(dim=1, keepdim=True) / len(held) for mask in (~held, held)]
        targets = torch.from_numpy(labels.astype(np.float32))
        inputs = torch.from_numpy(rows).expand(len(held), -1, -1)
        sizes = (
            (len(held), inputs.shape[2], self.hidden),
            (len(held), self.hidden, targets.shape[1]),
        )
        first = rng.standard_normal(sizes[0], np.float32) * math.sqrt(2 / inputs.shape[2])
        second = rng.standard_normal(sizes[1], np.float32) * (0.1 / math.sqrt(self.hidden))  # small
        log_odds = ((targets.sum(dim=0) + 0.5) / (len(targets) + 1)).logit()  # of each label
        bias = log_odds.repeat(len(held), 1, 1)
        initial = (
            torch.from_numpy(first),
            torch.zeros(len(held), 1, self.hidden),
            torch.from_numpy(second),
            bias,
        )
        parameters = [tensor.requires_grad_() for tensor in initial]
        optimizer = torch.optim.AdamW(
            parameters, lr=self.learning_rate, weight_decay=self.weight_decay
        )
        least = math.inf
        for epoch in range(self.epochs + 1):  # the first without a step behind it
            logits = _logits(parameters, inputs)
            losses = _losses(logits, targets)
            loss, held_out_loss = ((losses * share).sum() for share in shares)
            if on_epoch is not None:
                on_epoch(epoch, {"loss": loss.item(), "held_out_loss": held_out_loss.item()})
            if epoch == 0 or held_out_loss.item() < least:
                least = held_out_loss.item()
                held_out = (logits.sigmoid() * held[..., None]).sum(dim=0).detach().numpy()
                best = (
                    [parameter.detach().numpy().copy() for parameter in parameters],
                    held_out,
                    epoch,
                )
            optimizer.zero_grad()
            # summed over members: each moves as it would alone
            torch.autograd.backward(loss * len(held))
            optimizer.step()
        return best

"""Teachers and a student with one hidden layer. Several networks are trained at once by batched matrix products."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from pate.aggregators.training_set import TrainingSet
from pate.array_types import BoolArray, Float32Array, IntArray
from pate.device import require_device, torch
from pate.models.hyperparameters import require_settings
from pate.models.linear_model import LinearModel
from pate.models.networks.minibatches import Minibatches, StackedAdamW
from pate.models.shards import PaddedBatch, Shard, as_rows, require_shards
from pate.models.student import OnEpoch, require_rows
from pate.models.student_model import FlatModel, StudentModel
from pate.models.teacher import State, Teacher
from pate.models.thresholds import ThresholdedStudent
from pate.threads import one_thread
from pate.validation import require_probability

# The names of the parameters of a network, in the order of its layers.
_NAMES = ("hidden_weights", "hidden_bias", "weights", "bias")


@dataclass(frozen=True)
class MLPTeacher(Teacher):
    """A recipe for teachers with one hidden layer of rectified units and a logistic output for each label.

    A teacher is trained by AdamW on the cross-entropy of the known labels. The mean input is subtracted from its
    inputs, and the difference is divided by one number, the root mean square of the differences over all records and
    features. Both come from the teacher's own records, and become part of the hidden layer. The loss of a minibatch is
    the mean over its records of the sum over the labels. The threshold is public and equal for all teachers. With a
    threshold below 0.5, rare labels get votes.

    Attributes:
        hidden: the number of units of the hidden layer.
        epochs: the number of passes over a teacher's records.
        batch_size: the greatest number of records of a step.
        learning_rate: the learning rate of AdamW, > 0.
        weight_decay: the weight decay of AdamW, >= 0.
        threshold: a label gets a vote if its probability is at least this number in (0, 1).
        device: "cpu", "cuda", or "auto", which is the GPU if there is one.
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
        """Trains a teacher for each shard by minibatches.

        The initial weights of a teacher and the order of its records are drawn with the teacher's own seed.
        """
        require_shards(shards, seeds=seeds)
        device = require_device(self.device)
        padded_batch = PaddedBatch(shards, device=device, dtype=torch.float32)
        center = padded_batch.mean_over_records(padded_batch.inputs)
        inputs = (padded_batch.inputs - center).mul_(padded_batch.record_mask)
        # The mean square of each shard, [num_shards, 1, 1].
        mean_square_of_each_shard = padded_batch.mean_over_records(inputs * inputs).mean(
            dim=2, keepdim=True
        )
        # The spread is 1 if all records are equal.
        spreads_of_shards = torch.where(
            mean_square_of_each_shard > 0,
            mean_square_of_each_shard.sqrt(),
            torch.ones_like(mean_square_of_each_shard),
        )
        rngs = [np.random.default_rng(seed) for seed in seeds]
        parameters_of_teachers: list[torch.Tensor] = []
        for fan_in, fan_out in pairwise(
            (inputs.shape[2], self.hidden, padded_batch.labels.shape[2])
        ):
            # Weights are normal with the scale of He et al. (2015), from each teacher's generator.
            initial_std = math.sqrt(2 / fan_in)
            layer_weights_of_teachers = [
                initial_std * rng.standard_normal((fan_in, fan_out), np.float32) for rng in rngs
            ]
            weights = torch.from_numpy(np.stack(layer_weights_of_teachers)).to(device)
            bias = weights.new_zeros((len(rngs), 1, fan_out))
            parameters_of_teachers += [weights.requires_grad_(), bias.requires_grad_()]
        minibatches = Minibatches(
            part_sizes=[len(shard) for shard in shards],
            batch_size=self.batch_size,
            epochs=self.epochs,
            rngs=rngs,
        )
        losses_of_steps = self._train(
            parameters_of_teachers,
            inputs=inputs.div_(spreads_of_shards),
            labels=padded_batch.labels,
            known_label_mask=padded_batch.known_label_mask,
            minibatches=minibatches,
        )
        hidden_weights, hidden_bias, weights, bias = (
            parameter.detach() for parameter in parameters_of_teachers
        )
        hidden_weights.div_(spreads_of_shards)
        hidden_bias.sub_(center @ hidden_weights)
        bias.sub_(math.log(self.threshold / (1 - self.threshold)))
        tensors = zip(_NAMES, (hidden_weights, hidden_bias, weights, bias), strict=True)
        arrays = {name: tensor.cpu().numpy() for name, tensor in tensors}
        return [
            {name: array[row].copy() for name, array in arrays.items()}
            | {"loss_curve": losses_by_step[np.isfinite(losses_by_step)]}
            for row, losses_by_step in enumerate(losses_of_steps)
        ]

    def predict_many(self, states: Sequence[State], inputs: Float32Array) -> Float32Array:
        """Returns the confidences, `[num_states, num_queries, num_labels]`: the probabilities, shifted.

        The log-odds of a probability are shifted so that the threshold becomes 0.5. The shift is part of each teacher's
        bias.
        """
        device = require_device(self.device)
        stacked = (
            torch.from_numpy(np.stack([state[name] for state in states])).to(device)
            for name in _NAMES
        )
        hidden_weights, hidden_bias, weights, bias = stacked
        queries = torch.from_numpy(as_rows(inputs)).to(device)
        hidden_units = (queries @ hidden_weights).add_(hidden_bias).relu_()
        return np.asarray((hidden_units @ weights).add_(bias).sigmoid_().cpu().numpy())

    def _train(
        self,
        weights_and_biases: list[torch.Tensor],
        *,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        known_label_mask: torch.Tensor | None,
        minibatches: Minibatches,
    ) -> Float32Array:
        """Trains the parameters of all teachers in place, and returns their losses, `[num_shards, num_steps]`.

        Args:
            weights_and_biases: the weights and biases of both layers, stacked over teachers.
            inputs: the standardized inputs of each teacher, padded to n records, `[num_shards, n, num_features]`.
            labels: the label bits of each teacher, `[num_shards, n, num_labels]`.
            known_label_mask: 1 for each known label, `[num_shards, n, num_labels]`; None if all are known.
            minibatches: the records of each step. A teacher with fewer steps than others has the loss NaN in the
                remaining steps.
        """
        optimizer = StackedAdamW(
            parameters=[parameter.detach() for parameter in weights_and_biases],
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
        )
        device = inputs.device
        # The records of all shards are numbered along one axis, as an index into one axis is twice as fast.
        all_inputs = inputs.flatten(start_dim=0, end_dim=1)
        all_labels = labels.flatten(start_dim=0, end_dim=1)
        all_known_masks = (
            None if known_label_mask is None else known_label_mask.flatten(start_dim=0, end_dim=1)
        )
        num_teachers, most_records, _ = inputs.shape
        first_rows = torch.arange(num_teachers, device=device)[:, None] * most_records
        losses_of_steps = inputs.new_full((num_teachers, minibatches.num_steps), math.nan)
        for step, minibatch in enumerate(minibatches):
            has_records_in_step = torch.from_numpy(minibatch.records_per_part > 0).to(device)
            # The share of a record in its teacher's mean loss, 0 for padding.
            is_record = (
                np.arange(minibatch.record_rows.shape[1]) < minibatch.records_per_part[:, None]
            )
            record_share_array = is_record / np.maximum(minibatch.records_per_part, 1)[:, None]
            record_shares = torch.from_numpy(record_share_array.astype(np.float32)).to(device)
            # [num_shards, batch_size]
            record_indices = torch.from_numpy(minibatch.record_rows).to(device) + first_rows
            logits = _logits(
                weights_and_biases, inputs=_select(all_inputs, row_indices=record_indices)
            )
            record_losses = _losses(
                logits,
                labels=_select(all_labels, row_indices=record_indices),
                known_label_mask=None
                if all_known_masks is None
                else _select(all_known_masks, row_indices=record_indices),
            )
            teacher_losses = (record_losses * record_shares).sum(dim=1)
            # The losses are summed over teachers, never averaged, so each teacher moves as it would alone.
            gradients = torch.autograd.grad(teacher_losses.sum(), weights_and_biases)
            optimizer.step(gradients, is_active=has_records_in_step[:, None, None])
            losses_of_steps[:, step] = torch.where(
                has_records_in_step, teacher_losses.detach(), math.nan
            )
        return losses_of_steps.cpu().numpy()


def _select(values: torch.Tensor, *, row_indices: torch.Tensor) -> torch.Tensor:
    """Returns the rows of `values`, `[num_rows, num_columns]`, at indices, as `[*indices.shape, num_columns]`."""
    rows = values.index_select(dim=0, index=row_indices.flatten())
    return rows.view((*row_indices.shape, -1))


def _logits(weights_and_biases: Sequence[torch.Tensor], *, inputs: torch.Tensor) -> torch.Tensor:
    """Returns the log-odds of several networks, `[num_models, n, num_labels]`.

    Args:
        weights_and_biases: the weights and biases of both layers, stacked over networks.
        inputs: n inputs for each network, `[num_models, n, num_features]`.
    """
    hidden_weights, hidden_bias, output_weights, output_bias = weights_and_biases
    hidden_units = torch.baddbmm(hidden_bias, inputs, hidden_weights).relu()
    return torch.baddbmm(output_bias, hidden_units, output_weights)


def _losses(
    logits: torch.Tensor, *, labels: torch.Tensor, known_label_mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns the cross-entropy of each record, summed over its known labels, `[num_models, num_records]`.

    Args:
        logits: `[num_models, num_records, num_labels]`.
        labels: the labels, 0 or 1, in the same shape.
        known_label_mask: 1 for each label that is known, in the same shape; None if all are known.
    """
    losses = torch.nn.functional.softplus(logits) - logits * labels
    return (losses if known_label_mask is None else losses * known_label_mask).sum(dim=2)


class MLPModel(FlatModel):
    """A trained student. Its probabilities are the mean of the probabilities of several networks.

    The probability of a label that was never released is 0.
    """

    kind: ClassVar[str] = "mlp"
    array_axes: ClassVar[Mapping[str, str]] = {
        "hidden_weights": "mdh",
        "hidden_bias": "m1h",
        "weights": "mhL",
        "bias": "m1L",
        "released": "L",
    }

    @staticmethod
    def formula(inputs: Any, arrays: Mapping[str, Any], xp: Any) -> Any:
        """Returns the probabilities `[num_rows, num_labels]` of flat inputs, as `FlatModel.formula` describes."""
        parameters_of_members = list(zip(*(arrays[name] for name in _NAMES), strict=True))
        total = 0.0
        for hidden_weights, hidden_bias, weights, bias in parameters_of_members:
            hidden_units = (inputs @ hidden_weights + hidden_bias).clip(0, None)
            total = total + (0.5 + 0.5 * xp.tanh((hidden_units @ weights + bias) / 2))
        return total / len(parameters_of_members) * arrays["released"]


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class _Epoch:
    """The parameters of all members of an `MLPStudent` after one epoch, and their held-out predictions.

    Attributes:
        epoch: the number of the epoch; 0 before the first step.
        parameters: the weights and biases of the hidden layer, then those of the output, each with a first axis of
            members.
        held_out_probabilities: the probabilities of labels for each row, `[num_rows, num_labels]`. Each member is
            trained on all folds of the rows but one, and predicts the rows of that fold.
    """

    epoch: int
    parameters: list[Float32Array]
    held_out_probabilities: Float32Array


@dataclass(frozen=True)
class MLPStudent(ThresholdedStudent):
    """A recipe for an ensemble of networks with one hidden layer and a logistic output for each label.

    The hidden units are rectified. Rows are divided at random into folds. Each network, a member, is trained on all
    folds but one, by full-batch AdamW on cross-entropy. All members are trained at once. Their parameters after one
    epoch, that with the least mean held-out loss, are kept. By default the threshold, one number for all labels,
    maximizes the micro-F1 of the held-out probabilities (`ThresholdedStudent`).

    Attributes:
        hidden: the number of units of a member's hidden layer.
        folds: the number of members, at least 2; fewer if there are fewer rows.
        epochs: the number of epochs; all are computed, and the best one is kept.
        learning_rate: the learning rate of AdamW, > 0.
        weight_decay: the weight decay of AdamW, >= 0.
    """

    hidden: int = 64
    folds: int = 5
    epochs: int = 200
    learning_rate: float = 3e-3
    weight_decay: float = 3.0

    def fit(
        self, inputs: Float32Array, labels: BoolArray, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Trains the members; reports the mean over members of `loss` and of `held_out_loss` after each epoch.

        Epoch 0 is the state before the first step.
        """
        return self.fit_known(TrainingSet(inputs, labels), seed=seed, on_epoch=on_epoch)

    def fit_known(
        self, training: TrainingSet, *, seed: int, on_epoch: OnEpoch | None = None
    ) -> StudentModel:
        """Trains the members as `fit` does, by the loss on known labels alone."""
        inputs = training.inputs
        input_rows, labels = require_rows(inputs=inputs, labels=training.labels, seed=seed)
        known_label_mask = training.known
        if len(input_rows) < 2:  # The model predicts the labels of the only row, or none.
            return LinearModel.constant(predicted_labels=labels.any(axis=0), inputs=inputs)
        released_label_mask = np.asarray(labels.any(axis=0), np.float32)
        rng = np.random.default_rng(seed)
        fold_of_row = rng.permutation(len(input_rows)) % min(self.folds, len(input_rows))
        center = input_rows.mean(axis=0)
        input_spread = np.sqrt(np.square(input_rows - center).mean()) or np.float32(1)
        with one_thread():
            best_epoch = self._train(
                input_rows=(input_rows - center) / input_spread,
                labels=labels,
                known_label_mask=known_label_mask,
                fold_of_row=fold_of_row,
                rng=rng,
                on_epoch=on_epoch,
            )
        arrays = dict(zip(_NAMES, best_epoch.parameters, strict=True))
        # The model predicts for inputs that are not standardized.
        arrays["hidden_weights"] = arrays["hidden_weights"] / input_spread
        offset = center @ arrays["hidden_weights"][:, None]
        arrays["hidden_bias"] = arrays["hidden_bias"] - offset
        arrays["released"] = released_label_mask
        predictable_label_mask = (
            released_label_mask
            if known_label_mask is None
            else released_label_mask * known_label_mask
        )
        return MLPModel(
            arrays=arrays,
            threshold=self._choose_threshold(
                best_epoch.held_out_probabilities * predictable_label_mask, labels=labels
            ),
            input_shape=np.shape(inputs)[1:],
            num_rows=len(input_rows),
            choices={"epochs": float(best_epoch.epoch)},
        )

    def _train(
        self,
        *,
        input_rows: Float32Array,
        labels: BoolArray,
        known_label_mask: BoolArray | None,
        fold_of_row: IntArray,
        rng: np.random.Generator,
        on_epoch: OnEpoch | None,
    ) -> _Epoch:
        """Trains all members, and returns the epoch with the least held-out loss.

        Args:
            input_rows: the inputs, standardized, `[num_rows, num_features]`.
            labels: the released labels, bool `[num_rows, num_labels]`.
            known_label_mask: which labels are known, bool `[num_rows, num_labels]`; None where all are.
            fold_of_row: the fold of each row, `[num_rows]`.
            rng: the generator of the initial parameters.
            on_epoch: is called with the losses of each epoch; None reports nothing.
        """
        num_members = int(fold_of_row.max()) + 1
        # Whether a member is trained without a row, [num_members, n].
        is_held_out = torch.from_numpy(fold_of_row == np.arange(num_members)[:, None])
        # The share of a row in the mean over members and rows: in the loss, and in the held-out loss.
        train_share = ~is_held_out / (~is_held_out).sum(dim=1, keepdim=True) / num_members
        held_share = is_held_out / is_held_out.sum(dim=1, keepdim=True) / num_members
        label_bits = torch.from_numpy(labels.astype(np.float32))
        known_label_tensor = (
            None
            if known_label_mask is None
            else torch.from_numpy(known_label_mask.astype(np.float32))
        )
        inputs_of_members = torch.from_numpy(input_rows).expand((num_members, -1, -1))
        initial_parameters = self._draw_initial(
            inputs_of_members, label_bits=label_bits, known_label_mask=known_label_tensor, rng=rng
        )
        weights_and_biases = [tensor.requires_grad_() for tensor in initial_parameters]
        optimizer = torch.optim.AdamW(
            weights_and_biases, lr=self.learning_rate, weight_decay=self.weight_decay
        )
        least_held_out_loss = math.inf
        for epoch in range(self.epochs + 1):  # Epoch 0 comes before the first step.
            logits_of_members = _logits(weights_and_biases, inputs=inputs_of_members)
            losses = _losses(
                logits_of_members, labels=label_bits, known_label_mask=known_label_tensor
            )
            training_loss = (losses * train_share).sum()
            held_out_loss = (losses * held_share).sum()
            if on_epoch is not None:
                on_epoch(
                    epoch, {"loss": training_loss.item(), "held_out_loss": held_out_loss.item()}
                )
            if epoch == 0 or held_out_loss.item() < least_held_out_loss:
                least_held_out_loss = held_out_loss.item()
                held_out_probabilities = (logits_of_members.sigmoid() * is_held_out[..., None]).sum(
                    dim=0
                )
                best_epoch = _Epoch(
                    epoch=epoch,
                    parameters=[
                        parameter.detach().numpy().copy() for parameter in weights_and_biases
                    ],
                    held_out_probabilities=held_out_probabilities.detach().numpy(),
                )
            optimizer.zero_grad()
            # The losses are summed over members, so each member moves as it would alone.
            torch.autograd.backward(training_loss * num_members)
            optimizer.step()
        return best_epoch

    def _draw_initial(
        self,
        inputs: torch.Tensor,
        *,
        label_bits: torch.Tensor,
        known_label_mask: torch.Tensor | None,
        rng: np.random.Generator,
    ) -> list[torch.Tensor]:
        """Draws the initial parameters of all members, in the order of `_Epoch.parameters`.

        For every member, the outputs begin near the log-odds of each label's share among all rows that know the label.

        Args:
            inputs: the inputs of each member, `[num_members, num_rows, num_features]`.
            label_bits: the released labels, 0 or 1, `[num_rows, num_labels]`.
            known_label_mask: 1 for each known label, `[num_rows, num_labels]`; None if all are known.
            rng: the generator that draws.
        """
        num_members, _, num_features = inputs.shape
        num_labels = label_bits.shape[1]
        hidden_spread = math.sqrt(2 / num_features)  # He et al., 2015
        output_spread = 0.1 / math.sqrt(self.hidden)
        hidden_draws = rng.standard_normal((num_members, num_features, self.hidden), np.float32)
        output_draws = rng.standard_normal((num_members, self.hidden, num_labels), np.float32)
        if known_label_mask is None:
            label_shares = (label_bits.sum(dim=0) + 0.5) / (len(label_bits) + 1)
        else:
            num_known_present = (label_bits * known_label_mask).sum(dim=0)
            label_shares = (num_known_present + 0.5) / (known_label_mask.sum(dim=0) + 1)
        return [
            torch.from_numpy(hidden_draws * hidden_spread),
            torch.zeros((num_members, 1, self.hidden)),
            torch.from_numpy(output_draws * output_spread),
            label_shares.logit().repeat((num_members, 1, 1)),
        ]

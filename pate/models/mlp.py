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

        The initial weights of a teacher and the order of its records depend on the teacher's seed alone.
        """
        require_shards(shards, seeds=seeds)
        device = require_device(self.device)
        padded_batch = PaddedBatch(shards, device=device, dtype=torch.float32)
        center = padded_batch.mean(padded_batch.inputs)
        inputs = (padded_batch.inputs - center).mul_(padded_batch.mask)
        # The mean square of each shard, [num_shards, 1, 1].
        mean_square = padded_batch.mean(inputs * inputs).mean(dim=2, keepdim=True)
        # The spread is 1 if all records are equal.
        spread = torch.where(mean_square > 0, mean_square.sqrt(), torch.ones_like(mean_square))
        rngs = [np.random.default_rng(seed) for seed in seeds]
        parameters: list[torch.Tensor] = []
        for fan_in, fan_out in pairwise(
            (inputs.shape[2], self.hidden, padded_batch.labels.shape[2])
        ):
            # Weights are normal with the scale of He et al. (2015), from each teacher's generator.
            initial_std = math.sqrt(2 / fan_in)
            layers = [
                initial_std * rng.standard_normal((fan_in, fan_out), np.float32) for rng in rngs
            ]
            weights = torch.from_numpy(np.stack(layers)).to(device)
            bias = weights.new_zeros((len(rngs), 1, fan_out))
            parameters += [weights.requires_grad_(), bias.requires_grad_()]
        batches = Minibatches(
            part_sizes=[len(shard) for shard in shards],
            batch_size=self.batch_size,
            epochs=self.epochs,
            rngs=rngs,
        )
        losses_of_steps = self._train(
            parameters,
            inputs=inputs.div_(spread),
            labels=padded_batch.labels,
            known=padded_batch.known,
            batches=batches,
        )
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
            for row, losses in enumerate(losses_of_steps)
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
        units = (queries @ hidden_weights).add_(hidden_bias).relu_()
        return np.asarray((units @ weights).add_(bias).sigmoid_().cpu().numpy())

    def _train(
        self,
        network_parameters: list[torch.Tensor],
        *,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        known: torch.Tensor | None,
        batches: Minibatches,
    ) -> Float32Array:
        """Trains the parameters of all teachers in place, and returns their losses, `[num_shards, num_steps]`.

        Args:
            network_parameters: the weights and biases of both layers, stacked over teachers.
            inputs: the standardized inputs of each teacher, padded to n records, `[num_shards, n, num_features]`.
            labels: the label bits of each teacher, `[num_shards, n, num_labels]`.
            known: 1 for each known label, `[num_shards, n, num_labels]`; None if all are known.
            batches: the records of each step. A teacher with fewer steps than others has the loss NaN in the remaining
                steps.
        """
        optimizer = StackedAdamW(
            parameters=[parameter.detach() for parameter in network_parameters],
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
        )
        device = inputs.device
        # The records of all shards are numbered along one axis, as an index into one axis is twice as fast.
        all_inputs = inputs.flatten(start_dim=0, end_dim=1)
        all_labels = labels.flatten(start_dim=0, end_dim=1)
        all_known = None if known is None else known.flatten(start_dim=0, end_dim=1)
        starts = torch.arange(len(inputs), device=device)[:, None] * inputs.shape[1]
        curves = inputs.new_full((len(inputs), batches.num_steps), math.nan)
        for step, batch in enumerate(batches):
            is_active = torch.from_numpy(batch.counts > 0).to(device)
            # The share of a record in its teacher's mean loss, 0 for padding.
            is_record = np.arange(batch.rows.shape[1]) < batch.counts[:, None]
            share = is_record / np.maximum(batch.counts, 1)[:, None]
            shares = torch.from_numpy(share.astype(np.float32)).to(device)
            indices = torch.from_numpy(batch.rows).to(device) + starts  # [num_shards, batch_size]
            logits = _logits(network_parameters, inputs=_select(all_inputs, indices=indices))
            record_losses = _losses(
                logits,
                labels=_select(all_labels, indices=indices),
                known=None if all_known is None else _select(all_known, indices=indices),
            )
            loss = (record_losses * shares).sum(dim=1)
            # The losses are summed over teachers, never averaged, so each teacher moves as it would alone.
            gradients = torch.autograd.grad(loss.sum(), network_parameters)
            optimizer.step(gradients, is_active=is_active[:, None, None])
            curves[:, step] = torch.where(is_active, loss.detach(), math.nan)
        return curves.cpu().numpy()


def _select(values: torch.Tensor, *, indices: torch.Tensor) -> torch.Tensor:
    """Returns the rows of `values`, `[num_rows, num_columns]`, at indices, as `[*indices.shape, num_columns]`."""
    rows = values.index_select(dim=0, index=indices.flatten())
    return rows.view((*indices.shape, -1))


def _logits(network_parameters: Sequence[torch.Tensor], *, inputs: torch.Tensor) -> torch.Tensor:
    """Returns the log-odds of several networks, `[num_models, n, num_labels]`.

    Args:
        network_parameters: the weights and biases of both layers, stacked over networks.
        inputs: n inputs for each network, `[num_models, n, num_features]`.
    """
    hidden_weights, hidden_bias, weights, bias = network_parameters
    units = torch.baddbmm(hidden_bias, inputs, hidden_weights).relu()
    return torch.baddbmm(bias, units, weights)


def _losses(
    logits: torch.Tensor, *, labels: torch.Tensor, known: torch.Tensor | None = None
) -> torch.Tensor:
    """Returns the cross-entropy of each record, summed over its known labels, `[num_models, num_records]`.

    Args:
        logits: `[num_models, num_records, num_labels]`.
        labels: the labels, 0 or 1, in the same shape.
        known: 1 for each label that is known, in the same shape; None if all are known.
    """
    losses = torch.nn.functional.softplus(logits) - logits * labels
    return (losses if known is None else losses * known).sum(dim=2)


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
        members = list(zip(*(arrays[name] for name in _NAMES), strict=True))
        total = 0.0
        for hidden_weights, hidden_bias, weights, bias in members:
            units = (inputs @ hidden_weights + hidden_bias).clip(0, None)
            total = total + (0.5 + 0.5 * xp.tanh((units @ weights + bias) / 2))
        return total / len(members) * arrays["released"]


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class _Epoch:
    """The parameters of all members of an `MLPStudent` after one epoch, and their held-out predictions.

    Attributes:
        epoch: the number of the epoch.
        parameters: the weights and biases of the hidden layer, then those of the output, each with a first axis of
            members.
        held_out_probabilities: the probabilities of each row, from the member that was not trained on it,
            `[num_rows, num_labels]`.
    """

    epoch: int
    parameters: list[Float32Array]
    held_out_probabilities: Float32Array


@dataclass(frozen=True)
class MLPStudent(ThresholdedStudent):
    """A recipe for an ensemble of networks with one hidden layer and a logistic output for each label.

    The hidden units are rectified. Rows are divided at random into folds. Each network, a member, is trained on all
    folds but one, by full-batch AdamW on cross-entropy. All members are trained at once. The parameters after the epoch
    with the least held-out loss are kept. By default the threshold, one number for all labels, maximizes the micro-F1
    of the held-out probabilities (`ThresholdedStudent`).

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
        rows, labels = require_rows(inputs=inputs, labels=training.labels, seed=seed)
        known = training.known
        if len(rows) < 2:  # The model predicts the labels of the only row, or none.
            return LinearModel.constant(predicted=labels.any(axis=0), inputs=inputs)
        released = np.asarray(labels.any(axis=0), np.float32)
        rng = np.random.default_rng(seed)
        fold_of = rng.permutation(len(rows)) % min(self.folds, len(rows))
        center = rows.mean(axis=0)
        spread = np.sqrt(np.square(rows - center).mean()) or np.float32(1)
        with one_thread():
            best = self._train(
                rows=(rows - center) / spread,
                labels=labels,
                known=known,
                fold_of=fold_of,
                rng=rng,
                on_epoch=on_epoch,
            )
        arrays = dict(zip(_NAMES, best.parameters, strict=True))
        # The model predicts for inputs that are not standardized.
        arrays["hidden_weights"] = arrays["hidden_weights"] / spread
        offset = center @ arrays["hidden_weights"][:, None]
        arrays["hidden_bias"] = arrays["hidden_bias"] - offset
        arrays["released"] = released
        can_be_predicted = released if known is None else released * known
        return MLPModel(
            arrays=arrays,
            threshold=self._choose_threshold(
                best.held_out_probabilities * can_be_predicted, labels=labels
            ),
            input_shape=np.shape(inputs)[1:],
            num_rows=len(rows),
            choices={"epochs": float(best.epoch)},
        )

    def _train(
        self,
        *,
        rows: Float32Array,
        labels: BoolArray,
        known: BoolArray | None,
        fold_of: IntArray,
        rng: np.random.Generator,
        on_epoch: OnEpoch | None,
    ) -> _Epoch:
        """Trains all members, and returns the epoch with the least held-out loss.

        Args:
            rows: the inputs, standardized, `[num_rows, num_features]`.
            labels: the released labels, bool `[num_rows, num_labels]`.
            known: which labels are known, bool `[num_rows, num_labels]`; None where all are.
            fold_of: the fold of each row, `[num_rows]`.
            rng: the generator of the initial parameters.
            on_epoch: is called with the losses of each epoch; None reports nothing.
        """
        num_members = int(fold_of.max()) + 1
        # Whether a member is trained without a row, [num_members, n].
        is_held_out = torch.from_numpy(fold_of == np.arange(num_members)[:, None])
        # The share of a row in the mean over members and rows: in the loss, and in the held-out loss.
        train_share = ~is_held_out / (~is_held_out).sum(dim=1, keepdim=True) / num_members
        held_share = is_held_out / is_held_out.sum(dim=1, keepdim=True) / num_members
        targets = torch.from_numpy(labels.astype(np.float32))
        is_known = None if known is None else torch.from_numpy(known.astype(np.float32))
        inputs = torch.from_numpy(rows).expand((num_members, -1, -1))
        initial = self._draw_initial(inputs, targets=targets, rng=rng)
        parameters = [tensor.requires_grad_() for tensor in initial]
        optimizer = torch.optim.AdamW(
            parameters, lr=self.learning_rate, weight_decay=self.weight_decay
        )
        least_loss = math.inf
        for epoch in range(self.epochs + 1):  # Epoch 0 comes before the first step.
            logits = _logits(parameters, inputs=inputs)
            losses = _losses(logits, labels=targets, known=is_known)
            loss = (losses * train_share).sum()
            held_out_loss = (losses * held_share).sum()
            if on_epoch is not None:
                on_epoch(epoch, {"loss": loss.item(), "held_out_loss": held_out_loss.item()})
            if epoch == 0 or held_out_loss.item() < least_loss:
                least_loss = held_out_loss.item()
                held_out_probabilities = (logits.sigmoid() * is_held_out[..., None]).sum(dim=0)
                best = _Epoch(
                    epoch=epoch,
                    parameters=[parameter.detach().numpy().copy() for parameter in parameters],
                    held_out_probabilities=held_out_probabilities.detach().numpy(),
                )
            optimizer.zero_grad()
            # The losses are summed over members, so each member moves as it would alone.
            torch.autograd.backward(loss * num_members)
            optimizer.step()
        return best

    def _draw_initial(
        self, inputs: torch.Tensor, *, targets: torch.Tensor, rng: np.random.Generator
    ) -> list[torch.Tensor]:
        """Draws the initial parameters of all members, in the order of `_Epoch.parameters`.

        The outputs begin near the log-odds of each label's share among the rows.

        Args:
            inputs: the inputs of each member, `[num_members, num_rows, num_features]`.
            targets: the released labels, 0 or 1, `[num_rows, num_labels]`.
            rng: the generator that draws.
        """
        num_members, _, width = inputs.shape
        num_labels = targets.shape[1]
        hidden_spread = math.sqrt(2 / width)  # He et al., 2015
        output_spread = 0.1 / math.sqrt(self.hidden)
        hidden = rng.standard_normal((num_members, width, self.hidden), np.float32)
        output = rng.standard_normal((num_members, self.hidden, num_labels), np.float32)
        log_odds = ((targets.sum(dim=0) + 0.5) / (len(targets) + 1)).logit()  # of each label
        return [
            torch.from_numpy(hidden * hidden_spread),
            torch.zeros((num_members, 1, self.hidden)),
            torch.from_numpy(output * output_spread),
            log_odds.repeat((num_members, 1, 1)),
        ]

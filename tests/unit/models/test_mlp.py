"""Teachers and a student with one hidden layer have the results of torch's own layers."""

import math

import numpy as np
import torch
from torch import nn

from pate.models import MLPStudent, MLPTeacher


def train_with_autograd(teacher, shard, seed):
    """Trains a teacher by torch's own layers, loss and AdamW, and returns the function from inputs to confidences."""
    rng = np.random.default_rng(seed)
    mean = shard.inputs.mean(axis=0)
    spread = np.sqrt(np.square(shard.inputs - mean).mean())
    scaled_inputs = torch.from_numpy((shard.inputs - mean) / spread)
    labels = torch.from_numpy(shard.labels.astype(np.float32))
    hidden_layer = nn.Linear(in_features=12, out_features=teacher.hidden)
    output_layer = nn.Linear(in_features=teacher.hidden, out_features=5)
    for layer in (hidden_layer, output_layer):
        fan_in = layer.in_features
        weights = rng.standard_normal((fan_in, layer.out_features), np.float32)
        weights = weights * math.sqrt(2 / fan_in)
        layer.weight.data = torch.from_numpy(weights.T.copy())
        layer.bias.data.zero_()
    model = nn.Sequential(hidden_layer, nn.ReLU(), output_layer)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=teacher.learning_rate, weight_decay=teacher.weight_decay
    )
    for _ in range(teacher.epochs):
        order = rng.permutation(len(shard))
        for first in range(0, len(shard), teacher.batch_size):
            rows = torch.from_numpy(order[first : first + teacher.batch_size])
            loss = nn.functional.binary_cross_entropy_with_logits(
                model(scaled_inputs[rows]), labels[rows], reduction="sum"
            )
            optimizer.zero_grad()
            (loss / len(rows)).backward()
            optimizer.step()

    def predict(inputs):
        logits = model(torch.from_numpy((inputs - mean) / spread))
        threshold_logit = math.log(teacher.threshold / (1 - teacher.threshold))
        return (logits - threshold_logit).sigmoid().detach().numpy()

    return predict


def test_stacked_mlp_teachers_equal_separate_training(shards, queries):
    """Six MLP teachers trained side by side give the confidences of torch's own layers, trained alone."""
    teacher = MLPTeacher(hidden=9, epochs=4, batch_size=8, weight_decay=0.1, device="cpu")
    seeds = [5, 4, 3, 2, 1, 0]
    confidences = teacher.predict_many(
        states=teacher.fit_many(shards=shards, seeds=seeds), inputs=queries
    )
    for shard, seed, stacked_confidences in zip(shards, seeds, confidences, strict=True):
        predict_alone = train_with_autograd(teacher=teacher, shard=shard, seed=seed)
        np.testing.assert_allclose(stacked_confidences, predict_alone(inputs=queries), atol=2e-4)


def test_the_model_predicts_what_torch_would(rows, held_out):
    """A student of three networks predicts the mean of torch's networks with its arrays."""
    model = MLPStudent(hidden=7, folds=3, epochs=5).fit(rows.inputs, labels=rows.labels, seed=0)
    probabilities_of_members = []
    for member in range(3):
        hidden_layer = nn.Linear(in_features=15, out_features=7)
        output_layer = nn.Linear(in_features=7, out_features=6)
        for prefix, layer in {"hidden_": hidden_layer, "": output_layer}.items():
            layer.weight.data = torch.from_numpy(model.arrays[f"{prefix}weights"][member].T.copy())
            layer.bias.data = torch.from_numpy(model.arrays[f"{prefix}bias"][member, 0].copy())
        network = nn.Sequential(hidden_layer, nn.ReLU(), output_layer, nn.Sigmoid())
        probabilities_of_members.append(network(torch.from_numpy(held_out.inputs)).detach().numpy())
    np.testing.assert_allclose(
        model.predict_proba(held_out.inputs), np.mean(probabilities_of_members, axis=0), atol=1e-5
    )


def test_the_student_is_that_of_the_epoch_with_the_least_held_out_loss(rows):
    """The number of epochs of a student is that, of 0 to 150, with the smallest loss on held-out rows.

    The chosen number is neither 0 nor 150.
    """
    student_losses_by_epoch = []
    student = MLPStudent(hidden=32, epochs=150, learning_rate=3e-2, weight_decay=0.0)

    def record_losses(epoch, losses):
        student_losses_by_epoch.append(losses)

    model = student.fit(rows.inputs, labels=rows.labels, seed=0, on_epoch=record_losses)
    held_out_loss_by_epoch = [losses["held_out_loss"] for losses in student_losses_by_epoch]
    assert len(student_losses_by_epoch) == 151
    assert model.choices["epochs"] == np.argmin(held_out_loss_by_epoch)
    assert 0 < np.argmin(held_out_loss_by_epoch) < 150  # The student overfits afterwards.
    assert student_losses_by_epoch[-1]["loss"] < min(held_out_loss_by_epoch)

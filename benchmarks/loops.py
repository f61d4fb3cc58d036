"""Loops that train teachers one after the other, as a user would with torch's or scikit-learn's own parts.

The networks are those of our teachers, out of `torch.nn`; records are tensors in memory from which minibatches are
indexed, without a `DataLoader`, which would only add to the time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.nn import functional

from pate.models import CNNTeacher, MLPTeacher, Shard
from pate.models.networks.convnet import ConvNet


def cnn_loop(teacher: CNNTeacher, parts: Sequence[Shard], device: str = "cpu") -> None:
    """Trains small convolutional networks."""
    for part in parts:
        _fit(_convolutional(teacher, part), part, teacher, device)


def mlp_loop(teacher: MLPTeacher, parts: Sequence[Shard]) -> None:
    """Trains networks with one hidden layer."""
    for part in parts:
        hidden = nn.Linear(part.inputs.shape[1], teacher.hidden)
        _fit(
            nn.Sequential(hidden, nn.ReLU(), nn.Linear(teacher.hidden, part.labels.shape[1])),
            part,
            teacher,
            device="cpu",
        )


def logistic_loop(parts: Sequence[Shard]) -> None:
    """Trains scikit-learn's logistic regression, a label at a time."""
    for part in parts:
        for column in part.labels.T:
            LogisticRegression().fit(part.inputs, column)


def network_of(teacher: CNNTeacher, part: Shard) -> ConvNet:
    """Returns the architecture of a teacher for records of this shape."""
    return ConvNet.from_architecture(
        teacher, part.inputs.shape[1:], num_labels=part.labels.shape[1]
    )


def _convolutional(teacher: CNNTeacher, part: Shard) -> nn.Module:
    network = network_of(teacher, part)
    channels = part.inputs.shape[1]
    layers = []
    for layer, (width, _) in enumerate(network.weight_shapes):
        side = teacher.patch if layer == 0 else teacher.kernel_size
        stride, padding = (side, 0) if layer == 0 else (1, side // 2)
        convolution = nn.Conv2d(channels, width, side, stride=stride, padding=padding, bias=False)
        layers += [convolution, nn.GroupNorm(width // 8, width), nn.ReLU()]
        channels = width
    head = nn.Linear(channels * network.cells**2, part.labels.shape[1])
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(network.cells), nn.Flatten(), head)


def _fit(model: nn.Module, part: Shard, teacher: CNNTeacher | MLPTeacher, device: str) -> None:
    model.to(device)
    inputs = torch.from_numpy(part.inputs).to(device)
    labels = torch.from_numpy(part.labels.astype(np.float32)).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=teacher.learning_rate, weight_decay=teacher.weight_decay
    )
    for _ in range(teacher.epochs):
        for rows in torch.randperm(len(inputs), device=device).split(teacher.batch_size):
            loss = functional.binary_cross_entropy_with_logits(model(inputs[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

"""Networks for images as teachers: trained and asked one after the other, or side by side as one batched network."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pate.networks import ConvNet, Network, Recipe, fit, fit_stacked, logits_in_blocks, require_images
from pate.networks.network import blocks_of
from pate.networks.stacked_convnet import stacked_logits
from pate.teachers.teacher import Shard, State

_CURVE = "loss_curve"
_QUERIES = 64  # asked of a stack of networks at once


def fit_apart(
    network: Network, shards: Sequence[Shard], seeds: Sequence[int], *, recipe: Recipe, device: torch.device
) -> list[State]:
    """Trains a network per shard, one after the other; initial weights and order depend on a network's seed alone."""
    states: list[State] = []
    for images, targets, rng in zip(*_inputs(shards, seeds), strict=True):
        tensors, losses = fit(network, images, targets, recipe=recipe, rng=rng, device=device)
        states.append({name: tensor.cpu().numpy() for name, tensor in tensors.items()} | {_CURVE: losses})
    return states


def fit_side_by_side(
    network: ConvNet, shards: Sequence[Shard], seeds: Sequence[int], *, recipe: Recipe, device: torch.device
) -> list[State]:
    """Trains a network per shard, all in one batch; equal to `fit_apart` up to rounding."""
    images, targets, rngs = _inputs(shards, seeds)
    tensors, curve = fit_stacked(network, images, targets, recipe=recipe, rngs=rngs, device=device)
    arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    return [
        {name: array[row].copy() for name, array in arrays.items()} | {_CURVE: losses[np.isfinite(losses)]}
        for row, losses in enumerate(curve)
    ]


def logits_apart(
    network: Network, states: Sequence[State], images: NDArray[np.generic], device: torch.device
) -> NDArray[np.float32]:
    """Log-odds of each network on all images, `[num_states, n, num_labels]`, one network after the other."""
    loaded = ({name: torch.from_numpy(state[name]).to(device) for name in _names(state)} for state in states)
    return np.stack([logits_in_blocks(network, tensors, images, device) for tensors in loaded])


@torch.no_grad()
def logits_side_by_side(
    network: ConvNet, states: Sequence[State], images: NDArray[np.generic], device: torch.device
) -> NDArray[np.float32]:
    """What `logits_apart` gives up to rounding, from all networks at once."""
    stacks = {
        name: torch.from_numpy(np.stack([state[name] for state in states])).to(device) for name in _names(states[0])
    }
    found = np.empty((len(states), len(images), network.num_labels), np.float32)
    for rows, block in blocks_of(images, _QUERIES, device):
        valid = torch.ones(len(states), len(block), dtype=torch.bool, device=device)
        shown = block.contiguous().expand(len(states), *block.shape)
        logits = stacked_logits(network, stacks, shown, valid, training=False)
        found[:, rows] = logits.float().cpu().numpy()
    return found


def confidences(logits: NDArray[np.float32], threshold: float = 0.5) -> NDArray[np.float32]:
    """Probabilities, moved on the scale of log-odds so that the threshold is at 0.5; overwrites the log-odds."""
    moved = torch.from_numpy(logits).sub_(math.log(threshold / (1 - threshold)))
    found: NDArray[np.float32] = moved.sigmoid_().numpy()
    return found


def _inputs(
    shards: Sequence[Shard], seeds: Sequence[int]
) -> tuple[list[NDArray[np.generic]], list[NDArray[np.float32]], list[np.random.Generator]]:
    """Images, targets and generator of each network."""
    images, targets = zip(
        *((require_images(shard.inputs), shard.labels.astype(np.float32)) for shard in shards), strict=True
    )
    return list(images), list(targets), [np.random.default_rng(seed) for seed in seeds]


def _names(state: State) -> list[str]:
    return [name for name in state if name != _CURVE]

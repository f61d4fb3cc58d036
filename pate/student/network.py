"""Students that are networks for images: members trained without a fold each, and again with pseudo-labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pate.networks import Network, Recipe, Tensors, fit, logits_in_blocks, one_thread
from pate.networks.device import device_memory
from pate.student.student import OnEpoch

Arrays = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Members:
    """What was trained.

    Attributes:
        arrays: by name, `[members, …]`, and `released`, `[num_labels]`.
        held_out: `[n, num_labels]`, probabilities of each row from the member that never saw it.
        choices: for the record.
    """

    arrays: Arrays
    held_out: NDArray[np.float32]
    choices: dict[str, float]


def fit_members(
    network: Network,
    images: NDArray[np.float32],
    labels: NDArray[np.bool_],
    pool: NDArray[np.float32],
    *,
    recipe: Recipe,
    folds: int,
    device: torch.device,
    seed: int,
    on_epoch: OnEpoch | None,
) -> Members:
    """Trains each member without one fold of the rows.

    With a pool, a member is trained twice: on its rows; then, from new random weights, on its rows and on the pool
    with the probabilities that its first self gives there for labels. The fold that it never saw stays held out, so
    the threshold is placed on honest probabilities. All of it is post-processing of what was released.

    Args:
        network: the architecture.
        images: at least 2 labeled ones, `[n, channels, height, width]`.
        labels: bool `[n, num_labels]`.
        pool: unlabeled images `[m, channels, height, width]`; m may be 0.
        recipe: how each member is trained.
        folds: members, at least 2; fewer where there are fewer rows.
        device: where.
        seed: of folds and members.
        on_epoch: told the members' mean loss after each epoch of their last training.
    """
    rng = np.random.default_rng(seed)
    fold_of = rng.permutation(len(images)) % min(folds, len(images))
    released: NDArray[np.float32] = np.asarray(labels.any(axis=0), np.float32)
    held_out, members, curves = np.zeros(labels.shape, np.float32), [], []
    with one_thread(), device_memory("CUDA_VISIBLE_DEVICES= before the command trains it on the processor"):
        for fold in range(fold_of.max() + 1):
            kept = fold_of != fold
            targets = labels[kept].astype(np.float32)
            tensors, curve = _fit_member(network, images[kept], targets, pool, recipe=recipe, rng=rng, device=device)
            held_out[~kept] = _probabilities(network, tensors, images[~kept], device)
            members.append({name: tensor.cpu().float().numpy() for name, tensor in tensors.items()})
            curves.append(curve)
    if on_epoch is not None:
        for epoch, losses in enumerate(np.array_split(_mean_curve(curves), min(recipe.epochs, len(curves[0])))):
            on_epoch(epoch, {"loss": float(losses.mean())})
    arrays: Arrays = {name: np.stack([member[name] for member in members]) for name in members[0]}
    arrays["released"] = released
    return Members(arrays, held_out * released, {"unlabeled": float(len(pool))})


def members_probabilities(network: Network, arrays: Arrays, images: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean of the members' probabilities `[m, num_labels]`; 0 for labels that were never released."""
    released = arrays["released"]
    names = [name for name in arrays if name != "released"]
    total = np.zeros((len(images), len(released)), np.float32)
    count = len(arrays[names[0]])
    with one_thread():
        for member in range(count):
            tensors = {name: torch.from_numpy(np.ascontiguousarray(arrays[name][member])) for name in names}
            total += _probabilities(network, tensors, images, torch.device("cpu"))
    return total / np.float32(count) * released


def _fit_member(
    network: Network,
    images: NDArray[np.float32],
    targets: NDArray[np.float32],
    pool: NDArray[np.float32],
    *,
    recipe: Recipe,
    rng: np.random.Generator,
    device: torch.device,
) -> tuple[Tensors, NDArray[np.float32]]:
    tensors, curve = fit(network, images, targets, recipe=recipe, rng=rng, device=device)
    if len(pool):
        guessed = _probabilities(network, tensors, pool, device)
        joined, wanted = np.concatenate([images, pool]), np.concatenate([targets, guessed])
        tensors, curve = fit(network, joined, wanted, recipe=recipe, rng=rng, device=device)
    return tensors, curve


def _probabilities(
    network: Network, tensors: Tensors, images: NDArray[Any], device: torch.device
) -> NDArray[np.float32]:
    logits = torch.from_numpy(logits_in_blocks(network, tensors, images, device))
    probabilities: NDArray[np.float32] = logits.sigmoid_().numpy()
    return probabilities


def _mean_curve(curves: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Folds differ by at most a row, hence curves by a few steps: the first ones of each."""
    shortest = min(map(len, curves))
    return np.asarray(np.stack([curve[:shortest] for curve in curves]).mean(axis=0), np.float32)
